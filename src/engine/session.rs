//! Leases that end with a connection: which of them are bound to which client.
//!
//! A lease must be long for slow work and short for a dead worker, and only the
//! connection knows the difference. So a lease may be *bound* to the connection of its
//! holder: when that closes, the lease is made to end, by an effect like any other
//! ([`Effect::Lapse`]).
//!
//! A binding is no ground state. It is not saved, replicated, copied or digested: after a
//! restart or on another server the connection is not there. It goes with the value, so
//! RENAME, MOVE and SWAPDB keep it. It is kept by the order's id, not by its record,
//! which a compaction moves.
//!
//! Invariant: a binding belongs to the live last grant of its order, with the same
//! fence, or to one whose lapse [`Queue::advance`] has not come to yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::effect::Effect;
use super::queue::Queue;
use super::tables::lazy::{Blank, Lazy};
use super::tables::memory::allocated;
use crate::words::time::Now;

/// About what the two tables take for a binding: an entry of 32 and one of 24 bytes, in
/// nodes that are two thirds full.
const ENTRY_BYTES: usize = 84;

/// A bound lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    /// The client.
    client: u64,
    /// Fence of the lease.
    fence: u64,
}

/// The bound leases of a queue.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By order.
    leases: BTreeMap<Arc<[u8]>, Bound>,
    /// Orders by client.
    clients: BTreeSet<(u64, Arc<[u8]>)>,
    /// Bytes of the ids.
    id_bytes: usize,
}

impl Sessions {
    /// None.
    const NONE: Self = Self {
        leases: BTreeMap::new(),
        clients: BTreeSet::new(),
        id_bytes: 0,
    };

    /// What is before the bytes of a shared text.
    const COUNTS: usize = 2 * size_of::<usize>();

    /// Binds the lease of an order. O(log n).
    fn bind(&mut self, id: &[u8], bound: Bound) {
        self.unbind(id);
        let id: Arc<[u8]> = id.into();
        self.id_bytes += allocated(Self::COUNTS + id.len());
        self.clients.insert((bound.client, Arc::clone(&id)));
        self.leases.insert(id, bound);
    }

    /// The lease of an order is bound no more. O(log n).
    fn unbind(&mut self, id: &[u8]) {
        if let Some((id, bound)) = self.leases.remove_entry(id) {
            self.id_bytes = self
                .id_bytes
                .saturating_sub(allocated(Self::COUNTS + id.len()));
            self.clients.remove(&(bound.client, id));
        }
    }

    /// The orders whose leases are bound to a client, with their fences.
    pub(super) fn of(&self, client: u64) -> impl Iterator<Item = (&Arc<[u8]>, u64)> {
        let first = (client, Arc::default());
        self.clients
            .range(first..)
            .take_while(move |(of, _)| *of == client)
            .filter_map(|(_, id)| Some((id, self.leases.get(id)?.fence)))
    }

    /// Heap bytes, about. O(1).
    pub(super) fn bytes(&self) -> usize {
        self.id_bytes + self.leases.len() * ENTRY_BYTES
    }
}

impl Blank for Sessions {
    fn blank() -> &'static Self {
        static BLANK: Sessions = Sessions::NONE;
        &BLANK
    }
}

impl Queue {
    /// Binds the live lease of an order to a client: from now on it ends, if it has not
    /// before, when [`Queue::closed`] is asked for that client. A binding that
    /// there was goes. Nothing where there is no live lease, or its fence is not the one
    /// that is named. O(log n).
    pub fn bind(&mut self, now: &Now, id: &[u8], fence: Option<u64>, client: u64) {
        let Some(i) = self.store.find(id) else { return };
        let live = self.store.rows.grant(i);
        let Some(grant) = live.filter(|grant| !grant.end_mono.is_over(now)) else {
            return;
        };
        if fence.is_some_and(|fence| fence != grant.fence) {
            return;
        }
        let fence = grant.fence;
        self.busy.sessions.bind(id, Bound { client, fence });
    }

    /// The client that the lease with this fence is bound to; 0 for none. O(log n).
    pub(super) fn session(&self, id: &[u8], fence: u64) -> u64 {
        let bound = self.busy.sessions.leases.get(id);
        bound
            .filter(|bound| bound.fence == fence)
            .map_or(0, |bound| bound.client)
    }

    /// How many leases are bound. O(1).
    pub fn session_leases(&self) -> u64 {
        self.busy.sessions.leases.len() as u64
    }

    /// Whether a lease is bound to this client. O(log n).
    pub fn is_bound_to(&self, client: u64) -> bool {
        self.busy.sessions.of(client).next().is_some()
    }

    /// The clients that leases are bound to, each once. O(bound leases).
    pub fn session_clients(&self) -> Vec<u64> {
        let clients = self.busy.sessions.clients.iter().map(|(client, _)| *client);
        let mut clients: Vec<u64> = clients.collect();
        clients.dedup();
        clients
    }

    /// The connection of a client has closed: the live leases bound to it, `max` at
    /// most, to be ended. Those that are over are unbound on the way. O(max log n).
    pub fn closed(&mut self, now: &Now, client: u64, max: usize) -> Vec<(Arc<[u8]>, u64)> {
        let bound: Vec<_> = self
            .busy
            .sessions
            .of(client)
            .take(max)
            .map(|(id, fence)| (Arc::clone(id), fence))
            .collect();
        for (id, _) in &bound {
            self.unbind_ended(now, id);
        }
        let is_bound = |(id, fence): &(Arc<[u8]>, u64)| self.session(id, *fence) == client;
        bound.into_iter().filter(is_bound).collect()
    }

    /// No lease is bound any more: this server is no primary now.
    pub fn unbind_all(&mut self) {
        if self.busy.sessions.is_made() {
            self.busy.sessions = Lazy::new();
        }
    }

    /// Unbinds the lease of an order if it has ended, or is another one now. O(log n).
    pub(super) fn unbind_ended(&mut self, now: &Now, id: &[u8]) {
        let Some(bound) = self.busy.sessions.leases.get(id).copied() else {
            return;
        };
        let grant = self
            .store
            .find(id)
            .and_then(|i| self.store.rows.grant(i))
            .filter(|grant| grant.fence == bound.fence && !grant.end_mono.is_over(now));
        if grant.is_none() {
            self.busy.sessions.unbind(id);
        }
    }

    /// Unbinds the leases of the orders that an effect has named. O(1) where none is
    /// bound.
    pub(super) fn unbind_named(&mut self, now: &Now, effect: &Effect<'_>) {
        if self.session_leases() > 0 {
            effect.each_id(&mut |id| self.unbind_ended(now, id));
        }
    }

    /// The lease of a record has lapsed.
    pub(super) fn unbind_lapsed(&mut self, i: u32) {
        if self.session_leases() > 0 {
            let (store, busy) = (&self.store, &mut *self.busy);
            busy.sessions.unbind(store.rows.id(i));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]
impl Queue {
    /// Tests that both tables say the same, of the last grants alone, and that their
    /// bytes are counted. O(bound leases).
    pub(super) fn check_sessions(&self) {
        let sessions = &self.busy.sessions;
        assert_eq!(sessions.leases.len(), sessions.clients.len());
        let mut id_bytes = 0;
        for (id, bound) in &sessions.leases {
            assert!(sessions.clients.contains(&(bound.client, Arc::clone(id))));
            let i = self.store.find(id).unwrap();
            assert_eq!(self.store.rows.grant(i).unwrap().fence, bound.fence);
            id_bytes += allocated(Sessions::COUNTS + id.len());
        }
        assert_eq!(sessions.id_bytes, id_bytes);
    }
}
