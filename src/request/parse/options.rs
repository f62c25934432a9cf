//! The words of the options, as numbers: compared at once, whatever their case.

/// The longest option word, in bytes; [`code`] has room for no more.
pub(super) const WORD_BYTES_MAX: usize = 7;

/// An option word as a number, so that matching one is a comparison of
/// integers: its letters in upper case, eight bits each, behind a 1 that keeps
/// words with leading NUL bytes apart from shorter ones.
pub(super) const fn code(word: &[u8]) -> u64 {
    debug_assert!(word.len() <= WORD_BYTES_MAX, "the caller checks the length");
    let mut code = 1;
    let mut left = word;
    while let [first, rest @ ..] = left {
        code = (code << 8) | first.to_ascii_uppercase() as u64;
        left = rest;
    }
    code
}

/// Names each option's number like its word.
macro_rules! words {
    ($($word:ident),*) => {
        $(
            #[doc = concat!("The option `", stringify!($word), "`.")]
            pub(super) const $word: u64 = code(stringify!($word).as_bytes());
        )*
    };
}

words!(
    EX, PX, EXAT, PXAT, NX, XX, UPSERT, GT, LT, FROM, IFREV, FENCE, STATUS, PAYLOAD, STRICT,
    CREATE, RESULT, KEEP, COUNT, BLOCK, ID, DELAY, DEAD, ERROR, STATE, MATCH, MAX, FP, GET, SET,
    RESET, REASON, UNTRIED, OWNER, SESSION
);

/// What a word that is too long for any option stands for: nothing, since every
/// code of a word is 1 or more.
pub(super) const NONE: u64 = 0;
