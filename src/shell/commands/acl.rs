//! The ACL categories of the commands.
//!
//! The server gives a module's command no category by itself. Where it lets a module
//! name them (Redis 7.2 on, Valkey) ours get what the server would derive from
//! their flags, and what its own commands of the same kind have besides; where it
//! lets a module make one (Redis 7.4 on, Valkey 8 on) all are in `@orderwheel` too.
//! Redis 7.0 has neither: commands are named there one by one.

use std::ffi::{CStr, CString};

use redis_module::raw;

use super::help;
use super::table::COMMANDS;
use crate::shell::server::api::{Ctx, Level, OK, api, log};

/// The category that all of our commands are in.
const OWN: &CStr = c"orderwheel";

/// The categories of a command with these flags, by the rule of the server's own
/// (`setImplicitACLCategories` in acl.c), and those it has besides.
fn categories(flags: &str, more: &str, own: bool) -> Option<CString> {
    let has = |flag: &str| flags.split(' ').any(|one| one == flag);
    let mut list = vec![if has("write") { "write" } else { "read" }];
    list.push(if has("fast") { "fast" } else { "slow" });
    if has("blocking") {
        list.push("blocking");
    }
    list.extend(Some(more).filter(|more| !more.is_empty()));
    if own {
        list.extend(OWN.to_str().ok());
    }
    CString::new(list.join(" ")).ok()
}

/// Sets the categories of all commands, which are registered, as far as the server
/// can. Called while the module loads.
pub(crate) fn register(ctx: Ctx) {
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
    let rows = COMMANDS.iter().filter_map(|row| {
        let name = CString::new(row.verb.command()).ok()?;
        Some((name, row.flags, row.categories))
    });
    for (name, flags, more) in rows.chain([(help::NAME.to_owned(), help::FLAGS, "")]) {
        let flags = flags.to_str().unwrap_or_default();
        let Some(list) = categories(flags, more, own) else {
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
        for (flags, more, own, list) in [
            ("readonly fast", "", true, "read fast orderwheel"),
            ("readonly", "", false, "read slow"),
            (
                "write deny-oom fast blocking",
                "",
                false,
                "write fast blocking",
            ),
            (
                "write",
                "admin dangerous",
                true,
                "write slow admin dangerous orderwheel",
            ),
            ("write", "dangerous", false, "write slow dangerous"),
        ] {
            let found = categories(flags, more, own).unwrap();
            assert_eq!(found.to_str(), Ok(list), "{flags}");
        }
    }
}
