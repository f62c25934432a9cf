//! Fast closers for `scripts/bench.sh`: take what is due and acknowledge it.
//!
//! ```text
//! closer SOCKET ours|SCRIPT CONNECTIONS BATCH COUNT
//! closer ADDRESS hold OWNER LEASE COUNT [SESSION]      (see `hold`)
//! ```
//!
//! Each connection has a thread of its own. Started, the program connects, prints
//! `ready` and waits for a line on its input. Then each thread claims a batch,
//! acknowledges it, and claims again, until COUNT orders were taken by all of them
//! together. It sends an acknowledgement and the next claim together, so that a batch
//! is one round trip. Handed nothing, it asks again a little later.
//! At the end one line of JSON says how many orders were taken, how many of them the
//! server said were acknowledged, the seconds from the start to the last
//! acknowledgement, and the wall clock of that one in Unix seconds.
//!
//! `ours` is `ORDER.CLAIM` and `ORDER.MACK … KEEP 0` on the key `orders`. Else it is done
//! without the module: the script of this name, as `SCRIPT LOAD` gave it, moves what is
//! due from the sorted set `deadlines` to the sorted set `working`, and `ZREM`
//! acknowledges.
//!
//! Replies are read with as little work as there can be: of RESP2 only what these
//! commands answer, ids copied from a reply to the next command as they stand.
#![allow(
    clippy::print_stdout,
    reason = "a program whose output is what it is for"
)]

mod hold;

use std::io::{self, BufRead, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a lease of the script lasts.
const LEASE_MS: u128 = 30_000;

/// Handed nothing, so long until the next try.
const PAUSE: Duration = Duration::from_micros(200);

/// What one connection did.
#[derive(Clone, Copy)]
struct Done {
    /// Orders handed out.
    taken: usize,
    /// Orders acknowledged.
    acknowledged: usize,
    /// When the last acknowledgement came.
    last: Option<(Instant, SystemTime)>,
}

/// Whose commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The module's.
    Ours,
    /// The script's.
    Lua,
}

/// What is to be done.
struct Work {
    /// Whose commands.
    side: Side,
    /// The script's name, where it is the script's.
    script: String,
    /// Orders to a claim.
    batch: String,
    /// Orders to take.
    count: usize,
    /// Orders taken so far.
    taken: AtomicUsize,
}

/// One connection and what was read of it.
struct Connection {
    /// The socket.
    stream: UnixStream,
    /// Bytes read.
    buffer: Vec<u8>,
    /// Where the unread ones begin.
    at: usize,
    /// Where they end.
    end: usize,
}

/// An error that says what is wrong with a reply.
fn odd(what: &str, reply: &[u8]) -> Error {
    Error::new(
        ErrorKind::InvalidData,
        format!("{what}: {}", String::from_utf8_lossy(reply)),
    )
}

/// The number after a line's first byte.
fn number(line: &[u8]) -> io::Result<i64> {
    line.get(1..)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| odd("not a number", line))
}

/// Unix time now.
fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Appends the line before a word, or before the words of a command.
fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    // Small numbers, most of them: no text is made of them on the way.
    if count < 100 {
        if count >= 10 {
            out.push(b'0' + (count / 10) as u8);
        }
        out.push(b'0' + (count % 10) as u8);
    } else {
        out.extend_from_slice(count.to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a word of a command.
fn word(out: &mut Vec<u8>, text: &[u8]) {
    head(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends a command of text.
fn command(out: &mut Vec<u8>, words: &[&str]) {
    head(out, b'*', words.len());
    for text in words {
        word(out, text.as_bytes());
    }
}

impl Connection {
    /// Connects.
    fn new(path: &str) -> io::Result<Self> {
        Ok(Self {
            stream: UnixStream::connect(path)?,
            buffer: vec![0; 1 << 18],
            at: 0,
            end: 0,
        })
    }

    /// Reads more; what was read already is moved to the front when room is lacking.
    fn more(&mut self) -> io::Result<()> {
        if self.at == self.end {
            self.at = 0;
            self.end = 0;
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.at..self.end, 0);
            self.end -= self.at;
            self.at = 0;
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
        }
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let count = self.stream.read(room)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.end += count;
        Ok(())
    }

    /// The unread bytes.
    fn unread(&self) -> &[u8] {
        self.buffer.get(self.at..self.end).unwrap_or_default()
    }

    /// Where the next line begins and ends in the buffer, without its end. It stays
    /// there until more is read.
    fn line(&mut self) -> io::Result<(usize, usize)> {
        let mut looked = 0;
        loop {
            let unread = self.unread();
            let fresh = unread.get(looked..).unwrap_or_default();
            if let Some(found) = fresh.iter().position(|byte| *byte == b'\n') {
                let start = self.at;
                let end = start + looked + found;
                self.at = end + 1;
                return Ok((start, end - 1));
            }
            looked = unread.len();
            self.more()?;
        }
    }

    /// The number of the next line, which is of this kind.
    fn count(&mut self, kind: u8) -> io::Result<i64> {
        let (start, end) = self.line()?;
        let line = self.buffer.get(start..end).unwrap_or_default();
        if line.first() != Some(&kind) {
            return Err(odd("another reply than awaited", line));
        }
        number(line)
    }

    /// Copies the next bulk string, as it stands with its length, to a command.
    fn copy_bulk(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let (start, end) = self.line()?;
        let head = self.buffer.get(start..end + 2).unwrap_or_default();
        let length = usize::try_from(number(head.trim_ascii_end())?).unwrap_or(0) + 2;
        out.extend_from_slice(head);
        while self.unread().len() < length {
            self.more()?;
        }
        out.extend_from_slice(self.unread().get(..length).unwrap_or_default());
        self.at += length;
        Ok(())
    }

    /// Passes over a string, a number or null; whether it was `OK`.
    fn skip(&mut self) -> io::Result<bool> {
        let (start, end) = self.line()?;
        let line = self.buffer.get(start..end).unwrap_or_default();
        match line.first() {
            Some(b'$') => {
                let Ok(length) = usize::try_from(number(line)?) else {
                    return Ok(false);
                };
                while self.unread().len() < length + 2 {
                    self.more()?;
                }
                let fine = self.unread().starts_with(b"OK\r\n");
                self.at += length + 2;
                Ok(fine)
            }
            Some(b'+') => Ok(line == b"+OK"),
            Some(b':') => Ok(false),
            _ => Err(odd("another reply than awaited", line)),
        }
    }

    /// Reads what an acknowledgement answers: how many were done.
    fn acknowledged(&mut self, side: Side) -> io::Result<usize> {
        if side == Side::Lua {
            return Ok(usize::try_from(self.count(b':')?).unwrap_or(0));
        }
        let mut fine = 0;
        for _ in 0..self.count(b'*')? {
            fine += usize::from(self.skip()?);
        }
        Ok(fine)
    }

    /// Reads what a claim hands out, as words of its acknowledgement: how many.
    fn claimed(&mut self, side: Side, words: &mut Vec<u8>) -> io::Result<usize> {
        let taken = usize::try_from(self.count(b'*')?).unwrap_or(0);
        words.clear();
        for _ in 0..taken {
            let fields = match side {
                Side::Ours => self.count(b'*')?,
                Side::Lua => 1,
            };
            self.copy_bulk(words)?;
            if side == Side::Ours {
                let (start, end) = self.line()?;
                word(words, self.buffer.get(start + 1..end).unwrap_or_default());
                for _ in 2..fields {
                    self.skip()?;
                }
            }
        }
        Ok(taken)
    }

    /// Claims and acknowledges until all were taken.
    fn close_all(&mut self, work: &Work, owner: &str) -> io::Result<Done> {
        let batch = work.batch.as_str();
        let mut done = Done {
            taken: 0,
            acknowledged: 0,
            last: None,
        };
        // What goes out next, the words of the acknowledgement, and how many it is for.
        let mut out = Vec::new();
        let mut words = Vec::new();
        let mut waiting = 0;
        loop {
            match work.side {
                Side::Ours => command(&mut out, &["ORDER.CLAIM", "orders", owner, "COUNT", batch]),
                Side::Lua => {
                    let now = since_epoch(SystemTime::now()).as_millis();
                    let (now, end) = (now.to_string(), (now + LEASE_MS).to_string());
                    let keys = ["EVALSHA", work.script.as_str(), "2", "deadlines", "working"];
                    command(&mut out, &[&keys[..], &[&now, batch, &end]].concat());
                }
            }
            self.stream.write_all(&out)?;
            if waiting > 0 {
                done.acknowledged += self.acknowledged(work.side)?;
                done.last = Some((Instant::now(), SystemTime::now()));
            }
            waiting = self.claimed(work.side, &mut words)?;
            done.taken += waiting;
            let all = work.taken.fetch_add(waiting, Ordering::Relaxed) + waiting;
            out.clear();
            if waiting == 0 {
                if all >= work.count {
                    return Ok(done);
                }
                thread::sleep(PAUSE);
                continue;
            }
            match work.side {
                Side::Ours => {
                    head(&mut out, b'*', 5 + 2 * waiting);
                    for text in ["ORDER.MACK", "orders", &waiting.to_string()] {
                        word(&mut out, text.as_bytes());
                    }
                    out.extend_from_slice(&words);
                    word(&mut out, b"KEEP");
                    word(&mut out, b"0");
                }
                Side::Lua => {
                    head(&mut out, b'*', 2 + waiting);
                    word(&mut out, b"ZREM");
                    word(&mut out, b"working");
                    out.extend_from_slice(&words);
                }
            }
        }
    }
}

/// Runs the closers; the line of JSON.
fn run(path: &str, connections: usize, work: Work) -> io::Result<String> {
    let work = Arc::new(work);
    let start = Arc::new(Barrier::new(connections + 1));
    let mut threads = Vec::new();
    for index in 0..connections {
        let mut connection = Connection::new(path)?;
        let (start, work) = (Arc::clone(&start), Arc::clone(&work));
        threads.push(thread::spawn(move || {
            start.wait();
            connection.close_all(&work, &format!("closer-{index}"))
        }));
    }
    println!("ready");
    io::stdin().lock().read_line(&mut String::new())?;
    let begun = Instant::now();
    start.wait();
    let (mut taken, mut acknowledged) = (0, 0);
    let (mut seconds, mut last_s) = (0.0_f64, 0.0_f64);
    for thread in threads {
        let done = thread
            .join()
            .map_err(|_| Error::other("a closer broke off"))??;
        taken += done.taken;
        acknowledged += done.acknowledged;
        if let Some((at, clock)) = done.last {
            seconds = seconds.max(at.duration_since(begun).as_secs_f64());
            last_s = last_s.max(since_epoch(clock).as_secs_f64());
        }
    }
    Ok(format!(
        "{{\"count\": {taken}, \"acknowledged\": {acknowledged}, \"seconds\": {seconds:.6}, \"last_s\": {last_s:.6}}}"
    ))
}

/// Reads the arguments and runs.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, address, kind, words @ ..] = arguments.as_slice()
        && kind == "hold"
    {
        let line = hold::run(address, words).unwrap_or_else(|error| format!("closer: {error}"));
        println!("{line}");
        return ExitCode::FAILURE;
    }
    let [_, path, side, connections, batch, count] = arguments.as_slice() else {
        println!("closer SOCKET ours|SCRIPT CONNECTIONS BATCH COUNT");
        return ExitCode::from(2);
    };
    let work = Work {
        side: match side.as_str() {
            "ours" => Side::Ours,
            _ => Side::Lua,
        },
        script: side.clone(),
        batch: batch.clone(),
        count: count.parse().unwrap_or(0),
        taken: AtomicUsize::new(0),
    };
    match run(path, connections.parse().unwrap_or(1), work) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("closer: {error}");
            ExitCode::FAILURE
        }
    }
}
