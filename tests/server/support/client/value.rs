//! Values of the protocol, and how a test reads them.

use std::fmt;

use crate::support::reply::{Claimed, LeaseReply, Order, OrderReply};

/// One RESP value.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    /// `+text`
    Simple(String),
    /// `-text`
    Error(String),
    /// `:n`
    Int(i64),
    /// `$n`, bytes
    Bulk(Vec<u8>),
    /// `$-1`, `*-1` or `_`
    Nil,
    /// `*n`
    Array(Vec<Value>),
    /// `%n`
    Map(Vec<(Value, Value)>),
    /// `~n`
    Set(Vec<Value>),
    /// `,x`
    Double(f64),
    /// `#t` or `#f`
    Bool(bool),
    /// `(digits`
    Big(String),
    /// `=n`, without its three-letter type
    Verbatim(Vec<u8>),
    /// `>n`
    Push(Vec<Value>),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Nil => f.write_str("nil"),
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Map(pairs) => f
                .debug_map()
                .entries(pairs.iter().map(|(k, v)| (k, v)))
                .finish(),
            Self::Set(items) => f.debug_set().entries(items).finish(),
            Self::Double(x) => write!(f, ",{x}"),
            Self::Bool(b) => write!(f, "#{b}"),
            Self::Big(digits) => write!(f, "({digits}"),
            Self::Verbatim(bytes) => write!(f, "=\"{}\"", bytes.escape_ascii()),
            Self::Push(items) => f
                .write_str(">")
                .and_then(|()| f.debug_list().entries(items).finish()),
        }
    }
}

impl Value {
    /// The bytes of a simple or bulk string.
    #[track_caller]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Simple(text) => text.as_bytes(),
            Self::Bulk(bytes) | Self::Verbatim(bytes) => bytes,
            other => panic!("a string was expected, not {other:?}"),
        }
    }

    /// The bytes of a string as text.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The bytes of a string, `None` for null.
    #[track_caller]
    pub(crate) fn maybe_bytes(&self) -> Option<Vec<u8>> {
        if *self == Self::Nil {
            None
        } else {
            Some(self.bytes().to_vec())
        }
    }

    /// An integer.
    #[track_caller]
    pub(crate) fn int(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            other => panic!("an integer was expected, not {other:?}"),
        }
    }

    /// The items of an array, set or push.
    #[track_caller]
    pub(crate) fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items,
            other => panic!("an array was expected, not {other:?}"),
        }
    }

    /// Name and value pairs of a map, or of a flat array as RESP2 carries a map.
    #[track_caller]
    pub(crate) fn pairs(&self) -> Vec<(String, Value)> {
        match self {
            Self::Map(pairs) => pairs.iter().map(|(k, v)| (k.text(), v.clone())).collect(),
            Self::Array(items) => {
                assert!(
                    items.len() % 2 == 0,
                    "a flat map has an even number of items: {self:?}"
                );
                items
                    .chunks(2)
                    .map(|pair| (pair[0].text(), pair[1].clone()))
                    .collect()
            }
            other => panic!("a map was expected, not {other:?}"),
        }
    }

    /// The text of an error reply.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("an error was expected, not {other:?}"),
        }
    }

    /// Whether this is an error reply.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// `OK`, as a simple string; the test fails on anything else.
    #[track_caller]
    pub(crate) fn ok(&self) {
        assert_eq!(*self, Self::Simple("OK".into()), "OK was expected");
    }

    /// Read as an order reply.
    #[track_caller]
    pub(crate) fn order(&self) -> OrderReply {
        OrderReply::of(self)
    }

    /// Read as a lease reply.
    #[track_caller]
    pub(crate) fn lease(&self) -> LeaseReply {
        LeaseReply::of(self)
    }

    /// Read as the rows of a CLAIM.
    #[track_caller]
    pub(crate) fn claims(&self) -> Vec<Claimed> {
        self.items().iter().map(Claimed::of).collect()
    }

    /// Read as the map of a GET, `None` for null.
    #[track_caller]
    pub(crate) fn get(&self) -> Option<Order> {
        if *self == Self::Nil {
            None
        } else {
            Some(Order::of(self))
        }
    }
}

/// One message of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    /// The pattern that matched, for a pattern subscription.
    pub(crate) pattern: Option<String>,
    /// Where it was published.
    pub(crate) channel: String,
    /// What was published.
    pub(crate) payload: Vec<u8>,
}
