//! Every command: every outcome in every state, shapes, options, arity.
//!
//! | room | subject |
//! |---|---|
//! | `states` | every command on an order in every state |
//! | `schedule` | SCHEDULE: times, moves, guards |
//! | `finish` | FINISH and STATUS |
//! | `claim` | CLAIM: who gets what, and how much |
//! | `ack` | ACK, MACK, NACK and RENEW: what comes after a claim |
//! | `help` | HELP |
//! | `readers` | NEXT, SCAN and STATS |
//! | `shapes` | the form of replies, arity, keys of another type |
//! | `memory` | a full memory, and what a key takes |
//! | `options` | options in any order, and those that contradict |
//! | `transactions` | MULTI, scripts and WATCH |
//!
//! Locks have a folder of their own, and so have the commands on a queue as a whole.

mod ack;
mod claim;
mod finish;
mod help;
mod memory;
mod options;
mod readers;
mod schedule;
mod shapes;
mod states;
mod transactions;

use std::collections::BTreeMap;

use crate::support::{Client, Value};

/// A whole SCAN: id to state.
fn scan_all(c: &mut Client, queue: &str, filters: &[&str]) -> BTreeMap<Vec<u8>, String> {
    let mut found = BTreeMap::new();
    let mut cursor = "0".to_owned();
    for _ in 0..100_000 {
        let mut command = vec!["ORDER.SCAN", queue, &cursor];
        command.extend_from_slice(filters);
        let reply = c.run(&command);
        for row in reply.items()[1].items() {
            assert_eq!(row.items().len(), 7, "as the page says: {row:?}");
            found.insert(row.items()[0].bytes().to_vec(), row.items()[1].text());
        }
        cursor = match &reply.items()[0] {
            Value::Int(n) => n.to_string(),
            text => text.text(),
        };
        if cursor == "0" {
            return found;
        }
    }
    panic!("a SCAN of {queue} does not end");
}
