//! Forged queues are refused, or taken and carried through everything.

use super::carrying::{all_of, carry_through, two};
use super::forging::{everything, real};
use super::{HOUR, Taken};
use crate::support::states::expect_no_fault;
use crate::support::wire::{self, Saved};
use crate::support::{Client, Server, argv, cmd};

#[test]
fn a_forged_dump_is_refused_or_carried_through_everything() {
    let (mut primary, replica) = two();
    let mut c = primary.client();
    let saved = real(&mut c);
    let now = c.time_ms();
    let forged = everything(now, &saved);
    assert!(forged.len() > 2000, "{}", forged.len());

    // What is refused is tried again over a queue that is there.
    cmd!(c, "ORDER.SCHEDULE", "there", "1", "PX", HOUR)
        .order()
        .expect("OK");
    let there = c.digest("there");
    let mut taken = Taken::new();
    let mut commands = Vec::new();
    for (i, queue) in forged.iter().enumerate() {
        let payload = saved.close(queue.version, &queue.blob);
        commands.push(argv!["RESTORE", format!("q{i:05}"), 0, payload]);
    }
    let mut again = Vec::new();
    for (i, reply) in all_of(&mut c, &commands).iter().enumerate() {
        if reply.is_error() {
            assert!(reply.error().contains("Bad data format"), "{reply:?}");
            let mut command = commands[i].clone();
            command[1] = b"there".to_vec();
            command.push(b"REPLACE".to_vec());
            again.push(command);
        } else {
            taken.insert(format!("q{i:05}"), forged[i].what.clone());
        }
    }
    assert!(taken.len() > 500 && again.len() > 1000, "{}", taken.len());
    for reply in all_of(&mut c, &again) {
        assert!(reply.error().contains("Bad data format"), "{reply:?}");
    }
    assert_eq!(
        c.digest("there"),
        there,
        "a refused RESTORE changes nothing"
    );
    let keys = cmd!(c, "KEYS", "q*");
    for key in keys.items() {
        assert!(taken.contains_key(&key.text()), "{key:?} was refused");
    }
    for queue in &forged {
        let plain = !queue.what.contains("number") && queue.what.starts_with("version");
        if plain && !queue.what.contains(" is ") {
            let is_taken = taken.values().any(|what| *what == queue.what);
            assert!(is_taken, "{} is as it should be", queue.what);
        }
    }
    carry_through(&mut primary, &replica, &taken, false);
}

#[test]
fn a_forged_effect_is_refused_or_carried_through_everything() {
    let (mut primary, replica) = two();
    let mut c = primary.client();
    let saved = real(&mut c);
    let now = c.time_ms();
    let forged = everything(now, &saved);
    c.config("orderwheel.apply-from-clients", "yes");
    let commands: Vec<_> = forged
        .iter()
        .enumerate()
        .map(|(i, queue)| argv!["ORDER.APPLY", format!("q{i:05}"), queue.version, queue.blob])
        .collect();
    let mut taken = Taken::new();
    for (i, reply) in all_of(&mut c, &commands).iter().enumerate() {
        if !reply.is_error() {
            taken.insert(format!("q{i:05}"), forged[i].what.clone());
        }
    }
    assert!(taken.len() > 500, "{}", taken.len());
    let refused = forged.len() - taken.len();
    assert!(refused > 1000, "{refused}");
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_apply_refused_total"),
        refused as i64
    );
    c.config("orderwheel.apply-from-clients", "no");
    let keys = cmd!(c, "KEYS", "*");
    for key in keys.items() {
        assert!(taken.contains_key(&key.text()), "{key:?} was refused");
    }
    carry_through(&mut primary, &replica, &taken, true);
}

/// A queue with these settings, and the payload in which their texts are others.
#[track_caller]
fn with_settings(c: &mut Client, key: &str, settings: &[(&str, u64, u64)]) -> Vec<u8> {
    c.config("rdbcompression", "no");
    cmd!(c, "ORDER.SCHEDULE", key, "1", "PX", 0)
        .order()
        .expect("OK");
    for (name, value, _) in settings {
        cmd!(c, "ORDER.CONFIG", key, "SET", name, value);
    }
    let saved = Saved::open(cmd!(c, "DUMP", key).bytes());
    let mut blob = saved.chunks.concat();
    for (name, value, other) in settings {
        let kept = wire::configure(name.as_bytes(), value.to_string().as_bytes());
        let other = wire::configure(name.as_bytes(), other.to_string().as_bytes());
        let at = blob
            .windows(kept.len())
            .position(|window| window == kept)
            .expect("the setting is saved");
        blob.splice(at..at + kept.len(), other);
    }
    saved.close(saved.version, &blob)
}

#[test]
fn settings_that_nobody_could_set_are_refused_in_a_dump() {
    let server = Server::plain();
    let mut c = server.client();
    for (i, settings) in [
        &[
            ("backoff-ms", 1000, u64::MAX),
            ("backoff-ms-max", 2000, u64::MAX),
        ][..],
        &[("keep-ms", 86_400_000, 281_474_976_710_654)],
    ]
    .into_iter()
    .enumerate()
    {
        let payload = with_settings(&mut c, &format!("good{i}"), settings);
        let reply = cmd!(c, "RESTORE", "forged", 0, payload);
        if !reply.is_error() {
            // What the server died of, to tell what is wrong.
            let row = cmd!(c, "ORDER.CLAIM", "forged", "me").claims().remove(0);
            cmd!(c, "ORDER.NACK", "forged", "1", row.fence);
            cmd!(c, "DEBUG", "RELOAD").ok();
        }
        assert!(reply.error().contains("Bad data format"), "{reply:?}");
        assert_eq!(cmd!(c, "EXISTS", "forged").int(), 0);
    }
    cmd!(c, "DEBUG", "RELOAD").ok();
    expect_no_fault(&server);
}
