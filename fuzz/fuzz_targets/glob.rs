//! Patterns, against a matcher that is too simple to be wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orderwheel::words::glob::matches;

/// Whether the text as a whole matches; tries everything a star may stand for.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|from| naive(rest, &text[from..])),
        _ => {
            let Some((&byte, after)) = text.split_first() else {
                return false;
            };
            let (is_met, rest) = one(pattern, byte);
            is_met && naive(rest, after)
        }
    }
}

/// Whether a byte matches the first element of a pattern, and what follows it.
fn one(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', rest @ ..] => (true, rest),
        [b'\\', escaped, rest @ ..] => (*escaped == byte, rest),
        [b'[', rest @ ..] => {
            let (turned, mut rest) = match rest {
                [b'^', rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let mut is_in = false;
            loop {
                match rest {
                    [] => break,
                    [b']', after @ ..] => {
                        rest = after;
                        break;
                    }
                    [b'\\', escaped, after @ ..] => {
                        is_in |= *escaped == byte;
                        rest = after;
                    }
                    [from, b'-', to, after @ ..] => {
                        is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                        rest = after;
                    }
                    [single, after @ ..] => {
                        is_in |= *single == byte;
                        rest = after;
                    }
                }
            }
            (is_in != turned, rest)
        }
        [single, rest @ ..] => (*single == byte, rest),
        [] => (false, &[]),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&length, rest)) = data.split_first() else {
        return;
    };
    let (pattern, text) = rest.split_at(usize::from(length).min(rest.len()));
    // The simple one takes exponential time.
    let stars = pattern.iter().filter(|byte| **byte == b'*').count();
    if stars > 4 || text.len() > 40 {
        return;
    }
    assert_eq!(matches(pattern, text), naive(pattern, text));
});
