//! Ids, statuses and payloads are plain bytes, also awkward ones.

use std::time::Duration;

use super::assert_clear;
use crate::support::{Server, args, argv, cmd};

/// Byte strings that have each broken something somewhere.
fn awkward() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        &b"\0"[..],
        b"a\0b",
        b"\r\n",
        b"a\r\n+OK\r\n",
        b"%s%n%d%x",
        "\u{100}\u{0}".as_bytes(),
        "\u{100}".as_bytes(),
        "Lieferung \u{1f69a}".as_bytes(),
        b"{}",
        b"{a}b",
        b"\xff\xfe\xfd",
        b"\xc3\x28",
        b" ",
        b"-1",
        b"PX",
        b"*",
        b"[",
        b"\\",
        b"\"'\n\t",
        b"missing",
        b"o:p:q",
    ]
    .iter()
    .map(|bytes| bytes.to_vec())
    .collect();
    all.push((0..=255).collect::<Vec<u8>>()[1..].to_vec());
    all.push(vec![b'x'; 255]);
    all.push(vec![0; 255]);
    all
}

#[test]
fn ids_statuses_and_payloads_are_plain_bytes() {
    let server = Server::plain();
    let mut c = server.client3();
    for (i, id) in awkward().iter().enumerate() {
        let status = &id[..id.len().min(32)];
        let owner = &id[..id.len().min(128)];
        let q = format!("q{i}");
        let made = cmd!(
            c,
            "ORDER.SCHEDULE",
            &q,
            id,
            "PX",
            0,
            "STATUS",
            status,
            "PAYLOAD",
            id
        )
        .order()
        .expect("OK");
        assert_eq!(made.status.as_deref(), Some(status));
        cmd!(c, "ORDER.SCHEDULE", &q, id, "PX", 0)
            .order()
            .expect("EXISTS");
        let order = cmd!(c, "ORDER.GET", &q, id).get().expect("there");
        assert_eq!(order.field("id").bytes(), &id[..]);
        assert_eq!(
            (
                order.field("status").bytes(),
                order.field("payload").bytes()
            ),
            (status, &id[..])
        );
        let scan = cmd!(c, "ORDER.SCAN", &q, 0, "STATUS", status);
        assert_eq!(scan.items()[1].items()[0].items()[0].bytes(), &id[..]);
        let rows = cmd!(c, "ORDER.CLAIM", &q, owner).claims();
        let row = &rows[0];
        assert_eq!(
            (&row.id, row.status.as_slice(), row.payload.as_ref()),
            (id, status, Some(id))
        );
        assert_eq!(
            cmd!(c, "ORDER.GET", &q, id)
                .get()
                .unwrap()
                .field("owner")
                .bytes(),
            owner
        );
        cmd!(c, "ORDER.NACK", &q, id, row.fence, "DELAY", 0, "ERROR", id)
            .order()
            .expect("OK");
        assert_eq!(
            cmd!(c, "ORDER.GET", &q, id)
                .get()
                .unwrap()
                .field("error")
                .bytes(),
            &id[..]
        );
        let fence = cmd!(c, "ORDER.CLAIM", &q, owner, "ID", id).claims()[0].fence;
        let done = cmd!(c, "ORDER.ACK", &q, id, fence, "FROM", status, "RESULT", id)
            .order()
            .expect("OK");
        assert_eq!(done.result.as_ref(), Some(id));
        // The key may be such a string as well.
        cmd!(c, "ORDER.SCHEDULE", id, id, "PX", 60_000)
            .order()
            .expect("OK");
        assert_eq!(
            cmd!(c, "ORDER.NEXT", id).items()[0].items()[0].bytes(),
            &id[..]
        );
        assert_eq!(cmd!(c, "DEL", id).int(), 1);
    }
    // Different bytes are different orders.
    let all = awkward();
    for id in &all {
        cmd!(c, "ORDER.SCHEDULE", "all", id, "PX", 60_000, "PAYLOAD", id)
            .order()
            .expect("OK");
    }
    for id in &all {
        assert_eq!(
            cmd!(c, "ORDER.GET", "all", id)
                .get()
                .unwrap()
                .field("payload")
                .bytes(),
            &id[..]
        );
    }
    assert_eq!(c.stat("all", "orders").int() as usize, all.len());
}

#[test]
fn awkward_bytes_survive_events_errors_and_waiting() {
    let server = Server::plain();
    let mut c = server.client();
    c.config("notify-keyspace-events", "KEA");
    let mut listener = server.listener();
    for id in awkward() {
        let mut waiter = server.client();
        waiter.send(&args!["ORDER.CLAIM", &id, "me", "BLOCK", 20_000]);
        // Misuse with these bytes wherever they fit, while it waits.
        for words in [
            argv!["ORDER.SCHEDULE", &id, &id, &id, &id],
            argv!["ORDER.SCHEDULE", &id, &id, "PX", 5, &id],
            argv!["ORDER.SCHEDULE", &id, &id, "PX", &id],
            argv!["ORDER.SCAN", &id, 0, "STATE", &id],
            argv!["ORDER.CLAIM", &id, "me", "COUNT", &id],
            argv!["ORDER.MACK", &id, 1, &id, &id],
        ] {
            let reply = c.run(&words);
            // "-1" and the like may be no error as a value elsewhere; here all are.
            assert_clear(reply.error(), &format!("{}", id.escape_ascii()));
        }
        cmd!(c, "ORDER.SCHEDULE", &id, &id, "PX", 0)
            .order()
            .expect("OK");
        assert_eq!(waiter.read().claims()[0].id, id);
        let mut key = id.clone();
        key.push(b':');
        key.extend_from_slice(&id);
        let mut seen = false;
        while let Some(message) = listener.message(Duration::from_secs(20)) {
            if message.channel == "__keyevent@0__:order.claim" {
                assert_eq!(message.payload, key, "the event names queue and order");
                seen = true;
                break;
            }
        }
        assert!(seen, "no order.claim for {}", id.escape_ascii());
        cmd!(c, "DEL", &id);
    }
}
