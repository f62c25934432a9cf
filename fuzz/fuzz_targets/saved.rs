//! A damaged or forged file: decoded, loaded, worked with, saved and loaded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orderwheel::engine::hostile;

fuzz_target!(|data: &[u8]| hostile::load_chosen(data));
