"""What all rows of the benchmark use: servers, the protocol, figures, clients.

How it is measured:

- Each run of a side has a fresh server, on a socket file, with its threads on one
  core, before others that want it (where that is allowed), and all clients on the
  other.
- What a command costs is the processor time of the server (all its threads, as
  the kernel counts it), not the time a client waits: that is how many of them a
  core can do. Orders a second are by the wall clock, with enough in flight that
  the server never waits.
- How long a single command takes at most is what the server itself says
  (`latency-tracking`), in whole microseconds.
- Commands are put together outside the timed part, or their making costs only
  the client's core. Replies are counted by their lines; that all was done is
  asked of the server afterwards.
- Sides take turns within a round. A ratio is the median of the rounds' ratios.
"""

import argparse
import atexit
import ctypes
import gc
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

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
# No wait for an answer lasts longer, none for a server that loads a file.
TIMEOUT_S = 60
LOAD_TIMEOUT_S = 900
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
# Servers that run, folders of files that several rows use, what the command line
# says and which row is at work, figures that were aimed at.
living = set()
kept = {}
options = argparse.Namespace()
aims = []


@atexit.register
def stop_all():
    for server in list(living):
        server.stop()
    for folder in kept.values():
        shutil.rmtree(folder, ignore_errors=True)


class Server:
    """A throwaway server. In a folder that is given it finds files, and leaves them."""

    def __init__(self, *config, module=True, folder=None, cores=SERVER_CORES, poll_s=0.02):
        self.keep = folder is not None
        self.folder = folder or tempfile.mkdtemp(prefix="orderwheel-bench.")
        self.path = os.path.join(self.folder, "socket")
        lines = [f"dir {self.folder}", "port 0", f"unixsocket {self.path}", 'save ""']
        lines += [f"loadmodule {options.module}"] if module else []
        with open(os.path.join(self.folder, "redis.conf"), "w") as file:
            file.write("\n".join([*lines, *config]) + "\n")
        log = open(os.path.join(self.folder, "log"), "wb")

        def prepare():
            os.sched_setaffinity(0, ALL_CORES)
            try:
                # It goes before whatever else wants its core.
                os.setpriority(os.PRIO_PROCESS, 0, -20)
            except OSError:
                pass
            # It ends with this script, however that ends.
            libc.prctl(1, signal.SIGKILL)

        start_s = time.perf_counter()
        self.process = subprocess.Popen(
            [options.server, os.path.join(self.folder, "redis.conf")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare)
        log.close()
        living.add(self)
        end = time.monotonic() + LOAD_TIMEOUT_S
        while True:
            try:
                self.client = Client(self.path)
                self.client("PING")
                break
            except (OSError, ServerError):
                if self.process.poll() is not None or time.monotonic() > end:
                    sys.stderr.write(self.log()[-3000:])
                    raise SystemExit("bench: the server does not start")
                time.sleep(poll_s)
        # Its main thread alone: else what others of its threads do (the allocator
        # gives memory back to the kernel on one of its own) would stop it.
        os.sched_setaffinity(self.process.pid, cores)
        # From its start to the first answer, what it loaded included.
        self.ready_s = time.perf_counter() - start_s

    def log(self):
        with open(os.path.join(self.folder, "log")) as file:
            return file.read()

    def stop(self):
        living.discard(self)
        self.process.kill()
        self.process.wait()
        if not self.keep:
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

    def cpu_percent(self, seconds):
        """What it uses of a core in some seconds."""
        start_us, start_s = self.cpu_us(), time.perf_counter()
        time.sleep(seconds)
        return (self.cpu_us() - start_us) / (time.perf_counter() - start_s) / 1e4

    def info(self, section, field):
        text = self.client("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)[field]

    def latency(self):
        """Of each command since CONFIG RESETSTAT, microseconds: what `Tracked` says."""
        kinds = {}
        for line in self.client("INFO", "commandstats").decode().splitlines():
            if line.startswith("cmdstat_"):
                name, fields = line[len("cmdstat_"):].split(":", 1)
                fields = dict(field.split("=") for field in fields.split(","))
                kinds[name] = {"calls": int(fields["calls"]), "mean": float(fields["usec_per_call"])}
        for line in self.client("INFO", "latencystats").decode().splitlines():
            if line.startswith("latency_percentiles_usec_"):
                name, fields = line[len("latency_percentiles_usec_"):].split(":", 1)
                fields = dict(field.split("=") for field in fields.split(","))
                kinds.get(name, {}).update({"max" if at == "p100" else at: float(us) for at, us in fields.items()})
        for name, value in pairs_of(self.client("LATENCY", "HISTOGRAM")):
            value = dict(pairs_of(value))
            below = pairs_of(value[b"histogram_usec"])
            if name.decode() in kinds:
                for label, limit in (("above_1_ms", 1100), ("above_2_ms", 2200)):
                    fine = max([count for us, count in below if us <= limit], default=0)
                    kinds[name.decode()][label] = value[b"calls"] - fine
        return kinds

    def waited_ms(self):
        """How long its main thread stood ready while others had its core, and how often it was put aside."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat") as file:
            waited = int(file.read().split()[1]) / 1e6
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/status") as file:
            aside = [int(line.split()[1]) for line in file if line.startswith("nonvoluntary_ctxt_switches")]
        return waited, aside[0]

    def used_memory(self):
        time.sleep(0.3)
        return int(self.info("memory", "used_memory"))


# A server that says how long each command took.
TRACKED = ["latency-tracking yes", "latency-tracking-info-percentiles 50 99 99.9 99.99 100"]


def pairs_of(flat):
    return list(zip(flat[::2], flat[1::2]))


# --- the protocol --------------------------------------------------------------


class ServerError(Exception):
    pass


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


# Places in a command: their length, and what `%` puts there.
PLACES = {"ID": (20, b"%b"), "KEY": (13, b"%b"), "MS": (13, b"%d")}


def template(*words):
    """A command with places, for `%`."""
    made = command(*(word if word not in PLACES else chr(1) * PLACES[word][0] for word in words))
    for word in words:
        if word in PLACES:
            length, put = PLACES[word]
            made = made.replace(b"\1" * length, put, 1)
    return made


class Client:
    """One connection."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Without a limit until then: a server that has many to accept lets others wait.
        self.socket.connect(path)
        self.socket.settimeout(TIMEOUT_S)
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


class Report:
    """What a row found at one size: of each side the medians, and every round."""

    def __init__(self):
        self.figures = {}
        self.rounds = {}

    def put(self, side, runs):
        """Notes the rounds of a side; their medians, to which the row may add."""
        self.rounds[side] = list(runs)
        self.figures[side] = mix(self.rounds[side])
        return self.figures[side]

    def whole(self):
        return {"figures": self.figures, "each_round": self.rounds}


def ratio(others, ours, what="cpu_us"):
    """How many times `ours` the figure of the others is: the median of the rounds."""
    return median([other[what] / our[what] for other, our in zip(others, ours)])


def alternate(sides, number):
    """The sides in another order each round."""
    sides = list(sides)
    turn = number % len(sides)
    return sides[turn:] + sides[:turn]


def show(title, headings, lines):
    """A table."""
    cells = [[str(cell) for cell in line] for line in [headings, *lines]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    rounds = f"{options.rounds} round" + "s" * (options.rounds != 1)
    print(f"\n{title}" + (f" [{rounds}]" if options.rounds else ""))
    for number, line in enumerate(cells):
        left, *right = line
        print("  " + "  ".join([left.ljust(widths[0]), *(c.rjust(w) for c, w in zip(right, widths[1:]))]).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def aim(what, got, unit, bound, least=False, goal=None):
    """Notes a figure that was aimed at: it should be at most, or at least, the bound."""
    reached = got is not None and (got >= bound if least else got <= bound)
    aims.append({"row": options.row, "orders": options.orders, "rounds": options.rounds, "what": what,
                 "measured": None if got is None else round(got, 3), "unit": unit, "at": "least" if least else "most",
                 "aim": bound, "goal": goal, "reached": bool(reached)})


def size_name(count):
    """100000 is 100k."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def ids(count):
    return [b"order:%014d" % number for number in range(count)]


def now_ms():
    return int(time.time() * 1000)


# --- clients in processes of their own ---


def child(target, *arguments):
    """Runs `target(pipe, ...)` in a process of its own on the clients' cores."""
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




class Closers:
    """The fast closers, a program of its own: see tests/closer. They work for "ours", or by a script of this name."""

    def __init__(self, server, whose, connections, count):
        self.process = subprocess.Popen([options.closer, server.path, whose, str(connections), str(BATCH), str(count)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))
        check("the closers", self.process.stdout.readline(), b"ready\n")

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def result(self, wait_s):
        """How many were taken and acknowledged, and the wall clock of the last acknowledgement."""
        try:
            text, _ = self.process.communicate(timeout=wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise SystemExit("bench: the closers do not end") from None
        if not text.startswith(b"{"):
            raise SystemExit(f"bench: {text.decode()}")
        return json.loads(text)


def spinner(pipe, seconds):
    """Looks at the clock all the time on the server's core: when it could not for more than a millisecond."""
    os.sched_setaffinity(0, SERVER_CORES)
    pipe.send("ready")
    clock, gaps = time.perf_counter, []
    end = before = clock()
    end += seconds
    while before < end:
        now = clock()
        if now - before > 0.001:
            gaps.append((now - before) * 1000)
        before = now
    pipe.send(gaps)


def stalls(seconds=3.0):
    """How still the machine is: what a program that does nothing on the server's core is kept from running."""
    gaps = result(*child(spinner, seconds))
    return {"stalls_per_s": round(len(gaps) / seconds, 2), "stall_ms_max": round(max(gaps, default=0.0), 2),
            "stalled_percent": round(sum(gaps) / seconds / 10, 3)}
