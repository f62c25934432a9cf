//! Settings: each is explained, and the example configuration starts a server.

use std::collections::{BTreeMap, BTreeSet};

use super::{document, expect_same_names, fields, listed, quoted, section, table};
use crate::support::{Options, Server, cmd, module_path};

/// A number as the pages write it: with commas.
fn plain(number: &str) -> String {
    number.replace(',', "")
}

#[test]
fn every_setting_is_explained_with_its_default_and_range() {
    let server = Server::plain();
    let mut c = server.client();
    let page = "docs/operations.md";
    let text = document(page);
    let there: BTreeMap<String, String> = cmd!(c, "CONFIG", "GET", "orderwheel.*")
        .pairs()
        .into_iter()
        .map(|(name, value)| (name, value.text()))
        .collect();
    let own = fields(&cmd!(c, "ORDER.CONFIG", "q", "GET"));
    expect_same_names(
        "settings of a queue",
        &listed(page, "### Settings of a queue"),
        &own,
    );
    let mut said = BTreeSet::new();
    for (heading, prefix) in [
        ("### Settings of the server", ""),
        ("### Settings of a queue", "orderwheel."),
    ] {
        for row in table(section(&text, heading)) {
            let name = format!("{prefix}{}", quoted(&row[0])[0]);
            // That of a queue alone has no default in the server.
            if name == "orderwheel.transitions" {
                continue;
            }
            said.insert(name.clone());
            let Some(default) = there.get(&name) else {
                panic!("{page}: there is no setting {name}");
            };
            assert_eq!(plain(&row[1]), *default, "{name}: its default");
            let Some((min, max)) = row[2].split_once(" to ") else {
                assert_eq!(row[2], "yes, no", "{name}: its range");
                continue;
            };
            let (min, max): (i64, i64) = (plain(min).parse().unwrap(), plain(max).parse().unwrap());
            for (value, fits) in [(min - 1, false), (min, true), (max, true), (max + 1, false)] {
                let reply = cmd!(c, "CONFIG", "SET", &name, value);
                assert_eq!(!reply.is_error(), fits, "{name} {value}: {reply:?}");
            }
            cmd!(c, "CONFIG", "SET", &name, default).ok();
        }
    }
    let there: BTreeSet<String> = there.into_keys().collect();
    expect_same_names("settings", &said, &there);
}

#[test]
fn the_example_configuration_starts_a_server() {
    let example = document("redis.conf.example");
    let mut options = Options::new().without_module();
    let mut loads = false;
    for line in example
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut words = line.split_whitespace();
        match words.next().unwrap_or_default() {
            // The harness's own, so that nothing leaves the test's directory.
            "dir" | "port" | "unixsocket" | "bind" | "logfile" | "pidfile" | "daemonize" => {}
            "loadmodule" => {
                loads = true;
                let args: Vec<&str> = words.skip(1).collect();
                options = options.line(format!(
                    "loadmodule {} {}",
                    module_path().display(),
                    args.join(" ")
                ));
            }
            _ => options = options.line(line),
        }
    }
    assert!(loads, "redis.conf.example loads the module");
    let server: Server = options.start();
    let mut c = server.client();
    // Every setting there is stands in it, set or shown in a comment.
    let settings = cmd!(c, "CONFIG", "GET", "orderwheel.*").pairs();
    assert!(settings.len() > 10);
    for (name, value) in settings {
        assert!(example.contains(&name), "redis.conf.example lacks {name}");
        assert!(!value.text().is_empty(), "{name}");
    }
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", 1000)
            .claims()
            .len(),
        1
    );
}
