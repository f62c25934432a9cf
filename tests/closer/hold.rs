//! A closer that takes orders and does nothing with them, to be killed.
//!
//! ```text
//! closer ADDRESS hold OWNER LEASE COUNT [SESSION]
//! ```
//!
//! ADDRESS is a socket file, or `127.0.0.1:6379`. It waits on the key `orders` until it
//! is given up to COUNT orders, says one line, and holds them until its end: the Unix
//! time in microseconds at which they came, then id, fence and attempt of each.

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::SystemTime;

use crate::{command, since_epoch};

/// A reply, as far as it is needed.
enum Reply {
    /// A number, or a string.
    Text(String),
    /// An array.
    List(Vec<Reply>),
}

impl Reply {
    /// Its text; of an array none.
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::List(_) => "",
        }
    }
}

/// Reads the next reply.
fn read(from: &mut dyn BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
    let count = rest.parse::<usize>().unwrap_or(0);
    match kind {
        "*" => {
            let items = (0..count).map(|_| read(from)).collect::<io::Result<_>>()?;
            Ok(Reply::List(items))
        }
        "$" if rest.starts_with('-') => Ok(Reply::Text(String::new())),
        "$" => {
            let mut bytes = vec![0; count + 2];
            from.read_exact(&mut bytes)?;
            bytes.truncate(count);
            Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        "-" => Err(Error::other(rest.to_owned())),
        _ => Ok(Reply::Text(rest.to_owned())),
    }
}

/// Waits for orders, says which came, and holds them.
pub(crate) fn run(address: &str, words: &[String]) -> io::Result<String> {
    let (mut to, from): (Box<dyn Write>, Box<dyn Read>) =
        if let Ok(address) = address.parse::<SocketAddr>() {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            (Box::new(stream.try_clone()?), Box::new(stream))
        } else {
            let stream = UnixStream::connect(address)?;
            (Box::new(stream.try_clone()?), Box::new(stream))
        };
    let mut from = BufReader::new(from);
    let [owner, lease, count, session @ ..] = words else {
        return Err(Error::other(
            "closer ADDRESS hold OWNER LEASE COUNT [SESSION]",
        ));
    };
    let mut ask = vec![
        "ORDER.CLAIM",
        "orders",
        owner,
        "PX",
        lease,
        "COUNT",
        count,
        "BLOCK",
        "0",
    ];
    ask.extend(session.iter().map(String::as_str));
    let mut out = Vec::new();
    command(&mut out, &ask);
    to.write_all(&out)?;
    let Reply::List(rows) = read(&mut from)? else {
        return Err(ErrorKind::InvalidData.into());
    };
    let mut line = since_epoch(SystemTime::now()).as_micros().to_string();
    for row in &rows {
        let Reply::List(fields) = row else { continue };
        for field in [0, 1, 3] {
            line.push(' ');
            line.push_str(fields.get(field).map_or("", Reply::text));
        }
    }
    println!("{line}");
    // Until the end of the server, or of this process.
    io::copy(&mut from, &mut io::sink())?;
    Ok("the server is gone".into())
}
