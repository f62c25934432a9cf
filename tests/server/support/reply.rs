//! The product's replies as typed values.

use super::client::Value;

/// Field names of an order reply, in wire order.
pub(crate) const ORDER_REPLY: [&str; 8] = [
    "outcome", "state", "status", "deadline", "rev", "lease_ms", "was", "result",
];

/// Field names of a GET, in wire order.
pub(crate) const GET_FIELDS: [&str; 19] = [
    "id",
    "state",
    "status",
    "deadline",
    "rev",
    "attempt",
    "owner",
    "fence",
    "lease_ms",
    "kind",
    "holds",
    "retry_at",
    "keep_end",
    "payload",
    "result",
    "error",
    "finished_at",
    "finished_deadline",
    "session",
];

/// The reply of every command that writes one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderReply {
    /// `OK`, or why nothing was done.
    pub(crate) outcome: String,
    /// State after the command.
    pub(crate) state: String,
    /// Status, `None` where there is no order.
    pub(crate) status: Option<Vec<u8>>,
    /// Unix milliseconds, -1 for none.
    pub(crate) deadline: i64,
    /// Number of the last write, 0 where there is no order.
    pub(crate) rev: u64,
    /// What is left of a live lease, -2 for none.
    pub(crate) lease_ms: i64,
    /// State before the command.
    pub(crate) was: String,
    /// Result of a finished order.
    pub(crate) result: Option<Vec<u8>>,
}

impl OrderReply {
    /// Reads a RESP2 array or a RESP3 map.
    #[track_caller]
    pub(crate) fn of(value: &Value) -> Self {
        let fields: Vec<Value> = match value {
            Value::Array(items) => items.clone(),
            Value::Map(pairs) => {
                for ((name, _), expected) in pairs.iter().zip(ORDER_REPLY) {
                    assert_eq!(name.text(), expected, "{value:?}");
                }
                pairs.iter().map(|(_, v)| v.clone()).collect()
            }
            other => panic!("an order reply was expected, not {other:?}"),
        };
        assert!(
            fields.len() >= ORDER_REPLY.len(),
            "an order reply has eight fields: {value:?}"
        );
        Self {
            outcome: fields[0].text(),
            state: fields[1].text(),
            status: fields[2].maybe_bytes(),
            deadline: fields[3].int(),
            rev: u64::try_from(fields[4].int()).expect("a rev is not negative"),
            lease_ms: fields[5].int(),
            was: fields[6].text(),
            result: fields[7].maybe_bytes(),
        }
    }

    /// Fails the test unless the outcome is this.
    #[track_caller]
    pub(crate) fn expect(self, outcome: &str) -> Self {
        assert_eq!(self.outcome, outcome, "{self:?}");
        self
    }

    /// The status as text, `-` where there is no order.
    pub(crate) fn status_text(&self) -> String {
        self.status
            .as_ref()
            .map_or_else(|| "-".into(), |s| String::from_utf8_lossy(s).into_owned())
    }
}

/// Field names of a lease reply, in wire order.
pub(crate) const LEASE_REPLY: [&str; 7] = [
    "outcome", "fence", "lease_ms", "holds", "state", "status", "result",
];

/// The reply of every command that is about a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseReply {
    /// `OK`, or why nothing was done.
    pub(crate) outcome: String,
    /// Fence of the last grant, 0 for none.
    pub(crate) fence: u64,
    /// What is left of the lease, -2 for none.
    pub(crate) lease_ms: i64,
    /// How often it is held, 0 without a live lease.
    pub(crate) holds: i64,
    /// State of the order.
    pub(crate) state: String,
    /// Status, `None` where there is no order.
    pub(crate) status: Option<Vec<u8>>,
    /// Result of a finished order.
    pub(crate) result: Option<Vec<u8>>,
}

impl LeaseReply {
    /// Reads a RESP2 array or a RESP3 map.
    #[track_caller]
    pub(crate) fn of(value: &Value) -> Self {
        let fields: Vec<Value> = match value {
            Value::Array(items) => items.clone(),
            Value::Map(pairs) => {
                for ((name, _), expected) in pairs.iter().zip(LEASE_REPLY) {
                    assert_eq!(name.text(), expected, "{value:?}");
                }
                pairs.iter().map(|(_, v)| v.clone()).collect()
            }
            other => panic!("a lease reply was expected, not {other:?}"),
        };
        assert!(
            fields.len() >= LEASE_REPLY.len(),
            "a lease reply has seven fields: {value:?}"
        );
        Self {
            outcome: fields[0].text(),
            fence: u64::try_from(fields[1].int()).expect("a fence is not negative"),
            lease_ms: fields[2].int(),
            holds: fields[3].int(),
            state: fields[4].text(),
            status: fields[5].maybe_bytes(),
            result: fields[6].maybe_bytes(),
        }
    }

    /// Fails the test unless the outcome is this.
    #[track_caller]
    pub(crate) fn expect(self, outcome: &str) -> Self {
        assert_eq!(self.outcome, outcome, "{self:?}");
        self
    }
}

/// One row of a CLAIM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// The order.
    pub(crate) id: Vec<u8>,
    /// Number of the grant.
    pub(crate) fence: u64,
    /// Unix milliseconds.
    pub(crate) deadline: u64,
    /// Tries so far, this one included.
    pub(crate) attempt: i64,
    /// How long the lease is.
    pub(crate) lease_ms: i64,
    /// Status.
    pub(crate) status: Vec<u8>,
    /// Payload, if there is one.
    pub(crate) payload: Option<Vec<u8>>,
}

impl Claimed {
    /// Reads one row.
    #[track_caller]
    pub(crate) fn of(value: &Value) -> Self {
        let row = value.items();
        assert!(row.len() >= 7, "a claim has seven fields: {value:?}");
        Self {
            id: row[0].bytes().to_vec(),
            fence: u64::try_from(row[1].int()).expect("a fence is not negative"),
            deadline: u64::try_from(row[2].int()).expect("a claimed order has a deadline"),
            attempt: row[3].int(),
            lease_ms: row[4].int(),
            status: row[5].bytes().to_vec(),
            payload: row[6].maybe_bytes(),
        }
    }

    /// The id as text.
    pub(crate) fn id_text(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }
}

/// The map of a GET.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order(Vec<(String, Value)>);

impl Order {
    /// Reads a RESP2 flat array or a RESP3 map.
    #[track_caller]
    pub(crate) fn of(value: &Value) -> Self {
        Self(value.pairs())
    }

    /// The names of its fields, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// One field.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &Value {
        match self.0.iter().find(|(field, _)| field == name) {
            Some((_, value)) => value,
            None => panic!("GET has no field {name}: {self:?}"),
        }
    }

    /// One field as text, `-` for null.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        let value = self.field(name);
        if *value == Value::Nil {
            "-".into()
        } else {
            value.text()
        }
    }

    /// One field as a number.
    #[track_caller]
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.field(name).int()
    }

    /// The state word.
    #[track_caller]
    pub(crate) fn state(&self) -> String {
        self.text("state")
    }

    /// The fence of the last grant, 0 for none.
    #[track_caller]
    pub(crate) fn fence(&self) -> u64 {
        match self.field("fence") {
            Value::Nil => 0,
            value => u64::try_from(value.int()).expect("a fence is not negative"),
        }
    }

    /// Everything that time alone does not change: all fields but `lease_ms`
    /// and `state`.
    pub(crate) fn ground(&self) -> Vec<(String, Value)> {
        self.0
            .iter()
            .filter(|(name, _)| name != "lease_ms" && name != "state")
            .cloned()
            .collect()
    }
}
