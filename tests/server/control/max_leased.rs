//! The setting `max-leased`: when a claim ends the next one gets in.

use super::{LONG, QUIET, claimer, due};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, Server, argv, cmd};

#[test]
fn max_leased_lets_the_next_one_in_when_a_claim_ends() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-leased", 2).ok();
    for i in 0..8 {
        due(&mut c, "q", &format!("{i}"));
    }
    let claim = |c: &mut Client, lease: u64| {
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10, "PX", lease).claims()
    };
    let rows = claim(&mut c, LONG);
    assert_eq!(rows.len(), 2, "no more than that at once");
    assert_eq!(claim(&mut c, LONG), []);
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "5").claims(),
        [],
        "by id neither"
    );
    // Locks are not claims.
    cmd!(c, "ORDER.LOCK", "q", "locked", "me", "PX", LONG)
        .lease()
        .expect("OK");
    let ends: [(&str, Vec<Vec<u8>>); 5] = [
        (
            "ACK",
            argv!["ORDER.ACK", "q", rows[0].id_text(), rows[0].fence],
        ),
        (
            "NACK",
            argv![
                "ORDER.NACK",
                "q",
                rows[1].id_text(),
                rows[1].fence,
                "DELAY",
                LONG
            ],
        ),
        ("UNLOCK", vec![]),
        ("BREAK", vec![]),
        ("FINISH", vec![]),
    ];
    let mut held: Vec<(String, u64)> = Vec::new();
    for (way, mut words) in ends {
        let mut waits = claimer(&server, "q");
        assert_eq!(waits.read_within(QUIET), None, "{way}: full");
        if words.is_empty() {
            let (id, fence) = held.remove(0);
            words = match way {
                "UNLOCK" => argv!["ORDER.UNLOCK", "q", id, fence],
                "BREAK" => argv!["ORDER.BREAK", "q", id],
                _ => argv!["ORDER.FINISH", "q", id, "FENCE", fence],
            };
        }
        assert_eq!(c.run(&words).items()[0].text(), "OK", "{way}");
        let row = waits.read().claims().remove(0);
        held.push((row.id_text(), row.fence));
        assert_eq!(c.stat("q", "live_claims").int(), 2, "{way}");
    }
    // By lapse, and when the limit is raised.
    let mut waits = claimer(&server, "q");
    let (id, fence) = held.remove(0);
    cmd!(c, "ORDER.RENEW", "q", id, fence, "PX", 100, "LT")
        .lease()
        .expect("OK");
    waits.read().claims().remove(0);
    let mut waits = claimer(&server, "q");
    assert_eq!(waits.read_within(QUIET), None);
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-leased", 3).ok();
    waits.read().claims().remove(0);
    let mut waits = claimer(&server, "q");
    assert_eq!(waits.read_within(QUIET), None);
    cmd!(c, "ORDER.CONFIG", "q", "RESET").ok();
    waits.read().claims().remove(0);
    expect_healthy(&server);
}

#[test]
fn max_leased_of_the_server_wakes_too() {
    let server = Options::new().set("max-leased", 1).start();
    let mut c = server.client();
    for i in 0..3 {
        due(&mut c, "q", &format!("{i}"));
    }
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10, "PX", LONG)
            .claims()
            .len(),
        1
    );
    let mut waits = claimer(&server, "q");
    assert_eq!(waits.read_within(QUIET), None);
    c.config("orderwheel.max-leased", "2");
    assert_eq!(waits.read().claims().len(), 1);
}
