//! A primary and its replica: chosen effects and commands at chosen times. Nothing breaks,
//! both hold the same, and so does what they save.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orderwheel::engine::hostile;

fuzz_target!(|data: &[u8]| hostile::play(data));
