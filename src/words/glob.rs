//! Glob patterns with the server's own rules (`KEYS`, `SCAN MATCH`): `*` any
//! run, `?` any byte, `[abc]`, `[^abc]`, `[a-c]` one of a set, `\x` the byte `x`.
//!
//! The matcher goes back to the last `*` only, so it takes O(pattern × text)
//! steps at worst. Patterns are no longer than ids can be, and [`cost`] is counted
//! by whoever matches many: so no pattern can hold the server up.

/// What matching may cost at worst, in units of about what looking at a record
/// costs: whoever matches many texts in one go counts with it. O(1).
pub const fn cost(pattern: &[u8], text: &[u8]) -> usize {
    1 + pattern.len() * text.len() / 256
}

/// Whether `text` as a whole matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut at) = (pattern, text);
    // Pattern after the last star, and the text from which it was tried.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', after)) = rest.split_first() {
            rest = after;
            star = Some((after, at));
            continue;
        }
        if let Some((&byte, text_after)) = at.split_first() {
            if let Some(pattern_after) = one(rest, byte) {
                rest = pattern_after;
                at = text_after;
                continue;
            }
        } else if rest.is_empty() {
            return true;
        }
        // No match here: let the last star take one byte more.
        match star {
            Some((after, from)) => match from.split_first() {
                Some((_, from)) => {
                    star = Some((after, from));
                    rest = after;
                    at = from;
                }
                None => return false,
            },
            None => return false,
        }
    }
}

/// Matches one byte against the first element of `pattern`, which is not a
/// star: the pattern after that element, or `None`.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (&first, after) = pattern.split_first()?;
    match first {
        b'?' => Some(after),
        b'[' => set(after, byte),
        b'\\' => match after.split_first() {
            Some((&escaped, after)) => (escaped == byte).then_some(after),
            None => (byte == b'\\').then_some(after),
        },
        _ => (first == byte).then_some(after),
    }
}

/// Matches one byte against a set whose opening bracket has been taken. A set
/// without a closing bracket ends with the pattern, as on the server.
fn set(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut rest) = match pattern.split_first() {
        Some((b'^', after)) => (true, after),
        _ => (false, pattern),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', escaped, after @ ..] => {
                found |= *escaped == byte;
                after
            }
            [low, b'-', high, after @ ..] => {
                let (low, high) = if low <= high {
                    (low, high)
                } else {
                    (high, low)
                };
                found |= (*low..=*high).contains(&byte);
                after
            }
            [single, after @ ..] => {
                found |= *single == byte;
                after
            }
        };
    }
    (found != negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_on_the_server() {
        let rows: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("a**c", "ac", true),
            ("?", "", false),
            ("?", "x", true),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            (r"[\]]", "]", true),
            ("[abc", "a", true),
            ("\\", "\\", true),
            ("order:*:paid", "order:7:paid", true),
            ("order:*:paid", "order:7:paid:x", false),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                *expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = b"*a".repeat(120);
        let text = b"a".repeat(119);
        assert!(!matches(&pattern, &text));
    }
}
