//! Random arguments: whatever comes, the answer is a request or a clean error.
//! `ORDER_TEST_SEED` gives other arguments, `ORDER_TEST_STEPS` another number of them.

use super::*;

#[test]
fn no_arguments_whatever_do_harm() {
    let mut state: u64 = std::env::var("ORDER_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0x5EED_0001);
    let steps: u64 = std::env::var("ORDER_TEST_STEPS")
        .ok()
        .and_then(|steps| steps.parse().ok())
        .unwrap_or(200_000);
    let seed = state;
    let mut random = |below: usize| (mix(&mut state) % below as u64) as usize;
    let long = vec![b'9'; 70_000];
    let pool: Vec<&[u8]> = vec![
        b"EX",
        b"PX",
        b"EXAT",
        b"PXAT",
        b"NX",
        b"XX",
        b"UPSERT",
        b"GT",
        b"LT",
        b"FROM",
        b"IFREV",
        b"FENCE",
        b"STATUS",
        b"PAYLOAD",
        b"STRICT",
        b"CREATE",
        b"RESULT",
        b"KEEP",
        b"COUNT",
        b"BLOCK",
        b"ID",
        b"DELAY",
        b"DEAD",
        b"ERROR",
        b"STATE",
        b"MATCH",
        b"REENTRANT",
        b"MAX",
        b"FP",
        b"GET",
        b"SET",
        b"RESET",
        b"REASON",
        b"PAYLOADS",
        b"STATUSES",
        b"UNTRIED",
        b"SESSION",
        b"0",
        b"1",
        b"2",
        b"5",
        b"1000",
        b"100000000000",
        b"18446744073709551615",
        b"-1",
        b"",
        b"\0",
        b"dead",
        b"id",
        &long,
    ];
    let mut accepted = 0;
    for step in 0..steps {
        let verb = Verb::ALL[random(Verb::ALL.len())];
        let count = random(10);
        let args: Vec<&[u8]> = (0..count).map(|_| pool[random(pool.len())]).collect();
        match parse(verb, &args, &LIMITS) {
            Ok(_) => accepted += 1,
            Err(error) => {
                let told = error.to_string();
                let clean = told.starts_with("ERR ")
                    && told.bytes().all(|byte| (0x20..0x7f).contains(&byte));
                assert!(clean, "seed {seed} step {step}: {told}");
            }
        }
    }
    assert!(accepted > 0, "seed {seed}");
}
