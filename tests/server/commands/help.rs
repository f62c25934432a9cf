//! ORDER.HELP.

use crate::support::{Server, Value, cmd};

#[test]
fn help_lists_every_command_to_everybody_who_may_ask() {
    let server = Server::plain();
    let mut c = server.client();
    let lines: Vec<String> = cmd!(c, "ORDER.HELP")
        .items()
        .iter()
        .map(Value::text)
        .collect();
    assert_eq!(
        lines[0],
        "ORDER.<command> queue [<argument> [value] ...]. Commands are:"
    );
    // As the server's own: a line with the arguments, and one that is indented.
    for pair in lines[1..].chunks(2) {
        assert!(
            !pair[0].starts_with(' ') && pair[1].starts_with("    "),
            "{pair:?}"
        );
    }
    let all = cmd!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "orderwheel");
    let commands: Vec<String> = all.items().iter().map(Value::text).collect();
    assert!(commands.len() > 25, "{commands:?}");
    for name in commands
        .iter()
        .filter(|name| !name.ends_with("apply") && !name.ends_with("help"))
    {
        let word = name.trim_start_matches("order.").to_uppercase();
        let line = lines
            .iter()
            .find(|line| line.split(' ').next() == Some(&word));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {lines:?}"));
        assert!(line.starts_with(&format!("{word} queue")), "{line}");
    }
    assert_eq!(lines[lines.len() - 2..], ["HELP", "    Prints this help."]);
    let info = cmd!(c, "COMMAND", "INFO", "order.help");
    let info = info.items()[0].items();
    assert_eq!((info[1].int(), info[3].int()), (1, 0), "no key");
    assert!(
        cmd!(c, "ORDER.HELP", "more")
            .error()
            .starts_with("ERR wrong number of arguments")
    );
    cmd!(c, "ACL", "SETUSER", "asks", "on", ">secret", "+order.help").ok();
    let mut user = server.client();
    cmd!(user, "AUTH", "asks", "secret").ok();
    assert_eq!(cmd!(user, "ORDER.HELP").items().len(), lines.len());
    // In a script, in a transaction, in RESP3.
    let in_script = cmd!(c, "EVAL", "return #redis.call('ORDER.HELP')", 0);
    assert_eq!(in_script.int(), lines.len() as i64);
}
