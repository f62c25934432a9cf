//! Which clients have leases that end with their connection, and in which queues.
//!
//! The queue knows which lease is bound to which client ([`Queue::bind`]). Here stands
//! where to look when a client goes, so that no queue is searched in vain. Entries are
//! hints: one too many costs a look.
//!
//! The server tells of every client that goes, which costs every connection something. So
//! it is asked to only when the first lease is bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::Queue;
use crate::shell::server::api::Ctx;
use crate::shell::server::cell::{Shared, SharedCell};

/// A queue: database and key.
type Place = (i32, Arc<[u8]>);

/// What is known.
struct Sessions {
    /// The queues in which a client has, or had, bound leases.
    queues: BTreeMap<u64, BTreeSet<Place>>,
    /// The same, by queue.
    clients: BTreeMap<Place, BTreeSet<u64>>,
    /// The clients among them whose connection has closed.
    closed: BTreeSet<u64>,
}

impl Sessions {
    /// Notes that a client has bound leases in a queue.
    fn add(&mut self, client: u64, place: Place) {
        self.queues.entry(client).or_default().insert(place.clone());
        self.clients.entry(place).or_default().insert(client);
    }

    /// Forgets it.
    fn remove(&mut self, client: u64, place: &Place) {
        if let Some(queues) = self.queues.get_mut(&client) {
            queues.remove(place);
            if queues.is_empty() {
                self.queues.remove(&client);
                self.closed.remove(&client);
            }
        }
        if let Some(clients) = self.clients.get_mut(place) {
            clients.remove(&client);
            if clients.is_empty() {
                self.clients.remove(place);
            }
        }
    }
}

/// What this server knows.
static SESSIONS: Shared<Sessions> = Shared::new(Sessions {
    queues: BTreeMap::new(),
    clients: BTreeMap::new(),
    closed: BTreeSet::new(),
});

/// Asks the server to tell of clients that go, until that was done once.
static WATCH: SharedCell<Option<fn()>> = SharedCell::new(None);

/// Called once while the module loads: `watch` has the server tell of clients that go.
pub(crate) fn start(watch: fn()) {
    WATCH.set(Some(watch));
}

/// A lease of this queue was bound to a client.
pub(crate) fn bound(client: u64, db: i32, key: &[u8]) {
    if let Some(watch) = WATCH.get() {
        WATCH.set(None);
        watch();
    }
    SESSIONS.with(|sessions| {
        let known = sessions.queues.get(&client);
        let place = (db, Arc::from(key));
        if known.is_none_or(|queues| !queues.contains(&place)) {
            sessions.add(client, place);
        }
    });
}

/// The connection of a client has closed. Returns the queues to be looked at.
pub(crate) fn disconnected(client: u64) -> Vec<Place> {
    SESSIONS
        .with(|sessions| {
            let queues = sessions.queues.get(&client)?;
            sessions.closed.insert(client);
            Some(queues.iter().cloned().collect())
        })
        .flatten()
        .unwrap_or_default()
}

/// The clients whose connection has closed and that had leases in this queue.
pub(crate) fn closed_in(db: i32, key: &Arc<[u8]>) -> Vec<u64> {
    SESSIONS
        .with(|sessions| {
            if sessions.closed.is_empty() {
                return Vec::new();
            }
            let Some(clients) = sessions.clients.get(&(db, Arc::clone(key))) else {
                return Vec::new();
            };
            // Looked through are the fewer: mostly one has closed, of many.
            let (few, many) = if clients.len() < sessions.closed.len() {
                (clients, &sessions.closed)
            } else {
                (&sessions.closed, clients)
            };
            few.intersection(many).copied().collect()
        })
        .unwrap_or_default()
}

/// A client whose connection has closed has no lease in this queue any more.
pub(crate) fn done(client: u64, db: i32, key: &Arc<[u8]>) {
    SESSIONS.with(|sessions| sessions.remove(client, &(db, Arc::clone(key))));
}

/// A queue came to this name, and its bound leases with it. Whether it has to be looked
/// at now: a client among them has gone. That is asked of the server: what was known of
/// it went with the old name, if no lease of another queue was bound to it.
pub(crate) fn came(db: i32, key: &[u8], queue: &Queue) -> bool {
    if queue.session_leases() == 0 {
        return false;
    }
    SESSIONS
        .with(|sessions| {
            let mut closed = false;
            for client in queue.session_clients() {
                sessions.add(client, (db, Arc::from(key)));
                if !Ctx::client_lives(client) {
                    closed = true;
                    sessions.closed.insert(client);
                }
            }
            closed
        })
        .unwrap_or(false)
}

/// A queue is no longer under this name.
pub(crate) fn forget(db: i32, key: &[u8]) {
    SESSIONS.with(|sessions| {
        if sessions.clients.is_empty() {
            return;
        }
        let place = (db, Arc::from(key));
        let clients = sessions.clients.get(&place);
        for client in clients.cloned().unwrap_or_default() {
            sessions.remove(client, &place);
        }
    });
}

/// A database, or all (`None`), is being emptied.
pub(crate) fn flushed(db: Option<i32>) {
    for (at, key) in places() {
        if db.is_none_or(|db| db == at) {
            forget(at, &key);
        }
    }
}

/// Two databases were swapped.
pub(crate) fn swapped(one: i32, other: i32) {
    SESSIONS.with(|sessions| {
        let swap = |(db, key): &Place| {
            let db = match *db {
                db if db == one => other,
                db if db == other => one,
                db => db,
            };
            (db, Arc::clone(key))
        };
        for queues in sessions.queues.values_mut() {
            *queues = queues.iter().map(swap).collect();
        }
        let clients = std::mem::take(&mut sessions.clients);
        sessions.clients = clients
            .into_iter()
            .map(|(place, clients)| (swap(&place), clients))
            .collect();
    });
}

/// Every queue in which leases are, or were, bound.
pub(crate) fn places() -> Vec<Place> {
    SESSIONS
        .with(|sessions| sessions.clients.keys().cloned().collect())
        .unwrap_or_default()
}
