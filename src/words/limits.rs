//! How long the parts of an order may be. Whoever asks for more is refused, and
//! an effect that says more is not taken.

/// The longest id, in bytes.
pub const ID_BYTES_MAX: usize = 255;
/// The longest owner, in bytes.
pub const OWNER_BYTES_MAX: usize = 128;
/// The longest status, in bytes.
pub const STATUS_BYTES_MAX: usize = 32;
/// The longest text of NACK's ERROR and PAUSE's REASON, in bytes.
pub const ERROR_BYTES_MAX: usize = 256;
/// The longest fingerprint, in bytes.
pub const FP_BYTES_MAX: usize = 64;
/// The largest payload or result, whatever the server's settings say.
pub const SECOND_BYTES_MAX: usize = 8 << 20;
