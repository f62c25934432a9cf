//! What the pages say is what happens: README.md and everything in `docs/`.
//!
//! Transcripts are run (`transcripts`). What the pages list in tables - commands,
//! settings, fields, events - is held against a running server in both directions: all
//! of it is there, and all that is there is in the pages.

mod commands;
mod configuration;
mod names;
mod tables;
mod transcripts;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, Value, cmd};

/// A file of the repository.
#[track_caller]
fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What redis-cli prints for one line.
fn redis_cli(socket: &Path, line: &str) -> Vec<String> {
    let mut child = Command::new("redis-cli")
        .args(["-3", "--no-raw", "-s"])
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-cli is there");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(format!("{line}\n").as_bytes())
        .expect("redis-cli reads");
    let output = child.wait_with_output().expect("redis-cli ends");
    let text = String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned();
    text.lines().map(|l| l.trim_end().to_owned()).collect()
}

/// Every page: its name in the repository, and its text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder of pages") {
            let entry = entry.expect("an entry");
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("a type").is_dir() {
                folders.push(name);
            } else if Path::new(&name).extension().is_some_and(|end| end == "md") {
                names.push(name);
            }
        }
    }
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), document(&name)))
        .collect()
}

/// The part of a page under a heading, up to the next one of its level or above.
#[track_caller]
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = text
        .match_indices(heading)
        .map(|(at, _)| at)
        .find(|at| {
            let ends = text[at + heading.len()..].starts_with('\n');
            ends && (*at == 0 || text[..*at].ends_with('\n'))
        })
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    let body = &text[start + heading.len()..];
    let level = heading.chars().take_while(|c| *c == '#').count();
    let mut fenced = false;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let depth = line.chars().take_while(|c| *c == '#').count();
        if !fenced && depth > 0 && depth <= level && line[depth..].starts_with(' ') {
            return &body[..at];
        }
        at += line.len();
    }
    body
}

/// The cells of the first table of a part, without its head.
fn table(part: &str) -> Vec<Vec<String>> {
    let lines = part.lines().skip_while(|line| !line.starts_with('|'));
    lines
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
            let inner = inner.replace("\\|", "\u{1}");
            inner
                .split('|')
                .map(|cell| cell.trim().replace('\u{1}', "|"))
                .collect()
        })
        .collect()
}

/// What stands in backticks in a text.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The names in the first column of the first table under a heading.
#[track_caller]
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let text = document(page);
    let rows = table(section(&text, heading));
    assert!(!rows.is_empty(), "{page}, {heading}: no table");
    let mut names = BTreeSet::new();
    for row in &rows {
        for name in quoted(&row[0]) {
            assert!(
                names.insert(name.clone()),
                "{page}, {heading}: {name} twice"
            );
        }
    }
    names
}

/// The names of the fields of a reply.
fn fields(reply: &Value) -> BTreeSet<String> {
    reply.pairs().into_iter().map(|(name, _)| name).collect()
}

/// Fails unless a page lists exactly what a server has.
#[track_caller]
fn expect_same_names(what: &str, listed: &BTreeSet<String>, there: &BTreeSet<String>) {
    let lacks: Vec<&String> = there.difference(listed).collect();
    let invents: Vec<&String> = listed.difference(there).collect();
    assert!(
        lacks.is_empty() && invents.is_empty(),
        "{what}: the page lacks {lacks:?}, the server lacks {invents:?}"
    );
}

/// Every command of the module, in capitals.
fn commands(server: &Server) -> BTreeSet<String> {
    let mut c = server.client();
    let list = cmd!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "orderwheel");
    let names = list.items().iter();
    names.map(|name| name.text().to_uppercase()).collect()
}
