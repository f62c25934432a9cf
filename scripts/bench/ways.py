"""How late six ways close an order, and what a pending one costs: the row ways.

Each way holds the same pending orders, far ahead, and closes some that fall due one
after the other. A way that has not closed an order when the wait is over counts with
that wait; its share is told.
"""

import json
import os
import random
import sqlite3
import subprocess
import time

import picture
from costs import FILL, ORDER_REPLY_LINES, SET, ZADD
from times import closer, listener, poller
from tools import DAY_MS, Server, batches, child, ids, now_ms, options, percentile, pump, result, show

HERE = os.path.dirname(os.path.abspath(__file__))
#: How many fall due, one after the other.
DUE = 1200
#: How long stragglers are waited for after the last deadline, seconds.
WAIT_S = 120
#: How often the table is scanned, seconds.
SCAN_S = 60
# The packages of the way that is one.
PACKAGES = ["bullmq@6.7.0", "ioredis@5"]


def window_s():
    return 6 if options.quick else 60


def wait_s():
    return 6 if options.quick else WAIT_S


def due_orders():
    """What falls due, from five seconds from now on."""
    rng = random.Random(5)
    start = now_ms() + 5000
    # At random: even steps would fall in with the steps of who polls.
    return {b"due:%016d" % n: start + rng.randrange(window_s() * 1000) for n in range(DUE)}


def far_orders():
    rng = random.Random(7)
    start = now_ms() + 3_600_000
    return ((name, start + rng.randrange(DAY_MS)) for name in ids(options.orders))


def swapped(pairs):
    return ((deadline, name) for name, deadline in pairs)


def in_redis(fill, lines, run, *arguments, module=False, config=(), extra_s=2.0):
    """A way whose orders are in Redis: lateness of each, and bytes per pending order."""
    turn = swapped if fill is ZADD else (lambda pairs: pairs)
    with Server(*config, module=module) as server:
        before = server.used_memory()
        pump(server, batches(fill, turn(far_orders())), lines)
        cost = (server.used_memory() - before) / options.orders
        due = due_orders()
        end_s = max(due.values()) / 1000 + extra_s
        process, pipe = child(run, server.path, end_s, *arguments, *([] if run is closer else [due]))
        pump(server, batches(fill, turn(due.items())), lines)
        time.sleep(max(0, end_s - time.time()))
        return result(process, pipe), cost


def ours():
    return in_redis(FILL, ORDER_REPLY_LINES, closer, module=True)


def polled(every_s):
    return in_redis(ZADD, 1, poller, every_s, extra_s=every_s + 2)


def expired_events():
    channel = "__keyevent@0__:expired"
    return in_redis(SET, 1, listener, channel, config=["notify-keyspace-events Ex"], extra_s=wait_s())


def bullmq():
    folder = os.path.join(os.path.dirname(os.path.dirname(options.closer)), "..", "bench-node")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "node_modules", "bullmq")):
        print(f"  installing {' '.join(PACKAGES)} with npm")
        subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", *PACKAGES], cwd=folder, check=True)
    environment = dict(os.environ, NODE_PATH=os.path.join(folder, "node_modules"))
    script = ["node", os.path.join(HERE, "bullmq.js")]
    with Server(module=False) as server:
        before = server.used_memory()
        # A tenth says as much: it fills a hundred times slower than the others.
        count = options.orders // 10
        run = lambda *words: subprocess.run(
            [*script, server.path, *map(str, words)], env=environment, capture_output=True, text=True, check=True,
            timeout=600)
        run("fill", count, 3_600_000)
        cost = (server.used_memory() - before) / count
        done = run("close", DUE, now_ms() + 5000, window_s() * 1000)
        return [float(line) for line in done.stdout.split()], cost


def cron_scan():
    """A table that is scanned each minute. It costs Redis nothing."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT, deadline INTEGER)")
    database.execute("CREATE INDEX due ON orders (status, deadline)")
    add = "INSERT INTO orders VALUES (?, 'unpaid', ?)"
    database.executemany(add, ((name.decode(), deadline) for name, deadline in far_orders()))
    due = due_orders()
    database.executemany(add, ((name.decode(), deadline) for name, deadline in due.items()))
    late, turn = [], time.time()
    every_s = SCAN_S * window_s() / 60
    while len(late) < len(due):
        turn += every_s
        time.sleep(max(0, turn - time.time()))
        rows = database.execute("SELECT id, deadline FROM orders WHERE status = 'unpaid' AND deadline <= ?", (now_ms(),))
        for name, deadline in rows.fetchall():
            database.execute("UPDATE orders SET status = 'closed' WHERE id = ? AND status = 'unpaid'", (name,))
            late.append(now_ms() - deadline)
    return late, None


WAYS = {
    "orderwheel": ours,
    "sorted set, polled every 100 ms": lambda: polled(0.1),
    "BullMQ, delayed jobs": bullmq,
    "sorted set, polled every second": lambda: polled(1.0),
    "cron scan of the table every minute": cron_scan,
    "SETEX and expired events": expired_events,
}


def row_ways(report):
    lines, found = [], []
    options.rounds = 1
    for way, run in WAYS.items():
        late, cost = run()
        most = wait_s() * 1000.0
        arrived = sum(each <= most for each in late)
        late = sorted(min(each, most) for each in late + [most] * (DUE - len(late)))
        figures = {"p50_ms": round(percentile(late, 0.5), 3), "p99_ms": round(percentile(late, 0.99), 3),
                   "closed_percent": round(100 * arrived / DUE, 1)}
        if cost is not None:
            figures["bytes_per_order"] = round(cost, 1)
        report.put(way, [figures])
        found.append({"way": way, **figures})
        lines.append((way, f"{figures['p50_ms']:.2f}", f"{figures['p99_ms']:.2f}", f"{figures['closed_percent']:.1f}",
                      f"{cost:.0f}" if cost is not None else "-"))
    show(f"six ways to close an order: {options.orders} pending, {DUE} due within {window_s()} s, closed at most "
         f"{wait_s()} s later", ("way", "p50 ms", "p99 ms", "closed %", "bytes/order"), lines)
    if not options.quick:
        measured = {"pending": options.orders, "due": DUE, "window_s": window_s(), "wait_s": wait_s(), "ways": found}
        with open(picture.DATA, "w") as file:
            json.dump(measured, file, indent=1)
            file.write("\n")
        picture.draw()
