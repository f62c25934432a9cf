//! The protocol, RESP2 and RESP3: commands as bytes, and bytes as values.

use std::io::{self, ErrorKind};

use super::Value;

/// Appends a command as an array of bulk strings.
pub(crate) fn encode<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// A reply that no server should send.
fn broken(what: &str, line: &[u8]) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("{what}: {}", line.escape_ascii()),
    )
}

/// Parses one value; `None` when its end has not come yet. Gives the value and
/// the number of bytes used.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(Value, usize)>> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else {
        return Ok(None);
    };
    let (line, mut used) = (&bytes[..end], end + 2);
    let Some((&kind, rest)) = line.split_first() else {
        return Err(broken("empty line", bytes));
    };
    let text = String::from_utf8_lossy(rest).into_owned();
    let number = || {
        text.parse::<i64>()
            .map_err(|_| broken("not a number", line))
    };
    let value = match kind {
        b'+' => Value::Simple(text),
        b'-' => Value::Error(text),
        b':' => Value::Int(number()?),
        b',' => Value::Double(text.parse().map_err(|_| broken("not a double", line))?),
        b'#' => Value::Bool(text == "t"),
        b'(' => Value::Big(text),
        b'_' => Value::Nil,
        b'$' | b'=' | b'!' => {
            let Ok(len) = usize::try_from(number()?) else {
                return Ok(Some((Value::Nil, used)));
            };
            let Some(body) = bytes.get(used..used + len + 2) else {
                return Ok(None);
            };
            if !body.ends_with(b"\r\n") {
                return Err(broken("a string without its end", line));
            }
            used += len + 2;
            let body = body[..len].to_vec();
            match kind {
                b'$' => Value::Bulk(body),
                b'=' => Value::Verbatim(body.get(4..).unwrap_or_default().to_vec()),
                _ => Value::Error(String::from_utf8_lossy(&body).into_owned()),
            }
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let Ok(len) = usize::try_from(number()?) else {
                return Ok(Some((Value::Nil, used)));
            };
            let doubled = matches!(kind, b'%' | b'|');
            let mut items = Vec::new();
            for _ in 0..if doubled { 2 * len } else { len } {
                let Some((item, more)) = parse(&bytes[used..])? else {
                    return Ok(None);
                };
                used += more;
                items.push(item);
            }
            match kind {
                b'*' => Value::Array(items),
                b'~' => Value::Set(items),
                b'>' => Value::Push(items),
                b'%' => {
                    let mut pairs = Vec::new();
                    let mut items = items.into_iter();
                    while let (Some(k), Some(v)) = (items.next(), items.next()) {
                        pairs.push((k, v));
                    }
                    Value::Map(pairs)
                }
                // An attribute belongs to the value after it and may be ignored.
                _ => {
                    let Some((value, more)) = parse(&bytes[used..])? else {
                        return Ok(None);
                    };
                    used += more;
                    value
                }
            }
        }
        _ => return Err(broken("unknown type", line)),
    };
    Ok(Some((value, used)))
}

#[test]
fn the_parser_reads_every_type_and_waits_for_the_rest() {
    let wire: &[u8] = b"*8\r\n+OK\r\n-ERR x\r\n:-5\r\n$3\r\na\r\n\r\n$-1\r\n%1\r\n+k\r\n,1.5\r\n>1\r\n#t\r\n_\r\n";
    let whole = Value::Array(vec![
        Value::Simple("OK".into()),
        Value::Error("ERR x".into()),
        Value::Int(-5),
        Value::Bulk(b"a\r\n".to_vec()),
        Value::Nil,
        Value::Map(vec![(Value::Simple("k".into()), Value::Double(1.5))]),
        Value::Push(vec![Value::Bool(true)]),
        Value::Nil,
    ]);
    assert_eq!(parse(wire).expect("well formed"), Some((whole, wire.len())));
    for cut in 0..wire.len() {
        assert_eq!(
            parse(&wire[..cut]).expect("a prefix is not an error"),
            None,
            "cut at {cut}"
        );
    }
    assert!(parse(b"?\r\n").is_err());
}
