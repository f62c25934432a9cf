//! Every error text of the product.
//!
//! An error is for misuse: arguments that can not be understood, a key of
//! another type, effects that are not ours. What an order's state forbids is no
//! error but an outcome word (`LEASED`, `STALE` …).
//!
//! Texts are interface: scripts match them, so they are built here alone and a
//! change is a line in the changelog. Each is one line of printable ASCII: a
//! code word in upper case first, then a lower-case phrase that names the
//! argument and its limit, without a full stop. Raw bytes of a caller never
//! enter one: [`Excerpt`] escapes and cuts them. A syntax error starts with the
//! server's own `ERR syntax error`, wrong arity and wrong type are the server's
//! own texts, so that what a client library knows already goes on to work.
//!
//! Deliberately absent: source errors and conversions. Nothing underneath is
//! told to a caller beyond what it can change.

use std::fmt;

/// A short, harmless picture of bytes that came from a caller: printable ASCII,
/// anything else escaped as in Rust source, at most [`Excerpt::BYTES_MAX`]
/// bytes, with three dots at the end of what was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    /// The longest excerpt, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// An excerpt of `bytes`. O(1): it looks at the first 64 bytes at most.
    pub fn of(bytes: &[u8]) -> Self {
        /// What follows an excerpt that was cut.
        const CUT: &str = "...";
        let mut text = String::new();
        let mut whole_end = 0;
        for byte in bytes {
            let escaped = std::ascii::escape_default(*byte);
            if text.len().saturating_add(escaped.len()) > Self::BYTES_MAX {
                text.truncate(whole_end);
                text.push_str(CUT);
                break;
            }
            text.extend(escaped.map(char::from));
            if text.len() + CUT.len() <= Self::BYTES_MAX {
                whole_end = text.len();
            }
        }
        Self(text.into())
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What can be wrong. `Display` gives the whole error line as it goes on the
/// wire, code word included, without the leading `-` and the line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Too few arguments, or too many for a command that takes no options; the
    /// command's name as the server shows it, in lower case.
    WrongArity {
        /// For instance `order.schedule`.
        command: &'static str,
    },
    /// An argument that is no option of this command.
    UnknownOption {
        /// The argument.
        near: Excerpt,
    },
    /// An option at the very end whose value is missing.
    MissingValue {
        /// The option.
        option: &'static str,
    },
    /// An option that may be given once was given again.
    GivenTwice {
        /// The option.
        option: &'static str,
    },
    /// Two options that can not be given together.
    Exclusive {
        /// The one.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// None of the options of which one must be given.
    Required {
        /// The options, as a list in prose.
        options: &'static str,
    },
    /// A command on many orders announced more of them than arguments follow.
    MissingOrders {
        /// How many it announced.
        count: u64,
        /// What must follow, for instance `pairs of id and fence`.
        what: &'static str,
    },
    /// Something is wrong with one order of a list.
    InList {
        /// Its place, from 1.
        place: u64,
        /// What is wrong.
        error: Box<Self>,
    },
    /// STATE names no state that is listed.
    UnknownState {
        /// The word that was given.
        near: Excerpt,
    },
    /// STATE of REQUEUE names another state than the two that it moves.
    NotRequeued {
        /// The word that was given.
        near: Excerpt,
    },
    /// More values than an option takes.
    TooMany {
        /// The option.
        option: &'static str,
        /// The largest number of values.
        max: u64,
    },
    /// The key holds another type.
    WrongType,
    /// A number that is not made of decimal digits alone.
    NotAnInteger {
        /// Which argument.
        name: &'static str,
    },
    /// A number outside its limits.
    OutOfRange {
        /// Which argument.
        name: &'static str,
        /// The least allowed, in the unit of the argument.
        min: u64,
        /// The largest allowed, in the unit of the argument.
        max: u64,
    },
    /// A lease that is too short or too long.
    LeaseOutOfRange {
        /// `EX` or `PX`.
        name: &'static str,
        /// The longest lease, milliseconds (setting `lease-ms-max`).
        ms_max: u64,
    },
    /// A PXAT so small that it must be seconds.
    PxatInSeconds {
        /// The least allowed, milliseconds.
        min: u64,
        /// The largest allowed, milliseconds.
        max: u64,
    },
    /// A relative time that leads past the latest deadline that can be stored.
    DeadlineTooFar,
    /// A byte string that is too short or too long.
    LengthOutOfRange {
        /// Which argument.
        name: &'static str,
        /// The least number of bytes.
        min: u64,
        /// The largest number of bytes.
        max: u64,
    },
    /// No fence or rev is left below 2^52: the queue was restored from, or was
    /// sent, a number at the very end of the line.
    NumbersUsedUp,
    /// The queue can not address one more order.
    QueueFull,
    /// CONFIG names no setting of a queue.
    UnknownSetting {
        /// The name that was given.
        near: Excerpt,
    },
    /// CONFIG SET with a value that the setting can not have.
    SettingOutOfRange {
        /// The setting.
        name: &'static str,
        /// The least allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
    },
    /// CONFIG SET transitions with a text that lists no changes of status.
    BadTransitions,
    /// SESSION where the caller has no connection of its own: in a script, a function, or
    /// called by another module.
    SessionNeedsConnection,
    /// APPLY from a client that may not.
    ApplyNotAllowed,
    /// Effects of a version this module does not know.
    ApplyVersion {
        /// The version that was given.
        version: u64,
        /// The newest version this module reads.
        newest: u64,
    },
    /// Effects that are not well formed.
    ApplyMalformed {
        /// What is wrong with them.
        what: &'static str,
    },
    /// A decision that could not be saved, loaded or replicated, and was not carried out.
    Unstorable {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A mistake of ours was caught on its way to a crash.
    Internal,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongArity { command } => {
                write!(f, "ERR wrong number of arguments for '{command}' command")
            }
            Self::UnknownOption { near } => {
                write!(f, "ERR syntax error, unknown option near '{near}'")
            }
            Self::MissingValue { option } => {
                write!(f, "ERR syntax error, option {option} needs a value")
            }
            Self::GivenTwice { option } => {
                write!(f, "ERR syntax error, option {option} given twice")
            }
            Self::Exclusive { one, other } => {
                write!(f, "ERR syntax error, {one} and {other} exclude each other")
            }
            Self::Required { options } => {
                let one_of = if options.contains(',') { "one of " } else { "" };
                write!(f, "ERR syntax error, {one_of}{options} is required")
            }
            Self::MissingOrders { count, what } => {
                write!(f, "ERR syntax error, {count} {what} must follow n")
            }
            Self::InList { place, error } => write!(f, "{error} (order {place} of the list)"),
            Self::UnknownState { near } => write!(
                f,
                "ERR syntax error, STATE must be scheduled, expired, leased, retrying, dead, \
                 finished or reserved, not '{near}'"
            ),
            Self::NotRequeued { near } => write!(
                f,
                "ERR syntax error, STATE must be dead or retrying, not '{near}'"
            ),
            Self::TooMany { option, max } => {
                write!(f, "ERR syntax error, option {option} takes at most {max} values")
            }
            Self::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Self::NotAnInteger { name } => {
                write!(
                    f,
                    "ERR value of {name} is not an integer, must be decimal digits only"
                )
            }
            Self::OutOfRange { name, min, max } => {
                write!(
                    f,
                    "ERR value of {name} is out of range, must be between {min} and {max}"
                )
            }
            Self::LeaseOutOfRange { name, ms_max } => write!(
                f,
                "ERR value of {name} is out of range, a lease must last between 1 and {ms_max} ms"
            ),
            Self::PxatInSeconds { min, max } => {
                write!(
                    f,
                    "ERR PXAT takes milliseconds, must be between {min} and {max}"
                )
            }
            Self::DeadlineTooFar => f.write_str(
                "ERR deadline is out of range, must not be after the end of the year 9999",
            ),
            Self::LengthOutOfRange { name, min, max } => write!(
                f,
                "ERR length of {name} is out of range, must be between {min} and {max} bytes"
            ),
            Self::NumbersUsedUp => f.write_str(
                "ERR fences are used up, this queue has one just below 4503599627370496 (2^52)",
            ),
            Self::QueueFull => {
                f.write_str("ERR queue is full, spread the orders over several queues")
            }
            Self::UnknownSetting { near } => write!(f, "ERR unknown setting '{near}' of a queue"),
            Self::SettingOutOfRange { name, min, max } => {
                write!(f, "ERR value of {name} is out of range, must be an integer between {min} and {max}")
            }
            Self::BadTransitions => f.write_str(
                "ERR value of transitions must be a list like 'unpaid>paid unpaid>closed', at most 4096 bytes, \
                 a status at most 32",
            ),
            Self::SessionNeedsConnection => {
                f.write_str("ERR SESSION needs a client's own connection")
            }
            Self::ApplyNotAllowed => f.write_str(
                "ERR ORDER.APPLY is for replication, clients may call it only with \
                 orderwheel.apply-from-clients set to yes",
            ),
            Self::ApplyVersion { version, newest } => write!(
                f,
                "ERR effects of version {version} are not understood, this server reads up to \
                 {newest}, upgrade replicas before their primary"
            ),
            Self::ApplyMalformed { what } => write!(f, "ERR effects are malformed, {what}"),
            Self::Unstorable { what } => write!(
                f,
                "ERR nothing was done, the change could not be saved, {what}; see the server's clock"
            ),
            Self::Internal => f.write_str(
                "ERR internal error of orderwheel, the command was given up, see the server's log",
            ),
        }
    }
}

impl std::error::Error for Error {}

/// At least one error of every variant, with the longest and most awkward
/// values: what the tests of texts and of the README's table walk.
#[cfg(test)]
pub fn all() -> Vec<Error> {
    let rude =
        Excerpt::of(b"\r\n\0%s%n{}\xc4\x80'\\ and so on, for very much longer than it may be");
    vec![
        Error::WrongArity {
            command: "order.schedule",
        },
        Error::UnknownOption { near: rude.clone() },
        Error::UnknownOption {
            near: Excerpt::of(b""),
        },
        Error::MissingValue { option: "PX" },
        Error::GivenTwice { option: "PX" },
        Error::Exclusive {
            one: "NX",
            other: "XX",
        },
        Error::Required {
            options: "EX, PX, EXAT, PXAT",
        },
        Error::MissingOrders {
            count: 1000,
            what: "pairs of id and fence",
        },
        Error::InList {
            place: 1000,
            error: Box::new(Error::NotAnInteger { name: "fence" }),
        },
        Error::UnknownState { near: rude.clone() },
        Error::NotRequeued { near: rude },
        Error::TooMany {
            option: "ID",
            max: 1000,
        },
        Error::WrongType,
        Error::NotAnInteger { name: "PX" },
        Error::OutOfRange {
            name: "PX",
            min: 0,
            max: u64::MAX,
        },
        Error::LeaseOutOfRange {
            name: "PX",
            ms_max: u64::MAX,
        },
        Error::PxatInSeconds {
            min: 100_000_000_000,
            max: u64::MAX,
        },
        Error::DeadlineTooFar,
        Error::LengthOutOfRange {
            name: "PAYLOAD",
            min: 0,
            max: u64::MAX,
        },
        Error::NumbersUsedUp,
        Error::QueueFull,
        Error::UnknownSetting {
            near: Excerpt::of(b"max-\r\nattempts"),
        },
        Error::SettingOutOfRange {
            name: "max-attempts",
            min: 0,
            max: u64::MAX,
        },
        Error::BadTransitions,
        Error::SessionNeedsConnection,
        Error::ApplyNotAllowed,
        Error::ApplyVersion {
            version: u64::MAX,
            newest: 1,
        },
        Error::ApplyMalformed {
            what: "a length is larger than what is left",
        },
        Error::Unstorable {
            what: "a moment is out of range",
        },
        Error::Internal,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number for each variant, so that a new one can not be forgotten in
    /// [`all`]: it does not compile without a line here.
    fn number(error: &Error) -> usize {
        match error {
            Error::WrongArity { .. } => 0,
            Error::UnknownOption { .. } => 1,
            Error::MissingValue { .. } => 2,
            Error::GivenTwice { .. } => 3,
            Error::Exclusive { .. } => 4,
            Error::Required { .. } => 5,
            Error::MissingOrders { .. } => 6,
            Error::UnknownState { .. } => 7,
            Error::WrongType => 8,
            Error::NotAnInteger { .. } => 9,
            Error::OutOfRange { .. } => 10,
            Error::LeaseOutOfRange { .. } => 11,
            Error::PxatInSeconds { .. } => 12,
            Error::DeadlineTooFar => 13,
            Error::LengthOutOfRange { .. } => 14,
            Error::NumbersUsedUp => 15,
            Error::QueueFull => 16,
            Error::ApplyNotAllowed => 17,
            Error::ApplyVersion { .. } => 18,
            Error::ApplyMalformed { .. } => 19,
            Error::Internal => 20,
            Error::UnknownSetting { .. } => 21,
            Error::SettingOutOfRange { .. } => 22,
            Error::BadTransitions => 23,
            Error::Unstorable { .. } => 24,
            Error::InList { .. } => 25,
            Error::SessionNeedsConnection => 26,
            Error::NotRequeued { .. } => 27,
            Error::TooMany { .. } => 28,
        }
    }

    #[test]
    fn the_list_of_all_errors_is_complete() {
        let mut seen = [false; 29];
        for error in all() {
            seen[number(&error)] = true;
        }
        assert_eq!(seen, [true; 29]);
    }

    #[test]
    fn every_error_is_one_line_of_ascii_behind_a_code_word() {
        for error in all() {
            let line = error.to_string();
            assert!(
                line.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
                "{line}"
            );
            let (code, rest) = line.split_once(' ').unwrap();
            assert!(matches!(code, "ERR" | "WRONGTYPE"), "{line}");
            assert!(
                !rest.is_empty() && !rest.ends_with('.') && !rest.contains("  "),
                "{line}"
            );
            assert!(line.len() < 250, "{line}");
        }
    }

    #[test]
    fn a_syntax_error_starts_as_the_servers_does() {
        for error in all()
            .iter()
            .filter(|error| (1..=7).contains(&number(error)))
        {
            assert!(
                error.to_string().starts_with("ERR syntax error, "),
                "{error}"
            );
        }
    }

    #[test]
    fn texts_are_as_published() {
        let rows: &[(Error, &str)] = &[
            (
                Error::WrongArity {
                    command: "order.schedule",
                },
                "ERR wrong number of arguments for 'order.schedule' command",
            ),
            (
                Error::UnknownOption {
                    near: Excerpt::of(b"FOO"),
                },
                "ERR syntax error, unknown option near 'FOO'",
            ),
            (
                Error::Exclusive {
                    one: "NX",
                    other: "XX",
                },
                "ERR syntax error, NX and XX exclude each other",
            ),
            (
                Error::GivenTwice { option: "PX" },
                "ERR syntax error, option PX given twice",
            ),
            (
                Error::WrongType,
                "WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                Error::OutOfRange {
                    name: "PX",
                    min: 0,
                    max: 5,
                },
                "ERR value of PX is out of range, must be between 0 and 5",
            ),
        ];
        for (error, line) in rows {
            assert_eq!(error.to_string(), *line);
        }
    }

    #[test]
    fn an_excerpt_is_short_printable_and_escaped() {
        let rows: &[(&[u8], &str)] = &[
            (b"", ""),
            (b"FOO", "FOO"),
            (b"a\0b\r\n", "a\\x00b\\r\\n"),
            (b"%s%n{}", "%s%n{}"),
            (b"\xc4\x80", "\\xc4\\x80"),
            (b"it's \\", "it\\'s \\\\"),
        ];
        for (bytes, text) in rows {
            assert_eq!(Excerpt::of(bytes).to_string(), *text);
        }
        for byte in 0..=255u8 {
            for length in 0..300 {
                let text = Excerpt::of(&vec![byte; length]).to_string();
                assert!(text.len() <= Excerpt::BYTES_MAX, "{byte} {length}");
                assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            }
        }
        assert_eq!(Excerpt::of(&[b'x'; 64]).to_string(), "x".repeat(64));
        assert_eq!(
            Excerpt::of(&[b'x'; 65]).to_string(),
            format!("{}...", "x".repeat(61))
        );
    }
}
