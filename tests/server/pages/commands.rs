//! Commands that the pages show, and the section that each command has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{commands, document, expect_same_names, pages, quoted, redis_cli, section, table};
use crate::support::{Server, Value, cmd};

/// The commands that a page shows outside of transcripts: in running text, and at the
/// start of a line of a block of text, up to two spaces.
fn shown_commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fenced: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(kind) = line.strip_prefix("```") {
            fenced = fenced.is_none().then(|| kind.to_owned());
        } else if fenced.as_deref() == Some("text") {
            commands.extend(line.split("  ").next().map(str::to_owned));
        } else if fenced.is_none() {
            commands.extend(quoted(line));
        }
    }
    // Not the syntax of a command, and not one that is cut short.
    commands.retain(|command| {
        command.starts_with("ORDER.") && command.contains(' ') && !command.contains(['[', '…', '|'])
    });
    commands
}

#[test]
fn every_command_that_the_pages_show_is_well_formed() {
    let server = Server::plain();
    let mut seen = 0;
    for (page, text) in pages() {
        for shown in shown_commands(&text) {
            // A syntax without options says `queue`; an example has a name.
            let is_syntax = shown.split(' ').nth(1) == Some("queue");
            if is_syntax {
                continue;
            }
            seen += 1;
            let mut command = String::new();
            for part in shown.split('<') {
                let after = part.split_once('>').map_or(part, |(_, after)| after);
                command.push_str(if part.len() == after.len() {
                    ""
                } else {
                    "1795958000000"
                });
                command.push_str(after);
            }
            // Within a transaction nothing waits.
            let printed = redis_cli(&server.socket(), &format!("MULTI\n{command}\nEXEC"));
            assert!(
                !printed.iter().any(|line| line.contains("ERR ")),
                "{page}: {shown}: {printed:?}"
            );
        }
    }
    assert!(seen > 15, "{seen}");
}

/// Every token in the arguments of COMMAND DOCS.
fn tokens(arguments: &Value, into: &mut BTreeSet<String>) {
    for argument in arguments.items() {
        for (name, value) in argument.pairs() {
            match name.as_str() {
                "token" => {
                    into.insert(value.text());
                }
                "arguments" => tokens(&value, into),
                _ => {}
            }
        }
    }
}

#[test]
fn every_command_has_a_section_that_says_what_the_server_says() {
    let server = Server::plain();
    let mut c = server.client();
    let text = document("docs/commands.md");
    let sections: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("## ORDER."))
        .map(|name| format!("ORDER.{name}"))
        .collect();
    expect_same_names("docs/commands.md", &sections, &commands(&server));
    let shorthands = table(&text[text.find("| shorthand |").expect("a table")..]);
    for command in sections {
        let part = section(&text, &format!("## {command}"));
        let facts: BTreeMap<String, String> = table(part)
            .into_iter()
            .map(|row| (row[0].clone(), row[1].clone()))
            .collect();
        let docs = cmd!(c, "COMMAND", "DOCS", &command);
        let docs: HashMap<String, Value> = docs.pairs()[0].1.pairs().into_iter().collect();
        for fact in ["since", "complexity"] {
            assert_eq!(facts[fact], docs[fact].text(), "{command}: {fact}");
        }
        let info = cmd!(c, "COMMAND", "INFO", &command);
        let ours = [
            "write", "readonly", "denyoom", "fast", "blocking", "loading", "stale",
        ];
        let flags: BTreeSet<String> = info.items()[0].items()[2]
            .items()
            .iter()
            .map(Value::text)
            .filter(|flag| ours.contains(&flag.as_str()))
            .collect();
        let said: BTreeSet<String> = facts["flags"].split(' ').map(str::to_owned).collect();
        assert_eq!(said, flags, "{command}: flags");
        // The words of the syntax are those of COMMAND DOCS.
        let mut words = BTreeSet::new();
        if let Some(arguments) = docs.get("arguments") {
            tokens(arguments, &mut words);
        }
        let mut syntax = part.split("```").nth(1).expect("a syntax").to_owned();
        for row in &shorthands {
            syntax = syntax.replace(row[0].trim_matches('`'), &row[1]);
        }
        let said: BTreeSet<String> = syntax
            .lines()
            .skip(1)
            .flat_map(|line| line.split([' ', '[', ']', '|', '…', '`']))
            .filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase()))
            .map(str::to_owned)
            .collect();
        expect_same_names(&format!("the syntax of {command}"), &said, &words);
    }
}
