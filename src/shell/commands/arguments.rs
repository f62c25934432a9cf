//! What an argument of a command is, as COMMAND DOCS tells it.

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
