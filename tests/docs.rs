//! Rules about the pages: README.md, CHANGELOG.md and everything in `docs/`. What they
//! say of the server is held against a real one in `tests/server/pages`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of README.md: a tired person reads it to the end.
const README_LINES_MAX: usize = 240;
/// The most words of a sentence.
const WORDS_MAX: usize = 30;

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file with such an ending below a place.
fn files(place: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, into);
        } else if path.extension().is_some_and(|end| end == ending) {
            into.push(path);
        }
    }
}

/// Every page, as path and text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("CHANGELOG.md")];
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        let is_readme = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("README"));
        if is_readme && path.extension().is_some_and(|end| end == "md") {
            paths.push(path);
        }
    }
    for place in ["docs", "examples"] {
        files(&root().join(place), "md", &mut paths);
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

/// The lines of a page that are no code.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((at + 1, line));
        }
    }
    lines
}

/// What a heading is linked by.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The anchors of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| anchor(line))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut links = 0;
    for (path, text) in pages() {
        for (line, words) in prose(&text) {
            for link in words.split("](").skip(1) {
                let link = link.split(')').next().unwrap();
                if link.contains("://") {
                    continue;
                }
                links += 1;
                let (file, place) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() {
                    path.clone()
                } else {
                    path.parent().unwrap().join(file)
                };
                let what = format!("{}:{line}: {link}", path.display());
                let Ok(there) = fs::read_to_string(&target) else {
                    panic!("{what}: no such file");
                };
                assert!(
                    place.is_empty() || anchors(&there).contains(place),
                    "{what}: no such heading"
                );
            }
        }
    }
    assert!(links > 50, "{links}");
}

/// All code with such an ending below these places.
fn code(places: &[&str], ending: &str) -> String {
    let mut paths = Vec::new();
    for place in places {
        files(&root().join(place), ending, &mut paths);
    }
    paths
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

/// What stands in backticks in a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_path_in_the_pages_is_there() {
    let mut paths = BTreeSet::new();
    for (page, text) in pages() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        for word in text.split(|c: char| !is_part(c)) {
            let word = word.trim_end_matches('.');
            let places = ["src/", "tests/", "scripts/", "docs/"];
            if places.iter().any(|place| word.starts_with(place)) {
                assert!(
                    root().join(word).exists(),
                    "{}: there is no {word}",
                    page.display()
                );
                paths.insert(word.to_owned());
            }
        }
    }
    assert!(paths.len() > 15, "{paths:?}");
}

#[test]
fn the_map_names_functions_that_are_there() {
    let code = code(&["src"], "rs");
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let lines: Vec<&str> = prose(&text).into_iter().map(|(_, line)| line).collect();
    let mut functions = 0;
    for name in quoted(&lines.join("\n")) {
        if let Some(function) = name.strip_suffix("()") {
            functions += 1;
            let is_there = ["(", "<"]
                .iter()
                .any(|next| code.contains(&format!("fn {function}{next}")));
            assert!(is_there, "there is no function {function}");
        }
    }
    assert!(functions > 20, "{functions}");
}

#[test]
fn every_promise_names_tests_that_are_there() {
    let rust = code(&["src", "tests"], "rs");
    let python = code(&["tests"], "py");
    let text = fs::read_to_string(root().join("docs/promises.md")).unwrap();
    // The part of the failures, and each of its rows, then a part for each promise.
    let mut parts: Vec<&str> = text.split("\n## ").skip(1).collect();
    assert!(parts.len() > 11, "{}", parts.len());
    let rows: Vec<&str> = parts[0]
        .split("\n### ")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() > 20, "{}", rows.len());
    parts.extend(rows);
    for part in parts {
        let title = part.lines().next().unwrap();
        // A name of a test is a sentence.
        let mut tests = quoted(part);
        tests.retain(|name| name.matches('_').count() >= 2 && !name.contains(' '));
        assert!(!tests.is_empty(), "{title}: no test shows it");
        for test in tests {
            assert!(
                rust.contains(&format!("fn {test}()")) || python.contains(&format!("def {test}(")),
                "{title}: no test {test}"
            );
        }
    }
}

/// The sentences of a page: what stands between full stops, cells and items.
fn sentences(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for (_, line) in prose(text) {
        let line = line.trim();
        let begins = line.starts_with("- ")
            || line.starts_with('|')
            || line.starts_with('#')
            || line
                .split_once(". ")
                .is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        if begins || line.is_empty() {
            paragraphs.push(String::new());
        }
        let last = paragraphs.last_mut().unwrap();
        last.push(' ');
        last.push_str(line);
    }
    let cells = paragraphs.iter().flat_map(|paragraph| {
        let cells = if paragraph.trim_start().starts_with('|') {
            paragraph.split('|').collect()
        } else {
            vec![paragraph.as_str()]
        };
        cells.into_iter().map(str::to_owned)
    });
    cells
        .flat_map(|cell| {
            let ended = [". ", ": ", "; ", "? "]
                .iter()
                .fold(cell, |text, end| text.replace(end, "\n"));
            ended.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_pages_are_short_plain_english() {
    for (path, text) in pages() {
        // Chinese has its own rules.
        if path.to_string_lossy().contains("zh-CN") {
            continue;
        }
        for sentence in sentences(&text) {
            let words = sentence
                .split_whitespace()
                .filter(|word| word.contains(char::is_alphanumeric))
                .count();
            assert!(
                words <= WORDS_MAX,
                "{}: {words} words: {sentence}",
                path.display()
            );
            assert!(
                !sentence.contains("can not"),
                "{}: cannot: {sentence}",
                path.display()
            );
        }
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= README_LINES_MAX);
}

#[test]
fn the_outcomes_are_those_of_the_commands() {
    let text = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let words = |line: &str| -> Vec<String> {
        let mut words = quoted(line);
        words.retain(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase()));
        words.into_iter().map(str::to_owned).collect()
    };
    let of_commands: BTreeSet<String> = text
        .lines()
        .filter(|line| {
            line.starts_with("| reply | order")
                || line.starts_with("| reply | lease")
                || line.contains("n outcome words")
        })
        .flat_map(words)
        .collect();
    let (_, listed) = text.split_once("### Outcomes").unwrap();
    let listed: BTreeSet<String> = listed
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| words(line).first().cloned())
        .collect();
    assert_eq!(of_commands, listed);
    assert_eq!(listed.len(), 13);
}

#[test]
fn every_remark_in_the_table_of_states_is_explained() {
    let text = fs::read_to_string(root().join("docs/states.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim_matches('|').split('|');
        inner.map(|cell| cell.trim().to_owned()).collect()
    };
    let (_, legend) = text.split_once("| remark | meaning |").unwrap();
    let legend: BTreeSet<String> = legend
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| cells(line)[0].clone())
        .collect();
    let (_, tables) = text.split_once("### SCHEDULE").unwrap();
    let remarks: BTreeSet<String> = tables
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("| state met"))
        .flat_map(|line| cells(line).split_off(1))
        .filter_map(|cell| Some(cell.split_once(", ")?.1.to_owned()))
        .collect();
    assert_eq!(remarks, legend);
}

/// The levels of a page's headings, and below each its code, its numbers, and what stands
/// in backticks: what has to be the same in every language. Words stand in another order
/// there, so all of it is a set.
fn skeleton(text: &str) -> Vec<(usize, BTreeSet<String>)> {
    let mut sections = vec![(0, BTreeSet::new(), String::new())];
    let mut fenced = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let level = line.chars().take_while(|c| *c == '#').count();
        if !fenced && level > 0 {
            sections.push((level, BTreeSet::new(), String::new()));
        }
        let (_, parts, prose) = sections.last_mut().unwrap();
        if fenced || is_fence {
            parts.insert(line.trim().to_owned());
        } else {
            prose.push_str(line);
            prose.push(' ');
        }
        fenced ^= is_fence;
    }
    sections
        .into_iter()
        .map(|(level, mut parts, prose)| {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            parts.extend(quoted(&prose).into_iter().map(words));
            let plain: String = prose.split('`').step_by(2).collect();
            // Where a link leads may differ.
            let unlinked = plain.split("](").enumerate().map(|(at, part)| {
                let after_link = part.split_once(')').map(|(_, rest)| rest);
                after_link.filter(|_| at > 0).unwrap_or(part)
            });
            let numbers =
                unlinked.flat_map(|part| part.split(|c: char| !"0123456789.,".contains(c)));
            let trimmed = numbers.map(|number| number.trim_matches(['.', ',']).to_owned());
            parts.extend(trimmed.filter(|number| !number.is_empty()));
            (level, parts)
        })
        .collect()
}

#[test]
fn the_pages_in_chinese_say_the_same() {
    let chinese = |path: &Path| path.to_string_lossy().contains("zh-CN");
    let mut seen = 0;
    for (path, text) in pages().iter().filter(|(path, _)| chinese(path)) {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy();
        let english = name.replace(".zh-CN", "").replace("zh-CN/", "");
        let (ours, theirs) = (
            skeleton(text),
            skeleton(&fs::read_to_string(root().join(&english)).unwrap()),
        );
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "{name}: section {at} is not as in {english}");
        }
        assert_eq!(ours.len(), theirs.len(), "{name}: sections");
        seen += 1;
    }
    assert!(seen > 0);
}
