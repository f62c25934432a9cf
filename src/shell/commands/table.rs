//! The one table of commands: from it they are registered, and from it come their flags,
//! ACL categories, key specification and documentation.
//!
//! deny-oom stands only where an order grows: finishing must work when memory is full.

use std::ffi::CStr;

use redis_module::raw;

use super::arguments::{
    AGAIN, Arg, COUNT, COUNTED, DIRECTION, ERROR, FENCE, FENCED, FROM, ID, IF_FENCE, IFREV, KEEP,
    Kind, LEASE, LT, MODE, PAYLOAD, QUEUE, RESULT, SESSION, STATUS, UNTRIED, WHEN,
};
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
    /// The release that had it first.
    pub(super) since: &'static CStr,
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

/// Every command.
pub(super) const COMMANDS: [Command; 27] = [
    Command {
        verb: Verb::Schedule,
        flags: c"write deny-oom fast",
        categories: "",
        summary: c"Creates an order with its deadline, or moves the deadline.",
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE, FROM, STATUS, RESULT, KEEP],
    },
    Command {
        verb: Verb::Mack,
        flags: c"write",
        categories: "",
        summary: c"Finishes many claimed orders.",
        since: c"0.1.0",
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
        since: c"0.1.0",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[QUEUE, ID, FENCE, AGAIN, UNTRIED, ERROR],
    },
    Command {
        verb: Verb::Renew,
        flags: c"write fast",
        categories: "",
        summary: c"Gives a lease a new end.",
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.2.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
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
        since: c"0.1.0",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE, ID],
    },
    Command {
        verb: Verb::Pttl,
        flags: c"readonly fast",
        categories: "",
        summary: c"Returns the time that is left until an order's deadline, in milliseconds.",
        since: c"0.1.0",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE, ID],
    },
    Command {
        verb: Verb::Next,
        flags: c"readonly",
        categories: "",
        summary: c"Returns the scheduled orders with the earliest deadlines.",
        since: c"0.1.0",
        complexity: c"O(N) with N the number of orders returned",
        access: READS,
        args: &[QUEUE, COUNT],
    },
    Command {
        verb: Verb::Scan,
        flags: c"readonly",
        categories: "",
        summary: c"Iterates over the orders of a queue.",
        since: c"0.1.0",
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
        since: c"0.1.0",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE],
    },
    Command {
        verb: Verb::Mschedule,
        flags: c"write deny-oom",
        categories: "",
        summary: c"Creates many orders with their deadlines, or moves the deadlines.",
        since: c"0.2.0",
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
        since: c"0.2.0",
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
        since: c"0.2.0",
        complexity: c"O(N) with N the number of orders",
        access: CHANGES,
        args: &[QUEUE, COUNTED, FENCED, AGAIN, UNTRIED, ERROR],
    },
    Command {
        verb: Verb::Mrenew,
        flags: c"write",
        categories: "",
        summary: c"Gives many leases a new end.",
        since: c"0.2.0",
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
        since: c"0.1.0",
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
