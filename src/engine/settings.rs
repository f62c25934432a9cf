//! The settings of a queue: its own, and the server's defaults for the rest.
//!
//! What a setting decides is decided once, by a write, and stored in the
//! record; no state depends on a setting. So changing one never changes an
//! order that is already there.

use super::tables::memory::allocated;
use crate::words::decimal;
use crate::words::limits::STATUS_BYTES_MAX;

/// A numeric setting of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// Length of a claim when CLAIM names none, milliseconds.
    LeaseMs,
    /// What no lock passes, counted from its grant, milliseconds.
    LockMsMax,
    /// Tries before an order is dead; 0: no limit.
    MaxAttempts,
    /// Wait after the first failed try, milliseconds; doubles with each try.
    BackoffMs,
    /// What the wait does not pass, milliseconds.
    BackoffMsMax,
    /// How long a finished order is kept when the caller does not say, milliseconds.
    KeepMs,
    /// How many claims may be live at once; 0: no limit.
    MaxLeased,
    /// How many dead orders are kept, the oldest are dropped; 0: no limit.
    DeadMax,
    /// How many orders are handed out a second; 0: no limit.
    ClaimsPerSMax,
}

impl Setting {
    /// All of them, in the order they are listed.
    pub const ALL: [Self; 9] = [
        Self::LeaseMs,
        Self::LockMsMax,
        Self::MaxAttempts,
        Self::BackoffMs,
        Self::BackoffMsMax,
        Self::KeepMs,
        Self::MaxLeased,
        Self::DeadMax,
        Self::ClaimsPerSMax,
    ];

    /// Its name in ORDER.CONFIG, STATS and, after `orderwheel.`, CONFIG.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaseMs => "lease-ms",
            Self::LockMsMax => "lock-ms-max",
            Self::MaxAttempts => "max-attempts",
            Self::BackoffMs => "backoff-ms",
            Self::BackoffMsMax => "backoff-ms-max",
            Self::KeepMs => "keep-ms",
            Self::MaxLeased => "max-leased",
            Self::DeadMax => "dead-max",
            Self::ClaimsPerSMax => "claims-per-s-max",
        }
    }

    /// Its value where nobody set another.
    pub const fn default_value(self) -> u64 {
        match self {
            Self::LeaseMs => 30_000,
            Self::LockMsMax => 600_000,
            // So that two hours without the closers' database leave no order dead:
            // at a minute of backoff these are four hours of tries that fail at once,
            // and two hours and five minutes of closers that die with a lease of
            // `LeaseMs` each.
            Self::MaxAttempts => 250,
            Self::BackoffMs => 1_000,
            Self::BackoffMsMax => 60_000,
            Self::KeepMs => 86_400_000,
            // A dead order is an unpaid one whose stock is still out: none is dropped
            // unless somebody asks for it.
            Self::MaxLeased | Self::DeadMax | Self::ClaimsPerSMax => 0,
        }
    }

    /// The smallest and largest value.
    pub const fn range(self) -> (u64, u64) {
        // A year and ten years in milliseconds: more is a mistyped unit.
        const YEAR_MS: u64 = 31_536_000_000;
        match self {
            Self::LeaseMs | Self::LockMsMax => (1, YEAR_MS),
            Self::MaxAttempts | Self::MaxLeased => (0, 1_000_000_000),
            Self::BackoffMs | Self::BackoffMsMax => (0, YEAR_MS),
            Self::KeepMs => (0, 10 * YEAR_MS),
            Self::DeadMax => (0, 100_000_000),
            Self::ClaimsPerSMax => (0, 1_000_000),
        }
    }

    /// The value that this text stands for: plain decimal, in the setting's range.
    pub fn value(self, text: &[u8]) -> Option<u64> {
        let (min, max) = self.range();
        decimal::number(text).filter(|value| (min..=max).contains(value))
    }

    /// The setting of this name, in any case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|setting| setting.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// A value for each numeric setting.
type Values<T> = [T; Setting::ALL.len()];

/// The server's defaults, and its limits that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// By setting.
    values: Values<u64>,
    /// What no lease passes, counted from its grant, milliseconds.
    pub lease_ms_max: u64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            values: Setting::ALL.map(Setting::default_value),
            lease_ms_max: 86_400_000,
        }
    }
}

impl Defaults {
    /// The default of a setting.
    pub fn get(&self, setting: Setting) -> u64 {
        self.values
            .get(setting as usize)
            .copied()
            .unwrap_or_else(|| setting.default_value())
    }

    /// Changes the default of a setting.
    pub fn set(&mut self, setting: Setting, value: u64) {
        if let Some(place) = self.values.get_mut(setting as usize) {
            *place = value;
        }
    }
}

/// The settings that were set on the queue itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// By setting; `None`: the server's default holds.
    values: Values<Option<u64>>,
    /// Allowed changes of status, as the text that set them; empty: all.
    transitions: Option<Box<[u8]>>,
}

/// Name of the setting that lists the allowed changes of status.
pub const TRANSITIONS: &[u8] = b"transitions";

/// The longest list of changes, in bytes.
const TRANSITIONS_BYTES_MAX: usize = 4096;

/// Whether `text` lists changes of status: `from>to` separated by single spaces,
/// each side a status without space and `>` (either may be the empty one).
pub fn is_transitions(text: &[u8]) -> bool {
    let is_change = |change: &[u8]| {
        let mut sides = change.split(|byte| *byte == b'>');
        let fits = |side: Option<&[u8]>| side.is_some_and(|side| side.len() <= STATUS_BYTES_MAX);
        fits(sides.next()) && fits(sides.next()) && sides.next().is_none()
    };
    text.len() <= TRANSITIONS_BYTES_MAX && text.split(|byte| *byte == b' ').all(is_change)
}

/// The name of a setting as it is kept, whatever case it is given in; `None` if there
/// is no such setting.
pub fn setting_name(name: &[u8]) -> Option<&'static [u8]> {
    if name.eq_ignore_ascii_case(TRANSITIONS) {
        return Some(TRANSITIONS);
    }
    Setting::from_name(name).map(|setting| setting.name().as_bytes())
}

/// Whether the setting of this name can have this value: a plain decimal in its
/// range, or a list of changes of status.
pub fn is_value(name: &[u8], value: &[u8]) -> bool {
    match Setting::from_name(name) {
        Some(setting) => setting.value(value).is_some(),
        None => name.eq_ignore_ascii_case(TRANSITIONS) && is_transitions(value),
    }
}

impl Overrides {
    /// The own value of a setting.
    pub fn get(&self, setting: Setting) -> Option<u64> {
        self.values.get(setting as usize).copied().flatten()
    }

    /// The allowed changes of status, as text.
    pub fn transitions(&self) -> Option<&[u8]> {
        self.transitions.as_deref()
    }

    /// Sets a setting by name from its text, or resets it. Returns false, and
    /// changes nothing, where there is no such setting or the text is no value
    /// of it.
    pub fn configure(&mut self, name: &[u8], value: Option<&[u8]>) -> bool {
        if name == TRANSITIONS {
            if value.is_some_and(|text| !is_transitions(text)) {
                return false;
            }
            self.transitions = value.map(Into::into);
            return true;
        }
        let Some(setting) = Setting::from_name(name) else {
            return false;
        };
        let value = match value {
            None => None,
            Some(text) => match setting.value(text) {
                Some(value) => Some(value),
                None => return false,
            },
        };
        if let Some(place) = self.values.get_mut(setting as usize) {
            *place = value;
        }
        true
    }

    /// Bytes it takes, itself included, as an allocator rounds them up.
    pub fn bytes(&self) -> usize {
        let text = self.transitions.as_ref().map_or(0, |text| text.len());
        allocated(size_of::<Self>()) + allocated(text)
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none) && self.transitions.is_none()
    }

    /// Each setting that is set, as name and text.
    pub fn each(&self) -> impl Iterator<Item = (&'static [u8], Vec<u8>)> {
        let numbers = Setting::ALL.into_iter().filter_map(|setting| {
            Some((
                setting.name().as_bytes(),
                self.get(setting)?.to_string().into_bytes(),
            ))
        });
        numbers.chain(
            self.transitions
                .iter()
                .map(|text| (TRANSITIONS, text.to_vec())),
        )
    }

    /// Whether the status may change from `from` to `to`: it stays the same, no
    /// changes are listed, or this one is (`from>to`, separated by spaces).
    /// O(length of the list).
    pub fn allows(&self, from: &[u8], to: &[u8]) -> bool {
        let Some(list) = &self.transitions else {
            return true;
        };
        from == to
            || list.split(|byte| *byte == b' ').any(|change| {
                let mut sides = change.splitn(2, |byte| *byte == b'>');
                sides.next() == Some(from) && sides.next() == Some(to)
            })
    }
}
