//! Tables of the pages: fields of replies, of STATS and INFO; categories; events.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{commands, document, expect_same_names, fields, listed, quoted, section, table};
use crate::support::{Options, SOON, Server, cmd, wait_until};

// --- replies ------------------------------------------------------------------

#[test]
fn every_field_of_a_reply_is_explained_and_is_there() {
    let server = Server::plain();
    let mut c = server.client3();
    let order = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000);
    let lease = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 5);
    let page = "docs/commands.md";
    for (heading, reply) in [
        ("### The order reply", &order),
        ("### The lease reply", &lease),
        ("## ORDER.GET", &cmd!(c, "ORDER.GET", "q", "1")),
    ] {
        // The first table of a command's section holds its facts.
        let listed = if heading == "## ORDER.GET" {
            let text = document(page);
            let part = section(&text, heading);
            let rows = table(&part[part.find("| field |").expect("a table of fields")..]);
            rows.iter().flat_map(|row| quoted(&row[0])).collect()
        } else {
            listed(page, heading)
        };
        expect_same_names(heading, &listed, &fields(reply));
    }
}

#[test]
fn every_field_of_stats_and_info_is_explained_and_is_there() {
    let server = Server::plain();
    let mut c = server.client();
    let page = "docs/operations.md";
    let stats = fields(&cmd!(c, "ORDER.STATS", "q"));
    let settings = listed(page, "### Settings of a queue");
    let mut said = listed(page, "### ORDER.STATS");
    for setting in settings {
        // STATS shows each setting of a queue under its name.
        assert!(said.insert(setting.clone()), "{setting} twice");
    }
    expect_same_names("ORDER.STATS", &said, &stats);
    let info = cmd!(c, "INFO", "orderwheel").text();
    let info: BTreeSet<String> = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.to_owned())
        .collect();
    expect_same_names("INFO", &listed(page, "### INFO"), &info);
}

// --- access -------------------------------------------------------------------

/// The commands of ours in a category; empty where the server has none for modules.
fn in_category(server: &Server, category: &str) -> BTreeSet<String> {
    let mut c = server.client();
    let reply = cmd!(c, "ACL", "CAT", category);
    if reply.is_error() {
        return BTreeSet::new();
    }
    let names = reply.items().iter().map(|name| name.text().to_uppercase());
    names.filter(|name| name.starts_with("ORDER.")).collect()
}

#[test]
fn every_category_is_as_the_page_says_where_servers_have_them() {
    let server = Server::plain();
    if in_category(&server, "write").is_empty() {
        // Redis 7.0: modules' commands are in none.
        return;
    }
    let text = document("docs/operations.md");
    let part = section(&text, "## Access");
    let rows = table(&part[part.find("| command |").expect("a table")..]);
    let with = |category: &str| -> BTreeSet<String> {
        let rows = rows.iter().filter(|row| row[1].contains(category));
        rows.flat_map(|row| quoted(&row[0])).collect()
    };
    for category in ["admin", "dangerous"] {
        expect_same_names(
            category,
            &with(&format!("@{category}")),
            &in_category(&server, category),
        );
    }
    // The others follow from the flags, which the page of commands lists.
    let commands_text = document("docs/commands.md");
    let all = commands(&server);
    for (category, flag, has) in [
        ("write", "write", true),
        ("read", "write", false),
        ("fast", "fast", true),
        ("slow", "fast", false),
        ("blocking", "blocking", true),
    ] {
        let said = all.iter().filter(|command| {
            let facts = table(section(&commands_text, &format!("## {command}")));
            let flags = facts.iter().find(|row| row[0] == "flags").expect("flags");
            flags[1].split(' ').any(|one| one == flag) == has
        });
        expect_same_names(
            category,
            &said.cloned().collect(),
            &in_category(&server, category),
        );
    }
    let own = in_category(&server, "orderwheel");
    assert!(own.is_empty() || own == all, "{own:?}");
}

// --- events -------------------------------------------------------------------

#[test]
fn every_event_is_explained_and_is_raised() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:order.*"]);
    let due = |c: &mut crate::support::Client, id: &str, lease: u64| {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", id, "PX", lease).claims()[0].fence
    };
    let fence = due(&mut c, "acked", 60_000);
    cmd!(c, "ORDER.ACK", "q", "acked", fence)
        .order()
        .expect("OK");
    let fence = due(&mut c, "dead", 60_000);
    cmd!(c, "ORDER.NACK", "q", "dead", fence, "DEAD")
        .order()
        .expect("OK");
    due(&mut c, "lapsed", 1);
    cmd!(c, "ORDER.LOCK", "q", "locked", "me", "PX", 60_000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.BREAK", "q", "locked").lease().expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "paid", "CREATE")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.STATUS", "q", "paid", "shipped")
        .order()
        .expect("OK");
    let said = listed("docs/operations.md", "## Events");
    let mut raised = BTreeSet::new();
    wait_until(SOON, "the events of the page", || {
        while let Some(message) = listener.message(Duration::from_millis(200)) {
            let event = message.channel.split_once(':').expect("a channel").1;
            raised.insert(event.to_owned());
        }
        raised.len() >= said.len()
    });
    expect_same_names("events", &said, &raised);
}
