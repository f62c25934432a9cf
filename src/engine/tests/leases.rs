//! Tests of the engine: leases.

use super::*;

#[test]
fn a_lease_ends_at_its_millisecond() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (10.0, "CLAIM me PX 1000", "a#1"),
        (10.0, "GET a", "leased +0 #1 owner:me lease:1000"),
        (1009.999, "GET a", "leased +0 #1 owner:me lease:1"),
        (1009.999, "CLAIM you", "-"),
        (1009.999, "FINISH a", "LEASED leased"),
        (1010.0, "GET a", "expired +0 #1 owner:me"),
        (1010.0, "CLAIM you", "a#2"),
        (1010.0, "ACK a $a.1", "STALE leased"),
        (1010.0, "NACK a $a.1", "STALE leased"),
        (1010.0, "RENEW a $a.1 PX 1000", "STALE leased"),
        (1010.0, "ACK a $a", "OK leased>finished"),
    ]);
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (10.5, "CLAIM me PX 1000", "a#1"),
        (1010.999, "CLAIM you", "-"),
        (1011.0, "CLAIM you", "a#2"),
    ]);
}

#[test]
fn a_renewal_lengthens_lt_shortens_and_none_passes_the_cap() {
    let mut bench = Bench::new(true);
    bench.defaults.lease_ms_max = 3000;
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "CLAIM me PX 1000", "a#1"),
            (500.0, "RENEW a $a PX 200", "OK 500"),
            (500.0, "RENEW a $a PX 1000", "OK 1000"),
            (500.0, "RENEW a $a PX 2000 LT", "OK 1000"),
            (500.0, "RENEW a $a PX 400 LT", "OK 400"),
            (899.0, "RENEW a $a PX 3000", "OK 2101"),
            (2999.0, "RENEW a $a PX 3000", "OK 1"),
            (3000.0, "RENEW a $a PX 3000", "GONE expired"),
            (3000.0, "CLAIM you", "a#2"),
            (3000.0, "RENEW a $a.1 PX 3000", "STALE leased"),
        ],
    );
}

#[test]
fn a_claim_without_a_lease_takes_the_queues_and_never_more_than_the_servers_most() {
    let mut bench = Bench::new(false);
    bench.defaults.lease_ms_max = 20_000;
    tell(
        &mut bench,
        &[
            (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
            (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
            (0.0, "CLAIM me", "a#1"),
            (0.0, "GET a", "leased +0 #1 owner:me lease:20000"),
            (0.0, "CONFIG SET lease-ms 700", "done"),
            (0.0, "CLAIM me", "b#1"),
            (0.0, "GET b", "leased +0 #1 owner:me lease:700"),
        ],
    );
}

#[test]
fn the_last_fence_is_accepted_after_the_lapse_until_somebody_else_writes() {
    let start: [Row<'_>; 3] = [
        (0.0, "SCHEDULE a PX 0 STATUS unpaid", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "GET a", "expired +0 status:unpaid #1 owner:me"),
    ];
    for (command, said) in [
        ("ACK a $a STATUS closed", "OK expired>finished"),
        ("FINISH a FENCE $a", "OK expired>finished"),
        ("NACK a $a DELAY 100", "OK expired>retrying"),
        ("SCHEDULE a PX 100 FENCE $a", "OK expired>scheduled"),
        ("STATUS a closing FENCE $a", "OK expired>expired"),
    ] {
        let mut rows = start.to_vec();
        rows.push((5000.0, command, said));
        story(&rows);
    }
    let mut rows = start.to_vec();
    rows.extend([
        (5000.0, "SCHEDULE a PX 0 XX", "OK expired>expired"),
        (5000.0, "ACK a $a", "STALE expired"),
        (5000.0, "FINISH a FENCE $a", "STALE expired"),
        (5000.0, "FINISH a", "OK expired>finished"),
        (5000.0, "ACK a $a", "FINISHED finished"),
    ]);
    story(&rows);
}

/// A STATUS of somebody else, after the lapse, is a write too. Once it was not taken
/// for one, and the late holder was still believed.
#[test]
fn a_status_set_by_somebody_else_ends_the_last_grant() {
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "STATUS a disputed", "OK expired>expired"),
        (5000.0, "ACK a $a", "STALE expired"),
        (5000.0, "CLAIM other", "a#2"),
    ]);
    // The holder's own write, by its fence, does not.
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "STATUS a checking FENCE $a", "OK expired>expired"),
        (5000.0, "ACK a $a", "OK expired>finished"),
    ]);
    // The same for a lock, while the deadline is ahead.
    story(&[
        (0.0, "SCHEDULE a PX 9000", "OK missing>scheduled"),
        (0.0, "LOCK a me PX 1000", "OK scheduled>leased"),
        (5000.0, "STATUS a disputed", "OK scheduled>scheduled"),
        (5000.0, "FINISH a FENCE $a", "STALE scheduled"),
        (5000.0, "NEXT", "a+9000"),
        (9000.0, "CLAIM other", "a#1"),
    ]);
    // An order that is dead by its lapse stays so.
    story(&[
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (5000.0, "STATUS a disputed", "OK dead>dead"),
        (5000.0, "ACK a $a", "STALE dead"),
        (5000.0, "CLAIM other", "-"),
    ]);
}

#[test]
fn max_leased_limits_live_claims_and_a_lapse_makes_room() {
    story(&[
        (0.0, "CONFIG SET max-leased 2", "done"),
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE c PX 0", "OK missing>expired"),
        (0.0, "LOCK d me PX 100000", "OK missing>reserved"),
        (0.0, "CLAIM me COUNT 9 PX 1000", "a#1 b#1"),
        (0.0, "CLAIM me COUNT 9", "-"),
        (0.0, "CLAIM me ID c", "-"),
        (0.0, "claimable", "false"),
        (1.0, "NACK a $a DELAY 100000", "OK leased>retrying"),
        (1.0, "claimable", "true"),
        (1.0, "CLAIM me COUNT 9 PX 5000", "c#1"),
        (999.999, "CLAIM me COUNT 9", "-"),
        (1000.0, "CLAIM me COUNT 9", "b#2"),
        (1000.0, "CONFIG RESET max-leased", "done"),
        (1000.0, "SCHEDULE e PX 0", "OK missing>expired"),
        (1000.0, "CLAIM me ID e", "e#1"),
    ]);
}

#[test]
fn a_claim_hands_out_one_mebibyte_of_payload_at_most_but_always_one_order() {
    let mut bench = Bench::new(false);
    let schedule = |bench: &mut Bench, id: &str, bytes: usize| {
        let payload = if bytes == 0 {
            "''".into()
        } else {
            "p".repeat(bytes)
        };
        assert_eq!(
            bench.run(&format!("SCHEDULE {id} PX 0 PAYLOAD {payload}")),
            "OK missing>expired"
        );
    };
    for (id, bytes) in [
        ("a", CLAIM_BYTES_MAX / 2),
        ("b", CLAIM_BYTES_MAX / 2),
        ("c", 1),
        ("d", CLAIM_BYTES_MAX),
        ("e", 3 * CLAIM_BYTES_MAX),
        ("f", 0),
    ] {
        schedule(&mut bench, id, bytes);
    }
    assert_eq!(bench.run("CLAIM me COUNT 9"), "a#1 b#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "c#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "d#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "e#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "f#1");
    assert_eq!(bench.run("CLAIM me COUNT 9"), "-");
}
