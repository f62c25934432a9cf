//! Ways out of being due: orders that were claimable, and then the clock is set back.

use super::life::Life;
use crate::engine::effect::{Bytes, Effect};
use crate::request::{Again, Break, Guard, Mode, Nack, Purge, Schedule, Unlock, When};
use crate::words::state::State;
use crate::words::time::WallMs;

/// A way for order `a` to become claimable: its name, and what is done.
type Way = (&'static str, fn(&mut Life));

/// Lets `ms` milliseconds pass.
fn pass(life: &mut Life, ms: u64) {
    life.wall_us += ms * 1000;
    life.mono_us += ms * 1000;
}

/// An order that is due, claimed for 50 ms.
fn claimed(life: &mut Life) -> u64 {
    let ask = Schedule {
        id: b"a",
        when: When::In(0),
        mode: Mode::Create,
        only: None,
        guard: Guard::default(),
        status: None,
        payload: None,
    };
    life.ask(|queue, env| queue.decide_schedule(env, &ask));
    assert_eq!(life.claim(1, None), [b"a".to_vec()]);
    life.fence(b"a")
}

/// Hands an order back, to be tried again in `ms`.
fn hand_back(life: &mut Life, ms: u64) {
    let fence = claimed(life);
    let ask = Nack {
        id: b"a",
        fence,
        again: Again::Delay(ms),
        error: None,
        untried: false,
    };
    life.ask(|queue, env| queue.decide_nack(env, &ask));
}

/// Every way in which an order becomes claimable but by its deadline; and then it is
/// not due any more.
#[test]
fn an_order_that_is_not_due_any_more_stands_where_its_state_says() {
    let ways: [Way; 6] = [
        ("the end of a lease", |life| {
            claimed(life);
            pass(life, 4_000_000);
            assert!(life.queue.advance(&life.now(), &mut || true));
        }),
        ("the end of a retry wait", |life| {
            hand_back(life, 40);
            pass(life, 40);
            assert!(life.queue.advance(&life.now(), &mut || true));
        }),
        ("the end of a retry wait, after the step", |life| {
            hand_back(life, 400);
        }),
        ("NACK DELAY 0", |life| hand_back(life, 0)),
        ("BREAK", |life| {
            claimed(life);
            let ask = Break {
                id: b"a",
                fence: None,
            };
            life.ask(|queue, env| queue.decide_break(env, &ask));
        }),
        ("UNLOCK", |life| {
            let fence = claimed(life);
            let ask = Unlock { id: b"a", fence };
            life.ask(|queue, env| queue.decide_unlock(env, &ask));
        }),
    ];
    for (name, way) in ways {
        let mut life = Life::new(1);
        way(&mut life);
        life.wall_us -= 5_000_000_000;
        pass(&mut life, 1_000);
        let now = life.now();
        assert!(life.queue.advance(&now, &mut || true), "{name}");
        let state = life.queue.view(&now, b"a").map(|view| view.state);
        assert_eq!(state, Some(State::Scheduled), "{name}");
        assert_eq!(life.queue.count(&now, State::Scheduled), 1, "{name}");
        assert_eq!(life.queue.count(&now, State::Expired), 0, "{name}");
        assert_eq!(life.queue.next(&now, 9).len(), 1, "{name}");
        life.agrees();
    }
}

/// Five hundred orders, more than a step of `advance` looks at: some drawn, some
/// handed back, announced or not. The clock goes back and forth while `advance` is
/// given one step at a time and commands take orders from under it.
#[test]
fn a_walk_that_is_cut_short_finds_all_that_is_not_due_any_more() {
    for seed in 1..=40 {
        let mut life = Life::new(seed);
        let ids: Vec<Vec<u8>> = (0..500).map(|n| format!("o{n}").into_bytes()).collect();
        let start_us = life.wall_us;
        for id in &ids {
            let ask = Schedule {
                id,
                when: When::At(WallMs(life.wall_us / 1000 + life.dice.below(2_000))),
                mode: Mode::Create,
                only: None,
                guard: Guard::default(),
                status: None,
                payload: None,
            };
            life.ask(|queue, env| queue.decide_schedule(env, &ask));
        }
        pass(&mut life, 2_000);
        for _ in 0..3 {
            let count = 1 + life.dice.below(60) as u32;
            for id in life.claim(count, None) {
                let ask = Break {
                    id: &id,
                    fence: None,
                };
                life.ask(|queue, env| queue.decide_break(env, &ask));
            }
            let (now, max) = (life.now(), life.dice.below(150) as usize);
            life.queue.announce(&now, max, &mut Vec::new());
        }
        for _ in 0..12 {
            let wall_us = start_us + life.dice.below(2_000_000);
            if life.dice.chance(400) {
                life.wall_us = wall_us;
            }
            for _ in 0..life.dice.below(4) {
                let (now, mut once) = (life.now(), true);
                life.queue
                    .advance(&now, &mut || std::mem::replace(&mut once, false));
            }
            for _ in 0..life.dice.below(30) {
                let id = &ids[life.dice.below(500) as usize];
                let ask = Purge {
                    state: State::Scheduled,
                    status: None,
                    pattern: None,
                    count: 1,
                };
                if life.dice.chance(30) {
                    let swept = life.queue.decide_purge(&life.now(), &ask, &|_| true);
                    if let Some(effect) = swept.effect {
                        life.carry(&effect);
                    }
                } else {
                    life.carry_if_there(&Effect::Forget {
                        ids: vec![Bytes::of(id)],
                    });
                }
            }
            let (now, max) = (life.now(), life.dice.below(20) as usize);
            life.queue.announce(&now, max, &mut Vec::new());
        }
        let now = life.now();
        assert!(life.queue.advance(&now, &mut || true));
        life.queue.check();
        for state in [State::Scheduled, State::Expired] {
            let met = ids.iter().filter(|id| {
                life.queue
                    .view(&now, id)
                    .is_some_and(|view| view.state == state)
            });
            let count = met.count() as u64;
            assert_eq!(life.queue.count(&now, state), count, "{seed}: {state:?}");
        }
    }
}
