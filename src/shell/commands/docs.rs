//! What the server knows of each command: COMMAND DOCS, arity, and the key
//! specification by which ACL rules like `%R~orders:*` and cluster clients go.
//!
//! The server copies everything, so the structures are built and dropped here. A
//! server that refuses them works as well, with less to say.

use std::ffi::{CStr, CString};
use std::ptr;

use redis_module::raw;

use crate::request::{Verb, key_and_arity};
use crate::shell::server::api::{Ctx, Level, OK, api, log};

/// What an argument is.
#[derive(Clone, Copy)]
enum Kind {
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
struct Arg {
    /// Its name.
    name: &'static CStr,
    /// What it is.
    kind: Kind,
    /// The word before it.
    token: Option<&'static CStr>,
    /// May be left out.
    optional: bool,
    /// May repeat, the word before it too.
    multiple: bool,
    /// What is in it.
    parts: &'static [Arg],
}

impl Arg {
    /// A required argument of this kind.
    const fn new(name: &'static CStr, kind: Kind) -> Self {
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
    const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self {
            token: Some(token),
            ..Self::new(name, Kind::Word)
        }
    }

    /// A value after a word.
    const fn after(token: &'static CStr, name: &'static CStr, kind: Kind) -> Self {
        Self {
            token: Some(token),
            ..Self::new(name, kind)
        }
    }

    /// One of these.
    const fn one_of(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self {
            parts,
            ..Self::new(name, Kind::OneOf)
        }
    }

    /// These in a row.
    const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        Self {
            parts,
            ..Self::new(name, Kind::Block)
        }
    }

    /// The same, but it may be left out.
    const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// The same, but it may repeat.
    const fn multiple(self) -> Self {
        Self {
            multiple: true,
            ..self
        }
    }
}

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
/// How many.
const COUNT: Arg = Arg::after(c"COUNT", c"count", Kind::Int).optional();

/// What is said of one command.
struct Doc {
    /// The command.
    verb: Verb,
    /// In one sentence.
    summary: &'static CStr,
    /// How long it takes.
    complexity: &'static CStr,
    /// What it does with its key.
    access: u32,
    /// Its arguments.
    args: &'static [Arg],
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
const DOCS: [Doc; 22] = [
    Doc {
        verb: Verb::Schedule,
        summary: c"Creates an order with its deadline, or moves the deadline.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE,
            ID,
            WHEN,
            Arg::one_of(
                c"mode",
                &[
                    Arg::word(c"nx", c"NX"),
                    Arg::word(c"xx", c"XX"),
                    Arg::word(c"upsert", c"UPSERT"),
                ],
            )
            .optional(),
            Arg::one_of(
                c"direction",
                &[Arg::word(c"gt", c"GT"), Arg::word(c"lt", c"LT")],
            )
            .optional(),
            FROM,
            IFREV,
            IF_FENCE,
            STATUS,
            PAYLOAD,
        ],
    },
    Doc {
        verb: Verb::Finish,
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
    Doc {
        verb: Verb::Status,
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
    Doc {
        verb: Verb::Claim,
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
        ],
    },
    Doc {
        verb: Verb::Ack,
        summary: c"Finishes a claimed order.",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE, FROM, STATUS, RESULT, KEEP],
    },
    Doc {
        verb: Verb::Mack,
        summary: c"Finishes many claimed orders.",
        complexity: c"O(N) with N the number of orders",
        access: DELETES,
        args: &[
            QUEUE,
            Arg::new(c"n", Kind::Int),
            Arg::block(c"pair", &[ID, FENCE]).multiple(),
            FROM,
            STATUS,
            KEEP,
        ],
    },
    Doc {
        verb: Verb::Nack,
        summary: c"Hands a claimed order back: it is offered again later, or given up.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[
            QUEUE,
            ID,
            FENCE,
            Arg::one_of(
                c"again",
                &[
                    Arg::after(c"DELAY", c"delay-milliseconds", Kind::Int),
                    Arg::word(c"dead", c"DEAD"),
                ],
            )
            .optional(),
            Arg::word(c"untried", c"UNTRIED").optional(),
            Arg::after(c"ERROR", c"text", Kind::Text).optional(),
        ],
    },
    Doc {
        verb: Verb::Renew,
        summary: c"Gives a lease a new end.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[QUEUE, ID, FENCE, LEASE, Arg::word(c"lt", c"LT").optional()],
    },
    Doc {
        verb: Verb::Lock,
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
        ],
    },
    Doc {
        verb: Verb::Unlock,
        summary: c"Gives a lock back, or a claim to be offered again at once.",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE],
    },
    Doc {
        verb: Verb::Break,
        summary: c"Ends somebody else's lease; a claim counts as a failed try.",
        complexity: c"O(1)",
        access: DELETES,
        args: &[QUEUE, ID, FENCE.optional()],
    },
    Doc {
        verb: Verb::Config,
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
    Doc {
        verb: Verb::Pause,
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
    Doc {
        verb: Verb::Resume,
        summary: c"Ends the pause of a queue.",
        complexity: c"O(1)",
        access: CHANGES,
        args: &[QUEUE],
    },
    Doc {
        verb: Verb::Requeue,
        summary:
            c"Offers dead orders again, the longest dead first, as if they had never been tried.",
        complexity: c"O(N) with N the number of orders moved",
        access: CHANGES,
        args: &[QUEUE, COUNT],
    },
    Doc {
        verb: Verb::Purge,
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
    Doc {
        verb: Verb::Get,
        summary: c"Returns everything that is known of an order.",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE, ID],
    },
    Doc {
        verb: Verb::Pttl,
        summary: c"Returns the time that is left until an order's deadline, in milliseconds.",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE, ID],
    },
    Doc {
        verb: Verb::Next,
        summary: c"Returns the scheduled orders with the earliest deadlines.",
        complexity: c"O(N) with N the number of orders returned",
        access: READS,
        args: &[QUEUE, COUNT],
    },
    Doc {
        verb: Verb::Scan,
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
        ],
    },
    Doc {
        verb: Verb::Stats,
        summary: c"Returns counts, totals, times and settings of a queue.",
        complexity: c"O(1)",
        access: READS,
        args: &[QUEUE],
    },
    Doc {
        verb: Verb::Apply,
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

/// The arguments as the server wants them; owns what the pointers lead to.
struct Built {
    /// The arguments, with one of zeros at the end.
    args: Vec<raw::RedisModuleCommandArg>,
    /// What is in them.
    _parts: Vec<Self>,
}

/// An argument of zeros: the end of a list.
const END: raw::RedisModuleCommandArg = raw::RedisModuleCommandArg {
    name: ptr::null(),
    type_: raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
    key_spec_index: 0,
    token: ptr::null(),
    summary: ptr::null(),
    since: ptr::null(),
    flags: 0,
    deprecated_since: ptr::null(),
    subargs: ptr::null_mut(),
    display_text: ptr::null(),
};

/// Builds a list of arguments.
fn build(args: &[Arg]) -> Built {
    let mut parts = Vec::new();
    let mut list: Vec<raw::RedisModuleCommandArg> = Vec::with_capacity(args.len() + 1);
    for arg in args {
        let type_ = match arg.kind {
            Kind::Key => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
            Kind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            Kind::Int => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            Kind::Time => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME,
            Kind::Pattern => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PATTERN,
            Kind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            Kind::OneOf => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
            Kind::Block => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
        };
        let mut flags = 0;
        if arg.optional {
            flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
        }
        if arg.multiple {
            flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
            if arg.token.is_some() {
                flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE_TOKEN;
            }
        }
        let mut subargs = ptr::null_mut();
        if !arg.parts.is_empty() {
            let mut built = build(arg.parts);
            subargs = built.args.as_mut_ptr();
            parts.push(built);
        }
        list.push(raw::RedisModuleCommandArg {
            name: arg.name.as_ptr(),
            type_,
            key_spec_index: if matches!(arg.kind, Kind::Key) { 0 } else { -1 },
            token: arg.token.map_or(ptr::null(), CStr::as_ptr),
            flags: flags.cast_signed(),
            subargs,
            ..END
        });
    }
    list.push(END);
    Built {
        args: list,
        _parts: parts,
    }
}

/// Tells the server about every command.
pub(crate) fn register(ctx: Ctx) {
    let (Some(get), Some(set)) = (
        api!(RedisModule_GetCommand),
        api!(RedisModule_SetCommandInfo),
    ) else {
        return;
    };
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    for doc in &DOCS {
        let Ok(name) = CString::new(doc.verb.command()) else {
            continue;
        };
        // SAFETY: called while the module loads, with a C string.
        let command = unsafe { get(ctx.as_ptr(), name.as_ptr()) };
        if command.is_null() {
            continue;
        }
        let mut built = build(doc.args);
        let mut keys = [key_spec(u64::from(doc.access)), key_end()];
        let info = raw::RedisModuleCommandInfo {
            version: &raw const version,
            summary: doc.summary.as_ptr(),
            complexity: doc.complexity.as_ptr(),
            since: c"0.1.0".as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: key_and_arity(doc.verb),
            key_specs: keys.as_mut_ptr(),
            args: built.args.as_mut_ptr(),
        };
        // SAFETY: everything the record points to lives until the end of this
        // turn, and lists end with a record of zeros; the server copies.
        if unsafe { set(command, &raw const info) } != OK {
            log(
                Level::Warning,
                c"orderwheel: the server refused the documentation of a command",
            );
        }
    }
}

/// The key is argument 1.
fn key_spec(flags: u64) -> raw::RedisModuleCommandKeySpec {
    let mut spec = key_end();
    spec.flags = flags;
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index = raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 };
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
        lastkey: 0,
        keystep: 1,
        limit: 0,
    };
    spec
}

/// The end of a list of key specifications.
fn key_end() -> raw::RedisModuleCommandKeySpec {
    // SAFETY: numbers and pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::DOCS;
    use crate::request::Verb;

    #[test]
    fn every_command_is_documented() {
        for verb in Verb::ALL {
            assert_eq!(
                DOCS.iter().filter(|doc| doc.verb == verb).count(),
                1,
                "{}",
                verb.command()
            );
        }
    }
}
