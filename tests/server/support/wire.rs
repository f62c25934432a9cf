//! Bytes the tests make or read themselves: effects of version 1, append-only
//! files, DUMP payloads.
//!
//! Written against the documented form and not with the module's own codec, so
//! that a mistake there does not cancel itself out here.

use std::fs;
use std::path::{Path, PathBuf};

use super::server::{Server, read_file};

/// A number as effects carry it: one byte up to 250, else a mark and 2, 4 or 8
/// bytes, little endian.
pub(crate) fn number(value: u64, out: &mut Vec<u8>) {
    if value < 251 {
        out.push(value as u8);
    } else if let Ok(value) = u16::try_from(value) {
        out.push(251);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = u32::try_from(value) {
        out.push(252);
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        out.push(253);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// A byte string as effects carry it.
pub(crate) fn bytes(value: &[u8], out: &mut Vec<u8>) {
    number(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// An optional byte string as effects carry it.
fn maybe(value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        bytes(value, out);
    }
}

/// The effect that grants a lock; with `creates`, on an id that is not there.
pub(crate) fn lock(
    id: &[u8],
    owner: &[u8],
    fence: u64,
    end: u64,
    fp: Option<&[u8]>,
    creates: bool,
) -> Vec<u8> {
    let mut out = vec![6];
    bytes(id, &mut out);
    bytes(owner, &mut out);
    number(fence, &mut out);
    number(end, &mut out);
    // The cap: as far as renewals may go.
    number(end + 1000, &mut out);
    maybe(fp, &mut out);
    out.push(u8::from(creates));
    out
}

/// The effect of a lock that is taken again.
pub(crate) fn hold(id: &[u8], rev: u64, holds: u64, end: u64) -> Vec<u8> {
    let mut out = vec![7];
    bytes(id, &mut out);
    number(rev, &mut out);
    number(holds, &mut out);
    number(end, &mut out);
    out
}

/// The effect that sets one of the queue's own settings.
pub(crate) fn configure(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![11];
    bytes(name, &mut out);
    maybe(Some(value), &mut out);
    out
}

/// The effect that pauses the queue without end.
pub(crate) fn pause(reason: &[u8]) -> Vec<u8> {
    let mut out = vec![12, 1, 0];
    bytes(reason, &mut out);
    out
}

/// The commands in the bytes of an append-only file, upper-case names, without
/// SELECT. What is cut off at the end is left out.
pub(crate) fn commands_in(file: &[u8]) -> Vec<Vec<Vec<u8>>> {
    /// Reads `<mark>digits\r\n` and what is left after it.
    fn count(bytes: &[u8], mark: u8) -> Option<(usize, &[u8])> {
        let (&first, rest) = bytes.split_first()?;
        assert_eq!(
            first,
            mark,
            "an append-only file holds commands: {}",
            bytes[..bytes.len().min(40)].escape_ascii()
        );
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let count = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        Some((count, &rest[end + 2..]))
    }
    /// Reads one command and what is left after it.
    fn one(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
        let (words, mut left) = count(bytes, b'*')?;
        let mut command = Vec::new();
        for _ in 0..words {
            let (len, rest) = count(left, b'$')?;
            command.push(rest.get(..len)?.to_vec());
            left = rest.get(len + 2..)?;
        }
        Some((command, left))
    }
    let mut commands = Vec::new();
    let mut left = file;
    while let Some((mut command, rest)) = one(left) {
        command[0].make_ascii_uppercase();
        if command[0] != b"SELECT" {
            commands.push(command);
        }
        left = rest;
    }
    commands
}

/// The files of a server's append-only log with this ending, oldest first.
pub(crate) fn aof_files(server: &Server, ending: &str) -> Vec<PathBuf> {
    let dir = server.dir().join("appendonlydir");
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .map(|entries| {
            entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect()
        })
        .unwrap_or_default();
    files.retain(|path: &PathBuf| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// Every command that was written to a server's append-only log since it was last
/// rewritten.
pub(crate) fn logged(server: &Server) -> Vec<Vec<Vec<u8>>> {
    aof_files(server, ".incr.aof")
        .iter()
        .flat_map(|path: &PathBuf| commands_in(&read_file(Path::new(path))))
        .collect()
}

/// The checksum at the end of a DUMP payload: CRC-64 of Jones, reflected.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0x95ac_9329_ac4b_c9b5
            } else {
                crc >> 1
            }
        })
    })
}

/// The value in a DUMP payload, without version and checksum, and its version.
pub(crate) fn open_dump(payload: &[u8]) -> (&[u8], [u8; 2]) {
    let (rest, sum) = payload.split_at(payload.len() - 8);
    assert_eq!(
        sum,
        crc64(rest).to_le_bytes(),
        "the checksum of a good payload"
    );
    let (value, version) = rest.split_at(rest.len() - 2);
    (value, version.try_into().unwrap())
}

/// A DUMP payload of this value that passes the server's own checks.
pub(crate) fn close_dump(value: &[u8], version: [u8; 2]) -> Vec<u8> {
    let mut payload = [value, &version[..]].concat();
    payload.extend_from_slice(&crc64(&payload).to_le_bytes());
    payload
}

// ------------------------------------------------------- effects of both versions

/// One field of an effect.
enum Field {
    /// A number: what can be forged.
    Number(u64),
    /// Anything else, as it is encoded.
    Raw(Vec<u8>),
}

/// An effect field by field, so that each of its numbers can be replaced by another.
pub(crate) struct Form(Vec<Field>);

impl Form {
    /// The effect of this variant, without fields.
    pub(crate) fn of(variant: u8) -> Self {
        Self(vec![Field::Raw(vec![variant])])
    }

    /// Adds a number.
    pub(crate) fn number(mut self, value: u64) -> Self {
        self.0.push(Field::Number(value));
        self
    }

    /// Adds a number of version 2, which version 1 does not have.
    pub(crate) fn since(self, version: u64, value: u64) -> Self {
        if version == 1 {
            self
        } else {
            self.number(value)
        }
    }

    /// Adds a byte string: a number, its length, and what it says.
    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        self.number(value.len() as u64).raw(value)
    }

    /// Adds bytes as they are: variants, flags, what is not there.
    pub(crate) fn raw(mut self, value: &[u8]) -> Self {
        self.0.push(Field::Raw(value.to_vec()));
        self
    }

    /// How many numbers it has.
    pub(crate) fn numbers(&self) -> usize {
        let is_number = |field: &&Field| matches!(field, Field::Number(_));
        self.0.iter().filter(is_number).count()
    }

    /// Its encoded form; each of `forged` is a number's place, and what is there instead.
    pub(crate) fn encode(&self, forged: &[(usize, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = 0;
        for field in &self.0 {
            match field {
                Field::Raw(raw) => out.extend_from_slice(raw),
                Field::Number(value) => {
                    let other = forged.iter().find(|(place, _)| *place == at);
                    number(other.map_or(*value, |(_, other)| *other), &mut out);
                    at += 1;
                }
            }
        }
        out
    }
}

// ------------------------------------------------------------ a queue in a payload

/// A queue as a DUMP payload holds it: what names its type, the version, and the
/// blobs of effects.
pub(crate) struct Saved {
    /// The type of the value: its kind, and the module's name.
    pub(crate) head: Vec<u8>,
    /// Version of the blobs.
    pub(crate) version: u64,
    /// Effects.
    pub(crate) chunks: Vec<Vec<u8>>,
    /// Version of the server's own form.
    server: [u8; 2],
}

/// A length as the server writes it.
fn rdb_length(value: u64, out: &mut Vec<u8>) {
    if value < 64 {
        out.push(value as u8);
    } else if let Ok(value) = u32::try_from(value) {
        out.push(0x80);
        out.extend_from_slice(&value.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Reads a length as the server writes it.
fn take_length(left: &mut &[u8]) -> u64 {
    let mut take = |count: usize| {
        let (taken, rest) = left.split_at(count);
        *left = rest;
        taken
            .iter()
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    match take(1) {
        first @ 0..64 => first,
        first @ 64..128 => (first & 63) << 8 | take(1),
        0x80 => take(4),
        0x81 => take(8),
        first => panic!("{first:#x} is no length: is rdbcompression off?"),
    }
}

impl Saved {
    /// Reads the payload of a queue, made with `rdbcompression no`.
    #[track_caller]
    pub(crate) fn open(payload: &[u8]) -> Self {
        let (value, server) = open_dump(payload);
        let (head, mut left) = value.split_at(10);
        assert_eq!(
            head[..2],
            [7, 0x81],
            "a module's value, its name in 8 bytes"
        );
        assert_eq!(take_length(&mut left), 2, "a number");
        let version = take_length(&mut left);
        let mut chunks = Vec::new();
        loop {
            assert_eq!(take_length(&mut left), 5, "a string");
            let length = take_length(&mut left) as usize;
            let (chunk, rest) = left.split_at(length);
            left = rest;
            if chunk.is_empty() {
                break;
            }
            chunks.push(chunk.to_vec());
        }
        assert_eq!(left, [0], "the end of the value");
        Self {
            head: head.to_vec(),
            version,
            chunks,
            server,
        }
    }

    /// The payload of a queue that these effects of a version make.
    pub(crate) fn close(&self, version: u64, blob: &[u8]) -> Vec<u8> {
        let mut value = self.head.clone();
        value.push(2);
        rdb_length(version, &mut value);
        for chunk in [blob, b""] {
            value.push(5);
            rdb_length(chunk.len() as u64, &mut value);
            value.extend_from_slice(chunk);
        }
        value.push(0);
        close_dump(&value, self.server)
    }
}

/// The bytes that base64 stands for.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

#[test]
fn the_checksum_is_the_servers() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}
