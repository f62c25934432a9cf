//! Every name of ours, anywhere in the pages, is one of the server's.

use std::collections::BTreeSet;

use super::{commands, document, fields, listed, pages};
use crate::support::{Server, cmd};

/// Every name of ours in a text: what begins with one of our prefixes.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.split(|c: char| !is_part(c))
        .map(|word| word.trim_end_matches(['.', '-', '_']))
        .filter(|word| {
            // ORDERWHEEL_… in capitals is a variable of the tests.
            let prefixes = ["order.", "ORDER.", "orderwheel.", "orderwheel_"];
            prefixes
                .iter()
                .any(|prefix| word.starts_with(prefix) && word.len() > prefix.len())
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_name_in_the_pages_is_one_of_the_servers() {
    let server = Server::plain();
    let mut c = server.client();
    let mut known: BTreeSet<String> = commands(&server);
    known.extend(known.clone().iter().map(|name| name.to_lowercase()));
    known.extend(listed("docs/operations.md", "## Events"));
    known.extend(fields(&cmd!(c, "CONFIG", "GET", "orderwheel.*")));
    let info = cmd!(c, "INFO", "orderwheel").text();
    known.extend(
        info.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| name.to_owned()),
    );
    // The sections of INFO.
    let sections = info.lines().filter_map(|line| line.strip_prefix("# "));
    known.extend(sections.map(str::to_owned));
    // What the exporter makes of them, which tests/e2e/test_metrics.py holds against it.
    for heading in ["## Series of a server", "## Series of a queue"] {
        known.extend(listed("docs/metrics.md", heading));
    }
    for (page, text) in pages() {
        for name in names_in(&text) {
            assert!(known.contains(&name), "{page}: there is no {name}");
        }
    }
    // And the other way round for what is in no table: the README names each command.
    let readme = document("README.md");
    for command in commands(&server) {
        let verb = command.trim_start_matches("ORDER.");
        assert!(
            verb == "APPLY" || readme.contains(&command) || readme.contains(&format!("`{verb}`")),
            "README.md does not name {command}"
        );
    }
}
