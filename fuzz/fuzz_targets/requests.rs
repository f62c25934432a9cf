//! The grammar: any words for any command. It answers a request or a clean error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orderwheel::request::{Limits, Verb, parse};

fuzz_target!(|data: &[u8]| {
    let Some((&which, rest)) = data.split_first() else {
        return;
    };
    let verb = Verb::ALL[usize::from(which) % Verb::ALL.len()];
    // A newline between words keeps what is found easy to read.
    let mut words: Vec<&[u8]> = vec![verb.command().as_bytes()];
    words.extend(rest.split(|byte| *byte == b'\n'));
    let limits = Limits {
        lease_ms_max: 86_400_000,
        payload_bytes_max: 65_536,
    };
    if let Err(error) = parse(verb, &words, &limits) {
        let text = error.to_string();
        let is_clean = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        assert!(is_clean && text.len() < 512, "{text:?}");
        assert!(text.starts_with(|first: char| first.is_ascii_uppercase()), "{text:?}");
    }
});
