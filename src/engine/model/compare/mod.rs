//! The core and the reference, one held against the other: each command by itself
//! (`orders`, `claims`, `locks`, `batches`, `queue`), an order as it is shown (`shown`), and
//! everything there is (`all`).

use super::world::World;
use crate::engine::outcome::{Decision, Outcome};
use crate::error::Error;
use crate::words::state::State;

mod all;
mod batches;
mod claims;
mod locks;
mod orders;
mod queue;
mod shown;

impl World {
    /// Compares outcome and state met, and carries the effect out.
    fn judge(
        &mut self,
        n: u32,
        decided: Result<Decision<'_>, Error>,
        outcome: Outcome,
        was: State,
    ) -> bool {
        let decision = decided.unwrap();
        assert_eq!(
            (decision.outcome, decision.was),
            (outcome, was),
            "order {n}"
        );
        let done = matches!(outcome, Outcome::Ok | Outcome::Held);
        assert_eq!(decision.effect.is_some(), done, "P12");
        self.count(outcome.word());
        if let Some(effect) = &decision.effect {
            self.carry(effect);
            return true;
        }
        false
    }
}
