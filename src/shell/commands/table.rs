//! The one table of commands: from it they are registered, and from it come their flags,
//! ACL categories, key specification and documentation.
//!
//! deny-oom stands only where an order grows: finishing must work when memory is full.

use std::ffi::CStr;

use redis_module::raw;

use super::arguments::{Arg, Kind};
use crate::request::Verb;

/// A command.
pub(super) struct Command {
    /// Which; its name and arity are those of the grammar.
    pub(super) verb: Verb,
    /// The server's flags.
    pub(super) flags: &'static CStr,
    /// ACL categories that the flags do not imply: those of an operator's commands, and
    /// of those that can do harm to what others work on.
    pub(super) categories: &'static str,
    /// In one sentence.
    pub(super) summary: &'static CStr,
    /// How long it takes.
    pub(super) complexity: &'static CStr,
    /// What it does with its key.
    pub(super) access: u32,
    /// Its arguments.
    pub(super) args: &'static [Arg],
}

/// Reads the key.
const READS: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
/// Reads and changes the key: all answer with what they met, so a user needs the
/// right to read as well. The server allows one kind of change to be named.
const CHANGES: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;
/// Reads the key and may take something out.
const DELETES: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_DELETE;

/// The key.
const QUEUE: Arg = Arg::new(c"queue", Kind::Key);
/// The order.
const ID: Arg = Arg::new(c"id", Kind::Text);
/// A fence that must be given.
const FENCE: Arg = Arg::new(c"fence", Kind::Int);
/// A deadline.
const WHEN: Arg = Arg::one_of(
    c"when",
    &[
        Arg::after(c"EX", c"seconds", Kind::Int),
        Arg::after(c"PX", c"milliseconds", Kind::Int),
        Arg::after(c"EXAT", c"unix-time-seconds", Kind::Time),
        Arg::after(c"PXAT", c"unix-time-milliseconds", Kind::Time),
    ],
);
/// The length of a lease.
const LEASE: Arg = Arg::one_of(
    c"lease",
    &[
        Arg::after(c"EX", c"seconds", Kind::Int),
        Arg::after(c"PX", c"milliseconds", Kind::Int),
    ],
);
/// Which statuses are expected.
const FROM: Arg = Arg::after(c"FROM", c"from-status", Kind::Text)
    .optional()
    .multiple();
/// Which rev is expected.
const IFREV: Arg = Arg::after(c"IFREV", c"rev", Kind::Int).optional();
/// Which last grant is expected.
const IF_FENCE: Arg = Arg::after(c"FENCE", c"fence", Kind::Int).optional();
/// The new status.
const STATUS: Arg = Arg::after(c"STATUS", c"status", Kind::Text).optional();
/// The new payload.
const PAYLOAD: Arg = Arg::after(c"PAYLOAD", c"payload", Kind::Text).optional();
/// What came of it.
const RESULT: Arg = Arg::after(c"RESULT", c"result", Kind::Text).optional();
/// How long a finished order is kept.
const KEEP: Arg = Arg::after(c"KEEP", c"keep-milliseconds", Kind::Int).optional();
/// Whether SCHEDULE creates, moves, or both.
const MODE: Arg = Arg::one_of(
    c"mode",
    &[
        Arg::word(c"nx", c"NX"),
        Arg::word(c"xx", c"XX"),
        Arg::word(c"upsert", c"UPSERT"),
    ],
)
.optional();
/// Which way a deadline may move.
const DIRECTION: Arg = Arg::one_of(
    c"direction",
    &[Arg::word(c"gt", c"GT"), Arg::word(c"lt", c"LT")],
)
.optional();
/// When a failed order is offered again.
const AGAIN: Arg = Arg::one_of(
    c"again",
    &[
        Arg::after(c"DELAY", c"delay-milliseconds", Kind::Int),
        Arg::word(c"dead", c"DEAD"),
    ],
)
.optional();
/// The try does not count.
const UNTRIED: Arg = Arg::word(c"untried", c"UNTRIED").optional();
/// Why a try failed.
const ERROR: Arg = Arg::after(c"ERROR", c"text", Kind::Text).optional();
/// A lease may only get shorter.
const LT: Arg = Arg::word(c"lt", c"LT").optional();
/// The lease ends with the connection.
const SESSION: Arg = Arg::word(c"session", c"SESSION").optional();
/// How many orders follow.
const COUNTED: Arg = Arg::new(c"n", Kind::Int);
/// Orders under a lease.
const FENCED: Arg = Arg::block(c"order", &[ID, FENCE]).multiple();
/// How many.
const COUNT: Arg = Arg::after(c"COUNT", c"count", Kind::Int).optional();

/// Every command.
pub(super) const COMMANDS: [Command; 27] = [
    Command {
        verb: Verb::Schedule,
        flags: c"write deny-oom fast",
        categories: "",
        summary: c"Creates an order with its deadline, or moves the deadline.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE, ID, WHEN, MODE, DIRECTION, FROM, IFREV, IF_FENCE, STATUS, PAYLOAD,
        ],
    },
    Command {
        verb: Verb::Finish,
        flags: c"write fast",
        categories: "",
        summary: c"Ends an order's deadline: it was paid, withdrawn, or cancelled by the customer.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE,
            ID,
            Arg::word(c"strict", c"STRICT").optional(),
            Arg::word(c"create", c"CREATE").optional(),
            FROM,
            IFREV,
            IF_FENCE,
            STATUS,
            RESULT,
            KEEP,
        ],
    },
    Command {
        verb: Verb::Status,
        flags: c"write deny-oom fast",
        categories: "",
        summary: c"Sets an order's status, and leaves its deadline alone.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE,
            ID,
            Arg::new(c"status", Kind::Text),
            FROM,
            IFREV,
            IF_FENCE,
            PAYLOAD,
        ],
    },
    Command {
        verb: Verb::Claim,
        flags: c"write blocking",
        categories: "",
        summary:
            c"Hands out orders whose deadline has passed, each under a lease; may wait for one.",
        complexity: c"O(N) with N the number of orders handed out",
        access: CHANGES,
        args: &[
            QUEUE,
            Arg::new(c"owner", Kind::Text),
            LEASE.optional(),
            Arg::one_of(
                c"which",
                &[
                    Arg::after(c"ID", c"id", Kind::Text),
                    Arg::block(
                        c"next",
                        &[
                            COUNT,
                            Arg::after(c"BLOCK", c"block-milliseconds", Kind::Int).optional(),
                        ],
                    ),
                ],
            )
            .optional(),
            SESSION,
        ],
    },
    Command {
        verb: Verb::Ack,
        flags: c"write fast",
        categories: "",
        summary: c"Finishes a claimed order.",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE, FROM, STATUS, RESULT, KEEP],
    },
    Command {
        verb: Verb::Mack,
        flags: c"write",
        categories: "",
        summary: c"Finishes many claimed orders.",
        complexity: c"O(N) with N the number of orders",
        access: DELETES,
        args: &[
            QUEUE,
            Arg::word(c"statuses", c"STATUSES").optional(),
            COUNTED,
            Arg::block(
                c"order",
                &[ID, FENCE, Arg::new(c"order-status", Kind::Text).optional()],
            )
            .multiple(),
            FROM,
            STATUS,
            KEEP,
        ],
    },
    Command {
        verb: Verb::Nack,
        flags: c"write fast",
        categories: "",
        summary: c"Hands a claimed order back: it is offered again later, or given up.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[QUEUE, ID, FENCE, AGAIN, UNTRIED, ERROR],
    },
    Command {
        verb: Verb::Renew,
        flags: c"write fast",
        categories: "",
        summary: c"Gives a lease a new end.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[QUEUE, ID, FENCE, LEASE, LT, SESSION],
    },
    Command {
        verb: Verb::Lock,
        flags: c"write deny-oom fast blocking",
        categories: "",
        summary:
            c"Takes the lock of an order before its deadline, or of any other id; may wait for it.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE,
            ID,
            Arg::new(c"owner", Kind::Text),
            LEASE,
            Arg::word(c"reentrant", c"REENTRANT").optional(),
            Arg::after(c"MAX", c"max-milliseconds", Kind::Int).optional(),
            Arg::after(c"FP", c"fingerprint", Kind::Text).optional(),
            Arg::after(c"BLOCK", c"block-milliseconds", Kind::Int).optional(),
            SESSION,
            Arg::word(c"xx", c"XX").optional(),
        ],
    },
    Command {
        verb: Verb::Unlock,
        flags: c"write fast",
        categories: "",
        summary: c"Gives a lock back, or a claim to be offered again at once.",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE],
    },
    Command {
        verb: Verb::Break,
        flags: c"write fast",
        // As CLIENT KILL: ends what somebody else holds.
        categories: "admin dangerous",
        summary: c"Ends somebody else's lease; a claim counts as a failed try.",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE.optional()],
    },
    Command {
        verb: Verb::Release,
        flags: c"write",
        // As CLIENT KILL: ends what somebody else holds.
        categories: "admin dangerous",
        summary: c"Ends all leases of a worker that is gone, as if their time had come.",
        complexity: c"O(N) with N the number of live leases and retry waits of the queue",
        access: DELETES,
        args: &[QUEUE, Arg::new(c"owner", Kind::Text), COUNT],
    },
    Command {
        verb: Verb::Config,
        flags: c"write",
        // As CONFIG SET.
        categories: "admin dangerous",
        summary: c"Returns, sets, or resets the settings of a queue.",
        complexity: c"O(N) with N the number of settings",
        access: CHANGES,
        args: &[
            QUEUE,
            Arg::one_of(
                c"action",
                &[
                    Arg::block(
                        c"get",
                        &[
                            Arg::word(c"get-settings", c"GET"),
                            Arg::new(c"setting", Kind::Text).optional(),
                        ],
                    ),
                    Arg::block(
                        c"set",
                        &[
                            Arg::word(c"set-settings", c"SET"),
                            Arg::block(
                                c"setting-and-value",
                                &[
                                    Arg::new(c"setting", Kind::Text),
                                    Arg::new(c"value", Kind::Text),
                                ],
                            )
                            .multiple(),
                        ],
                    ),
                    Arg::block(
                        c"reset",
                        &[
                            Arg::word(c"reset-settings", c"RESET"),
                            Arg::new(c"setting", Kind::Text).optional(),
                        ],
                    ),
                ],
            ),
        ],
    },
    Command {
        verb: Verb::Pause,
        flags: c"write fast",
        // As CLIENT PAUSE.
        categories: "admin dangerous",
        summary:
            c"Holds the claims and announcements of a queue, for a time or until ORDER.RESUME.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE,
            Arg::after(c"PX", c"milliseconds", Kind::Int).optional(),
            Arg::after(c"REASON", c"text", Kind::Text).optional(),
        ],
    },
    Command {
        verb: Verb::Resume,
        flags: c"write fast",
        // As CLIENT UNPAUSE.
        categories: "admin dangerous",
        summary: c"Ends the pause of a queue.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[QUEUE],
    },
    Command {
        verb: Verb::Requeue,
        flags: c"write",
        categories: "",
        summary:
            c"Offers dead orders again, as if they had never been tried, or retrying ones now.",
        complexity: c"O(N) with N the value of COUNT or the number of ids; \
            for STATE retrying without a filter also the leases that end before",
        access: CHANGES,
        args: &[
            QUEUE,
            Arg::one_of(
                c"which",
                &[
                    Arg::block(
                        c"next",
                        &[
                            Arg::after(c"STATE", c"state", Kind::Text).optional(),
                            STATUS,
                            Arg::after(c"MATCH", c"pattern", Kind::Pattern).optional(),
                            COUNT,
                        ],
                    ),
                    Arg::block(
                        c"these",
                        &[
                            Arg::word(c"by-id", c"ID"),
                            Arg::new(c"id", Kind::Text).multiple(),
                        ],
                    ),
                ],
            )
            .optional(),
        ],
    },
    Command {
        verb: Verb::Purge,
        flags: c"write",
        // As FLUSHDB: removes many at once.
        categories: "dangerous",
        summary: c"Removes orders that are in a given state, never one under a live lease.",
        complexity: c"O(N) with N the value of COUNT",
        access: DELETES,
        args: &[
            QUEUE,
            Arg::after(c"STATE", c"state", Kind::Text),
            STATUS,
            Arg::after(c"MATCH", c"pattern", Kind::Pattern).optional(),
            COUNT,
        ],
    },
    Command {
        verb: Verb::Get,
        flags: c"readonly fast",
        categories: "",
        summary: c"Returns everything that is known of an order.",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE, ID],
    },
    Command {
        verb: Verb::Pttl,
        flags: c"readonly fast",
        categories: "",
        summary: c"Returns the time that is left until an order's deadline, in milliseconds.",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE, ID],
    },
    Command {
        verb: Verb::Next,
        flags: c"readonly",
        categories: "",
        summary: c"Returns the scheduled orders with the earliest deadlines.",
        complexity: c"O(N) with N the number of orders returned",
        access: READS,
        args: &[QUEUE, COUNT],
    },
    Command {
        verb: Verb::Scan,
        flags: c"readonly",
        categories: "",
        summary: c"Iterates over the orders of a queue.",
        complexity:
            c"O(1) for every call, O(N) for a complete iteration with N the number of orders",
        access: READS,
        args: &[
            QUEUE,
            Arg::new(c"cursor", Kind::Int),
            Arg::after(c"STATE", c"state", Kind::Text).optional(),
            STATUS,
            Arg::after(c"MATCH", c"pattern", Kind::Pattern).optional(),
            COUNT,
            Arg::after(c"OWNER", c"owner", Kind::Text).optional(),
        ],
    },
    Command {
        verb: Verb::Stats,
        flags: c"readonly",
        categories: "",
        summary: c"Returns counts, totals, times and settings of a queue.",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE],
    },
    Command {
        verb: Verb::Mschedule,
        flags: c"write deny-oom",
        categories: "",
        summary: c"Creates many orders with their deadlines, or moves the deadlines.",
        complexity: c"O(N) with N the number of orders",
        access: CHANGES,
        args: &[
            QUEUE,
            Arg::one_of(
                c"unit",
                &[
                    Arg::word(c"seconds", c"EX"),
                    Arg::word(c"milliseconds", c"PX"),
                    Arg::word(c"unix-time-seconds", c"EXAT"),
                    Arg::word(c"unix-time-milliseconds", c"PXAT"),
                ],
            ),
            Arg::word(c"payloads", c"PAYLOADS").optional(),
            COUNTED,
            Arg::block(
                c"order",
                &[
                    ID,
                    Arg::new(c"time", Kind::Int),
                    Arg::new(c"order-payload", Kind::Text).optional(),
                ],
            )
            .multiple(),
            MODE,
            DIRECTION,
            FROM,
            STATUS,
        ],
    },
    Command {
        verb: Verb::Mfinish,
        flags: c"write",
        categories: "",
        summary: c"Ends the deadlines of many orders.",
        complexity: c"O(N) with N the number of orders",
        access: CHANGES,
        args: &[
            QUEUE,
            COUNTED,
            ID.multiple(),
            Arg::word(c"strict", c"STRICT").optional(),
            Arg::word(c"create", c"CREATE").optional(),
            FROM,
            STATUS,
            KEEP,
        ],
    },
    Command {
        verb: Verb::Mnack,
        flags: c"write",
        categories: "",
        summary: c"Hands many claimed orders back.",
        complexity: c"O(N) with N the number of orders",
        access: CHANGES,
        args: &[QUEUE, COUNTED, FENCED, AGAIN, UNTRIED, ERROR],
    },
    Command {
        verb: Verb::Mrenew,
        flags: c"write",
        categories: "",
        summary: c"Gives many leases a new end.",
        complexity: c"O(N) with N the number of orders",
        access: CHANGES,
        args: &[QUEUE, COUNTED, FENCED, LEASE, LT, SESSION],
    },
    Command {
        verb: Verb::Apply,
        flags: c"write",
        // As REPLCONF: the inside of replication, writes whatever it is given.
        categories: "admin dangerous",
        summary: c"An internal command that carries out what a primary has decided.",
        complexity: c"O(N) with N the number of orders concerned",
        access: CHANGES,
        args: &[
            QUEUE,
            Arg::new(c"version", Kind::Int),
            Arg::new(c"effects", Kind::Text),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::COMMANDS;
    use crate::request::Verb;

    #[test]
    fn every_command_stands_once_in_the_table() {
        for verb in Verb::ALL {
            assert_eq!(
                COMMANDS.iter().filter(|row| row.verb == verb).count(),
                1,
                "{}",
                verb.command()
            );
        }
    }

    #[test]
    fn every_verb_is_at_its_own_number() {
        for (at, verb) in Verb::ALL.into_iter().enumerate() {
            assert_eq!(verb as usize, at, "{}", verb.command());
        }
    }
}
