"""What large queues do to the server: the rows worst, persist, delete and idle."""

import collections
import itertools
import os
import random
import re
import tempfile
import time

from costs import (FILL, FINISH, GONE_REPLY_LINES, ORDER_REPLY_LINES, ZADD, ZREM, acknowledge, claim_once, in_flight,
                   mfinish, mschedule)
from times import probe, prober
from tools import (ALL_CORES, BATCH, DAY_MS, FILL_S, LUA_PLAIN, QUEUE, TRACKED, Client, Server, aim, alternate, batches,
                   check, child, command, ids, kept, now_ms, options, pump, ratio, size_name, show, stalls, stats)


def fill_far(server, ours, count):
    """Orders with random deadlines, an hour to a day ahead."""
    start, rng = now_ms() + 3_600_000, random.Random(7)
    orders = ((name, start + rng.randrange(DAY_MS)) for name in ids(count))
    if ours:
        pump(server, batches(FILL, orders), ORDER_REPLY_LINES)
    else:
        pump(server, batches(ZADD, ((deadline, name) for name, deadline in orders)), 1)


def size_of(server, ours):
    return stats(server.client)["orders"] if ours else server.client("ZCARD", "deadlines")


def saved(ours, count):
    """A folder with an RDB file of so many orders far ahead; made once."""
    if (ours, count) not in kept:
        folder = kept[ours, count] = tempfile.mkdtemp(prefix="orderwheel-bench.")
        with Server(module=ours, folder=folder) as server:
            fill_far(server, ours, count)
            server.client.socket.settimeout(None)
            server.client("SAVE")
    return kept[ours, count]


# --- the slowest single command --------------------------------------------------------

# What the growth is measured from: a queue of so many, filled again and again until so
# many commands were measured.
SMALL, SMALL_COMMANDS = 10_000, 200_000
# The most orders of one batch.
BATCH_MAX = 1000


# The server's thread while others had its core, and what the hypervisor took.
ASIDE = "server put aside"


def stolen_ms():
    """What the hypervisor says it took of the server's core so far."""
    with open("/proc/stat") as file:
        [fields] = [line.split() for line in file if line.startswith(f"cpu{ALL_CORES[0]} ")]
    return int(fields[8]) * 1000 / os.sysconf("SC_CLK_TCK")


def slowest_schedules(server):
    """The slowest SCHEDULEs of a fill, ms and how many orders were before: what is ours comes at the same each time."""
    slow = [(entry[2] / 1000, int(entry[3][2].split(b":")[1])) for entry in server.client("SLOWLOG", "GET", -1)
            if entry[3][0] == b"ORDER.SCHEDULE"]
    return sorted(slow, reverse=True)[:10]


def acknowledge_singly(client, names, fences):
    client.send(b"".join(command("ORDER.ACK", QUEUE, name, fence[1:], "KEEP", 0) for name, fence in zip(names, fences)))
    client.lines(GONE_REPLY_LINES * len(names))


def worst_ours(count, repeats):
    """Fill, claim, acknowledge, finish, delete: half of the orders fall due right after the fill, in random order."""
    names = ids(count)
    stolen = stolen_ms()
    span_ms = min(10_000, max(200, count // 100))
    with Server(*TRACKED, "slowlog-log-slower-than 2000", "slowlog-max-len 100000") as server:
        server.client("CONFIG", "RESETSTAT")
        client = Client(server.path)
        for number in range(repeats):
            rng = random.Random(number)
            far = now_ms() + 3_600_000
            start = now_ms() + int(1000 * (0.2 + count * FILL_S))
            deadlines = (start + rng.randrange(span_ms) if at % 2 else far + rng.randrange(DAY_MS)
                         for at in range(count))
            pump(server, batches(FILL, zip(names, deadlines)), ORDER_REPLY_LINES)
            time.sleep(max(0, (start + span_ms) / 1000 + 0.1 - time.time()))
            for turn in itertools.count():
                taken, fences = claim_once(client, 10)
                if not taken:
                    break
                if turn % 2:
                    acknowledge_singly(client, taken, fences)
                else:
                    acknowledge(client, taken, fences, "KEEP", 0)
            rest = names[::2]
            rng.shuffle(rest)
            # Some are left for DEL.
            pump(server, batches(FINISH, ((name,) for name in rest[:len(rest) * 9 // 10])), GONE_REPLY_LINES)
            check("left", stats(server.client)["orders"], len(rest) - len(rest) * 9 // 10)
            server.client("DEL", QUEUE)
        kinds = server.latency()
        slowest = slowest_schedules(server)
        passes = int(server.info("orderwheel", "orderwheel_pass_us_max"))
        waited_ms, aside = server.waited_ms()
    figures = {"SCHEDULE": kinds["order.schedule"], "CLAIM COUNT 100": kinds["order.claim"], "ACK": kinds["order.ack"],
               "MACK 100": kinds["order.mack"], "FINISH": kinds["order.finish"], "DEL": kinds["del"],
               "pass": {"max": passes},
               ASIDE: {"times": aside, "ms": waited_ms, "stolen_ms": stolen_ms() - stolen, "slowest": slowest}}
    return figures


def worst_batches(count, repeats):
    """Fill and finish, a thousand orders a command."""
    count = count // BATCH_MAX * BATCH_MAX
    names = ids(count)
    with Server(*TRACKED) as server:
        server.client("CONFIG", "RESETSTAT")
        for number in range(repeats):
            rng = random.Random(number)
            far = now_ms() + 3_600_000
            orders = [(name, far + rng.randrange(DAY_MS)) for name in names]
            pump(server, in_flight(mschedule(orders, BATCH_MAX), 1), 1 + BATCH_MAX)
            check("made", stats(server.client)["orders"], count)
            rng.shuffle(orders)
            shuffled = [name for name, _ in orders]
            pump(server, in_flight(mfinish(shuffled, BATCH_MAX), 1), 1 + BATCH_MAX)
            check("left", server.client("EXISTS", QUEUE), 0)
        kinds = server.latency()
    return {"MSCHEDULE 1000": kinds["order.mschedule"], "MFINISH 1000": kinds["order.mfinish"]}


def worst_zset(count, repeats):
    """The same with a sorted set and the Lua pattern."""
    names = ids(count)
    with Server(*TRACKED, module=False) as server:
        server.client("CONFIG", "RESETSTAT")
        client = Client(server.path)
        sha = client("SCRIPT", "LOAD", LUA_PLAIN)
        for number in range(repeats):
            rng = random.Random(number)
            far, past = now_ms() + 3_600_000, now_ms() - DAY_MS
            deadlines = (past + rng.randrange(10_000) if at % 2 else far + rng.randrange(DAY_MS) for at in range(count))
            pump(server, batches(ZADD, zip(deadlines, names)), 1)
            while client("EVALSHA", sha, 2, "deadlines", "working", now_ms(), BATCH, now_ms() + 30_000):
                pass
            rest = names[::2]
            rng.shuffle(rest)
            pump(server, batches(ZREM, ((name,) for name in rest[:len(rest) * 9 // 10])), 1)
            client("DEL", "deadlines")
            client("UNLINK", "working")
        kinds = server.latency()
    return {"ZADD": kinds["zadd"], "Lua claim 100": kinds["evalsha"], "ZREM": kinds["zrem"], "ZSET DEL": kinds["del"]}


def row_worst(report):
    count = options.orders
    runs = collections.defaultdict(list)
    still = []
    for number in range(options.rounds):
        still.append(stalls(5.0))
        again = -(-SMALL_COMMANDS // SMALL)
        sides = [(worst_ours, SMALL, again), (worst_zset, SMALL, again), (worst_batches, SMALL, again),
                 (worst_ours, count, 1), (worst_zset, count, 1), (worst_batches, count, 1)]
        sides = sides if count > SMALL else sides[:3]
        for run, orders, repeats in alternate(sides, 3 * number % len(sides)):
            for kind, figures in run(orders, repeats).items():
                runs[orders, kind].append(figures)
        still.append(stalls(5.0))
    machine = report.put("machine", still)
    lines, notes = [], []
    for (orders, kind), list_ in sorted(runs.items(), key=lambda run: run[0][0]):
        got = report.put(f"{kind}, {size_name(orders)}", list_)
        if kind == ASIDE:
            notes.append(f"  {size_name(orders)}, ours: the kernel put the server aside {got['times']:.0f} times, for "
                         f"{got['ms']:.0f} ms in all; the hypervisor took {got['stolen_ms']:.0f} ms")
            notes += ["    SCHEDULEs above 2 ms (what is ours comes at the same place each round): " + ", ".join(
                f"{ms:.1f} ms at {place}" for ms, place in run["slowest"][:5]) for run in list_ if run["slowest"]]
            continue
        got["worst"] = max(run["max"] for run in list_)
        if "calls" in got and "mean" in got:
            # So many of its calls a program that does nothing would have been stalled in.
            got["stalls_awaited"] = round(machine["stalls_per_s"] * got["calls"] * got["mean"] / 1e6, 1)
        if orders == count and count != SMALL and f"{kind}, {size_name(SMALL)}" in report.figures and got.get("p99"):
            small = report.figures[f"{kind}, {size_name(SMALL)}"]
            got["p99_growth"] = round(got["p99"] / small["p99"], 3)
        at = lambda name, digits=0: f"{got[name]:.{digits}f}" if name in got else ""
        lines.append((f"{kind}, {size_name(orders)}", at("calls"), at("mean", 2), at("p50"), at("p99"), at("p99.9"),
                      at("p99.99"), at("max"), at("worst"), at("above_1_ms"), at("above_2_ms"), at("stalls_awaited", 1),
                      at("p99_growth", 2)))
    show("the slowest single command, microseconds within the server: fill, claim and acknowledge half, finish the "
         "other, delete the rest",
         ("command", "calls", "mean", "p50", "p99", "p99.9", "p99.99", "max", "worst round", "> 1 ms", "> 2 ms",
          "by machine", "p99 grows"), lines)
    print(f"  by machine: calls that a program doing nothing would be kept from running in for more than 1 ms; that "
          f"happens here {machine['stalls_per_s']:.1f} times a second, for up to "
          f"{max(run['stall_ms_max'] for run in still):.1f} ms")
    print("\n".join(notes))
    for kind in ("SCHEDULE", "FINISH", "ACK", "CLAIM COUNT 100", "DEL", "pass"):
        aim(f"slowest {kind}", report.figures[f"{kind}, {size_name(count)}"]["max"] / 1000, "ms", 2)
    for kind in ("SCHEDULE", "FINISH", "ACK", "CLAIM COUNT 100"):
        got = report.figures[f"{kind}, {size_name(count)}"]
        if "p99_growth" in got:
            aim(f"p99 of {kind} against {SMALL} orders", got["p99_growth"], "x", 1.5)


# --- saving and loading ------------------------------------------------------------------

# A log that holds all, written when the system likes.
LOGGED = ["appendonly yes", "appendfsync no", "auto-aof-rewrite-percentage 0"]
LOADED = re.compile(r"DB loaded from (?:disk|append only file): ([0-9.]+) seconds")


def bytes_below(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def persisted(ours, count):
    """Every way of saving and loading, of one fill."""
    figures = {}
    with tempfile.TemporaryDirectory(prefix="orderwheel-bench.") as folder:
        log = os.path.join(folder, "appendonlydir")

        def start(what, *config):
            server = Server(*config, module=ours, folder=folder, poll_s=0.005)
            if what:
                figures[f"{what} load_s"] = server.ready_s - figures["empty start_s"]
                figures[f"{what} load_told_s"] = float(LOADED.findall(server.log())[-1])
                check(what, size_of(server, ours), count)
            server.client.socket.settimeout(None)
            return server

        def rewrite(what, server, preamble):
            server.client("CONFIG", "SET", "aof-use-rdb-preamble", preamble)
            begun = time.perf_counter()
            server.client("BGREWRITEAOF")
            while "1" in (server.info("persistence", "aof_rewrite_in_progress"),
                          server.info("persistence", "aof_rewrite_scheduled")):
                time.sleep(0.01)
            figures[f"{what} save_s"] = time.perf_counter() - begun
            check(what, server.info("persistence", "aof_last_bgrewrite_status"), "ok")
            # Files that the rewrite made superfluous go a moment later.
            time.sleep(0.2)
            figures[f"{what} bytes"] = bytes_below(log) / count

        with start(None) as server:
            figures["empty start_s"] = server.ready_s
        with start(None, *LOGGED) as server:
            fill_far(server, ours, count)
            begun = time.perf_counter()
            server.client("SAVE")
            figures["RDB save_s"] = time.perf_counter() - begun
            figures["RDB bytes"] = bytes_below(os.path.join(folder, "dump.rdb")) / count
            figures["AOF as written bytes"] = bytes_below(log) / count
        with start("AOF as written", *LOGGED) as server:
            rewrite("AOF, commands", server, "no")
        with start("AOF, commands", *LOGGED) as server:
            rewrite("AOF, preamble", server, "yes")
        with start("AOF, preamble", *LOGGED):
            pass
        with start("RDB"):
            pass
    return figures


def row_persist(report):
    count = options.orders
    runs = {"ours": [], "ZSET": []}
    for number in range(options.rounds):
        for side in alternate(runs, number):
            runs[side].append(persisted(side == "ours", count))
    for side, list_ in runs.items():
        report.put(side, list_)
    ours, zset = report.figures["ours"], report.figures["ZSET"]
    lines = []
    for what in ("RDB", "AOF as written", "AOF, commands", "AOF, preamble"):
        line = [what]
        # The end of a rewrite is seen on the server's clock tick, ten times a second.
        for figure, most in (("save_s", 1.0 if what == "RDB" else 1.1), ("load_s", 1.5)):
            name = f"{what} {figure}"
            if name not in ours:
                line += ["", "", ""]
                continue
            times = ratio(runs["ours"], runs["ZSET"], name)
            ours[f"{name} ratio"] = round(times, 3)
            line += [f"{ours[name]:.2f}", f"{zset[name]:.2f}", f"{times:.2f}x"]
            aim(f"{name.removesuffix('_s')} takes, against a ZSET", times, "x", most)
        lines.append((*line, f"{ours[f'{what} bytes']:.1f}", f"{zset[f'{what} bytes']:.1f}"))
    show(f"saving and loading {count} orders, seconds, beside a ZSET of the same (load: from the start to the first "
         "answer, less an empty server's)",
         ("file", "save, ours", "ZSET", "ours takes", "load, ours", "ZSET", "ours takes", "bytes/order", "ZSET"), lines)


# --- a large queue goes --------------------------------------------------------------------

# Each way to lose a key: a command that makes it ready, and the one that is measured.
GOINGS = {
    "DEL": (None, ("DEL", "KEY")),
    "UNLINK": (None, ("UNLINK", "KEY")),
    "FLUSHALL SYNC": (None, ("FLUSHALL", "SYNC")),
    "FLUSHALL ASYNC": (None, ("FLUSHALL", "ASYNC")),
    "SET over it": (None, ("SET", "KEY", "value")),
    "RENAME over it": (("SET", "small", "value"), ("RENAME", "small", "KEY")),
    "it expires": (None, ("PEXPIRE", "KEY", "50")),
}
# So long at most is waited until its memory is free, and this is left of it then.
GONE_WAIT_S, GONE_BYTES = 60, 4 << 20


def going(ours, count, ready, last):
    """Loads a queue and loses it: what the command took in the server, and what others met meanwhile."""
    key = QUEUE if ours else "deadlines"
    # Threads that free may run on any core, as they would elsewhere.
    with Server(module=ours, folder=saved(ours, count), cores=ALL_CORES) as server:
        check("loaded", size_of(server, ours), count)
        server.client("SET", "elsewhere", "value")
        place = lambda words: [key if word == "KEY" else word for word in words]
        if ready:
            server.client(*place(ready))
        probing = child(prober, server.path)
        time.sleep(1.0)
        server.client("CONFIG", "RESETSTAT")
        start = time.perf_counter()
        server.client(*place(last))
        told = server.client("INFO", "commandstats").decode()
        while int(server.info("memory", "used_memory")) > GONE_BYTES and time.perf_counter() < start + GONE_WAIT_S:
            time.sleep(0.1)
        freed = time.perf_counter()
        figures = probe(probing, start - 0.01, freed)
    [took_us] = re.findall(rf"cmdstat_{last[0].lower()}:calls=1,usec=(\d+)", told)
    return {"command_ms": int(took_us) / 1000, "stall_ms": figures["get_max_ms"], "p99_ms": figures["get_p99_ms"],
            "before_ms": figures["get_max_before_ms"], "freed_s": freed - start}


def row_delete(report):
    count = options.orders
    runs = collections.defaultdict(list)
    sides = [(True, name) for name in GOINGS] + [(False, name) for name in GOINGS]
    for number in range(options.rounds):
        for ours, name in alternate(sides, number * len(GOINGS)):
            runs[ours, name].append(going(ours, count, *GOINGS[name]))
    lines = []
    for name in GOINGS:
        ours, zset = report.put(name, runs[True, name]), report.put(f"ZSET, {name}", runs[False, name])
        lines.append((name, *(f"{side[figure]:.2f}" for figure in ("command_ms", "stall_ms", "before_ms", "freed_s")
                              for side in (ours, zset))))
        # An expiry is no command: only others feel it.
        if name != "it expires":
            aim(f"{name}, within the server", ours["command_ms"], "ms", 2)
        aim(f"{name}, longest GET elsewhere", ours["stall_ms"], "ms", 2)
    show(f"a queue of {count} goes, and a ZSET of the same: ms of the command, longest GET elsewhere until the memory "
         "is free (and in the second before), seconds until then",
         ("how", "command", "ZSET", "longest GET", "ZSET", "before", "ZSET", "freed s", "ZSET"), lines)


# --- a server that waits -----------------------------------------------------------------

WAITING, WINDOW_S = 100, 10.0


def row_idle(report):
    count = options.orders
    runs = collections.defaultdict(list)
    with Server(folder=saved(True, count)) as ours, Server(folder=saved(False, count), module=False) as zset, \
            Server() as empty, Server(module=False) as plain:
        # Those that wait stay connected as long as this list lives.
        waiting = []
        for server, wait in ((ours, command("ORDER.CLAIM", QUEUE, "closer", "BLOCK", 0)),
                             (zset, command("BZPOPMIN", "nothing", 0))):
            for _ in range(WAITING):
                waiting.append(Client(server.path))
                waiting[-1].send(wait)
            server.client("PING")
            time.sleep(0.1)
            check("clients that wait", int(server.info("clients", "blocked_clients")), WAITING)
        sides = {f"{count} far ahead, {WAITING} claimers wait": ours,
                 f"ZSET of {count}, {WAITING} wait in BZPOPMIN": zset, "empty, with the module": empty,
                 "empty, without it": plain}
        # What comes after a load is over by then.
        time.sleep(5)
        for _ in range(options.rounds):
            before = [(server.cpu_us(), time.perf_counter()) for server in sides.values()]
            time.sleep(WINDOW_S)
            for (side, server), (cpu_us, at) in zip(sides.items(), before):
                busy = (server.cpu_us() - cpu_us) / (time.perf_counter() - at) / 1e4
                runs[side].append({"cpu_percent": busy})
        for client in waiting:
            client.close()
    lines = [(side, f"{report.put(side, list_)['cpu_percent']:.3f}") for side, list_ in runs.items()]
    show(f"a server that waits: per cent of a core, over {WINDOW_S:g} s", ("server", "cpu %"), lines)
    aim("processor time of a server that waits", report.figures[next(iter(sides))]["cpu_percent"], "%", 0.3)
