//! Random commands of a client, as words.

use super::IDS;
use super::effects::Maker;
use crate::engine::queue::Queue;
use crate::request::Verb;
use crate::words::time::{Now, WALL_MS_MAX};

impl Maker<'_, '_> {
    /// A command of a client, with the fence and rev that `queue` shows.
    pub(super) fn command(&mut self, queue: &Queue, now: &Now) -> (Verb, Vec<Vec<u8>>) {
        let id = self.dice.pick(&IDS);
        let name = String::from_utf8_lossy(id).into_owned();
        let view = queue.view(now, id);
        let fence = view.map_or(1, |view| view.fence.max(1));
        let status = view.map_or_else(String::new, |view| {
            String::from_utf8_lossy(view.status).into_owned()
        });
        let ms = self
            .dice
            .pick(&["0", "1", "5", "50", "60000", "253402300799999"]);
        let lease = self.dice.pick(&["1", "5", "50", "86400000"]);
        let (verb, line) = match self.dice.below(20) {
            0 => (Verb::Schedule, format!("{name} PX {ms} UPSERT PAYLOAD p")),
            1 => (Verb::Schedule, format!("{name} PX 0 FENCE {fence}")),
            2 => (
                Verb::Schedule,
                format!("{name} PXAT {} FROM {status}", WALL_MS_MAX.0),
            ),
            3 => (
                Verb::Finish,
                format!("{name} CREATE STATUS paid RESULT r KEEP {ms}"),
            ),
            4 => (Verb::Finish, format!("{name} FENCE {fence}")),
            5 => (Verb::Status, format!("{name} held PAYLOAD q")),
            6 => (Verb::Claim, format!("me PX {lease} COUNT 3")),
            7 => (Verb::Claim, format!("me ID {name}")),
            8 => (Verb::Ack, format!("{name} {fence} STATUS closed")),
            9 => (Verb::Ack, format!("{name} {fence} KEEP {ms} RESULT r")),
            10 => (Verb::Nack, format!("{name} {fence}")),
            11 => (Verb::Nack, format!("{name} {fence} UNTRIED DELAY {ms}")),
            12 => (Verb::Nack, format!("{name} {fence} DEAD ERROR e")),
            13 => (Verb::Renew, format!("{name} {fence} PX {lease}")),
            14 => (Verb::Renew, format!("{name} {fence} PX {lease} LT")),
            15 => (Verb::Lock, format!("{name} me PX {lease} REENTRANT FP fp")),
            16 => (Verb::Lock, format!("{name} me PX {lease} MAX 60")),
            17 => (Verb::Unlock, format!("{name} {fence}")),
            18 => (Verb::Break, name),
            _ => match self.dice.below(8) {
                0 => (Verb::Pause, format!("PX {}", self.dice.below(50))),
                1 => (Verb::Resume, String::new()),
                2 => (Verb::Requeue, "COUNT 2".into()),
                3 => (Verb::Config, "RESET".into()),
                4 => (Verb::Purge, format!("STATE dead STATUS {status}")),
                5 => (Verb::Requeue, "STATE retrying".into()),
                6 => (Verb::Release, "me COUNT 2".into()),
                _ => (Verb::Purge, "STATE finished COUNT 1".into()),
            },
        };
        let mut args = vec![verb.command().as_bytes().to_vec(), b"queue".to_vec()];
        args.extend(
            line.split(' ')
                .filter(|word| !word.is_empty())
                .map(Into::into),
        );
        (verb, args)
    }
}
