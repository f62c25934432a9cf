//! Tests of the engine: a queue as a whole.

use super::*;

#[test]
fn config_sets_all_or_nothing_and_resets() {
    let all = "lease-ms=30000 lock-ms-max=600000 max-attempts=250 backoff-ms=1000 \
               backoff-ms-max=60000 keep-ms=86400000 max-leased=0 dead-max=0 claims-per-s-max=0 transitions=";
    story(&[
        (0.0, "CONFIG GET", all),
        (0.0, "CONFIG GET max-leased", "max-leased=0"),
        (0.0, "CONFIG SET max-leased 5 keep-ms 007", "done"),
        (0.0, "CONFIG GET max-leased", "max-leased=5"),
        (0.0, "CONFIG GET keep-ms", "keep-ms=7"),
        (0.0, "CONFIG SET transitions a>b", "done"),
        (0.0, "CONFIG GET transitions", "transitions=a>b"),
        (0.0, "reload", "done"),
        (0.0, "CONFIG RESET dead-max", "-"),
        (0.0, "CONFIG RESET keep-ms", "done"),
        (0.0, "CONFIG RESET keep-ms", "-"),
        (0.0, "CONFIG GET keep-ms", "keep-ms=86400000"),
        (0.0, "CONFIG GET max-leased", "max-leased=5"),
        (0.0, "CONFIG RESET", "done"),
        (0.0, "CONFIG RESET", "-"),
        (0.0, "CONFIG GET", all),
    ]);
    let mut bench = Bench::new(false);
    for (command, error) in [
        (
            "CONFIG GET nothing",
            "ERR unknown setting 'nothing' of a queue",
        ),
        ("CONFIG RESET ''", "ERR unknown setting '' of a queue"),
        (
            "CONFIG SET max-leased 5 nothing 5",
            "ERR unknown setting 'nothing' of a queue",
        ),
        (
            "CONFIG SET max-leased 5 lease-ms 0",
            "ERR value of lease-ms is out of range, must be an integer between 1 and 31536000000",
        ),
    ] {
        assert_eq!(bench.run(command), error, "{command}");
        assert!(bench.queue.is_empty(), "{command}: all or nothing");
    }
    for setting in Setting::ALL {
        let (min, max) = setting.range();
        let name = setting.name();
        let is_default = |bench: &mut Bench| {
            let value = bench.run(&format!("CONFIG GET {name}"));
            assert_eq!(value, format!("{name}={}", setting.default_value()));
        };
        for bad in [
            "''".to_owned(),
            "-1".into(),
            "+1".into(),
            "1.0".into(),
            "5s".into(),
            "yes".into(),
            (max + 1).to_string(),
            min.checked_sub(1).map_or("x".into(), |n| n.to_string()),
            u64::MAX.to_string(),
            "99999999999999999999999".into(),
        ] {
            let error = Error::SettingOutOfRange { name, min, max };
            assert_eq!(
                bench.run(&format!("CONFIG SET {name} {bad}")),
                error.to_string()
            );
            is_default(&mut bench);
        }
        for good in [min, max, u64::midpoint(min, max)] {
            assert_eq!(bench.run(&format!("CONFIG SET {name} {good}")), "done");
            let value = bench.run(&format!("CONFIG GET {name}"));
            assert_eq!(value, format!("{name}={good}"));
        }
        assert_eq!(bench.run(&format!("CONFIG RESET {name}")), "done");
        is_default(&mut bench);
    }
    assert!(bench.queue.is_empty());
    // Lists of changes of status.
    let status = "s".repeat(32);
    let many = vec!["ab>cd"; 683].join(" ");
    let mut set = |text: &str| {
        let ask = Configure::Set(vec![(&b"transitions"[..], text.as_bytes())]);
        bench.ask(&Request::Config(ask))
    };
    for good in [
        "a>b",
        "a>b b>c",
        ">a",
        "a>",
        ">",
        &format!("{status}>{status}"),
        &many[..4091],
    ] {
        assert_eq!(set(good), "done", "{good}");
    }
    for bad in [
        "",
        " ",
        "a",
        "a>b ",
        " a>b",
        "a>b  b>c",
        "a>b>c",
        "a-b",
        &format!("{status}s>a"),
        &format!("a>{status}s"),
        &many,
    ] {
        assert_eq!(set(bad), Error::BadTransitions.to_string(), "{bad}");
    }
}

#[test]
fn transitions_hold_for_the_holder_too() {
    let mut bench = Bench::new(false);
    let value: &[u8] = b"unpaid>paid unpaid>closed";
    let ask = Configure::Set(vec![(&b"transitions"[..], value)]);
    assert_eq!(bench.ask(&Request::Config(ask)), "done");
    tell(
        &mut bench,
        &[
            (
                0.0,
                "SCHEDULE a PX 100 STATUS unpaid",
                "OK missing>scheduled",
            ),
            (0.0, "LOCK a me PX 500", "OK scheduled>leased"),
            (0.0, "FINISH a FENCE $a STATUS shipped", "STATE leased"),
            (0.0, "STATUS a shipped FENCE $a", "STATE leased"),
            (0.0, "UNLOCK a $a", "OK leased>scheduled"),
            (100.0, "CLAIM you", "a#1"),
            (100.0, "ACK a $a STATUS refunded", "STATE leased"),
            (100.0, "ACK a $a STATUS closed", "OK leased>finished"),
            (100.0, "CONFIG RESET transitions", "done"),
            (100.0, "STATUS a refunded", "OK finished>finished"),
        ],
    );
}

#[test]
fn in_a_pause_locks_and_writes_go_on() {
    story(&[
        (0.0, "SCHEDULE a PX 10", "OK missing>scheduled"),
        (0.0, "RESUME", "-"),
        (0.0, "PAUSE REASON lunch", "done"),
        (0.0, "LOCK a me PX 100", "OK scheduled>leased"),
        (0.0, "UNLOCK a $a", "OK leased>scheduled"),
        (5.0, "PAUSE PX 100", "done"),
        (5.0, "SCHEDULE b PX 1", "OK missing>scheduled"),
        (50.0, "CLAIM me COUNT 9", "-"),
        (50.0, "CLAIM me ID a", "-"),
        (50.0, "pass", "-"),
        (50.0, "LOCK c me PX 100", "OK missing>reserved"),
        (50.0, "FINISH b STATUS paid", "OK expired>finished"),
        (104.999, "CLAIM me COUNT 9", "-"),
        // The second pause replaces the first, and ends by itself.
        (105.0, "CLAIM me COUNT 9", "a#1"),
        (105.0, "forget", "resumed"),
        (105.0, "RESUME", "-"),
        (105.0, "SCHEDULE d PX 1", "OK missing>scheduled"),
        (105.0, "SCHEDULE e PX 2", "OK missing>scheduled"),
        (105.0, "PAUSE", "done"),
        (110.0, "pass", "-"),
        (110.0, "RESUME", "done"),
        (110.0, "pass", "expired:d expired:e"),
        (110.0, "CLAIM me COUNT 9", "d#1 e#1"),
    ]);
}

#[test]
fn requeue_takes_the_longest_dead_first_with_no_try_counted() {
    story(&[
        (0.0, "REQUEUE", "- left:0"),
        (0.0, "CONFIG SET max-attempts 1", "done"),
        (0.0, "SCHEDULE d PXAT T-40", "OK missing>expired"),
        (0.0, "SCHEDULE c PXAT T-30", "OK missing>expired"),
        (0.0, "SCHEDULE b PXAT T-20", "OK missing>expired"),
        (0.0, "SCHEDULE a PXAT T-10", "OK missing>expired"),
        (0.0, "CLAIM me COUNT 2 PX 1000", "d#1 c#1"),
        (0.0, "CLAIM me PX 15", "b#1"),
        (0.0, "CLAIM me PX 1000", "a#1"),
        (10.0, "NACK d $d", "OK leased>dead"),
        (20.0, "pass", "dead:d lapsed:b dead:b"),
        (30.0, "NACK a $a ERROR why", "OK leased>dead"),
        (30.0, "BREAK c $c", "OK leased>dead"),
        (40.0, "REQUEUE COUNT 2", "d b left:2"),
        (40.0, "GET b", "expired -20"),
        (40.0, "RENEW b $b PX 5", "GONE expired"),
        (50.0, "REQUEUE COUNT 1", "a left:1"),
        (50.0, "GET a", "expired -10 error:why"),
        (50.0, "pass", "dead:c expired:d expired:b expired:a"),
        (50.0, "REQUEUE", "c left:0"),
        (50.0, "REQUEUE", "- left:0"),
        (60.0, "CLAIM me COUNT 9", "d#1 b#1 a#1 c#1"),
    ]);
}

#[test]
fn purge_removes_what_is_in_the_state_and_no_lease() {
    story(&[
        (
            0.0,
            "SCHEDULE s1 PX 30 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (
            0.0,
            "SCHEDULE s2 PX 20 STATUS unpaid",
            "OK missing>scheduled",
        ),
        (0.0, "SCHEDULE s3 PX 10 STATUS paid", "OK missing>scheduled"),
        (0.0, "LOCK s1 me PX 1000", "OK scheduled>leased"),
        (0.0, "LOCK r1 me PX 1000", "OK missing>reserved"),
        (0.0, "FINISH f1 CREATE KEEP 9000", "OK missing>finished"),
        (0.0, "FINISH f2 CREATE KEEP 8000", "OK missing>finished"),
        (0.0, "SCHEDULE e1 PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE e2 PX 0", "OK missing>expired"),
        (0.0, "CLAIM me ID e2", "e2#1"),
        (0.0, "PURGE STATE leased", "- left:2"),
        (0.0, "PURGE STATE reserved", "- left:1"),
        (0.0, "PURGE STATE leased STATUS unpaid", "- left:2"),
        (0.0, "PURGE STATE dead", "- left:0"),
        (0.0, "PURGE STATE scheduled STATUS unpaid", "s2 left:1"),
        (0.0, "PURGE STATE scheduled MATCH s2*", "- left:1"),
        (0.0, "PURGE STATE scheduled", "s3 left:0"),
        (0.0, "PURGE STATE finished COUNT 1", "f2 left:1"),
        (0.0, "PURGE STATE finished MATCH f*", "f1 left:0"),
        (0.0, "PURGE STATE expired", "e1 left:0"),
        (0.0, "SCAN 0", "0 e2:leased r1:reserved s1:leased"),
        (1.0, "NACK e2 $e2 DELAY 100", "OK leased>retrying"),
        (1.0, "PURGE STATE retrying", "e2 left:0"),
        (1.0, "GET s1", "leased +30 status:unpaid owner:me lease:999"),
        (1.0, "ACK e2 $e2", "MISSING missing"),
    ]);
    // The longest dead and the earliest deadline go first.
    story(&[
        (0.0, "SCHEDULE a PX 0", "OK missing>expired"),
        (0.0, "SCHEDULE b PX 0", "OK missing>expired"),
        (0.0, "CLAIM me COUNT 2", "a#1 b#1"),
        (0.0, "NACK b $b DEAD", "OK leased>dead"),
        (0.0, "NACK a $a DEAD", "OK leased>dead"),
        (0.0, "PURGE STATE dead COUNT 1", "b left:1"),
        (0.0, "PURGE STATE dead COUNT 1", "a left:0"),
        (0.0, "SCHEDULE a PX 300", "OK missing>scheduled"),
        (0.0, "SCHEDULE b PX 200", "OK missing>scheduled"),
        (0.0, "SCHEDULE c PX 100", "OK missing>scheduled"),
        (0.0, "PURGE STATE scheduled COUNT 2", "c b left:1"),
    ]);
}

#[test]
fn purge_called_again_and_again_meets_every_order() {
    for (filter, count, wanted) in [
        ("STATUS s1", 7, 1000),
        ("MATCH *5*", 3, 813),
        ("STATUS s2 MATCH *00", 1, 10),
        ("STATUS nobody", 5, 0),
        ("", 1000, 3000),
    ] {
        let mut bench = Bench::new(false);
        bench.compares = false;
        for n in 0..3000 {
            bench.run(&format!("SCHEDULE {n} PX 0 STATUS s{}", n % 3));
        }
        bench.run("LOCK reserved me PX 5000");
        let mut gone = 0;
        let mut calls = 0;
        // Each call removes what it may, or looks at ten times as many.
        let enough = 3002_usize.div_ceil(10 * count) + wanted / count + 2;
        while calls < enough {
            let said = bench.run(&format!("PURGE STATE expired {filter} COUNT {count}"));
            let ids: Vec<&str> = said
                .split(' ')
                .filter(|id| id.as_bytes()[0].is_ascii_digit())
                .collect();
            assert!(ids.len() <= count);
            gone += ids.len();
            calls += 1;
            // Others come meanwhile.
            bench.run(&format!("SCHEDULE new{calls} PX 60000 STATUS s1"));
        }
        assert_eq!(gone, wanted, "{filter}");
        assert_eq!(bench.state(b"reserved"), State::Reserved);
        let kept = bench.stat("expired");
        assert_eq!(kept, 3000 - wanted as i64, "{filter}");
        assert_eq!(bench.stat("scheduled"), calls as i64);
    }
}
