//! A second module for the robustness tests: it meddles.
//!
//! It listens to keyspace events and, from inside its callback, calls a command of
//! ours for the very order the event is about; and it calls commands with every
//! kind of `RM_Call` flag, as careless modules do. Nothing of it is ever shipped.
//!
//! | command | what it does |
//! |---|---|
//! | `MEDDLER.ON event verb [arg …]` | at each `event` for a key `<queue>:<id>`: `verb queue id arg …` |
//! | `MEDDLER.OFF` | no more of it |
//! | `MEDDLER.COUNT` | how many events met, how many calls answered without an error |
//! | `MEDDLER.CALL flags command [arg …]` | the command by `RM_Call` with these flags (`-` for none), its answer or null |
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_docs_in_private_items,
    clippy::pedantic,
    clippy::indexing_slicing,
    reason = "a test tool: every call below is RM_Call with arguments the server gave"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use redis_module::{
    Context, NextArg, RedisError, RedisResult, RedisString, RedisValue, Status, raw, redis_module,
};

/// What to do at which event: event, verb, further arguments.
type Plan = (Vec<u8>, Vec<u8>, Vec<Vec<u8>>);

/// The plan, if there is one.
static PLAN: Mutex<Option<Plan>> = Mutex::new(None);
/// Events met.
static MET: AtomicU64 = AtomicU64::new(0);
/// Calls that answered without an error.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Calls a command by `RM_Call` with flags; the answer may be null.
fn call(
    ctx: *mut raw::RedisModuleCtx,
    flags: &[u8],
    command: &[u8],
    args: &[Vec<u8>],
) -> *mut raw::RedisModuleCallReply {
    let flags: Vec<u8> = flags
        .iter()
        .copied()
        .filter(|flag| *flag != b'-')
        .chain(*b"v")
        .collect();
    let (Ok(flags), Ok(command)) = (CString::new(flags), CString::new(command)) else {
        return std::ptr::null_mut();
    };
    unsafe {
        let (Some(create), Some(free), Some(call)) = (
            raw::RedisModule_CreateString,
            raw::RedisModule_FreeString,
            raw::RedisModule_Call,
        ) else {
            return std::ptr::null_mut();
        };
        let mut argv: Vec<_> = args
            .iter()
            .map(|arg| create(ctx, arg.as_ptr().cast(), arg.len()))
            .collect();
        let reply = call(
            ctx,
            command.as_ptr(),
            flags.as_ptr(),
            argv.as_mut_ptr(),
            argv.len(),
        );
        for arg in argv {
            free(ctx, arg);
        }
        reply
    }
}

/// The meddling.
extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    let event = unsafe { CStr::from_ptr(event) }.to_bytes();
    let plan = PLAN.lock().ok().and_then(|plan| plan.clone());
    let Some((_, verb, rest)) = plan.filter(|(wanted, ..)| wanted == event) else {
        return 0;
    };
    MET.fetch_add(1, Ordering::Relaxed);
    let key = RedisString::string_as_slice(key);
    let Some(colon) = key.iter().rposition(|byte| *byte == b':') else {
        return 0;
    };
    let mut args = vec![key[..colon].to_vec(), key[colon + 1..].to_vec()];
    args.extend(rest);
    let reply = call(ctx, b"!E", &verb, &args);
    if !reply.is_null() {
        unsafe {
            if let (Some(kind), Some(free)) = (
                raw::RedisModule_CallReplyType,
                raw::RedisModule_FreeCallReply,
            ) {
                if kind(reply) != raw::REDISMODULE_REPLY_ERROR as c_int {
                    DONE.fetch_add(1, Ordering::Relaxed);
                }
                free(reply);
            }
        }
    }
    0
}

fn on(_: &Context, args: Vec<RedisString>) -> RedisResult {
    let mut args = args.into_iter().skip(1);
    let event = args.next_arg()?.as_slice().to_vec();
    let verb = args.next_arg()?.as_slice().to_vec();
    let rest = args.map(|arg| arg.as_slice().to_vec()).collect();
    if let Ok(mut plan) = PLAN.lock() {
        *plan = Some((event, verb, rest));
    }
    Ok(RedisValue::SimpleStringStatic("OK"))
}

fn off(_: &Context, _: Vec<RedisString>) -> RedisResult {
    if let Ok(mut plan) = PLAN.lock() {
        *plan = None;
    }
    Ok(RedisValue::SimpleStringStatic("OK"))
}

fn count(_: &Context, _: Vec<RedisString>) -> RedisResult {
    Ok(RedisValue::Array(
        [&MET, &DONE]
            .iter()
            .map(|count| RedisValue::Integer(count.load(Ordering::Relaxed) as i64))
            .collect(),
    ))
}

fn call_any(ctx: &Context, args: Vec<RedisString>) -> RedisResult {
    if args.len() < 3 {
        return Err(RedisError::WrongArity);
    }
    let rest: Vec<Vec<u8>> = args[3..]
        .iter()
        .map(|arg| arg.as_slice().to_vec())
        .collect();
    let reply = call(ctx.ctx, args[1].as_slice(), args[2].as_slice(), &rest);
    if reply.is_null() {
        return Ok(RedisValue::Null);
    }
    unsafe {
        if let (Some(answer), Some(free)) = (
            raw::RedisModule_ReplyWithCallReply,
            raw::RedisModule_FreeCallReply,
        ) {
            answer(ctx.ctx, reply);
            free(reply);
        }
    }
    Ok(RedisValue::NoReply)
}

fn init(ctx: &Context, _: &[RedisString]) -> Status {
    let classes = (raw::REDISMODULE_NOTIFY_MODULE | raw::REDISMODULE_NOTIFY_GENERIC) as c_int;
    unsafe {
        if let Some(subscribe) = raw::RedisModule_SubscribeToKeyspaceEvents {
            subscribe(ctx.ctx, classes, Some(on_event));
        }
    }
    Status::Ok
}

redis_module! {
    name: "meddler",
    version: 1,
    allocator: (redis_module::alloc::RedisAlloc, redis_module::alloc::RedisAlloc),
    data_types: [],
    init: init,
    commands: [
        ["meddler.on", on, "readonly", 0, 0, 0, ""],
        ["meddler.off", off, "readonly", 0, 0, 0, ""],
        ["meddler.count", count, "readonly", 0, 0, 0, ""],
        ["meddler.call", call_any, "write", 0, 0, 0, ""],
    ],
}
