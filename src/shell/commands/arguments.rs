//! What an argument of a command is, as COMMAND DOCS tells it, and those that several
//! commands have.

use std::ffi::CStr;

/// What an argument is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// The key.
    Key,
    /// Any bytes.
    Text,
    /// A whole number.
    Int,
    /// A Unix time.
    Time,
    /// A pattern.
    Pattern,
    /// A word that stands for itself.
    Word,
    /// One of the arguments in it.
    OneOf,
    /// Its arguments in a row.
    Block,
}

/// One argument.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    /// Its name.
    pub(super) name: &'static CStr,
    /// What it is.
    pub(super) kind: Kind,
    /// The word before it.
    pub(super) token: Option<&'static CStr>,
    /// May be left out.
    pub(super) optional: bool,
    /// May repeat, the word before it too.
    pub(super) multiple: bool,
    /// What is in it.
    pub(super) parts: &'static [Arg],
}

impl Arg {
    /// A required argument of this kind.
    pub(super) const fn new(name: &'static CStr, kind: Kind) -> Self {
        Self {
            name,
            kind,
            token: None,
            optional: false,
            multiple: false,
            parts: &[],
        }
    }

    /// A word that stands for itself.
    pub(super) const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self {
            token: Some(token),
            ..Self::new(name, Kind::Word)
        }
    }

    /// A value after a word.
    pub(super) const fn after(token: &'static CStr, name: &'static CStr, kind: Kind) -> Self {
        Self {
            token: Some(token),
            ..Self::new(name, kind)
        }
    }

    /// One of these.
    pub(super) const fn one_of(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self {
            parts,
            ..Self::new(name, Kind::OneOf)
        }
    }

    /// These in a row.
    pub(super) const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self {
            parts,
            ..Self::new(name, Kind::Block)
        }
    }

    /// The same, but it may be left out.
    pub(super) const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// The same, but it may repeat.
    pub(super) const fn multiple(self) -> Self {
        Self {
            multiple: true,
            ..self
        }
    }
}

/// The key.
pub(super) const QUEUE: Arg = Arg::new(c"queue", Kind::Key);
/// The order.
pub(super) const ID: Arg = Arg::new(c"id", Kind::Text);
/// A fence that must be given.
pub(super) const FENCE: Arg = Arg::new(c"fence", Kind::Int);
/// A deadline.
pub(super) const WHEN: Arg = Arg::one_of(
    c"when",
    &[
        Arg::after(c"EX", c"seconds", Kind::Int),
        Arg::after(c"PX", c"milliseconds", Kind::Int),
        Arg::after(c"EXAT", c"unix-time-seconds", Kind::Time),
        Arg::after(c"PXAT", c"unix-time-milliseconds", Kind::Time),
    ],
);
/// The length of a lease.
pub(super) const LEASE: Arg = Arg::one_of(
    c"lease",
    &[
        Arg::after(c"EX", c"seconds", Kind::Int),
        Arg::after(c"PX", c"milliseconds", Kind::Int),
    ],
);
/// Which statuses are expected.
pub(super) const FROM: Arg = Arg::after(c"FROM", c"from-status", Kind::Text)
    .optional()
    .multiple();
/// Which rev is expected.
pub(super) const IFREV: Arg = Arg::after(c"IFREV", c"rev", Kind::Int).optional();
/// Which last grant is expected.
pub(super) const IF_FENCE: Arg = Arg::after(c"FENCE", c"fence", Kind::Int).optional();
/// The new status.
pub(super) const STATUS: Arg = Arg::after(c"STATUS", c"status", Kind::Text).optional();
/// The new payload.
pub(super) const PAYLOAD: Arg = Arg::after(c"PAYLOAD", c"payload", Kind::Text).optional();
/// What came of it.
pub(super) const RESULT: Arg = Arg::after(c"RESULT", c"result", Kind::Text).optional();
/// How long a finished order is kept.
pub(super) const KEEP: Arg = Arg::after(c"KEEP", c"keep-milliseconds", Kind::Int).optional();
/// Whether SCHEDULE creates, moves, or both.
pub(super) const MODE: Arg = Arg::one_of(
    c"mode",
    &[
        Arg::word(c"nx", c"NX"),
        Arg::word(c"xx", c"XX"),
        Arg::word(c"upsert", c"UPSERT"),
    ],
)
.optional();
/// Which way a deadline may move.
pub(super) const DIRECTION: Arg = Arg::one_of(
    c"direction",
    &[Arg::word(c"gt", c"GT"), Arg::word(c"lt", c"LT")],
)
.optional();
/// When a failed order is offered again.
pub(super) const AGAIN: Arg = Arg::one_of(
    c"again",
    &[
        Arg::after(c"DELAY", c"delay-milliseconds", Kind::Int),
        Arg::word(c"dead", c"DEAD"),
    ],
)
.optional();
/// The try does not count.
pub(super) const UNTRIED: Arg = Arg::word(c"untried", c"UNTRIED").optional();
/// Why a try failed.
pub(super) const ERROR: Arg = Arg::after(c"ERROR", c"text", Kind::Text).optional();
/// A lease may only get shorter.
pub(super) const LT: Arg = Arg::word(c"lt", c"LT").optional();
/// The lease ends with the connection.
pub(super) const SESSION: Arg = Arg::word(c"session", c"SESSION").optional();
/// How many orders follow.
pub(super) const COUNTED: Arg = Arg::new(c"n", Kind::Int);
/// Orders under a lease.
pub(super) const FENCED: Arg = Arg::block(c"order", &[ID, FENCE]).multiple();
/// How many.
pub(super) const COUNT: Arg = Arg::after(c"COUNT", c"count", Kind::Int).optional();
