//! The ACL categories of the commands.
//!
//! The server gives a module's command no category by itself. Where it lets a module
//! name them (Redis 7.2 on, Valkey) ours get what the server would derive from
//! their flags, and what its own commands of the same kind have besides; where it
//! lets a module make one (Redis 7.4 on, Valkey 8 on) all are in `@orderwheel` too.
//! Redis 7.0 has neither: commands are named there one by one.

use std::ffi::{CStr, CString};

use redis_module::raw;

use crate::shell::server::api::{Ctx, Level, OK, api, log};

/// The category that all of our commands are in.
const OWN: &CStr = c"orderwheel";

/// What flags alone do not say: the commands that are an operator's, or that can do
/// harm to what others work on, each after a command of the server.
const MORE: [(&CStr, &str); 6] = [
    // REPLCONF, RESTORE-ASKING: the inside of replication; writes whatever it is given.
    (c"order.apply", "admin dangerous"),
    // CONFIG SET.
    (c"order.config", "admin dangerous"),
    // CLIENT PAUSE and UNPAUSE.
    (c"order.pause", "admin dangerous"),
    (c"order.resume", "admin dangerous"),
    // CLIENT KILL: ends what somebody else holds.
    (c"order.break", "admin dangerous"),
    // FLUSHDB: removes many at once.
    (c"order.purge", "dangerous"),
];

/// The categories of a command with these flags, by the rule of the server's own
/// (`setImplicitACLCategories` in acl.c), and those it has besides.
fn categories(name: &CStr, flags: &str, own: bool) -> Option<CString> {
    let has = |flag: &str| flags.split(' ').any(|one| one == flag);
    let mut list = vec![if has("write") { "write" } else { "read" }];
    list.push(if has("fast") { "fast" } else { "slow" });
    if has("blocking") {
        list.push("blocking");
    }
    let more = MORE.iter().find(|(of, _)| *of == name);
    list.extend(more.map(|(_, more)| *more));
    if own {
        list.extend(OWN.to_str().ok());
    }
    CString::new(list.join(" ")).ok()
}

/// Sets the categories of commands that are registered, given by name and flags, as
/// far as the server can. Called while the module loads.
pub(crate) fn register<'c>(ctx: Ctx, commands: impl Iterator<Item = (&'c CStr, &'c CStr)>) {
    let (Some(get), Some(set)) = (
        api!(RedisModule_GetCommand),
        api!(RedisModule_SetCommandACLCategories),
    ) else {
        return;
    };
    let own = api!(RedisModule_AddACLCategory).is_some_and(|add| {
        // SAFETY: called while the module loads; a C string, which the server copies.
        unsafe { add(ctx.as_ptr(), OWN.as_ptr()) == OK }
    });
    for (name, flags) in commands {
        let Some(list) = categories(name, flags.to_str().unwrap_or_default(), own) else {
            continue;
        };
        // SAFETY: called while the module loads; a C string.
        let command = unsafe { get(ctx.as_ptr(), name.as_ptr()) };
        // SAFETY: the command was just given to us; a C string that the server only reads.
        if command.is_null() || unsafe { set(command, list.as_ptr()) } != OK {
            log(
                Level::Warning,
                c"orderwheel: the server refused the ACL categories of a command",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::categories;

    #[test]
    fn categories_follow_from_flags_and_kind() {
        for (name, flags, own, list) in [
            (c"order.get", "readonly fast", true, "read fast orderwheel"),
            (c"order.scan", "readonly", false, "read slow"),
            (
                c"order.lock",
                "write deny-oom fast blocking",
                false,
                "write fast blocking",
            ),
            (
                c"order.apply",
                "write",
                true,
                "write slow admin dangerous orderwheel",
            ),
            (c"order.purge", "write", false, "write slow dangerous"),
        ] {
            let found = categories(name, flags, own).unwrap();
            assert_eq!(found.to_str(), Ok(list), "{name:?}");
        }
    }
}
