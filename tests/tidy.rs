//! Rules about the repository itself.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below a place, but for files of tests.
fn sources(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_path_buf()];
    }
    let entries = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| {
            !["tests.rs", "model.rs"]
                .iter()
                .any(|tests| path.ends_with(tests))
        })
        .filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        .flat_map(|path| sources(&path))
        .collect()
}

/// What a file says before its tests, without comments.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate();
    lines
        .take_while(|(_, line)| *line != "#[cfg(test)]")
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
    let pure = ["engine", "request", "words", "codec.rs", "error.rs"];
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
