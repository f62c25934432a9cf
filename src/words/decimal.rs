//! Numbers as text: plain decimal digits, no sign, space, point or exponent.
//! Leading zeros are let through (`007` is 7), but not more than 20 digits in all,
//! so that a number is read in bounded time.

/// The text holds something that is no digit, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDecimal;

/// Most digits of a number: as many as `u64::MAX` has.
const DIGITS_MAX: usize = 20;
/// So many digits are never more than a `u64` holds.
const DIGITS_SAFE: usize = 19;

/// Reads decimal digits. `None`: more than a `u64` holds, or than 20 digits. O(1):
/// no more than that many are looked at.
pub fn read(text: &[u8]) -> Result<Option<u64>, NotDecimal> {
    if text.is_empty() {
        return Err(NotDecimal);
    }
    if text.len() <= DIGITS_SAFE {
        let mut number = 0_u64;
        for byte in text {
            if !byte.is_ascii_digit() {
                return Err(NotDecimal);
            }
            number = number * 10 + u64::from(byte.wrapping_sub(b'0'));
        }
        return Ok(Some(number));
    }
    let mut number = Some(0u64);
    for byte in text.iter().take(DIGITS_MAX) {
        if !byte.is_ascii_digit() {
            return Err(NotDecimal);
        }
        let digit = u64::from(byte.wrapping_sub(b'0'));
        number = number.and_then(|number| number.checked_mul(10)?.checked_add(digit));
    }
    Ok(if text.len() > DIGITS_MAX {
        None
    } else {
        number
    })
}

/// The number that a text of decimal digits stands for; `None` where it is none, or
/// more than a `u64` holds. O(1).
pub fn number(text: &[u8]) -> Option<u64> {
    read(text).ok().flatten()
}
