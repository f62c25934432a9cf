//! What the server knows of each command: COMMAND DOCS, arity, and the key
//! specification by which ACL rules like `%R~orders:*` and cluster clients go.
//!
//! The server copies everything, so the structures are built and dropped here. A
//! server that refuses them works as well, with less to say.

use std::ffi::{CStr, CString};
use std::ptr;

use redis_module::raw;

use super::arguments::{Arg, Kind};
use super::table::COMMANDS;
use crate::request::key_and_arity;
use crate::shell::server::api::{Ctx, Level, OK, api, log};

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
    for doc in &COMMANDS {
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
            since: doc.since.as_ptr(),
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
