//! Arguments of commands: of mixed types, as bytes.

/// What can be one argument of a command.
pub(crate) trait Arg {
    /// Its bytes on the wire.
    fn arg(&self) -> Vec<u8>;
}

impl Arg for str {
    fn arg(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}
impl Arg for String {
    fn arg(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}
impl Arg for [u8] {
    fn arg(&self) -> Vec<u8> {
        self.to_vec()
    }
}
impl<const N: usize> Arg for [u8; N] {
    fn arg(&self) -> Vec<u8> {
        self.to_vec()
    }
}
impl Arg for Vec<u8> {
    fn arg(&self) -> Vec<u8> {
        self.clone()
    }
}
impl<T: Arg + ?Sized> Arg for &T {
    fn arg(&self) -> Vec<u8> {
        (**self).arg()
    }
}
/// Numbers travel as decimal text.
macro_rules! number_args {
    ($($kind:ty)*) => {$(
        impl Arg for $kind {
            fn arg(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        }
    )*};
}
number_args!(i32 i64 u16 u32 u64 usize f64);

/// `args!["ORDER.GET", "q", id]`: arguments of mixed types as bytes.
macro_rules! args {
    ($($arg:expr),+ $(,)?) => {
        [$($crate::support::Arg::arg(&$arg)),+]
    };
}
pub(crate) use args;

/// The same as a vector, for commands of different lengths in one pipeline.
macro_rules! argv {
    ($($arg:expr),+ $(,)?) => {
        vec![$($crate::support::Arg::arg(&$arg)),+]
    };
}
pub(crate) use argv;

/// `cmd!(client, "ORDER.GET", "q", id)`: sends one command and reads its reply.
macro_rules! cmd {
    ($client:expr, $($arg:expr),+ $(,)?) => {
        $client.run(&$crate::support::args![$($arg),+])
    };
}
pub(crate) use cmd;
