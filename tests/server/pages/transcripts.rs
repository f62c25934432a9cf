//! The transcripts of the pages.
//!
//! A transcript is a block fenced as `redis`. A line that begins with the prompt
//! `> ` is a command as `redis-cli -3` takes it; the lines up to the next prompt are
//! what redis-cli prints for it. What differs from run to run is shown as a `<name>`:
//! it stands for whatever was printed there, and for the last such value in later
//! commands of the block. A line of `...` stands for any lines.

use std::collections::HashMap;

use super::{pages, redis_cli};
use crate::support::Options;

/// One command of a transcript.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    /// Line of the document, from 1.
    line: usize,
    /// The command.
    command: String,
    /// What it prints.
    output: Vec<String>,
}

/// The transcripts of a document.
fn transcripts(text: &str) -> Vec<Vec<Step>> {
    let mut blocks: Vec<Vec<Step>> = Vec::new();
    let mut fenced: Option<&str> = None;
    for (i, line) in text.lines().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fenced = if fenced.is_some() {
                None
            } else {
                Some(kind.trim())
            };
            if fenced == Some("redis") {
                blocks.push(Vec::new());
            }
        } else if let (Some("redis"), Some(steps)) = (fenced, blocks.last_mut()) {
            if let Some(command) = line.strip_prefix("> ") {
                steps.push(Step {
                    line: i + 1,
                    command: command.to_owned(),
                    output: Vec::new(),
                });
            } else if let Some(step) = steps.last_mut() {
                step.output.push(line.trim_end().to_owned());
            }
        }
    }
    for step in blocks.iter_mut().flatten() {
        while step.output.last().is_some_and(String::is_empty) {
            step.output.pop();
        }
    }
    blocks
}

/// What the names of a transcript stand for.
type Known = HashMap<String, String>;

/// Whether one printed line is what the document shows, learning what its
/// names stand for.
fn same_line(shown: &str, printed: &str, known: &mut Known) -> bool {
    let Some((before, rest)) = shown.split_once('<') else {
        return shown == printed;
    };
    let Some((name, after)) = rest.split_once('>') else {
        return shown == printed;
    };
    let Some(printed) = printed.strip_prefix(before) else {
        return false;
    };
    // One word: a number, or a string without its quotes.
    let end = printed.find([' ', '"']).unwrap_or(printed.len());
    let (value, printed) = printed.split_at(end);
    if value.is_empty() || !same_line(after, printed, known) {
        return false;
    }
    known.insert(format!("<{name}>"), value.to_owned());
    true
}

/// Whether the output is what the document shows.
fn same(shown: &[String], printed: &[String], known: &mut Known) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == "..." => (0..=printed.len()).any(|skip| {
            let mut learnt = known.clone();
            let fits = same(rest, &printed[skip..], &mut learnt);
            if fits {
                *known = learnt;
            }
            fits
        }),
        Some((first, rest)) => match printed.split_first() {
            Some((line, others)) => same_line(first, line, known) && same(rest, others, known),
            None => false,
        },
    }
}

#[test]
fn the_transcripts_of_the_pages_are_true() {
    let mut blocks = 0;
    for (page, text) in pages() {
        for steps in transcripts(&text) {
            blocks += 1;
            let server = Options::new().events("KEd").start();
            let mut known = Known::new();
            for step in steps {
                let mut command = step.command.clone();
                for (shown, real) in &known {
                    command = command.replace(shown, real);
                }
                let printed = redis_cli(&server.socket(), &command);
                assert!(
                    same(&step.output, &printed, &mut known),
                    "{page} line {}: {command}\n--- shown\n{}\n--- printed\n{}",
                    step.line,
                    step.output.join("\n"),
                    printed.join("\n")
                );
            }
        }
    }
    assert!(blocks > 20, "the pages show {blocks} transcripts");
}

#[test]
fn transcripts_are_read_and_compared_as_described() {
    let text = "x\n```redis\n> A 1\n1) \"OK\"\n2) (integer) <rev>\n> B <rev>\n...\nend\n\n```\n```\n> no\n```\n";
    let blocks = transcripts(text);
    assert_eq!(blocks.len(), 1);
    assert_eq!(
        (
            blocks[0][0].line,
            blocks[0][0].command.as_str(),
            blocks[0][0].output.len()
        ),
        (3, "A 1", 2)
    );
    assert_eq!(blocks[0][1].output, ["...", "end"]);
    let mut known = Known::new();
    assert!(same_line(
        "2) (integer) <rev>",
        "2) (integer) 1795958000123",
        &mut known
    ));
    assert_eq!(known["<rev>"], "1795958000123");
    assert!(same_line("1) 1) \"<id>\"", "1) 1) \"1002\"", &mut known));
    assert_eq!(known["<id>"], "1002");
    for (shown, printed) in [
        ("2) (integer) <rev>", "3) (integer) 5"),
        ("2) (integer) <rev>", "2) (nil)"),
        ("(integer) <rev>", "(integer) "),
        ("\"<id>\"", "\"1\" 2"),
        ("OK", "EXISTS"),
        ("4) (integer) 2", "4) (integer) 3"),
    ] {
        assert!(
            !same_line(shown, printed, &mut known),
            "{shown} is not {printed}"
        );
    }
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    assert!(same(&lines("a\n...\nd"), &lines("a\nb\nc\nd"), &mut known));
    assert!(!same(&lines("a\n...\nd"), &lines("a\nb\nc"), &mut known));
    assert!(!same(&lines("a"), &lines("a\nb"), &mut known));
}
