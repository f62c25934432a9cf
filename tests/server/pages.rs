//! What the pages say is what happens: README.md and everything in `docs/`.
//!
//! A transcript is a block fenced as `redis`. A line that begins with the prompt
//! `> ` is a command as `redis-cli -3` takes it; the lines up to the next prompt are
//! what redis-cli prints for it. What differs from run to run is shown as a `<name>`:
//! it stands for whatever was printed there, and for the last such value in later
//! commands of the block. A line of `...` stands for any lines.
//!
//! What the pages list in tables - commands, settings, fields, events - is held
//! against a running server in both directions: all of it is there, and all that is
//! there is in the pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Options, SOON, Server, Value, cmd, module_path, wait_until};

/// A file of the repository.
#[track_caller]
fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

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
    for entry in fs::read_dir(root.join("docs")).expect("docs/ is there") {
        let name = entry.expect("an entry").file_name();
        names.push(format!("docs/{}", name.to_string_lossy()));
    }
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), document(&name)))
        .collect()
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

// --- tables of the pages ------------------------------------------------------

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

// --- commands -----------------------------------------------------------------

/// Every command of the module, in capitals.
fn commands(server: &Server) -> BTreeSet<String> {
    let mut c = server.client();
    let list = cmd!(c, "COMMAND", "LIST", "FILTERBY", "MODULE", "orderwheel");
    let names = list.items().iter();
    names.map(|name| name.text().to_uppercase()).collect()
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
        let ours = ["write", "readonly", "denyoom", "fast", "blocking"];
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
        tokens(&docs["arguments"], &mut words);
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

// --- settings -----------------------------------------------------------------

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

// --- every name anywhere ------------------------------------------------------

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
