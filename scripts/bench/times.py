"""When things happen: the rows lateness, burst, waiters, brake, queues and announce."""

import collections
import itertools
import os
import random
import select
import time

from costs import FILL, FINISH, GONE_REPLY_LINES, ORDER_REPLY_LINES, SET, ZADD, acknowledge
from tools import (BATCH, DAY_MS, EXPIRED_CHANNEL, FILL_S, LUA_PLAIN, QUEUE, TIMEOUT_S, Client, Closers, Server, aim,
                   alternate, batches, check, child, command, ids, median, now_ms, options, pump, ratio, result,
                   show, spread, stats, template)

# --- lateness ----------------------------------------------------------------------


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
            # What an earlier run has left behind counts nowhere.
            late += [received_ms - deadlines[name] for name in names if name in deadlines]
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
        # A side that nothing arrived at has no percentiles.
        full = [figures for figures in list_ if figures["count"]]
        got = report.put(side, full or [{"arrived_percent": 0.0, "count": 0}])
        got["early"] = early[side]
        if full:
            got["max"] = max(figures["max"] for figures in full)
        at = lambda name: f"{got[name]:.2f}" if name in got else "-"
        lines.append((side, at("p50"), at("p99"), at("max"), early[side], at("arrived_percent"), at("cpu_percent")))
    show(f"lateness in ms, {count} pending, 1000 due a second for {window_s} s (received - deadline)",
         ("side", "p50", "p99", "max", "early", "arrived %", "server cpu %"), lines)
    got = report.figures["CLAIM BLOCK"]
    aim("lateness p50", got["p50"], "ms", 0.8)
    aim("lateness p99", got["p99"], "ms", 1.2)
    aim("early", got["early"], "orders", 0)
    check("orders that arrived, percent", got["arrived_percent"], 100.0)


# --- a million at once ---------------------------------------------------------------


# Closers, and how long expired events are waited for.
CLOSERS = 4
EXPIRED_WAIT_S = 120


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
        closers = Closers(server, "ours", CLOSERS, count - 1) if consume else None
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
            closers.go()
            drained_to = closed(closers, count - 1)
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


def closed(closers, count):
    """Waits until the closers have taken and acknowledged so many; when that was."""
    got = closers.result(4 * TIMEOUT_S)
    check("taken and acknowledged", (got["count"], got["acknowledged"]), (count, count))
    return got["last_s"] - time.time() + time.perf_counter()


def probe(probing, start, end):
    """Ends a prober; what the GETs took that began within a time, and the longest of those before it."""
    probing[1].send("stop")
    times = result(*probing)
    got = spread([ms for begun, ms in times if start <= begun < end])
    figures = {f"get_{which}_ms": got[which] or 0.0 for which in ("p50", "p99", "max")}
    figures["get_max_before_ms"] = max([ms for begun, ms in times if begun < start], default=0.0)
    return figures


def close_at_once(side, churned):
    """All orders due in one millisecond, nobody told; closers set out in that millisecond."""
    names = ids(options.orders)
    with Server(module=side == "ours") as server:
        server.client("SET", "elsewhere", "value")
        if side == "ours":
            at_ms = fill_burst(server, names, churned)
        else:
            at_ms = now_ms() + int(1000 * (1 + len(names) * FILL_S))
            pump(server, batches(ZADD, ((at_ms, name) for name in names)), 1)
            at_ms = max(at_ms, now_ms() + 100)
        whose = side if side == "ours" else server.client("SCRIPT", "LOAD", LUA_PLAIN)
        closers = Closers(server, whose, CLOSERS, len(names))
        probing = child(prober, server.path)
        # From the wall clock to the one that is measured with.
        at = time.perf_counter() + at_ms / 1000 - time.time()
        time.sleep(max(0, at - time.perf_counter()))
        cpu_us = server.cpu_us()
        closers.go()
        end = closed(closers, len(names))
        figures = {"closed_s": end - at, "cpu_us": (server.cpu_us() - cpu_us) / len(names)}
        figures.update(probe(probing, at, end))
        check("left", server.client("DBSIZE"), 1)
    return figures


def all_arrivals(pipe, path, channel):
    """When each expired event comes, milliseconds of the wall clock."""
    client = Client(path)
    client("SUBSCRIBE", channel)
    client.socket.settimeout(0.2)
    pipe.send("ready")
    came = []
    while not pipe.poll():
        try:
            data = client.more()
        except TimeoutError:
            continue
        came += [client.received_s * 1000] * data.count(b"message\r\n")
    pipe.send(came)


def expired_events():
    """What redis-server does by itself: keys that expire in one millisecond, and their events."""
    names = ids(options.orders)
    with Server("notify-keyspace-events Ex", module=False) as server:
        server.client("SET", "elsewhere", "value")
        ahead_s = 1 + len(names) * FILL_S
        at_ms = now_ms() + int(1000 * ahead_s)
        pump(server, batches(SET, ((name, at_ms) for name in names)), 1)
        listening = child(all_arrivals, server.path, "__keyevent@0__:expired")
        probing = child(prober, server.path)
        at = time.perf_counter() + at_ms / 1000 - time.time()
        time.sleep(max(0, at - time.perf_counter()))
        while server.client("DBSIZE") > 1 and time.perf_counter() < at + EXPIRED_WAIT_S:
            time.sleep(0.05)
        time.sleep(0.3)
        end = time.perf_counter()
        listening[1].send("stop")
        late = spread([ms - at_ms for ms in result(*listening)])
        figures = {"closed_s": (late["max"] or 0.0) / 1000, "event_p50_ms": late["p50"] or 0.0,
                   "event_p99_ms": late["p99"] or 0.0, "arrived_percent": 100 * late["count"] / len(names)}
        figures.update(probe(probing, at, end))
    return figures


def row_burst(report):
    runs = collections.defaultdict(list)
    told = [("fresh", False, 0), ("churned", True, 0), ("fresh, 10 subscribers", False, 10),
            ("churned, 10 subscribers", True, 10)]
    at_once = [("closed at once", "ours", False), ("closed at once, churned", "ours", True),
               ("closed at once, Lua", "lua", False)]
    for number in range(options.rounds):
        for side, churned, listeners in alternate(told, number):
            runs[side].append(burst(churned, listeners))
        for side, whose, churned in alternate(at_once, number):
            runs[side].append(close_at_once(whose, churned))
    runs["expired events (once)"].append(expired_events())
    lines = []
    for side, _, listeners in told:
        got = report.put(side, runs[side])
        at = lambda name, digits=2: f"{got[name]:.{digits}f}"
        lines.append((side, at("claimable_ms"), at("drain_s"),
                      *("/".join(at(f"get_{phase}_{which}_ms") for which in ("p50", "p99", "max"))
                        for phase in ("announcing", "draining")), at("announced_k_per_s", 0), at("pass_us_max", 0)))
        aim(f"GET p99 elsewhere, {side}", max(got["get_announcing_p99_ms"], got["get_draining_p99_ms"]), "ms",
            3.0 if listeners else 1.5)
        if not listeners:
            aim(f"claimable, {side}", got["claimable_ms"], "ms", 400 if side == "churned" else 100)
    show(f"{options.orders} due in one millisecond: all claimable after; {CLOSERS} closers set out "
         f"{options.announce_s:g} s later, done after; and a GET elsewhere meanwhile",
         ("side", "claimable ms", "closed s", "GET announcing p50/p99/max", "GET draining p50/p99/max",
          "announced k/s", "longest pass us"), lines)
    lines = []
    for side in [*(side for side, _, _ in at_once), "expired events (once)"]:
        got = report.put(side, runs[side])
        lines.append((side, f"{got['closed_s']:.2f}", f"{got['cpu_us']:.2f}" if "cpu_us" in got else "-",
                      "/".join(f"{got[f'get_{which}_ms']:.2f}" for which in ("p50", "p99", "max")),
                      f"{got.get('arrived_percent', 100.0):.1f}"))
    show(f"{options.orders} due in one millisecond, {CLOSERS} closers set out in it (COUNT {BATCH}): until the last "
         "acknowledgement (of expired events: the last that came)",
         ("side", "closed s", "cpu us/order", "GET p50/p99/max ms", "arrived %"), lines)
    for side in ("closed at once", "closed at once, churned"):
        aim(f"last acknowledgement, {side}", report.figures[side]["closed_s"], "s", 0.8)
        aim(f"GET p99 elsewhere, {side}", report.figures[side]["get_p99_ms"], "ms", 1.0)


def row_announce(report):
    """What announce-per-s-max the server bears, with 10 subscribers."""
    lines = []
    for limit in (20_000, 50_000, 100_000, 200_000, 500_000):
        got = report.put(str(limit), [burst(False, 10, limit, consume=False) for _ in range(options.rounds)])
        lines.append((limit, f"{got['announced_k_per_s']:.0f}", f"{got['delivered_k_per_s']:.0f}",
                      "/".join(f"{got[f'get_announcing_{which}_ms']:.2f}" for which in ("p50", "p99", "max")),
                      f"{got['subscribers_lost']:.0f}", f"{got['pass_us_max']:.0f}"))
    show(f"announcing {options.orders} orders to 10 subscribers, by announce-per-s-max",
         ("limit", "announced k/s", "delivered k/s each", "GET p50/p99/max ms", "lost", "longest pass us"), lines)


# --- many that wait -------------------------------------------------------------------

# Clients in all, each of them connected in every run; those of them that wait.
WAITERS = 1000
# Orders handed over in a run, and before it.
HANDED, WARM = 2000, 200


def hand_over(side, waiting):
    """Orders that are due at once, each handed to one of the clients that wait, which then waits again."""
    ours = side != "lua"
    with Server(module=ours) as server:
        clients = [Client(server.path) for _ in range(WAITERS)]
        producer = Client(server.path)
        wait = command("ORDER.CLAIM", QUEUE, "closer", "BLOCK", 0) if ours else command("BZPOPMIN", "deadlines", 0)
        poll = select.epoll()
        by_number = {client.socket.fileno(): client for client in clients}
        for client in clients:
            client("PING")
            poll.register(client.socket, select.EPOLLIN)
        for client in clients[:waiting]:
            client.send(wait)
            # One after the other, or they would stand in another line.
            producer("PING")
        check("clients that wait", int(server.info("clients", "blocked_clients")), waiting)
        if side == "ours":
            producer("ORDER.SCHEDULE", QUEUE, "far", "PX", DAY_MS)
        took, cpu_us = [], 0.0
        for number in range(WARM + HANDED):
            if number == WARM:
                took, cpu_us = [], server.cpu_us()
            name = b"order:%014d" % number
            made = command("ORDER.SCHEDULE", QUEUE, name, "PX", 0, "STATUS", "unpaid") if ours else command(
                "ZADD", "deadlines", now_ms(), name)
            start = time.perf_counter()
            producer.send(made)
            [(ready, _)] = poll.poll(TIMEOUT_S, 1) or [(None, None)]
            if ready is None:
                raise SystemExit(f"bench: {side}: nobody was woken")
            reply = by_number[ready].read()
            took.append((time.perf_counter() - start) * 1000)
            producer.read()
            if ours:
                [[got, fence, *_]] = reply
                by_number[ready].send(command("ORDER.ACK", QUEUE, got, fence, "KEEP", 0))
                by_number[ready].read()
            else:
                got = reply[1]
            check("handed over", got, name)
            by_number[ready].send(wait)
            # It waits again when this is answered.
            producer("PING")
        figures = {"cpu_us": (server.cpu_us() - cpu_us) / HANDED, **spread(took)}
        for client in clients:
            client.close()
    return figures


# Whose key stays because another order is in it; whose key goes with its last order
# and is made anew by the next, which the server tells to everybody who waits for it.
WAITING = [("CLAIM BLOCK", "ours"), ("CLAIM BLOCK, key made anew", "anew"), ("BZPOPMIN", "lua")]


def row_waiters(report):
    runs = collections.defaultdict(list)
    sides = [(f"{name}, {waiting} waiting", side, waiting)
             for waiting in (1, WAITERS) for name, side in WAITING]
    for number in range(options.rounds):
        for label, side, waiting in alternate(sides, number):
            runs[label].append(hand_over(side, waiting))
    lines = []
    for name, _ in WAITING:
        few, many = f"{name}, 1 waiting", f"{name}, {WAITERS} waiting"
        for label in (few, many):
            got = report.put(label, runs[label])
            if label == many:
                more = [b["cpu_us"] - a["cpu_us"] for a, b in zip(runs[few], runs[many])]
                got["more_us"] = round(median(more), 3)
            lines.append((label, f"{got['cpu_us']:.1f}", f"{got['more_us']:+.1f}" if label == many else "",
                          *(f"{got[which]:.3f}" for which in ("p50", "p99", "max"))))
    show(f"{WAITERS} clients, {HANDED} orders due at once, each handed to one that waits and waits again: server cpu "
         "of all of it, and ms from sending the order to the waiting client's reply",
         ("side", "cpu us/order", "more", "p50", "p99", "max"), lines)
    got = report.figures[f"CLAIM BLOCK, {WAITERS} waiting"]
    aim(f"waking one of {WAITERS} costs more than one of one", got["more_us"], "us", 100)
    aim(f"waking one of {WAITERS}, p50 until its reply", got["p50"] * 1000, "us", 1000)


# --- so many a second -----------------------------------------------------------------

# Orders a second, and closers. What polls asks again after so long.
PER_S, BRAKED_CLOSERS, POLL_S = 1000, 8, 0.002


def braked_closer(pipe, path, end_s, blocks):
    """Takes what it gets and acknowledges it; the fences, which are the server's clock."""
    client = Client(path)
    pipe.send("ready")
    fences = []
    ask = command("ORDER.CLAIM", QUEUE, "closer", "COUNT", BATCH, *(("BLOCK", 200) if blocks else ()))
    while time.time() < end_s:
        client.send(ask)
        rows = client.read()
        fences += [row[1] for row in rows]
        if rows:
            acknowledge(client, [row[0] for row in rows], [b":%d" % row[1] for row in rows], "KEEP", "0")
        elif not blocks:
            time.sleep(POLL_S)
    pipe.send(fences)


def braked(blocking):
    """All overdue, so many of the closers waiting, the others asking again and again."""
    with Server(f"orderwheel.claims-per-s-max {PER_S}", "orderwheel.fence-guard-ms 0") as server:
        at = now_ms() - 1000
        pump(server, batches(FILL, ((name, at) for name in ids(options.orders))), ORDER_REPLY_LINES)
        end_s = time.time() + options.window_s + 2
        closers = [child(braked_closer, server.path, end_s, number < blocking) for number in range(BRAKED_CLOSERS)]
        time.sleep(1)
        busy, runs = server.cpu_us(), int(server.info("orderwheel", "orderwheel_timer_runs_total"))
        time.sleep(1)
        figures = {"cpu_percent": (server.cpu_us() - busy) / 1e4,
                   "timer_runs": int(server.info("orderwheel", "orderwheel_timer_runs_total")) - runs}
        fences = sorted(fence for closer in closers for fence in result(*closer))
        check("orders taken twice", len(fences) - len(set(fences)), 0)
        # Full seconds after the first, which begins with what may go at once.
        counts = collections.Counter((fence - fences[0]) // 1_000_000 for fence in fences)
        full = [counts[second] for second in range(1, options.window_s + 1)]
        figures.update(first=counts[0], least=min(full), most=max(full), mean=sum(full) / len(full))
    return figures


def row_brake(report):
    """What goes in each full second where claims-per-s-max lets a thousand go."""
    runs = collections.defaultdict(list)
    sides = [("8 wait", 8), ("4 wait, 4 poll", 4), ("8 poll", 0)]
    for number in range(options.rounds):
        for side, blocking in alternate(sides, number):
            runs[side].append(braked(blocking))
    lines = []
    for side, _ in sides:
        got = report.put(side, runs[side])
        # Not the median: of all seconds of all rounds.
        got["least"], got["most"] = min(run["least"] for run in runs[side]), max(run["most"] for run in runs[side])
        lines.append((side, f"{got['first']:.0f}", f"{got['least']:.0f}", f"{got['most']:.0f}", f"{got['mean']:.1f}",
                      f"{got['cpu_percent']:.1f}", f"{got['timer_runs']:.0f}"))
        aim(f"least in a full second, {side}", got["least"], "orders", 0.99 * PER_S, least=True)
        aim(f"most in a full second, {side}", got["most"], "orders", 1.01 * PER_S)
    show(f"{options.orders} overdue, {BRAKED_CLOSERS} closers (COUNT {BATCH}), claims-per-s-max {PER_S}: orders handed "
         f"out in each full second after the first, for {options.window_s} s",
         ("side", "first second", "least", "most", "mean", "server cpu %", "timer runs/s"), lines)


# --- many queues --------------------------------------------------------------------

A_QUEUE = 10


def row_queues(report):
    """Many queues of ten orders beside one of all of them."""
    count, window_s = options.orders, options.window_s
    keys = [b"orders:%06d" % number for number in range(max(1, count // A_QUEUE))]
    due = 1000 * window_s
    schedule = template("ORDER.SCHEDULE", "KEY", "ID", "PXAT", "MS", "STATUS", "unpaid")
    zadd = template("ZADD", "KEY", "MS", "ID")
    runs = collections.defaultdict(list)
    number = itertools.count()
    rng = random.Random(5)

    def fill(server, names, ours):
        start = now_ms() + 3_600_000
        orders = ((name, start + rng.randrange(DAY_MS)) for name in ids(count))
        if ours:
            values = ((key, *order) for key, order in zip(itertools.cycle(names), orders))
        else:
            values = ((key, deadline, name) for key, (name, deadline) in zip(itertools.cycle(names), orders))
        pump(server, batches(schedule if ours else zadd, values), ORDER_REPLY_LINES if ours else 1)

    def measure(side, server, names):
        """Orders that fall due within the window, in random queues; their announcements."""
        turn = next(number)
        start = now_ms() + 2000
        orders = [(rng.choice(names), b"due:%08d%08d" % (turn, i), start + rng.randrange(window_s * 1000))
                  for i in range(due)]
        deadlines = {b"%b:%b" % (key, name): deadline for key, name, deadline in orders}
        end_s = start / 1000 + window_s + 0.5
        listening = child(listener, server.path, end_s, EXPIRED_CHANNEL, deadlines)
        pump(server, batches(schedule, orders), ORDER_REPLY_LINES)
        if now_ms() > start:
            print(f"  ({side}: the machine was too slow to fill in time)")
        time.sleep(max(0, start / 1000 - time.time()))
        busy = server.cpu_percent(window_s)
        late = result(*listening)
        figures = spread(late)
        figures.update(cpu_percent=busy, arrived_percent=100 * len(late) / due, early=sum(ms < 0 for ms in late))
        runs[side].append(figures)
        # Away with them again: a claim by id each, and a finish.
        pump(server, batches(template("ORDER.FINISH", "KEY", "ID", "KEEP", "0"), ((k, n) for k, n, _ in orders)),
             GONE_REPLY_LINES)

    memory = {}
    many, one = f"{len(keys)} queues", "one queue"
    with Server("notify-keyspace-events Ed") as spread_out, Server("notify-keyspace-events Ed") as together, \
            Server(module=False) as sets, Server(module=False) as one_set:
        for side, server, names, ours in (
                (many, spread_out, keys, True), (one, together, keys[:1], True),
                (f"{len(keys)} ZSETs", sets, keys, False), ("one ZSET", one_set, keys[:1], False)):
            before = server.used_memory()
            fill(server, names, ours)
            memory[side] = (server.used_memory() - before) / count
        for server in (sets, one_set):
            server.stop()
        for turn in range(options.rounds):
            for side, server, names in alternate([(many, spread_out, keys), (one, together, keys[:1])], turn):
                measure(side, server, names)
    lines = []
    for side in memory:
        got = report.put(side, [{**run, "bytes": memory[side]} for run in runs.get(side) or [{}]])
        at = lambda name: f"{got[name]:.2f}" if name in got else "-"
        lines.append((side, f"{got['bytes']:.1f}", at("p50"), at("p99"), at("max"), at("early"), at("arrived_percent"),
                      at("cpu_percent")))
    show(f"{count} orders in queues of {A_QUEUE} beside one queue; 1000 due a second for {window_s} s, announced: "
         "ms from the deadline to the event",
         ("side", "bytes/order", "p50", "p99", "max", "early", "arrived %", "server cpu %"), lines)
    aim(f"bytes an order, in queues of {A_QUEUE} against one queue", memory[many] / memory[one], "x", 2)
    aim(f"lateness p99, {many} against one queue", ratio(runs[many], runs[one], "p99"), "x", 1.1)
    check("orders announced, percent", report.figures[many]["arrived_percent"], 100.0)
