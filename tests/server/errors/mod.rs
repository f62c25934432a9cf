//! Hostile and unlucky arguments: every number, every byte string, every limit.

mod bytes;
mod lengths;
mod numbers;

/// Fails unless this is one line of plain text that begins with a code word.
#[track_caller]
fn assert_clear(error: &str, cell: &str) {
    let (code, rest) = error.split_once(' ').unwrap_or((error, ""));
    assert!(
        !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase()),
        "{cell}: {error:?}"
    );
    assert!(
        !rest.is_empty() && error.bytes().all(|b| (0x20..0x7f).contains(&b)),
        "{cell}: {error:?}"
    );
    assert!(!error.ends_with('.'), "{cell}: {error:?}");
}
