//! ORDER.HELP: every command with its arguments and what it does, in the form of the
//! server's own HELP. Made from the table of commands, so it cannot fall behind.
//!
//! It has no key, works while the server loads and on a replica that is cut off, and
//! touches nothing.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use redis_module::raw;

use super::arguments::{Arg, Kind};
use super::table::{COMMANDS, Command};
use crate::error::Error;
use crate::request::Verb;
use crate::shell::server::api::{Ctx, OK, api, guarded};
use crate::shell::server::reply;

/// Its name.
pub(super) const NAME: &CStr = c"order.help";
/// The server's flags.
pub(super) const FLAGS: &CStr = c"readonly allow-loading allow-stale fast";

/// Registers it and says to the server what it is. False if the server refuses it.
pub(super) fn register(ctx: Ctx) -> bool {
    let Some(create) = api!(RedisModule_CreateCommand) else {
        return false;
    };
    let (name, flags) = (NAME.as_ptr(), FLAGS.as_ptr());
    // SAFETY: called while the module loads; the server copies; there is no key.
    if unsafe { create(ctx.as_ptr(), name, Some(enter), flags, 0, 0, 0) } != OK {
        return false;
    }
    let calls = (
        api!(RedisModule_GetCommand),
        api!(RedisModule_SetCommandInfo),
    );
    if let (Some(get), Some(set)) = calls {
        let version = raw::RedisModuleCommandInfoVersion {
            version: 1,
            sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
            sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
            sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
        };
        let info = raw::RedisModuleCommandInfo {
            version: &raw const version,
            summary: c"Shows every command with its arguments.".as_ptr(),
            complexity: c"O(1)".as_ptr(),
            since: c"0.2.0".as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: 1,
            key_specs: ptr::null_mut(),
            args: ptr::null_mut(),
        };
        // SAFETY: called while the module loads, with a C string.
        let command = unsafe { get(ctx.as_ptr(), name) };
        if !command.is_null() {
            // SAFETY: what the record points to is alive; the server copies.
            unsafe { set(command, &raw const info) };
        }
    }
    true
}

/// The entry.
///
/// # Safety
/// The arguments are those the server gave to a command.
unsafe extern "C" fn enter(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context for this command.
    let ctx = unsafe { Ctx::new(ctx) };
    let text = guarded(None, || Some(lines()));
    match text {
        // Servers that know the arity have refused it before.
        Some(_) if argc != 1 => reply::error(
            ctx,
            &Error::WrongArity {
                command: "order.help",
            },
        ),
        Some(lines) => {
            ctx.reply_array(lines.len());
            for line in &lines {
                ctx.reply_simple(line);
            }
        }
        None => reply::error(ctx, &Error::Internal),
    }
    OK
}

/// The lines of the reply.
fn lines() -> Vec<CString> {
    let head = "ORDER.<command> queue [<argument> [value] ...]. Commands are:";
    let mut lines = vec![head.to_owned()];
    // Nobody types APPLY: the server replicates it.
    for row in COMMANDS.iter().filter(|row| row.verb != Verb::Apply) {
        lines.push(usage(row));
        lines.push(format!("    {}", row.summary.to_string_lossy()));
    }
    lines.push("HELP".to_owned());
    lines.push("    Prints this help.".to_owned());
    let whole = lines.into_iter().filter_map(|line| CString::new(line).ok());
    whole.collect()
}

/// A command with its arguments, as a reader of the documentation writes them.
fn usage(row: &Command) -> String {
    let command = row.verb.command();
    let name = command.strip_prefix("order.").unwrap_or(command);
    let mut words = vec![name.to_uppercase()];
    words.extend(row.args.iter().map(shape));
    words.join(" ")
}

/// How an argument is written: `[COUNT count]`, `<EX seconds | PX milliseconds>`.
fn shape(arg: &Arg) -> String {
    let name = arg.name.to_string_lossy();
    let token = arg.token.map(CStr::to_string_lossy);
    let parts = |between: &str| {
        let parts: Vec<String> = arg.parts.iter().map(shape).collect();
        parts.join(between)
    };
    let body = match arg.kind {
        Kind::OneOf if arg.optional => parts(" | "),
        Kind::OneOf => format!("<{}>", parts(" | ")),
        Kind::Block => parts(" "),
        Kind::Word => String::new(),
        _ => name.into_owned(),
    };
    let one = match token {
        Some(token) if body.is_empty() => token.into_owned(),
        Some(token) => format!("{token} {body}"),
        None => body,
    };
    let all = if arg.multiple {
        format!("{one} [{one} ...]")
    } else {
        one
    };
    if arg.optional {
        format!("[{all}]")
    } else {
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{lines, usage};
    use crate::request::Verb;
    use crate::shell::commands::table::COMMANDS;

    #[test]
    fn a_command_is_written_as_in_the_documentation() {
        let of = |verb: Verb| usage(COMMANDS.iter().find(|row| row.verb == verb).unwrap());
        assert_eq!(of(Verb::Get), "GET queue id");
        assert_eq!(
            of(Verb::Claim),
            "CLAIM queue owner [EX seconds | PX milliseconds] [ID id | [COUNT count] [BLOCK block-milliseconds]] [SESSION]"
        );
        let schedule = of(Verb::Schedule);
        assert!(
            schedule.starts_with("SCHEDULE queue id <EX seconds | PX milliseconds | EXAT"),
            "{schedule}"
        );
    }

    #[test]
    fn every_command_but_apply_has_two_lines() {
        assert_eq!(lines().len(), 1 + 2 * (COMMANDS.len() - 1) + 2);
    }
}
