#!/usr/bin/env python3
"""Figures for bench.sh, which says what the options mean. Standard library only.

How it measures:

- Each run of a side has a fresh server without any file, on a socket file, with
  its main thread on one core and all clients on the other.
- What a command costs is the processor time of the server (all its threads, as
  the kernel counts it), not the time a client waits: that is how many of them a
  core can do. Orders a second are by the wall clock, with enough in flight that
  the server never waits.
- Commands are put together outside the timed part, or their making costs only
  the client's core. Replies are counted by their lines; that all was done is
  asked of the server afterwards.
- Sides take turns within a round. A ratio is the median of the rounds' ratios.
"""

import argparse
import atexit
import collections
import ctypes
import gc
import itertools
import json
import multiprocessing
import os
import platform
import random
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# The rows of the report, and those that are only made when asked for.
ROWS = ["schedule", "memory", "claim", "lateness", "burst"]
EXTRA_ROWS = ["announce"]
QUEUE = "orders"
EXPIRED_CHANNEL = "__keyevent@0__:order.expired"
# Commands in flight on one connection, and connections that take turns.
PIPELINE = 64
CONNECTIONS = 4
# Orders a closer takes at a time.
BATCH = 100
DAY_MS = 86_400_000
PAYLOAD = b"x" * 64
# What a fill takes at most on a busy machine, seconds an order: deadlines that
# must lie after the fill are put this far ahead.
FILL_S = 7e-6
# No wait for a server lasts longer.
TIMEOUT_S = 60
# The closers' Lua pattern: what is due goes to a set of what is being worked on,
# by the time the work has to be done, in one step.
LUA_CLAIM = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #ids == 0 then return ids end
redis.call('ZREM', KEYS[1], unpack(ids))
local working = {}
for i, id in ipairs(ids) do
  working[2 * i - 1] = ARGV[3]
  working[2 * i] = id
end
redis.call('ZADD', KEYS[2], unpack(working))
"""
LUA_PLAIN = LUA_CLAIM + "return ids"
LUA_PAYLOADS = LUA_CLAIM + "return {ids, redis.call('HMGET', KEYS[3], unpack(ids))}"

# --- cores, servers ----------------------------------------------------------

ALL_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORES = ALL_CORES[:1]
CLIENT_CORES = ALL_CORES[1:] or ALL_CORES
libc = ctypes.CDLL(None)
# Servers that run, what the command line says, figures that were aimed at.
living = set()
options = argparse.Namespace()
aims = []


@atexit.register
def stop_all():
    for server in list(living):
        server.stop()


class Server:
    """A throwaway server."""

    def __init__(self, *config, module=True):
        self.folder = tempfile.mkdtemp(prefix="orderwheel-bench.")
        self.path = os.path.join(self.folder, "socket")
        lines = [f"dir {self.folder}", "port 0", f"unixsocket {self.path}", 'save ""', "appendonly no"]
        lines += [f"loadmodule {options.module}"] if module else []
        with open(os.path.join(self.folder, "redis.conf"), "w") as file:
            file.write("\n".join([*lines, *config]) + "\n")
        log = open(os.path.join(self.folder, "log"), "wb")

        def prepare():
            os.sched_setaffinity(0, SERVER_CORES)
            # It ends with this script, however that ends.
            libc.prctl(1, signal.SIGKILL)

        self.process = subprocess.Popen(
            [options.server, os.path.join(self.folder, "redis.conf")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare)
        log.close()
        living.add(self)
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self.client = Client(self.path)
                self.client("PING")
                return
            except (OSError, ServerError):
                if self.process.poll() is not None or time.monotonic() > end:
                    with open(os.path.join(self.folder, "log")) as file:
                        sys.stderr.write(file.read()[-3000:])
                    raise SystemExit("bench: the server does not start")
                time.sleep(0.02)

    def stop(self):
        living.discard(self)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def cpu_us(self):
        """Processor time of all its threads so far."""
        folder = f"/proc/{self.process.pid}/task"
        try:
            total = 0
            for thread in os.listdir(folder):
                with open(f"{folder}/{thread}/schedstat") as file:
                    total += int(file.read().split()[0])
            return total / 1e3
        except (OSError, IndexError, ValueError):
            with open(f"/proc/{self.process.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def info(self, section, field):
        text = self.client("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)[field]

    def used_memory(self):
        time.sleep(0.3)
        return int(self.info("memory", "used_memory"))


# --- the protocol --------------------------------------------------------------


class ServerError(Exception):
    pass


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def template(*words):
    """A command with places for ID (20 bytes) and MS (13 digits), for `%`."""
    made = command(*(w if w not in ("ID", "MS") else {"ID": "I" * 20, "MS": "M" * 13}[w] for w in words))
    return made.replace(b"I" * 20, b"%b").replace(b"M" * 13, b"%d")


class Client:
    """One connection."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(path)
        self.buffer = b""
        # Wall clock of the last bytes that came.
        self.received_s = 0.0
        # Lines of replies that are still to come, see `pump`.
        self.owed = 0

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(1 << 17)
        self.received_s = time.time()
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def lines(self, count):
        """The next `count` lines, without their ends. Values have none inside."""
        parts, have = [self.buffer], self.buffer.count(b"\n")
        while have < count:
            parts.append(self.more())
            have += parts[-1].count(b"\n")
        *lines, rest = b"".join(parts).split(b"\r\n", count)
        self.buffer = rest
        return lines

    def read(self):
        line = self.lines(1)[0]
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise ServerError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        count = int(rest)
        if count < 0:
            return None
        if kind == b"$":
            while len(self.buffer) < count + 2:
                self.buffer += self.more()
            value, self.buffer = self.buffer[:count], self.buffer[count + 2:]
            return value
        return [self.read() for _ in range(count)]

    def __call__(self, *words):
        self.send(command(*words))
        return self.read()

    def pay(self):
        """Reads away the replies that are owed."""
        while self.owed > 0:
            data = self.more()
            if data[:1] == b"-":
                raise ServerError(data.split(b"\r\n")[0].decode())
            self.owed -= data.count(b"\n")


def batches(made, values, size=PIPELINE):
    """Commands from a template, `size` in a piece, with their number."""
    values = iter(values)
    while piece := list(itertools.islice(values, size)):
        yield b"".join([made % value for value in piece]), len(piece)


def pump(server, pieces, lines_each):
    """Sends pieces over connections that take turns, and reads the replies away."""
    clients = [Client(server.path) for _ in range(CONNECTIONS)]
    for client, (data, count) in zip(itertools.cycle(clients), pieces):
        client.pay()
        client.send(data)
        client.owed = count * lines_each
    for client in clients:
        client.pay()
        client.close()


def timed(server, orders, run):
    """Processor microseconds an order, and thousand orders a second."""
    start_us, start_s = server.cpu_us(), time.perf_counter()
    run()
    took_s, cpu_us = time.perf_counter() - start_s, server.cpu_us() - start_us
    return {"cpu_us": cpu_us / orders, "k_per_s": orders / took_s / 1e3}


def check(what, got, want):
    if got != want:
        raise SystemExit(f"bench: {what}: {got}, not {want}")


def stats(client):
    flat = client("ORDER.STATS", QUEUE)
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2])}


# --- figures ---------------------------------------------------------------------


def median(values):
    return statistics.median(values)


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values, digits=3):
    """p50, p99 and max of some values."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None, "max": None, "count": 0}
    at = lambda share: round(percentile(ordered, share), digits)
    return {"p50": at(0.5), "p99": at(0.99), "max": round(ordered[-1], digits), "count": len(ordered)}


def mix(runs):
    """The median of each figure of some runs of the same side."""
    names = [name for name in runs[0] if isinstance(runs[0][name], (int, float))]
    return {name: round(median([run[name] for run in runs]), 3) for name in names}


def show(title, headings, lines):
    """A table."""
    cells = [[str(cell) for cell in line] for line in [headings, *lines]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    print(f"\n{title}")
    for number, line in enumerate(cells):
        left, *right = line
        print("  " + "  ".join([left.ljust(widths[0]), *(c.rjust(w) for c, w in zip(right, widths[1:]))]).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def aim(row, what, got, wanted, reached):
    """Notes a figure that was aimed at."""
    aims.append({"row": row, "what": what, "got": got, "aim": wanted, "reached": bool(reached)})


def ids(count):
    return [b"order:%014d" % number for number in range(count)]


def now_ms():
    return int(time.time() * 1000)


# --- SCHEDULE and FINISH ----------------------------------------------------------

# Lines of the order reply: of an order that is there, and of one that is gone.
ORDER_REPLY_LINES = 13
GONE_REPLY_LINES = 12
FILL = template("ORDER.SCHEDULE", QUEUE, "ID", "PXAT", "MS", "STATUS", "unpaid")
FILL_PAYLOAD = template("ORDER.SCHEDULE", QUEUE, "ID", "PXAT", "MS", "STATUS", "unpaid", "PAYLOAD", PAYLOAD)
FINISH = template("ORDER.FINISH", QUEUE, "ID", "STATUS", "paid", "KEEP", "0")
ZADD = template("ZADD", "deadlines", "MS", "ID")
ZREM = template("ZREM", "deadlines", "ID")
SET = template("SET", "ID", "unpaid", "PXAT", "MS")
DEL = template("DEL", "ID")


def row_schedule(report):
    count = options.orders
    names = ids(count)
    runs = collections.defaultdict(list)
    for number in range(options.rounds):
        rng = random.Random(number)
        start = now_ms() + 60_000
        deadlines = [start + rng.randrange(DAY_MS) for _ in names]
        sides = [
            ("SCHEDULE", "FINISH", True, FILL, ORDER_REPLY_LINES, FINISH, GONE_REPLY_LINES,
             lambda client: stats(client)["orders"] if client("EXISTS", QUEUE) else 0),
            ("ZADD", "ZREM", False, ZADD, 1, ZREM, 1, lambda client: client("ZCARD", "deadlines")),
            ("SET PXAT", "DEL", False, SET, 1, DEL, 1, lambda client: client("DBSIZE")),
        ]
        for add, remove, module, add_made, add_lines, remove_made, remove_lines, size in alternate(sides, number):
            # SET and ZADD name their values in another order.
            pairs = zip(deadlines, names) if add == "ZADD" else zip(names, deadlines)
            pieces = list(batches(add_made, pairs))
            with Server(module=module) as server:
                runs[add].append(timed(server, count, lambda: pump(server, pieces, add_lines)))
                check(add, size(server.client), count)
                pieces = list(batches(remove_made, ((name,) for name in names)))
                runs[remove].append(timed(server, count, lambda: pump(server, pieces, remove_lines)))
                check(remove, size(server.client), 0)
            pieces = None
    report.update({side: mix(list_) for side, list_ in runs.items()})

    def ratio(ours, other, what="cpu_us"):
        pairs = zip(runs[ours], runs[other])
        return median([b[what] / a[what] if what == "cpu_us" else a[what] / b[what] for a, b in pairs])

    lines = []
    for ours, others in (("SCHEDULE", ["ZADD", "SET PXAT"]), ("FINISH", ["ZREM", "DEL"])):
        for side in (ours, *others):
            of = (f"{ratio(ours, side):.2f}x", f"{ratio(ours, side, 'k_per_s'):.2f}x") if side != ours else ("", "")
            report[side]["ratio"] = round(ratio(ours, side), 3)
            lines.append((side, f"{report[side]['cpu_us']:.2f}", f"{report[side]['k_per_s']:.0f}", *of))
    show(f"SCHEDULE with STATUS, {count} ids, random deadlines, -P {PIPELINE}; FINISH KEEP 0",
         ("side", "cpu us/order", "k/s", "cpu, ours is", "k/s, ours is"), lines)
    aim("schedule", "SCHEDULE against ZADD, processor time", f"{ratio('SCHEDULE', 'ZADD'):.2f}x", ">= 2x (goal 2.5x)",
        ratio("SCHEDULE", "ZADD") >= 2)


def alternate(sides, number):
    """The sides in another order each round."""
    sides = list(sides)
    turn = number % len(sides)
    return sides[turn:] + sides[:turn]


# --- memory -----------------------------------------------------------------------


def row_memory(report):
    count = options.orders
    rng = random.Random(1)
    start = now_ms() + 60_000
    pairs = [(name, start + rng.randrange(DAY_MS)) for name in ids(count)]
    swapped = [(deadline, name) for name, deadline in pairs]
    hset = template("HSET", "payloads", "ID", PAYLOAD)
    sides = [
        ("ours", True, [(FILL, pairs, ORDER_REPLY_LINES)]),
        ("ZSET", False, [(ZADD, swapped, 1)]),
        ("SET PXAT", False, [(SET, pairs, 1)]),
        ("ours, payload 64", True, [(FILL_PAYLOAD, pairs, ORDER_REPLY_LINES)]),
        ("ZSET + HASH, payload 64", False, [(ZADD, swapped, 1), (hset, [(name,) for name, _ in pairs], 1)]),
    ]
    lines = []
    for side, module, fills in sides:
        with Server(module=module) as server:
            before = server.used_memory()
            for made, values, reply_lines in fills:
                pump(server, batches(made, values), reply_lines)
            report[side] = round((server.used_memory() - before) / count, 1)
        lines.append((side, f"{report[side]:.1f}"))
    show(f"memory (used_memory), {count} orders with 20-byte ids and STATUS unpaid", ("side", "bytes/order"), lines)
    aim("memory", "bytes an order", f"{report['ours']} B", "<= 64 B (goal 52)", report["ours"] <= 64)
    aim("memory", "bytes an order with a payload of 64", f"{report['ours, payload 64']} B", "<= 140 B",
        report["ours, payload 64"] <= 140)


# --- CLAIM and MACK -----------------------------------------------------------------


def claim_once(client, lines_a_row):
    """CLAIM of a batch: ids and fences."""
    client.send(CLAIM)
    count = int(client.lines(1)[0][1:])
    lines = client.lines(count * lines_a_row)
    return lines[2::lines_a_row], lines[3::lines_a_row]


CLAIM = command("ORDER.CLAIM", QUEUE, "closer-1", "COUNT", BATCH)


def acknowledge(client, names, fences, *tail):
    words = itertools.chain.from_iterable((name, fence[1:]) for name, fence in zip(names, fences))
    client.send(command("ORDER.MACK", QUEUE, len(names), *words, *tail))
    client.lines(1 + 2 * len(names))


def drain(client, lines_a_row, *tail):
    """Claims and acknowledges until nothing is left. How many it were."""
    done = 0
    while True:
        names, fences = claim_once(client, lines_a_row)
        if not names:
            return done
        acknowledge(client, names, fences, *tail)
        done += len(names)


def drain_lua(client, sha, payloads):
    keys = ("3", "deadlines", "working", "payloads") if payloads else ("2", "deadlines", "working")
    done = 0
    while True:
        now = now_ms()
        client.send(command("EVALSHA", sha, *keys, now, BATCH, now + 30_000))
        head = client.lines(1)[0]
        if payloads and head != b"*0":
            head = client.lines(1)[0]
        count = int(head[1:])
        if count == 0:
            return done
        names = client.lines(2 * count)[1::2]
        if payloads:
            client.lines(1 + 2 * count)
        client.send(command("ZREM", "working", *names))
        client.lines(1)
        if payloads:
            client.send(command("HDEL", "payloads", *names))
            client.lines(1)
        done += count


def fill_due(server, made, names, span_ms, rng):
    """Fills in orders that fall due when all are in, and waits until then."""
    ahead_s = 1 + len(names) * FILL_S
    while True:
        start = now_ms() + int(ahead_s * 1000)
        pump(server, batches(made, ((name, start + rng.randrange(span_ms)) for name in names)), ORDER_REPLY_LINES)
        if now_ms() < start:
            break
        # A busy machine: some came after their deadline.
        server.client("DEL", QUEUE)
        ahead_s *= 2
    time.sleep(max(0, (start + span_ms) / 1000 + 0.2 - time.time()))


def row_claim(report):
    count = options.orders
    names = ids(count)
    runs = collections.defaultdict(list)
    for number in range(options.rounds):
        rng = random.Random(number)

        def ours(side, made, lines_a_row, *tail):
            with Server() as server:
                fill_due(server, made, names, 1000, rng)
                client = Client(server.path)
                done = []
                runs[side].append(timed(server, count, lambda: done.append(drain(client, lines_a_row, *tail))))
                check(side, done, [count])

        def lua(side, payloads):
            with Server(module=False) as server:
                late = now_ms() - 10_000
                values = ((late + rng.randrange(1000), name) for name in names)
                pump(server, batches(ZADD, values), 1)
                if payloads:
                    pump(server, batches(template("HSET", "payloads", "ID", PAYLOAD), ((n,) for n in names)), 1)
                client = Client(server.path)
                sha = client("SCRIPT", "LOAD", LUA_PAYLOADS if payloads else LUA_PLAIN)
                done = []
                runs[side].append(timed(server, count, lambda: done.append(drain_lua(client, sha, payloads))))
                check(side, done, [count])
                check(side, client("DBSIZE"), 0)

        sides = [
            lambda: ours("ours", FILL, 10, "KEEP", "0"),
            lambda: lua("Lua", False),
            lambda: ours("ours, kept a day", FILL, 10, "STATUS", "closed"),
            lambda: ours("ours, payload 64", FILL_PAYLOAD, 11, "KEEP", "0"),
            lambda: lua("Lua, payload 64", True),
        ]
        for run in alternate(sides, number):
            run()
    report.update({side: mix(list_) for side, list_ in runs.items()})
    lines = []
    for side, other in (("ours", "Lua"), ("ours, payload 64", "Lua, payload 64"), ("ours, kept a day", "Lua")):
        ratio = median([b["cpu_us"] / a["cpu_us"] for a, b in zip(runs[side], runs[other])])
        report[side]["ratio"] = round(ratio, 3)
        lines.append((side, f"{report[side]['cpu_us']:.2f}", f"{report[side]['k_per_s']:.0f}", f"{ratio:.2f}x"))
        if side != "ours, kept a day":
            lines.append((other, f"{report[other]['cpu_us']:.2f}", f"{report[other]['k_per_s']:.0f}", ""))
            aim("claim", f"CLAIM + MACK, {side}, against Lua, processor time", f"{ratio:.2f}x", ">= 3x", ratio >= 3)
    show(f"CLAIM COUNT {BATCH} + MACK {BATCH} of {count} due orders, one closer, against Lua",
         ("side", "cpu us/order", "k/s", "ours is"), lines)


# --- lateness ----------------------------------------------------------------------


def child(target, *arguments):
    """Runs `target(path, pipe, ...)` in a process of its own on the clients' cores."""
    here, there = multiprocessing.Pipe()

    def run():
        libc.prctl(1, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        atexit.unregister(stop_all)
        here.close()
        gc.disable()
        target(there, *arguments)

    process = multiprocessing.Process(target=run, daemon=True)
    process.start()
    there.close()
    if not here.poll(TIMEOUT_S):
        raise SystemExit("bench: a client does not start")
    here.recv()
    return process, here


def result(process, pipe, wait_s=TIMEOUT_S):
    if not pipe.poll(wait_s):
        raise SystemExit("bench: a client does not end")
    value = pipe.recv()
    process.join(TIMEOUT_S)
    return value


def closer(pipe, path, end_s):
    """Waits for orders and acknowledges them; how late each came, milliseconds."""
    client = Client(path)
    pipe.send("ready")
    late = []
    wait = command("ORDER.CLAIM", QUEUE, "closer-1", "COUNT", BATCH, "BLOCK", 200)
    while time.time() < end_s:
        client.send(wait)
        rows = client.read()
        received_ms = client.received_s * 1000
        late += [received_ms - row[2] for row in rows]
        if rows:
            acknowledge(client, [row[0] for row in rows], [b":%d" % row[1] for row in rows], "KEEP", "0")
    pipe.send(late)


def poller(pipe, path, end_s, every_s, deadlines):
    """Asks for due orders now and then, with the Lua pattern."""
    client = Client(path)
    sha = client("SCRIPT", "LOAD", LUA_PLAIN)
    pipe.send("ready")
    late = []
    turn = time.time()
    while turn < end_s:
        while True:
            now = now_ms()
            names = client("EVALSHA", sha, 2, "deadlines", "working", now, BATCH, now + 30_000)
            received_ms = client.received_s * 1000
            if not names:
                break
            late += [received_ms - deadlines[name] for name in names]
            client("ZREM", "working", *names)
            if len(names) < BATCH:
                break
        turn = max(turn + every_s, time.time())
        time.sleep(max(0, turn - time.time()))
    pipe.send(late)


def listener(pipe, path, end_s, channel, deadlines):
    """How late the expired events of keys come."""
    client = Client(path)
    client("SUBSCRIBE", channel)
    client.socket.settimeout(0.2)
    pipe.send("ready")
    late = []
    while time.time() < end_s:
        try:
            message = client.read()
        except TimeoutError:
            continue
        if message[2] in deadlines:
            late.append(client.received_s * 1000 - deadlines[message[2]])
    pipe.send(late)


def row_lateness(report):
    count, window_s = options.orders, options.window_s
    due = 1000 * window_s
    far = ids(count)
    runs = collections.defaultdict(list)
    early = collections.Counter()
    number = itertools.count()

    def some_due():
        """Orders that fall due within the window, 1000 a second, from a second from now."""
        rng = random.Random(next(number))
        start = now_ms() + 2000
        turn = next(number)
        return start, {b"due:%08d%08d" % (turn, i): start + rng.randrange(window_s * 1000) for i in range(due)}

    def measure(side, server, run, fill, lines_each, *arguments, extra_s=1.0):
        start, deadlines = some_due()
        end_s = (start + window_s * 1000) / 1000 + extra_s
        process, pipe = child(run, server.path, end_s, *arguments, *([deadlines] if run is not closer else []))
        pump(server, batches(fill, deadlines.items() if fill != ZADD else ((d, n) for n, d in deadlines.items())),
             lines_each)
        if now_ms() > start:
            print(f"  ({side}: the machine was too slow to fill in time)")
        time.sleep(max(0, start / 1000 - time.time()))
        cpu_us, start_s = server.cpu_us(), time.perf_counter()
        time.sleep(max(0, end_s - time.time() - 0.2))
        busy = (server.cpu_us() - cpu_us) / (time.perf_counter() - start_s) / 1e4
        late = result(process, pipe)
        early[side] += sum(1 for value in late if value < 0)
        figures = spread(late)
        figures.update(cpu_percent=busy, arrived_percent=100 * len(late) / due)
        runs[side].append(figures)

    def far_ahead(server, made, lines_each):
        rng = random.Random(7)
        start = now_ms() + 3_600_000
        pairs = ((name, start + rng.randrange(DAY_MS)) for name in far)
        pump(server, batches(made, pairs if made != ZADD else ((d, n) for n, d in pairs)), lines_each)

    with Server() as ours, Server(module=False) as theirs:
        far_ahead(ours, FILL, ORDER_REPLY_LINES)
        far_ahead(theirs, ZADD, 1)
        for _ in range(options.rounds):
            measure("CLAIM BLOCK", ours, closer, FILL, ORDER_REPLY_LINES)
            measure("poller, 1 ms", theirs, poller, ZADD, 1, 0.001)
            measure("poller, 100 ms", theirs, poller, ZADD, 1, 0.1)
    with Server("notify-keyspace-events Ex", module=False) as theirs:
        far_ahead(theirs, SET, 1)
        measure("expired events", theirs, listener, SET, 1, "__keyevent@0__:expired", extra_s=2.0 * window_s)
    lines = []
    for side, list_ in runs.items():
        full = [figures for figures in list_ if figures["count"]]
        report[side] = mix(full) if full else {"arrived_percent": 0.0}
        report[side]["early"] = early[side]
        if full:
            report[side]["max"] = max(figures["max"] for figures in full)
        at = lambda name: f"{report[side][name]:.2f}" if name in report[side] else "-"
        lines.append((side, at("p50"), at("p99"), at("max"), early[side], at("arrived_percent"), at("cpu_percent")))
    show(f"lateness in ms, {count} pending, 1000 due a second for {window_s} s (received - deadline)",
         ("side", "p50", "p99", "max", "early", "arrived %", "server cpu %"), lines)
    got = report["CLAIM BLOCK"]
    aim("lateness", "lateness p50", f"{got['p50']:.2f} ms", "<= 0.8 ms", got["p50"] <= 0.8)
    aim("lateness", "lateness p99", f"{got['p99']:.2f} ms", "<= 1.2 ms", got["p99"] <= 1.2)
    aim("lateness", "early", str(got["early"]), "0", got["early"] == 0)
    check("orders that arrived, percent", got["arrived_percent"], 100.0)


# --- a million at once ---------------------------------------------------------------


def prober(pipe, path):
    """GETs another key all the time; when each began and what it took."""
    try:
        # It must not wait for the other clients of its core.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass
    client = Client(path)
    ask = command("GET", "elsewhere")
    pipe.send("ready")
    times = []
    while not pipe.poll():
        start = time.perf_counter()
        client.send(ask)
        client.more()
        end = time.perf_counter()
        times.append((start, (end - start) * 1000))
        time.sleep(0.0003)
    pipe.send(times)


def subscribers(pipe, path, count):
    """Reads away what `count` subscribers are told. Messages, when the last came, and lost ones."""
    clients = [Client(path) for _ in range(count)]
    poll = select.epoll()
    by_number = {}
    for client in clients:
        client("SUBSCRIBE", EXPIRED_CHANNEL)
        client.socket.setblocking(False)
        poll.register(client.socket, select.EPOLLIN)
        by_number[client.socket.fileno()] = client.socket
    pipe.send("ready")
    lines, last, lost = 0, 0.0, 0
    while not pipe.poll():
        for number, _ in poll.poll(0.05):
            data = by_number[number].recv(1 << 20)
            if not data:
                # The server gave up on a reader that was too slow.
                lost += 1
                poll.unregister(number)
                continue
            lines += data.count(b"\n")
            last = time.perf_counter()
    pipe.send((lines / 7, last, lost))


def consumer(pipe, path):
    """Claims and acknowledges until nothing is left. How many, and when the last was acknowledged."""
    client = Client(path)
    pipe.send("ready")
    pipe.recv()
    done = drain(client, 10, "KEEP", "0")
    pipe.send((done, time.perf_counter()))


def fill_burst(server, names, churned):
    """Orders that all fall due in one millisecond; returns it."""
    ahead_s = 1 + len(names) * FILL_S
    while True:
        rng = random.Random(3)
        order = list(names)
        if churned:
            far = now_ms() + 3_600_000
            pump(server, batches(FILL, ((name, far + rng.randrange(DAY_MS)) for name in names)), ORDER_REPLY_LINES)
            rng.shuffle(order)
            # One stays, or the queue would be deleted and made anew.
            kept = order[0]
            pump(server, batches(FINISH, ((name,) for name in order[1:])), GONE_REPLY_LINES)
            rng.shuffle(order)
        at = now_ms() + int(ahead_s * 1000)
        pump(server, batches(FILL, ((name, at) for name in order)), ORDER_REPLY_LINES)
        if churned:
            server.client("ORDER.SCHEDULE", QUEUE, kept, "PXAT", at, "XX")
        if now_ms() < at:
            return at
        # A busy machine: some came after their deadline.
        server.client("DEL", QUEUE)
        ahead_s *= 2


def burst(churned, listeners, announce_per_s=None, consume=True):
    """All orders due in one millisecond; what happens from then on."""
    count = options.orders
    names = ids(count)
    figures = {}
    config = ["notify-keyspace-events KEd"]
    if announce_per_s is not None:
        config.append(f"orderwheel.announce-per-s-max {announce_per_s}")
    with Server(*config) as server:
        server.client("SET", "elsewhere", "value")
        at_ms = fill_burst(server, names, churned)
        probing = child(prober, server.path)
        listening = child(subscribers, server.path, listeners) if listeners else None
        consuming = [child(consumer, server.path) for _ in range(4)] if consume else []
        # From the wall clock to the one that is measured with.
        at = time.perf_counter() + at_ms / 1000 - time.time()
        time.sleep(max(0, at - 0.02 - time.perf_counter()))
        while True:
            seen = stats(server.client)
            claimed = []
            if seen["expired"] == count:
                claimed = server.client("ORDER.CLAIM", QUEUE, "first", "COUNT", 1)
            claimable = time.perf_counter()
            if claimed:
                break
            if claimable > at + TIMEOUT_S:
                raise SystemExit(f"bench: never claimable: {seen['expired']} of {count}")
            time.sleep(0.0005)
        figures["claimable_ms"] = (claimable - at) * 1000
        server.client("ORDER.ACK", QUEUE, claimed[0][0], claimed[0][1], "KEEP", 0)
        # First nobody claims: the server announces, as fast as it may.
        time.sleep(max(0, at + options.announce_s - time.perf_counter()))
        announced_to = time.perf_counter()
        announced = int(server.info("orderwheel", "orderwheel_announced_total"))
        figures["announced_k_per_s"] = announced / (announced_to - at) / 1e3
        figures["pass_us_max"] = int(server.info("orderwheel", "orderwheel_pass_us_max"))
        drained_to = announced_to
        if consume:
            for _, pipe in consuming:
                pipe.send("go")
            ends = [result(*pair, wait_s=4 * TIMEOUT_S) for pair in consuming]
            check("claimed", sum(done for done, _ in ends), count - 1)
            drained_to = max(end for _, end in ends)
            figures["drain_s"] = drained_to - announced_to
            figures["drain_k_per_s"] = count / figures["drain_s"] / 1e3
        probing[1].send("stop")
        times = result(*probing)
        for name, start, end in (("announcing", at, announced_to), ("draining", announced_to, drained_to)):
            if end > start:
                got = spread([ms for begun, ms in times if start <= begun < end])
                figures.update({f"get_{name}_{which}_ms": got[which] or 0.0 for which in ("p50", "p99", "max")})
        if listening:
            listening[1].send("stop")
            messages, _, lost = result(*listening)
            figures["delivered_k_per_s"] = messages / listeners / (drained_to - at) / 1e3
            figures["subscribers_lost"] = lost
    return figures


def row_burst(report):
    runs = collections.defaultdict(list)
    sides = [("fresh", False, 0), ("churned", True, 0), ("fresh, 10 subscribers", False, 10),
             ("churned, 10 subscribers", True, 10)]
    for number in range(options.rounds):
        for side, churned, listeners in alternate(sides, number):
            runs[side].append(burst(churned, listeners))
    lines = []
    for side, _, listeners in sides:
        got = report[side] = mix(runs[side])
        at = lambda name, digits=2: f"{got[name]:.{digits}f}"
        lines.append((side, at("claimable_ms"), at("drain_s"),
                      *("/".join(at(f"get_{phase}_{which}_ms") for which in ("p50", "p99", "max"))
                        for phase in ("announcing", "draining")), at("announced_k_per_s", 0)))
        bound = 3.0 if listeners else 1.5
        p99 = max(got["get_announcing_p99_ms"], got["get_draining_p99_ms"])
        aim("burst", f"GET p99 elsewhere, {side}", f"{p99:.2f} ms", f"<= {bound} ms", p99 <= bound)
        if not listeners:
            bound = 400 if side == "churned" else 100
            aim("burst", f"claimable, {side}", f"{got['claimable_ms']:.1f} ms", f"<= {bound} ms",
                got["claimable_ms"] <= bound)
    show(f"{options.orders} due in one millisecond: all claimable after, 4 closers' last acknowledgement after, "
         "and a GET elsewhere meanwhile",
         ("side", "claimable ms", "closed s", "GET announcing p50/p99/max", "GET draining p50/p99/max",
          "announced k/s"), lines)


def row_announce(report):
    """What announce-per-s-max the server bears, with 10 subscribers."""
    lines = []
    for limit in (20_000, 50_000, 100_000, 200_000, 500_000):
        runs = [burst(False, 10, limit, consume=False) for _ in range(options.rounds)]
        got = report[str(limit)] = mix(runs)
        lines.append((limit, f"{got['announced_k_per_s']:.0f}", f"{got['delivered_k_per_s']:.0f}",
                      "/".join(f"{got[f'get_announcing_{which}_ms']:.2f}" for which in ("p50", "p99", "max")),
                      f"{got['subscribers_lost']:.0f}", f"{got['pass_us_max']:.0f}"))
    show(f"announcing {options.orders} orders to 10 subscribers, by announce-per-s-max",
         ("limit", "announced k/s", "delivered k/s each", "GET p50/p99/max ms", "lost", "longest pass us"), lines)


# --- all ------------------------------------------------------------------------------


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with Server() as server:
        version = server.info("server", "redis_version")
        ours = server.info("orderwheel", "orderwheel_version")
    return {"processor": model, "cores": len(ALL_CORES), "system": f"{platform.system()} {platform.release()}",
            "server": f"redis-server {version}", "module": f"orderwheel {ours}",
            "load_before": round(os.getloadavg()[0], 2), "orders": options.orders, "rounds": options.rounds,
            "server_cores": SERVER_CORES, "client_cores": CLIENT_CORES}


def arguments():
    parser = argparse.ArgumentParser(prog="bench.sh")
    parser.add_argument("--server", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--module", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--orders", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true")
    got = parser.parse_args()
    got.rows = got.rows.replace(",", " ").split()
    for row in got.rows:
        if row not in ROWS + EXTRA_ROWS:
            parser.error(f"no row {row}; there are {' '.join(ROWS + EXTRA_ROWS)}")
    got.orders = got.orders or (100_000 if got.quick else 1_000_000)
    got.rounds = got.rounds or (1 if got.quick else 5)
    got.window_s = 4 if got.quick else 10
    got.announce_s = 1.0 if got.quick else 3.0
    got.module = os.path.abspath(got.module)
    return got


def main():
    multiprocessing.set_start_method("fork")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    os.sched_setaffinity(0, CLIENT_CORES)
    gc.disable()
    report = {"machine": machine(), "rows": {}}
    for name, value in report["machine"].items():
        print(f"{name.replace('_', ' ')}: {value}")
    if report["machine"]["load_before"] > 0.5:
        print("Something else is running on this machine: take ratios, not figures.")
    for row in options.rows:
        start = time.monotonic()
        report["rows"][row] = {}
        globals()[f"row_{row}"](report["rows"][row])
        gc.collect()
        print(f"  ({time.monotonic() - start:.0f} s)")
    report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    report["aims"] = aims
    if aims:
        show("aims", ("figure", "measured", "aim", "reached"),
             [(a["what"], a["got"], a["aim"], "yes" if a["reached"] else "NO") for a in aims])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
        print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    options = arguments()
    main()
