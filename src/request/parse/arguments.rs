//! Arguments one after the other: ids, numbers, lengths, and options given once.

use super::options::WORD_BYTES_MAX;
use super::options::{EX, EXAT, FROM, IFREV, NONE, PX, RESULT, STATUS, code};
use super::{COUNT_MAX, Limits, NUMBER_MAX, PXAT_MS_MIN};
use crate::error::{Error, Excerpt};
use crate::request::{Guard, Verb, When};
use crate::words::decimal::{self, NotDecimal};
use crate::words::limits::{ID_BYTES_MAX, STATUS_BYTES_MAX};
use crate::words::time::{WALL_MS_MAX, WallMs};

/// What FINISH and ACK have in common.
#[derive(Default)]
pub(super) struct End<'a> {
    /// STATUS.
    pub(super) status: Option<&'a [u8]>,
    /// RESULT.
    pub(super) result: Option<&'a [u8]>,
    /// KEEP.
    pub(super) keep_ms: Option<u64>,
}

/// The arguments that are still to be read.
pub(super) struct Rest<'s, 'a> {
    /// Those arguments.
    pub(super) args: &'s [&'a [u8]],
    /// Whose they are.
    pub(super) verb: Verb,
}

impl<'a> Rest<'_, 'a> {
    /// The next argument.
    pub(super) fn take(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.args.split_first()?;
        self.args = rest;
        Some(first)
    }

    /// The next argument, where the arity says that there is one.
    pub(super) fn positional(&mut self) -> Result<&'a [u8], Error> {
        self.take().ok_or(Error::WrongArity {
            command: self.verb.command(),
        })
    }

    /// The next option word, as given and as a number.
    pub(super) fn option(&mut self) -> Option<(&'a [u8], u64)> {
        let word = self.take()?;
        Some((
            word,
            if word.len() <= WORD_BYTES_MAX {
                code(word)
            } else {
                NONE
            },
        ))
    }

    /// The value of an option.
    pub(super) fn value(&mut self, option: &'static str) -> Result<&'a [u8], Error> {
        self.take().ok_or(Error::MissingValue { option })
    }

    /// A positional id.
    pub(super) fn id(&mut self) -> Result<&'a [u8], Error> {
        bytes("id", self.positional()?, 1, ID_BYTES_MAX as u64)
    }

    /// A positional fence.
    pub(super) fn fence(&mut self) -> Result<u64, Error> {
        number("fence", self.positional()?, 0, NUMBER_MAX)
    }

    /// The value of an option that is a number.
    pub(super) fn number(
        &mut self,
        option: &'static str,
        min: u64,
        max: u64,
    ) -> Result<u64, Error> {
        number(option, self.value(option)?, min, max)
    }

    /// The value of COUNT.
    pub(super) fn count(&mut self) -> Result<u32, Error> {
        // At most 1000, so it fits.
        Ok(self.number("COUNT", 1, COUNT_MAX)? as u32)
    }

    /// The value of an option that is a status.
    pub(super) fn status(&mut self, option: &'static str) -> Result<&'a [u8], Error> {
        bytes(option, self.value(option)?, 0, STATUS_BYTES_MAX as u64)
    }

    /// The value of MATCH: no longer than what it is matched with.
    pub(super) fn pattern(&mut self) -> Result<&'a [u8], Error> {
        bytes("MATCH", self.value("MATCH")?, 0, ID_BYTES_MAX as u64)
    }

    /// The value of an option that is kept and given back as it is.
    pub(super) fn blob(
        &mut self,
        option: &'static str,
        limits: &Limits,
    ) -> Result<&'a [u8], Error> {
        bytes(option, self.value(option)?, 0, limits.payload_bytes_max)
    }

    /// The value of a `<when>` option, and the option's name.
    pub(super) fn when(&mut self, option: u64) -> Result<(&'static str, When), Error> {
        let ms_max = WALL_MS_MAX.0;
        let seconds_max = ms_max / 1000;
        // Seconds are checked before they are multiplied, so nothing overflows.
        Ok(match option {
            EX => (
                "EX",
                When::In(self.number("EX", 0, seconds_max)?.saturating_mul(1000)),
            ),
            PX => ("PX", When::In(self.number("PX", 0, ms_max)?)),
            EXAT => {
                let seconds = self.number("EXAT", 0, seconds_max)?;
                ("EXAT", When::At(WallMs(seconds.saturating_mul(1000))))
            }
            _ => {
                let ms = self.number("PXAT", 0, ms_max)?;
                if ms < PXAT_MS_MIN {
                    return Err(Error::PxatInSeconds {
                        min: PXAT_MS_MIN,
                        max: ms_max,
                    });
                }
                ("PXAT", When::At(WallMs(ms)))
            }
        })
    }

    /// The value of a `<lease>` option in milliseconds, and the option's name.
    pub(super) fn lease(
        &mut self,
        option: u64,
        limits: &Limits,
    ) -> Result<(&'static str, u64), Error> {
        let (name, unit_ms) = if option == EX {
            ("EX", 1000)
        } else {
            ("PX", 1)
        };
        let ms_max = limits.lease_ms_max;
        let value = digits(name, self.value(name)?)?;
        match value.and_then(|value| value.checked_mul(unit_ms)) {
            Some(ms) if (1..=ms_max).contains(&ms) => Ok((name, ms)),
            _ => Err(Error::LeaseOutOfRange { name, ms_max }),
        }
    }

    /// The value of one option of a guard.
    pub(super) fn guard(&mut self, option: u64, guard: &mut Guard<'a>) -> Result<(), Error> {
        match option {
            FROM => {
                guard.from.push(self.status("FROM")?);
                Ok(())
            }
            IFREV => once(
                &mut guard.if_rev,
                "IFREV",
                self.number("IFREV", 0, NUMBER_MAX)?,
            ),
            _ => once(
                &mut guard.fence,
                "FENCE",
                self.number("FENCE", 0, NUMBER_MAX)?,
            ),
        }
    }

    /// The value of STATUS, RESULT or KEEP.
    pub(super) fn end(
        &mut self,
        option: u64,
        end: &mut End<'a>,
        limits: &Limits,
    ) -> Result<(), Error> {
        match option {
            STATUS => once(&mut end.status, "STATUS", self.status("STATUS")?),
            RESULT => once(&mut end.result, "RESULT", self.blob("RESULT", limits)?),
            _ => once(
                &mut end.keep_ms,
                "KEEP",
                self.number("KEEP", 0, WALL_MS_MAX.0)?,
            ),
        }
    }
}

/// Fills the place of an option that may be given once.
pub(super) fn once<T>(place: &mut Option<T>, option: &'static str, value: T) -> Result<(), Error> {
    if place.is_some() {
        return Err(Error::GivenTwice { option });
    }
    *place = Some(value);
    Ok(())
}

/// Fills the place of options that exclude each other, with the name of the one
/// that was given.
pub(super) fn choose<T>(
    place: &mut Option<(&'static str, T)>,
    chosen: (&'static str, T),
) -> Result<(), Error> {
    match place {
        Some((option, _)) if *option == chosen.0 => Err(Error::GivenTwice { option }),
        Some((one, _)) => Err(Error::Exclusive {
            one,
            other: chosen.0,
        }),
        None => {
            *place = Some(chosen);
            Ok(())
        }
    }
}

/// The name of a condition that the guard has, if any.
pub(super) fn guard_name(guard: &Guard<'_>) -> Option<&'static str> {
    if !guard.from.is_empty() {
        Some("FROM")
    } else if guard.if_rev.is_some() {
        Some("IFREV")
    } else if guard.fence.is_some() {
        Some("FENCE")
    } else {
        None
    }
}

/// The error for an argument that is no option of the command.
#[cold]
pub(super) fn unknown(word: &[u8]) -> Error {
    Error::UnknownOption {
        near: Excerpt::of(word),
    }
}

/// A byte string of `min` to `max` bytes.
pub(super) fn bytes<'a>(
    name: &'static str,
    value: &'a [u8],
    min: u64,
    max: u64,
) -> Result<&'a [u8], Error> {
    if (min..=max).contains(&(value.len() as u64)) {
        Ok(value)
    } else {
        Err(Error::LengthOutOfRange { name, min, max })
    }
}

/// A number from `min` to `max`.
pub(super) fn number(name: &'static str, value: &[u8], min: u64, max: u64) -> Result<u64, Error> {
    match digits(name, value)? {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(Error::OutOfRange { name, min, max }),
    }
}

/// Reads decimal digits. `None`: more than a `u64` holds, which is out of every
/// range. O(1).
fn digits(name: &'static str, value: &[u8]) -> Result<Option<u64>, Error> {
    decimal::read(value).map_err(|NotDecimal| Error::NotAnInteger { name })
}
