//! MSCHEDULE, MFINISH, MACK, MNACK and MRENEW.

use super::super::world::World;
use super::Asked;
use crate::request::{
    Ack, Again, Batch, Direction, Fenced, Finish, Mode, Nack, Renew, Schedule, Timed, When,
};
use crate::words::time::WallMs;

/// Id, fence and status of an order.
type Owned = (Vec<u8>, u64, Option<Vec<u8>>);

impl World {
    /// One of the five.
    pub(in crate::engine::model) fn batch(&mut self) {
        // More than are looked up ahead at a time, now and then.
        let count = self.dice.pick(&[1, 2, 2, 3, 5, 10, 70]);
        let leases = self.dice.chance(600);
        let mut numbers: Vec<u32> = Vec::new();
        for _ in 0..count {
            let twice = !numbers.is_empty() && self.dice.chance(150);
            let n = if twice {
                self.dice.pick(&numbers)
            } else if leases {
                self.granted_id()
            } else {
                self.any_id()
            };
            if numbers.contains(&n) {
                self.count("twice in a batch");
            }
            numbers.push(n);
        }
        match (leases, self.dice.below(6)) {
            (false, 0..=3) => self.mschedule(&numbers),
            (false, _) => self.mfinish(&numbers),
            (true, 0 | 1) => self.mack(&numbers),
            (true, 2 | 3) => self.mnack(&numbers),
            (true, _) => self.mrenew(&numbers),
        }
    }

    /// Ids of orders.
    fn ids_of(&self, numbers: &[u32]) -> Vec<Vec<u8>> {
        let id = |n: &u32| self.ids[*n as usize].clone();
        numbers.iter().map(id).collect()
    }

    /// The first order's FROM, mostly none.
    fn asked_of(&mut self, numbers: &[u32]) -> Asked {
        Asked {
            from: self.guard(numbers[0]).from,
            ..Asked::default()
        }
    }

    /// MSCHEDULE.
    fn mschedule(&mut self, numbers: &[u32]) {
        let (wall, ids) = (self.wall(), self.ids_of(numbers));
        let (has_payloads, at) = (self.dice.chance(400), self.dice.chance(400));
        let rest: Vec<(When, Vec<u8>)> = numbers
            .iter()
            .map(|_| {
                let when = if at {
                    When::At(WallMs((wall + 50).saturating_sub(self.dice.below(100))))
                } else {
                    When::In(self.dice.pick(&[0, 1, 3, 40, 90, 100_000]))
                };
                (when, self.maybe_text().unwrap_or_default())
            })
            .collect();
        let mode = self
            .dice
            .pick(&[Mode::Create, Mode::Create, Mode::Move, Mode::Upsert]);
        let (mut only, mut asked) = (None, Asked::default());
        if mode != Mode::Create {
            asked = self.asked_of(numbers);
            let earlier = Some(Direction::Earlier);
            only = self
                .dice
                .pick(&[None, None, Some(Direction::Later), earlier]);
        }
        let status = self.maybe_status();
        let orders: Vec<Timed<'_>> = ids
            .iter()
            .zip(&rest)
            .map(|(id, (when, payload))| Timed {
                id,
                when: *when,
                payload: has_payloads.then_some(payload),
            })
            .collect();
        let each = Schedule {
            id: orders[0].id,
            when: orders[0].when,
            mode,
            only,
            guard: asked.guard(),
            status: status.as_deref(),
            payload: orders[0].payload,
        };
        self.compare_mschedule(numbers, &Batch { each, orders });
        self.count("mschedule");
    }

    /// MFINISH.
    fn mfinish(&mut self, numbers: &[u32]) {
        let ids = self.ids_of(numbers);
        let (strict, create) = (self.dice.chance(200), self.dice.chance(200));
        let (asked, status) = (self.asked_of(numbers), self.maybe_status());
        let keep_ms = self.dice.pick(&[None, Some(0), Some(5), Some(300)]);
        let each = Finish {
            id: b"",
            strict,
            create,
            guard: asked.guard(),
            status: status.as_deref(),
            result: None,
            keep_ms,
        };
        let orders = ids.iter().map(Vec::as_slice).collect();
        self.compare_mfinish(numbers, &Batch { each, orders });
        self.count("mfinish");
    }

    /// Ids, fences and statuses, as a worker would have them before the first is done.
    fn with_fences(&mut self, numbers: &[u32], has_statuses: bool) -> Vec<Owned> {
        let one = |n: &u32| {
            let status = has_statuses.then(|| self.status());
            (self.ids[*n as usize].clone(), self.fence(*n), status)
        };
        numbers.iter().map(one).collect()
    }

    /// MACK.
    fn mack(&mut self, numbers: &[u32]) {
        let has_statuses = self.dice.chance(400);
        let owned = self.with_fences(numbers, has_statuses);
        let asked = self.asked_of(numbers);
        let status = self.maybe_status().filter(|_| !has_statuses);
        let keep_ms = self.dice.pick(&[None, Some(0), Some(30)]);
        let each = Ack {
            id: b"",
            fence: 0,
            from: asked.from(),
            status: status.as_deref(),
            result: None,
            keep_ms,
        };
        let orders = fenced(&owned);
        self.compare_mack(numbers, &Batch { each, orders });
        self.count("mack");
    }

    /// MNACK.
    fn mnack(&mut self, numbers: &[u32]) {
        let owned = self.with_fences(numbers, false);
        let again = self.dice.pick(&[
            Again::Backoff,
            Again::Delay(0),
            Again::Delay(7),
            Again::Delay(1 << 39),
            Again::Dead,
        ]);
        let error = self.dice.pick(&[None, Some(&b"away"[..])]);
        let untried = again != Again::Dead && self.dice.chance(400);
        let each = Nack {
            id: b"",
            fence: 0,
            again,
            error,
            untried,
        };
        let orders = fenced(&owned);
        self.compare_mnack(numbers, &Batch { each, orders });
        self.count("mnack");
    }

    /// MRENEW.
    fn mrenew(&mut self, numbers: &[u32]) {
        let owned = self.with_fences(numbers, false);
        let each = Renew {
            id: b"",
            fence: 0,
            lease_ms: 1 + self.dice.pick(&[0, 5, 100, 29_999]),
            shorten: self.dice.chance(400),
            session: false,
        };
        let orders = fenced(&owned);
        self.compare_mrenew(numbers, &Batch { each, orders });
        self.count("mrenew");
    }
}

/// As the core takes them.
fn fenced(owned: &[Owned]) -> Vec<Fenced<'_>> {
    owned
        .iter()
        .map(|(id, fence, status)| Fenced {
            id,
            fence: *fence,
            status: status.as_deref(),
        })
        .collect()
}
