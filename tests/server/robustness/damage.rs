//! Damaged payloads and wrong arguments of APPLY: refused or harmless.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::{Snapshot, apply, expect_healthy, fill_every_state};
use crate::support::{Client, Options, Random, Value, argv, cmd, read_file, wire};

/// Looks at everything of a queue and writes to it: whatever a payload made of it.
fn exercise(c: &mut Client, queue: &str) {
    let mut commands = vec![
        argv!["ORDER.STATS", queue],
        argv!["ORDER.SCAN", queue, 0, "COUNT", 1000],
        argv!["ORDER.NEXT", queue, "COUNT", 1000],
        argv!["DEBUG", "DIGEST-VALUE", queue],
        argv!["DUMP", queue],
        argv!["MEMORY", "USAGE", queue],
        argv!["COPY", queue, "copy", "REPLACE"],
        argv!["ORDER.SCHEDULE", queue, "new", "PX", 0],
        argv!["ORDER.CLAIM", queue, "me", "COUNT", 1000],
        argv!["ORDER.FINISH", queue, "new"],
        argv!["ORDER.CLAIM", "copy", "me", "COUNT", 1000, "PX", 1],
    ];
    commands.extend(
        [
            "scheduled",
            "expired-1",
            "leased",
            "dead",
            "paid",
            "locked",
            "reserved",
        ]
        .iter()
        .flat_map(|id| {
            [
                argv!["ORDER.GET", queue, id],
                argv!["ORDER.SCHEDULE", queue, id, "PX", 1, "UPSERT"],
                argv!["ORDER.FINISH", queue, id],
            ]
        }),
    );
    c.pipeline(&commands);
}

/// The good DUMP of a queue that has an order in every state, small.
fn good_dump(c: &mut Client) -> Vec<u8> {
    fill_every_state(c, "good");
    for id in ["moved", "scheduled-full"] {
        cmd!(c, "ORDER.FINISH", "good", id, "KEEP", 0)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.FINISH", "good", [b'i'; 255], "KEEP", 0)
        .order()
        .expect("OK");
    apply(c, "good", &wire::configure(b"max-attempts", b"3"));
    cmd!(c, "DUMP", "good").bytes().to_vec()
}

#[test]
fn no_damaged_payload_ends_the_server() {
    // Not compressed, so that the damage is ours to find.
    let server = Options::new().line("rdbcompression no").start();
    let mut c = server.client();
    let payload = good_dump(&mut c);
    let (value, version) = wire::open_dump(&payload);
    let mut random = Random::new();
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    // The first byte names the kind of value: others are the server's own business.
    for at in 1..value.len() {
        damaged.push(value[..at].to_vec());
        for flip in [0x01, 0x80, 0xff, 1 << random.below(8)] {
            let mut bytes = value.to_vec();
            bytes[at] ^= flip;
            damaged.push(bytes);
        }
        let mut bytes = value.to_vec();
        bytes.remove(at);
        damaged.push(bytes);
    }
    for _ in 0..3000 {
        let mut bytes = value.to_vec();
        for _ in 0..=random.below(6) {
            let at = 1 + random.below(bytes.len() as u64 - 1) as usize;
            match random.below(5) {
                0 => bytes[at] = random.next() as u8,
                1 => {
                    bytes[at] = [0, 1, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xfb, 0xfd, 0xff]
                        [random.below(10) as usize];
                }
                2 => bytes.truncate(at.max(12)),
                3 => {
                    let byte = bytes[at];
                    bytes.insert(at, byte);
                }
                _ => {
                    // A piece from elsewhere.
                    let from = 1 + random.below(value.len() as u64 - 9) as usize;
                    let end = (at + 8).min(bytes.len());
                    bytes.splice(at..end, value[from..from + 8].iter().copied());
                }
            }
        }
        damaged.push(bytes);
    }
    let began = Instant::now();
    let (mut refused, mut taken) = (0, 0);
    for part in damaged.chunks(64) {
        let commands: Vec<_> = part
            .iter()
            .enumerate()
            .map(|(i, bytes)| {
                argv![
                    "RESTORE",
                    format!("r{i}"),
                    0,
                    wire::close_dump(bytes, version),
                    "REPLACE"
                ]
            })
            .collect();
        let replies = c.pipeline(&commands);
        for (i, reply) in replies.iter().enumerate() {
            if reply.is_error() {
                refused += 1;
            } else {
                taken += 1;
                if taken % 16 == 0 {
                    exercise(&mut c, &format!("r{i}"));
                }
            }
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{refused} refused and {taken} taken in a minute"
        );
    }
    assert!(
        refused > 1000 && taken > 100,
        "{refused} refused, {taken} taken: both must come up"
    );
    // What was taken can be saved and read again as it is.
    cmd!(c, "DEL", "copy");
    let keys: Vec<String> = cmd!(c, "KEYS", "*")
        .items()
        .iter()
        .map(Value::text)
        .collect();
    let digests: Vec<String> = keys.iter().map(|key| c.digest(key)).collect();
    let kept = c.digest("good");
    cmd!(c, "DEBUG", "RELOAD").ok();
    for (key, digest) in keys.iter().zip(digests) {
        // What is over and was forgotten meanwhile may have taken its key along.
        if cmd!(c, "EXISTS", key).int() == 1 && key != "good" {
            let now = c.digest(key);
            let orders = c.stat(key, "orders").int();
            assert!(now == digest || orders < 40, "{key}: {now} after {digest}");
        }
    }
    assert_eq!(c.digest("good"), kept);
    cmd!(c, "FLUSHALL").ok();
    expect_healthy(&server);
}

#[test]
fn no_argument_of_apply_ends_the_server_and_clients_may_not_use_it() {
    let mut server = Options::new().aof().line("appendfsync no").start();
    let mut c = server.client();
    fill_every_state(&mut c, "good");
    // Every effect that made it, and one of each kind.
    let mut blobs: Vec<Vec<u8>> = wire::logged(&server)
        .into_iter()
        .filter(|command| command[0] == b"ORDER.APPLY")
        .map(|mut command| command.pop().unwrap())
        .collect();
    let fixtures = read_file(std::path::Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/effects-v1.txt"
    )));
    let unhex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal"))
            .collect()
    };
    let golden: Vec<Vec<u8>> = String::from_utf8(fixtures)
        .expect("text")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(unhex(line.split_once(' ')?.1)))
        .collect();
    assert!(golden.len() > 25 && blobs.len() > 40);
    blobs.extend(golden.iter().cloned());

    let refused = c.info_number("orderwheel", "orderwheel_apply_refused_total");
    let before = Snapshot::of(&mut c, "good");
    for version in [
        "1",
        "0",
        "2",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "",
        "x",
    ] {
        for blob in [&b""[..], b"x", &golden[0]] {
            assert!(
                cmd!(c, "ORDER.APPLY", "good", version, blob).is_error(),
                "{version}"
            );
        }
    }
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.APPLY", "good", 1, golden[0]);
    assert!(cmd!(c, "EXEC").items()[0].is_error());
    assert!(
        cmd!(
            c,
            "EVAL",
            "return redis.pcall('ORDER.APPLY', KEYS[1], 1, ARGV[1])",
            1,
            "good",
            golden[0]
        )
        .is_error()
    );
    assert!(c.info_number("orderwheel", "orderwheel_apply_refused_total") > refused);
    before.expect_same(&Snapshot::of(&mut c, "good"), "a refused APPLY");

    c.config("orderwheel.apply-from-clients", "yes");
    for version in ["0", "3", "9223372036854775808"] {
        for blob in [&b""[..], b"x", &golden[0]] {
            assert!(
                cmd!(c, "ORDER.APPLY", "good", version, blob).is_error(),
                "{version}"
            );
        }
    }
    cmd!(c, "SET", "string", "s").ok();
    assert!(
        cmd!(c, "ORDER.APPLY", "string", 1, golden[0])
            .error()
            .starts_with("WRONGTYPE")
    );
    cmd!(c, "DEL", "string");
    let mut random = Random::new();
    let mut commands = Vec::new();
    for blob in &golden {
        commands.push(argv!["ORDER.APPLY", "q", 1, blob]);
        for at in 0..blob.len() {
            commands.push(argv!["ORDER.APPLY", "cut", 1, blob[..at]]);
            let mut bytes = blob.clone();
            bytes[at] ^= 1 << random.below(8);
            commands.push(argv!["ORDER.APPLY", format!("q{}", at % 5), 1, bytes]);
        }
    }
    for i in 0..12_000_u64 {
        let bytes = match random.below(3) {
            // Noise that begins like an effect.
            0 => {
                let mut bytes: Vec<u8> =
                    (0..random.below(60)).map(|_| random.next() as u8).collect();
                if let Some(first) = bytes.first_mut() {
                    *first %= 16;
                }
                bytes
            }
            // Good effects one after another, of whatever queue, some damaged.
            n => {
                let mut bytes = Vec::new();
                for _ in 0..=random.below(4) {
                    bytes.extend_from_slice(&blobs[random.below(blobs.len() as u64) as usize]);
                }
                if n == 2 {
                    for _ in 0..=random.below(3) {
                        let at = random.below(bytes.len() as u64) as usize;
                        bytes[at] = random.next() as u8;
                    }
                }
                bytes
            }
        };
        commands.push(argv!["ORDER.APPLY", format!("q{}", i % 7), 1, bytes]);
    }
    let (mut taken, mut refused) = (0, 0);
    for part in commands.chunks(2000) {
        for reply in c.pipeline(part) {
            if reply.is_error() {
                refused += 1;
            } else {
                taken += 1;
            }
        }
        for i in 0..7 {
            exercise(&mut c, &format!("q{i}"));
        }
        cmd!(c, "DEL", "copy");
    }
    assert!(
        taken > 2000 && refused > 1000,
        "{taken} taken, {refused} refused"
    );
    before.expect_same(&Snapshot::of(&mut c, "good"), "effects for other queues");
    // All of it can be saved, loaded, and replayed.
    thread::sleep(Duration::from_millis(600));
    cmd!(c, "DEBUG", "RELOAD").ok();
    server.kill_and_restart();
    before.expect_same(
        &Snapshot::of(&mut server.client(), "good"),
        "a replay of it all",
    );
    expect_healthy(&server);
}
