//! Rules about the repository itself.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Tests that stand beside the code they test: a file or a folder of such a name.
const TESTS: [&str; 5] = ["tests", "model", "hostile", "agree", "testing"];

/// Every Rust file below a place.
fn files(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_path_buf()];
    }
    let entries = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        .flat_map(|path| files(&path))
        .collect()
}

/// Every Rust file below a place, but for files of tests.
fn sources(place: &Path) -> Vec<PathBuf> {
    let is_test = |file: &PathBuf| {
        let mut parts = file.strip_prefix(place).unwrap().iter();
        parts.any(|part| {
            let stem = Path::new(part).file_stem();
            stem.is_some_and(|stem| TESTS.iter().any(|test| stem == *test))
        })
    };
    let mut all = files(place);
    all.retain(|file| !is_test(file));
    all
}

/// What a file says before its tests, without comments.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate();
    lines
        .take_while(|(_, line)| !["mod tests {", "mod tests;"].contains(line))
        .map(|(at, line)| {
            (
                at + 1,
                line.split("//").next().unwrap_or_default().to_owned(),
            )
        })
        .collect()
}

#[test]
fn the_pure_core_knows_nothing_of_the_server_reads_no_clock_and_is_safe() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let pure = [
        "engine", "request", "words", "codec.rs", "codec", "error.rs",
    ];
    let files: Vec<PathBuf> = pure
        .iter()
        .flat_map(|place| sources(&source.join(place)))
        .collect();
    assert!(files.len() > 20, "{files:?}");
    let forbidden = [
        "redis_module",
        "libc::",
        "crate::shell",
        "unsafe",
        "std::time",
        "SystemTime",
        "Instant",
        "std::env",
        "std::fs",
        "std::net",
        "std::thread",
        "RandomState::new",
    ];
    for file in files {
        for (line, text) in code(&file) {
            for word in forbidden {
                assert!(!text.contains(word), "{}:{line}: {word}", file.display());
            }
        }
    }
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let shell = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/shell");
    let mut blocks = 0;
    for file in sources(&shell) {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if !line.contains("unsafe {") || line.trim_start().starts_with("//") {
                continue;
            }
            blocks += 1;
            let before = lines.iter().take(at + 1).rev().take(12);
            assert!(
                before.clone().any(|line| line.contains("SAFETY:")),
                "{}:{}: no SAFETY comment near",
                file.display(),
                at + 1
            );
        }
    }
    assert!(blocks > 50, "{blocks}");
}

/// What is below what: code in the first place must not name the second. A place is a
/// path below `src`, a name is how it begins in code.
const FORBIDDEN: [(&str, &[&str]); 6] = [
    ("words", &["crate::"]),
    ("error.rs", &["crate::"]),
    (
        "request",
        &["crate::engine", "crate::codec", "crate::shell"],
    ),
    ("engine", &["crate::codec", "crate::shell"]),
    ("codec.rs", &["crate::shell"]),
    ("codec", &["crate::shell"]),
];

#[test]
fn nothing_imports_what_stands_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (place, names) in FORBIDDEN {
        let files = sources(&source.join(place));
        assert!(!files.is_empty(), "{place}");
        for file in files {
            for (line, text) in code(&file) {
                for name in names {
                    assert!(!text.contains(name), "{}:{line}: {name}", file.display());
                }
            }
        }
    }
}

#[test]
fn containers_know_no_order() {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/tables");
    let files = sources(&tables);
    assert!(files.len() > 15, "{files:?}");
    for file in files {
        let inside = file.strip_prefix(&tables).unwrap();
        let is_mod = inside.ends_with("mod.rs");
        // So many steps up lead out of the folder.
        let out = "super::".repeat(inside.components().count() + usize::from(!is_mod));
        for (line, text) in code(&file) {
            let text = text.replace("crate::engine::tables", "");
            // A scope of visibility is no import.
            let text = text.replace("pub(in crate::engine)", "");
            for name in ["crate::", &out] {
                assert!(!text.contains(name), "{}:{line}: {name}", file.display());
            }
        }
    }
}

/// The most lines of a file.
const FILE_LINES_MAX: usize = 600;
/// The most lines of a function.
const FUNCTION_LINES_MAX: usize = 70;

/// Code whose files and functions are held to these sizes: paths below `src`.
const SIZED: &[&str] = &[
    "engine", "request", "words", "codec.rs", "codec", "error.rs", "shell",
];

/// Tests whose files are held to it, whole as they are: paths in the repository. A
/// function of a test is a story and may be as long as that.
const SIZED_TESTS: &[&str] = &["tests"];

/// Longer ones, each with its reason: a file, or a file and a function. A path is one
/// below `src`, or one in the repository.
const LONGER: &[(&str, &str, &str)] = &[
    (
        "engine/decide.rs",
        "",
        "one decision after the other, each of them short",
    ),
    ("engine/view.rs", "stats", "a line a field"),
    (
        "engine/tables/arena/many.rs",
        "check",
        "an assertion an invariant",
    ),
    (
        "codec/check.rs",
        "check",
        "a case an effect, a line a field",
    ),
    ("codec/v1.rs", "from", "a case an effect, a line a field"),
    ("error.rs", "all", "a sample or more an error"),
    ("error.rs", "fmt", "a text an error"),
];

/// The functions of a file: where each begins, its name and how many lines it has.
fn functions(lines: &[(usize, String)]) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (at, (line, text)) in lines.iter().enumerate() {
        let head = text.trim_start();
        let indent = text.len() - head.len();
        let Some((before, name)) = head.split_once("fn ") else {
            continue;
        };
        let known = ["const", "unsafe", "extern", "\"C\""];
        let qualifies = |word: &str| word.starts_with("pub") || known.contains(&word);
        let before = before.replace("in crate", "");
        if !before
            .split_whitespace()
            .all(|word| qualifies(word) || word.starts_with("::"))
        {
            continue;
        }
        let name: String = name
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        // The end is the brace that stands below the head.
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines.iter().skip(at).position(|(_, text)| {
            text.trim_end() == end
                || (text.len() - text.trim_start().len() == indent
                    && text.trim_end().ends_with(';'))
        });
        found.push((*line, name, length.map_or(1, |length| length + 1)));
    }
    found
}

#[test]
fn no_file_and_no_function_is_too_long_to_hold_in_the_head() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("src");
    // What is too long: file, line, function and length.
    let mut too_long: Vec<(PathBuf, usize, String, usize)> = Vec::new();
    let (mut checked, mut checked_tests) = (0, 0);
    for file in SIZED.iter().flat_map(|place| sources(&source.join(place))) {
        let lines = code(&file);
        if lines.len() > FILE_LINES_MAX {
            too_long.push((file.clone(), 1, String::new(), lines.len()));
        }
        for (line, function, length) in functions(&lines) {
            checked += 1;
            if length > FUNCTION_LINES_MAX {
                too_long.push((file.clone(), line, function, length));
            }
        }
    }
    for file in SIZED_TESTS
        .iter()
        .flat_map(|place| files(&root.join(place)))
    {
        checked_tests += 1;
        let length = fs::read_to_string(&file).unwrap().lines().count();
        if length > FILE_LINES_MAX {
            too_long.push((file, 1, String::new(), length));
        }
    }
    assert!(checked > 700, "{checked}");
    assert!(checked_tests > 50, "{checked_tests}");

    let mut excused = Vec::new();
    for (file, line, function, length) in too_long {
        let place = file.strip_prefix(&source);
        let place = place.or_else(|_| file.strip_prefix(root)).unwrap();
        let reason = LONGER
            .iter()
            .find(|(file, one, _)| place == Path::new(file) && *one == function);
        assert!(
            reason.is_some(),
            "{}:{line}: {function}: {length} lines",
            place.display()
        );
        excused.extend(reason);
    }
    for exception in LONGER {
        assert!(
            excused.contains(&exception),
            "no longer too long: {exception:?}"
        );
    }
}

/// The storeys of the shell, from the top down. Those of one line stand side by side and
/// know nothing of each other.
const STOREYS: [&[&str]; 6] = [
    &["mod"],
    &["commands", "pass", "callbacks"],
    &["write"],
    &["schedule"],
    &["state"],
    &["server"],
];

/// The storey of a name in `src/shell`, 0 at the top.
fn storey(name: &str) -> Option<usize> {
    STOREYS.iter().position(|names| names.contains(&name))
}

#[test]
fn a_storey_of_the_shell_knows_only_itself_and_those_below() {
    let shell = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/shell");
    let mut looked_at = 0;
    for file in sources(&shell) {
        let place = file.strip_prefix(&shell).unwrap();
        let first = place.iter().next().unwrap().to_str().unwrap();
        let own = first.trim_end_matches(".rs");
        let from = storey(own).unwrap_or_else(|| panic!("no storey for {own}"));
        if from == 0 {
            continue;
        }
        for (line, text) in code(&file) {
            // `use` lines may be broken: every name behind the path counts.
            let Some((_, path)) = text.split_once("crate::shell::") else {
                continue;
            };
            let names = path.trim_start_matches('{');
            for name in names.split(", ") {
                let name = name.split("::").next().unwrap_or_default();
                let name = name.trim_end_matches([';', '}', ' ']);
                let Some(to) = storey(name) else {
                    panic!("{}:{line}: no storey for {name}", file.display());
                };
                looked_at += 1;
                assert!(
                    name == own || to > from,
                    "{}:{line}: {own} knows {name}, which stands above or beside it",
                    file.display()
                );
                // Within a path only its first name is a storey.
                if path.contains("::") {
                    break;
                }
            }
        }
    }
    assert!(looked_at > 100, "{looked_at}");
}

#[test]
fn what_is_left_out_on_a_server_is_a_test_and_has_a_reason() {
    let table = fs::read_to_string("tests/server/limits.tsv").expect("it can be read");
    let servers = fs::read_to_string("scripts/servers.sh").expect("it can be read");
    let mut rows = 0;
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [server, test, reason] = columns[..] else {
            panic!("three columns: {row}");
        };
        assert!(
            servers.contains(&format!("\n#   {server} ")),
            "{server} is no server of servers.sh"
        );
        assert!(reason.len() > 20, "{row}: why?");
        let (place, name) = test.rsplit_once("::").expect("a module and a test");
        let place = place.replace("::", "/");
        let file = [
            format!("tests/server/{place}.rs"),
            format!("tests/server/{place}/mod.rs"),
        ]
        .into_iter()
        .find_map(|file| fs::read_to_string(file).ok())
        .unwrap_or_else(|| panic!("{test}: no such module"));
        assert!(
            file.contains(&format!("fn {name}()")),
            "{test}: no such test"
        );
        rows += 1;
    }
    assert!(rows > 0, "the table is read");
}
