#!/usr/bin/env python3
"""Moves deadlines between an old form and a queue of orderwheel; both may be at work meanwhile.

    move.py over FORM SOURCE QUEUE    copies what is there into the queue
    move.py back FORM QUEUE TARGET    copies what the queue still has into the old form

| FORM           | SOURCE and TARGET                                                   |
|----------------|---------------------------------------------------------------------|
| sorted-set     | a sorted set: member is the id, score the deadline in ms            |
| expired-events | the prefix of keys that expire at the deadline; the rest is the id  |
| redisson       | the name of an RDelayedQueue whose values are ids (StringCodec)     |
| asynq          | a queue of asynq whose tasks carry JSON with the id in `id`         |
| lines          | `-`: lines `id deadline_ms` on standard input, or output            |

It copies and deletes nothing. It reads in pieces of 1000, never blocks the server for long, and may be
repeated: an order that the queue knows is left as it is. It ends with 1 if the queue refused one.
REDIS_URL names the server, else port 6400. Needs redis-py.
"""

import json
import os
import struct
import sys
import time
import uuid

import redis

BATCH = 1000
STATUS = "unpaid"
#: Answers of MSCHEDULE that say: the queue has this order.
KNOWN = (b"EXISTS", b"FINISHED")


# --- the old forms: each yields (id, deadline in ms), and takes such pairs -------------


def read_sorted_set(client, key):
    for member, score in client.zscan_iter(key, count=BATCH):
        yield member, int(score)


def write_sorted_set(client, key, pairs):
    client.zadd(key, {order: deadline for order, deadline in pairs})


def read_expiring(client, prefix):
    for keys in pieces(client.scan_iter(match=escaped(prefix) + b"*", count=BATCH, _type="string")):
        with client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.pexpiretime(key)
            for key, deadline in zip(keys, pipe.execute()):
                if deadline > 0:
                    yield key[len(prefix):], deadline


def write_expiring(client, prefix, pairs):
    with client.pipeline(transaction=False) as pipe:
        for order, deadline in pairs:
            pipe.set(prefix.encode() + order, STATUS, pxat=max(deadline, int(time.time() * 1000) + 1))
        pipe.execute()


def read_redisson(client, name):
    # A member is: one byte, so many random bytes, eight bytes of length, the value.
    for member, deadline in client.zscan_iter(f"redisson_delay_queue_timeout:{{{name}}}", count=BATCH):
        at = 1 + member[0]
        (length,) = struct.unpack_from("<Q", member, at)
        yield member[at + 8:at + 8 + length], int(deadline)


def write_redisson(client, name, pairs):
    with client.pipeline(transaction=True) as pipe:
        for order, deadline in pairs:
            # The same random part for the same order: repeated, it is still there once.
            random = uuid.uuid5(uuid.NAMESPACE_OID, order.hex()).bytes[:8]
            member = bytes([8]) + random + struct.pack("<Q", len(order)) + order
            pipe.zadd(f"redisson_delay_queue_timeout:{{{name}}}", {member: deadline})
            pipe.lrem(f"redisson_delay_queue:{{{name}}}", 0, member)
            pipe.rpush(f"redisson_delay_queue:{{{name}}}", member)
        pipe.execute()


def read_asynq(client, queue):
    for tasks in pieces(client.zscan_iter(f"asynq:{{{queue}}}:scheduled", count=BATCH)):
        with client.pipeline(transaction=False) as pipe:
            for task, _ in tasks:
                pipe.hget(b"asynq:{%s}:t:%s" % (queue.encode(), task), "msg")
            for (_, seconds), message in zip(tasks, pipe.execute()):
                # None: it was run or deleted meanwhile.
                if message is not None:
                    yield str(json.loads(field(message, 2))["id"]).encode(), int(seconds * 1000)


def write_asynq(client, queue, pairs):
    with client.pipeline(transaction=True) as pipe:
        pipe.sadd("asynq:queues", queue)
        for order, deadline in pairs:
            task = str(uuid.uuid5(uuid.NAMESPACE_OID, order.hex()))
            fields = {1: b"order:close", 2: json.dumps({"id": order.decode()}).encode(), 3: task.encode(),
                      4: queue.encode(), 5: 25, 8: 1800}
            pipe.hset(f"asynq:{{{queue}}}:t:{task}", mapping={"msg": message_of(fields), "state": "scheduled"})
            # Whole seconds: rounded up, or it would be early.
            pipe.zadd(f"asynq:{{{queue}}}:scheduled", {task: -(-deadline // 1000)})
        pipe.execute()


def read_lines(_client, _name):
    for line in sys.stdin.buffer:
        if line.strip():
            order, deadline = line.split()
            yield order, int(deadline)


def write_lines(_client, _name, pairs):
    for order, deadline in pairs:
        sys.stdout.buffer.write(b"%s %d\n" % (order, deadline))


FORMS = {
    "sorted-set": (read_sorted_set, write_sorted_set),
    "expired-events": (lambda client, prefix: read_expiring(client, prefix.encode()), write_expiring),
    "redisson": (read_redisson, write_redisson),
    "asynq": (read_asynq, write_asynq),
    "lines": (read_lines, write_lines),
}


# --- protobuf, as much of it as a task of asynq needs ---------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def field(message, number):
    """The bytes of a field of a message."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        if tag & 7 == 2:
            length, at = varint(message, at)
            if tag >> 3 == number:
                return message[at:at + length]
            at += length
        else:
            _, at = varint(message, at)
    raise ValueError(f"no field {number} in the message")


def message_of(fields):
    """A message of these fields: bytes, or numbers below 2^31."""
    def number(value):
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return bytes(out)

    out = b""
    for at, value in fields.items():
        if isinstance(value, bytes):
            out += number(at << 3 | 2) + number(len(value)) + value
        else:
            out += number(at << 3) + number(value)
    return out


# --- the queue --------------------------------------------------------------------------


def pieces(values):
    """Lists of at most BATCH."""
    piece = []
    for value in values:
        piece.append(value)
        if len(piece) == BATCH:
            yield piece
            piece = []
    if piece:
        yield piece


def escaped(prefix):
    """A prefix as a pattern that means itself."""
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\^-" else bytes([byte]) for byte in prefix)


def over(client, read, source, queue):
    """Copies into the queue. How many were new, and how many it knew."""
    new, known, refused = 0, 0, []
    for pairs in pieces(read(client, source)):
        words = [word for pair in pairs for word in pair]
        answers = client.execute_command(
            "ORDER.MSCHEDULE", queue, "PXAT", len(pairs), *words, "STATUS", STATUS)
        new += sum(answer == b"OK" for answer in answers)
        known += sum(answer in KNOWN for answer in answers)
        refused += [(order, answer) for (order, _), answer in zip(pairs, answers) if answer not in (b"OK", *KNOWN)]
    print(f"{new} moved, {known} were known", file=sys.stderr)
    if refused:
        # The queue lacks these. LEASED: somebody locks the id of an order that is not there yet.
        order, answer = (word.decode(errors="replace") for word in refused[0])
        sys.exit(f"{len(refused)} were refused, the first is {order}: {answer}. Repeat")


def back(client, write, queue, target):
    """Copies what waits, is due, or waits for a retry. What is leased ends by its lease."""
    count, cursor = 0, b"0"
    while True:
        # All states in one walk: an order that falls due meanwhile is met all the same.
        cursor, rows = client.execute_command("ORDER.SCAN", queue, cursor, "COUNT", BATCH)
        pairs = [(row[0], row[3]) for row in rows if row[1] in (b"scheduled", b"expired", b"retrying")]
        if pairs:
            write(client, target, pairs)
            count += len(pairs)
        if cursor == b"0":
            break
    print(f"{count} moved back", file=sys.stderr)


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("over", "back") or sys.argv[2] not in FORMS:
        sys.exit(__doc__)
    direction, form, one, other = sys.argv[1:]
    client = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6400"), socket_timeout=30, protocol=2)
    read, write = FORMS[form]
    if direction == "over":
        over(client, read, one, other)
    else:
        back(client, write, one, other)


if __name__ == "__main__":
    main()
