//! A small RESP2 and RESP3 client over std.
//!
//! Tests need what a comfortable client hides: the exact shape of a reply, raw
//! bytes, a reply that does not come. Every read has a deadline, so a server
//! that hangs fails the test instead of stopping the run.

mod arguments;
mod resp;
mod value;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::reply::Order;
use resp::parse;

pub(crate) use arguments::{Arg, args, argv, cmd};
pub(crate) use resp::encode;
pub(crate) use value::{Message, Value};

/// How long a reply may take before the test fails. Generous: it only has to
/// tell a hang from a slow machine.
pub(crate) const REPLY_LIMIT: Duration = Duration::from_secs(30);

/// Either kind of connection.
enum Stream {
    /// Through a socket file.
    Unix(UnixStream),
    /// Through a port.
    Tcp(TcpStream),
}

impl Stream {
    /// Sets how long one read may block.
    fn read_limit(&self, limit: Duration) -> io::Result<()> {
        let limit = Some(limit.max(Duration::from_micros(1)));
        match self {
            Self::Unix(s) => s.set_read_timeout(limit),
            Self::Tcp(s) => s.set_read_timeout(limit),
        }
    }

    /// Reads some bytes.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(s) => s.read(buf),
            Self::Tcp(s) => s.read(buf),
        }
    }

    /// Writes all bytes.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(s) => s.write_all(bytes),
            Self::Tcp(s) => s.write_all(bytes),
        }
    }
}

/// A connection to a server.
pub(crate) struct Client {
    /// The connection.
    stream: Stream,
    /// Bytes read and not yet parsed.
    buffer: Vec<u8>,
    /// How much of `buffer` has been parsed.
    parsed: usize,
    /// Push values and messages that came between replies.
    pushes: VecDeque<Value>,
}

impl Client {
    /// Connects through a socket file.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        Self::over(Stream::Unix(UnixStream::connect(path)?))
    }

    /// Connects to a port of this machine.
    pub(crate) fn tcp(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Self::over(Stream::Tcp(stream))
    }

    /// Wraps a fresh connection.
    fn over(stream: Stream) -> io::Result<Self> {
        match &stream {
            Stream::Unix(s) => s.set_write_timeout(Some(REPLY_LIMIT))?,
            Stream::Tcp(s) => s.set_write_timeout(Some(REPLY_LIMIT))?,
        }
        Ok(Self {
            stream,
            buffer: Vec::new(),
            parsed: 0,
            pushes: VecDeque::new(),
        })
    }

    /// Sends raw bytes.
    #[track_caller]
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .expect("the server takes our bytes");
    }

    /// Sends one command and does not read its reply.
    #[track_caller]
    pub(crate) fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        let mut bytes = Vec::new();
        encode(args, &mut bytes);
        self.send_raw(&bytes);
    }

    /// Reads the next reply; the test fails when none comes.
    #[track_caller]
    pub(crate) fn read(&mut self) -> Value {
        match self.read_within(REPLY_LIMIT) {
            Some(value) => value,
            None => panic!("no reply within {REPLY_LIMIT:?}"),
        }
    }

    /// Reads the next reply if one comes within `limit`.
    #[track_caller]
    pub(crate) fn read_within(&mut self, limit: Duration) -> Option<Value> {
        self.try_read(limit).expect("the connection stands")
    }

    /// Reads the next reply, `Ok(None)` when none comes within `limit`, an
    /// error when the connection is gone.
    pub(crate) fn try_read(&mut self, limit: Duration) -> io::Result<Option<Value>> {
        let until = Instant::now() + limit;
        loop {
            match self.try_value(until)? {
                Some(push @ Value::Push(_)) => self.pushes.push_back(push),
                other => return Ok(other),
            }
        }
    }

    /// The next value of any kind.
    fn try_value(&mut self, until: Instant) -> io::Result<Option<Value>> {
        let mut chunk = vec![0_u8; 65536];
        loop {
            if let Some((value, used)) = parse(&self.buffer[self.parsed..])? {
                self.parsed += used;
                if self.parsed == self.buffer.len() {
                    self.buffer.clear();
                    self.parsed = 0;
                }
                return Ok(Some(value));
            }
            if self.parsed > 0 {
                self.buffer.drain(..self.parsed);
                self.parsed = 0;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.read_limit(left)?;
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends one command and reads its reply.
    #[track_caller]
    pub(crate) fn run<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.send(args);
        self.read()
    }

    /// As [`Client::run`], with an error when the connection is gone or no
    /// reply comes.
    pub(crate) fn try_run<A: AsRef<[u8]>>(
        &mut self,
        args: &[A],
        limit: Duration,
    ) -> io::Result<Value> {
        let mut bytes = Vec::new();
        encode(args, &mut bytes);
        self.stream.write_all(&bytes)?;
        self.try_read(limit)?
            .ok_or_else(|| ErrorKind::TimedOut.into())
    }

    /// Sends many commands at once and reads all their replies.
    #[track_caller]
    pub(crate) fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> Vec<Value> {
        let mut replies = Vec::with_capacity(commands.len());
        // Not more at a time than both sides' buffers take without deadlock.
        for part in commands.chunks(256) {
            let mut bytes = Vec::new();
            for command in part {
                encode(command, &mut bytes);
            }
            self.send_raw(&bytes);
            for _ in part {
                replies.push(self.read());
            }
        }
        replies
    }

    /// Speaks this version of the protocol from now on.
    #[track_caller]
    pub(crate) fn hello(&mut self, version: u8) {
        let reply = self.run(&args!["HELLO", u64::from(version)]);
        assert!(!reply.is_error(), "HELLO {version}: {reply:?}");
    }

    /// The server's clock in microseconds since the Unix epoch.
    #[track_caller]
    pub(crate) fn time_us(&mut self) -> u64 {
        let reply = self.run(&["TIME"]);
        let part = |i: usize| {
            reply.items()[i]
                .text()
                .parse::<u64>()
                .expect("TIME answers numbers")
        };
        part(0) * 1_000_000 + part(1)
    }

    /// The server's clock in milliseconds since the Unix epoch, rounded down.
    #[track_caller]
    pub(crate) fn time_ms(&mut self) -> u64 {
        self.time_us() / 1000
    }

    /// This connection's id.
    #[track_caller]
    pub(crate) fn id(&mut self) -> i64 {
        self.run(&["CLIENT", "ID"]).int()
    }

    /// One field of `INFO section`, as text.
    #[track_caller]
    pub(crate) fn info(&mut self, section: &str, field: &str) -> String {
        let text = self.run(&["INFO", section]).text();
        match text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        {
            Some(value) => value.to_owned(),
            None => panic!("INFO {section} has no {field}:\n{text}"),
        }
    }

    /// One field of `INFO section`, as a number.
    #[track_caller]
    pub(crate) fn info_number(&mut self, section: &str, field: &str) -> i64 {
        let value = self.info(section, field);
        value
            .parse()
            .unwrap_or_else(|_| panic!("INFO {section} {field} is a number, not {value}"))
    }

    /// How many clients wait in a blocking command.
    #[track_caller]
    pub(crate) fn blocked_clients(&mut self) -> i64 {
        self.info_number("clients", "blocked_clients")
    }

    /// `CONFIG SET name value`.
    #[track_caller]
    pub(crate) fn config(&mut self, name: &str, value: &str) {
        let reply = self.run(&["CONFIG", "SET", name, value]);
        assert_eq!(
            reply,
            Value::Simple("OK".into()),
            "CONFIG SET {name} {value}"
        );
    }

    /// `CONFIG GET name`.
    #[track_caller]
    pub(crate) fn config_get(&mut self, name: &str) -> String {
        let reply = self.run(&["CONFIG", "GET", name]);
        match reply.pairs().first() {
            Some((_, value)) => value.text(),
            None => panic!("CONFIG GET {name} finds nothing"),
        }
    }

    /// `ORDER.GET queue id`, which must be there.
    #[track_caller]
    pub(crate) fn order(&mut self, queue: &str, id: &str) -> Order {
        let reply = self.run(&["ORDER.GET", queue, id]);
        match reply.get() {
            Some(order) => order,
            None => panic!("{queue} has no order {id}"),
        }
    }

    /// The state word of an order, `missing` where there is none.
    #[track_caller]
    pub(crate) fn state(&mut self, queue: &str, id: &str) -> String {
        self.run(&["ORDER.GET", queue, id])
            .get()
            .map_or_else(|| "missing".into(), |order| order.state())
    }

    /// One field of `ORDER.STATS queue`.
    #[track_caller]
    pub(crate) fn stat(&mut self, queue: &str, field: &str) -> Value {
        let reply = self.run(&["ORDER.STATS", queue]);
        match reply.pairs().into_iter().find(|(name, _)| name == field) {
            Some((_, value)) => value,
            None => panic!("ORDER.STATS has no {field}: {reply:?}"),
        }
    }

    /// The digest of one key, as `DEBUG DIGEST-VALUE` gives it.
    #[track_caller]
    pub(crate) fn digest(&mut self, key: &str) -> String {
        self.run(&["DEBUG", "DIGEST-VALUE", key]).items()[0].text()
    }

    /// Subscribes to channels.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, channels: &[&str]) {
        self.subscription("SUBSCRIBE", channels);
    }

    /// Subscribes to patterns.
    #[track_caller]
    pub(crate) fn psubscribe(&mut self, patterns: &[&str]) {
        self.subscription("PSUBSCRIBE", patterns);
    }

    /// Sends a subscription and reads its confirmations.
    #[track_caller]
    fn subscription(&mut self, verb: &str, names: &[&str]) {
        let mut command = vec![verb];
        command.extend_from_slice(names);
        self.send(&command);
        let until = Instant::now() + REPLY_LIMIT;
        for name in names {
            let value = self
                .try_value(until)
                .expect("the connection stands")
                .expect("a confirmation comes");
            assert!(!value.is_error(), "{verb} {name}: {value:?}");
            assert_eq!(value.items()[0].text(), verb.to_lowercase(), "{value:?}");
        }
    }

    /// The next message of a subscription, if one comes within `limit`.
    #[track_caller]
    pub(crate) fn message(&mut self, limit: Duration) -> Option<Message> {
        let value = match self.pushes.pop_front() {
            Some(push) => push,
            None => self
                .try_value(Instant::now() + limit)
                .expect("the connection stands")?,
        };
        let items = value.items();
        Some(match items[0].text().as_str() {
            "message" => Message {
                pattern: None,
                channel: items[1].text(),
                payload: items[2].bytes().to_vec(),
            },
            "pmessage" => Message {
                pattern: Some(items[1].text()),
                channel: items[2].text(),
                payload: items[3].bytes().to_vec(),
            },
            other => panic!("a message was expected, not {other}: {value:?}"),
        })
    }

    /// The next push, such as an invalidation of client tracking, if one comes
    /// within `limit`.
    #[track_caller]
    pub(crate) fn push(&mut self, limit: Duration) -> Option<Value> {
        match self.pushes.pop_front() {
            Some(push) => Some(push),
            None => self
                .try_value(Instant::now() + limit)
                .expect("the connection stands"),
        }
    }

    /// Every message until none has come for `quiet`.
    #[track_caller]
    pub(crate) fn messages(&mut self, quiet: Duration) -> Vec<Message> {
        std::iter::from_fn(|| self.message(quiet)).collect()
    }

    /// Ends the connection at once, as a client that dies does.
    pub(crate) fn cut(self) {
        // What a dead client's kernel does; a failure means it is gone already.
        drop(match &self.stream {
            Stream::Unix(s) => s.shutdown(Shutdown::Both),
            Stream::Tcp(s) => s.shutdown(Shutdown::Both),
        });
    }
}
