"""What orders cost: the rows schedule, batches, memory, usage and claim."""

import collections
import itertools
import random
import time

from tools import (BATCH, DAY_MS, FILL_S, LUA_PAYLOADS, LUA_PLAIN, PAYLOAD, PIPELINE, QUEUE, Client, Server, aim,
                   alternate, batches, check, command, ids, now_ms, options, pump, ratio, show, stats, template, timed)

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
HSET = template("HSET", "payloads", "ID", PAYLOAD)


def row_schedule(report):
    count = options.orders
    names = ids(count)
    runs = collections.defaultdict(list)
    for number in range(options.rounds):
        rng = random.Random(number)
        # Ahead of all sides' fills.
        start = now_ms() + 60_000 + int(count * 8 * FILL_S * 1000)
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
    for side, list_ in runs.items():
        report.put(side, list_)
    lines = []
    for ours, others in (("SCHEDULE", ["ZADD", "SET PXAT"]), ("FINISH", ["ZREM", "DEL"])):
        for side in (ours, *others):
            figures = report.figures[side]
            of = ("", "")
            if side != ours:
                figures["ratio"] = round(ratio(runs[side], runs[ours]), 3)
                of = (f"{figures['ratio']:.2f}x", f"{1 / ratio(runs[side], runs[ours], 'k_per_s'):.2f}x")
            lines.append((side, f"{figures['cpu_us']:.2f}", f"{figures['k_per_s']:.0f}", *of))
    show(f"SCHEDULE with STATUS, {count} ids, random deadlines, -P {PIPELINE}; FINISH KEEP 0",
         ("side", "cpu us/order", "k/s", "cpu, ours is", "k/s, ours is"), lines)
    for ours, side, bound in (("SCHEDULE", "ZADD", 2.5), ("SCHEDULE", "SET PXAT", 1.3), ("FINISH", "ZREM", 1.5)):
        aim(f"{ours} against {side}, processor time", report.figures[side]["ratio"], "x", bound, least=True)


# --- MSCHEDULE and MFINISH ----------------------------------------------------------

# Batches in flight on each of the connections.
BATCHES = 8


def mschedule(orders, size=BATCH):
    """Commands of so many orders each."""
    for at in range(0, len(orders), size):
        words = itertools.chain.from_iterable(orders[at:at + size])
        yield command("ORDER.MSCHEDULE", QUEUE, "PXAT", size, *words, "STATUS", "unpaid")


def mfinish(names, size=BATCH):
    for at in range(0, len(names), size):
        yield command("ORDER.MFINISH", QUEUE, size, *names[at:at + size], "STATUS", "paid", "KEEP", "0")


def at_once(head, values):
    """Commands of a sorted set, or DEL, on a hundred members or keys each."""
    for at in range(0, len(values), BATCH):
        yield command(*head, *itertools.chain.from_iterable(values[at:at + BATCH]))


def in_flight(commands, size):
    commands = iter(commands)
    while piece := list(itertools.islice(commands, size)):
        yield b"".join(piece), len(piece)


def row_batches(report):
    count = options.orders // BATCH * BATCH
    names = ids(count)
    runs = collections.defaultdict(list)
    for number in range(options.rounds):
        rng = random.Random(number)
        # Ahead of all sides' fills.
        start = now_ms() + 60_000 + int(count * 16 * FILL_S * 1000)
        orders = [(name, start + rng.randrange(DAY_MS)) for name in names]
        swapped = [(deadline, name) for name, deadline in orders]
        single = [(name,) for name in names]
        ours, theirs = 1 + BATCH, 1

        def side(adds, removes, module, add, remove, size):
            """Of adding and removing: name, pieces and lines of a reply."""
            with Server(module=module) as server:
                for name, made, lines, left in ((adds, *add, count), (removes, *remove, 0)):
                    pieces = list(made())
                    runs[name].append(timed(server, count, lambda: pump(server, pieces, lines)))
                    check(name, size(server.client), left)

        def of_ours(client):
            return stats(client)["orders"] if client("EXISTS", QUEUE) else 0

        def of_zset(client):
            return client("ZCARD", "deadlines")

        sides = []
        for flight, more in ((1, ""), (BATCHES, f", {BATCHES} in flight")):
            sides += [
                (f"MSCHEDULE{more}", f"MFINISH{more}", True,
                 (lambda flight=flight: in_flight(mschedule(orders), flight), ours),
                 (lambda flight=flight: in_flight(mfinish(names), flight), ours), of_ours),
                (f"ZADD{more}", f"ZREM{more}", False,
                 (lambda flight=flight: in_flight(at_once(("ZADD", "deadlines"), swapped), flight), theirs),
                 (lambda flight=flight: in_flight(at_once(("ZREM", "deadlines"), single), flight), theirs), of_zset),
                (f"SET PXAT{more}", f"DEL{more}", False,
                 (lambda: batches(SET, orders), 1),
                 (lambda flight=flight: in_flight(at_once(("DEL",), single), flight), theirs),
                 lambda client: client("DBSIZE")),
            ]
        for each in alternate(sides, number):
            side(*each)
    for side_of, list_ in runs.items():
        report.put(side_of, list_)
    lines, aims_of = [], []
    for more in ("", f", {BATCHES} in flight"):
        for ours, others in (("MSCHEDULE", (("ZADD", 2), ("SET PXAT", 1.4))), ("MFINISH", (("ZREM", 1.5), ("DEL", 1)))):
            for other, bound in ((ours, None), *others):
                figures, of = report.figures[other + more], ("", "")
                if bound is not None:
                    pair = runs[other + more], runs[ours + more]
                    figures["ratio"] = round(ratio(*pair), 3)
                    of = (f"{figures['ratio']:.2f}x", f"{1 / ratio(*pair, 'k_per_s'):.2f}x")
                    aims_of.append((f"{ours} against {other}{more}, processor time", figures["ratio"], bound))
                lines.append((other + more, f"{figures['cpu_us']:.2f}", f"{figures['k_per_s']:.0f}", *of))
    show(f"MSCHEDULE {BATCH} with STATUS, {count} ids, random deadlines; MFINISH {BATCH} KEEP 0; ZADD, ZREM and DEL of "
         f"{BATCH}, SET -P {PIPELINE}",
         ("side", "cpu us/order", "k/s", "cpu, ours is", "k/s, ours is"), lines)
    for what, measured, bound in aims_of:
        aim(what, measured, "x", bound, least=True)


# --- memory -----------------------------------------------------------------------


def far_pairs(count):
    """Orders with random deadlines within a day, a minute ahead; and the same the other way round, for ZADD."""
    rng = random.Random(1)
    start = now_ms() + 60_000 + int(count * FILL_S * 1000)
    pairs = [(name, start + rng.randrange(DAY_MS)) for name in ids(count)]
    return pairs, [(deadline, name) for name, deadline in pairs]


def row_memory(report):
    count = options.orders
    pairs, swapped = far_pairs(count)
    names = [(name,) for name, _ in pairs]
    sides = [
        ("ours", True, [(FILL, pairs, ORDER_REPLY_LINES)]),
        ("ZSET", False, [(ZADD, swapped, 1)]),
        ("SET PXAT", False, [(SET, pairs, 1)]),
        ("ours, payload 64", True, [(FILL_PAYLOAD, pairs, ORDER_REPLY_LINES)]),
        ("ZSET + HASH, payload 64", False, [(ZADD, swapped, 1), (HSET, names, 1)]),
    ]
    lines = []
    # Memory is the same each time.
    options.rounds = 1
    for side, module, fills in sides:
        with Server(module=module) as server:
            before = server.used_memory()
            for made, values, reply_lines in fills:
                pump(server, batches(made, values), reply_lines)
            got = report.put(side, [{"bytes": (server.used_memory() - before) / count}])
        lines.append((side, f"{got['bytes']:.1f}"))
    show(f"memory (used_memory), {count} orders with 20-byte ids and STATUS unpaid", ("side", "bytes/order"), lines)
    aim("bytes an order", report.figures["ours"]["bytes"], "B", 64, goal=52)
    aim("bytes an order with a payload of 64", report.figures["ours, payload 64"]["bytes"], "B", 140)


# --- memory of small queues, and what MEMORY USAGE says of all ------------------------

# A power of two: so many keys the table of the keyspace holds without room to spare.
SMALL_QUEUES = 8192
MIDDLE_QUEUES, MIDDLE_ORDERS = 512, 300
# MEMORY USAGE is asked of so many keys at most.
ASKED = 256


def row_usage(report):
    count = options.orders
    options.rounds = 1
    pairs, swapped = far_pairs(max(count, MIDDLE_QUEUES * MIDDLE_ORDERS))
    middle, middle_swapped = pairs[:MIDDLE_QUEUES * MIDDLE_ORDERS], swapped[:MIDDLE_QUEUES * MIDDLE_ORDERS]
    pairs, swapped = pairs[:count], swapped[:count]
    keys = [b"orders:%06d" % number for number in range(SMALL_QUEUES)]
    schedule = template("ORDER.SCHEDULE", "KEY", "ID", "PXAT", "MS", "STATUS", "unpaid")
    zadd = template("ZADD", "KEY", "MS", "ID")

    def fill(server):
        pump(server, batches(FILL, pairs), ORDER_REPLY_LINES)

    def finished(server):
        fill(server)
        pump(server, batches(template("ORDER.FINISH", QUEUE, "ID", "STATUS", "paid"), ((n,) for n, _ in pairs)),
             ORDER_REPLY_LINES)

    def leased(server):
        fill_due(server, FILL, [name for name, _ in pairs], 1000, random.Random(1))
        client = Client(server.path)
        while claim_once(client, 10)[0]:
            pass

    def churned(server):
        fill(server)
        order = [name for name, _ in pairs]
        random.Random(2).shuffle(order)
        pump(server, batches(FINISH, ((name,) for name in order[:count * 9 // 10])), GONE_REPLY_LINES)

    def spread_over(made, lines_each, names, values):
        return lambda server: pump(server, batches(made, ((name, *value) for name, value in zip(
            itertools.cycle(names), values))), lines_each)

    single, several = keys, keys[:MIDDLE_QUEUES]
    # Side, with the module, keys, orders that are left, and how it is filled.
    sides = [
        ("a key alone (SET k 1)", False, single, len(single),
         lambda server: pump(server, batches(template("SET", "KEY", "1"), ((key,) for key in keys)), 1)),
        ("1 order", True, single, len(single), spread_over(schedule, ORDER_REPLY_LINES, single, middle[:len(single)])),
        ("ZSET of 1", False, single, len(single), spread_over(zadd, 1, single, middle_swapped[:len(single)])),
        (f"{MIDDLE_ORDERS} orders", True, several, len(middle),
         spread_over(schedule, ORDER_REPLY_LINES, several, middle)),
        (f"ZSET of {MIDDLE_ORDERS}", False, several, len(middle), spread_over(zadd, 1, several, middle_swapped)),
        ("N orders", True, [QUEUE], count, fill),
        ("N with payload 64", True, [QUEUE], count,
         lambda server: pump(server, batches(FILL_PAYLOAD, pairs), ORDER_REPLY_LINES)),
        ("N kept finished", True, [QUEUE], count, finished),
        ("N leased", True, [QUEUE], count, leased),
        ("N, 90 % of them finished", True, [QUEUE], count - count * 9 // 10, churned),
        ("ZSET of N", False, ["deadlines"], count, lambda server: pump(server, batches(ZADD, swapped), 1)),
    ]
    lines = []
    for side, module, names, left, run in sides:
        with Server(module=module) as server:
            before = server.used_memory()
            run(server)
            grown = server.used_memory() - before
            asked = names[:: max(1, len(names) // ASKED)]
            told = sum(server.client("MEMORY", "USAGE", name, "SAMPLES", 0) for name in asked)
            told *= len(names) / len(asked)
        got = report.put(side, [{"bytes_a_key": grown / len(names), "bytes_an_order": grown / left,
                                 "memory_usage_a_key": told / len(names), "off_percent": 100 * (told / grown - 1)}])
        alone = report.figures["a key alone (SET k 1)"]["bytes_a_key"]
        got["value_bytes"] = round(got["bytes_a_key"] - alone, 3)
        lines.append((side, f"{got['bytes_a_key']:.1f}", f"{got['value_bytes']:.1f}", f"{got['bytes_an_order']:.1f}",
                      f"{got['memory_usage_a_key']:.1f}", f"{got['off_percent']:+.1f} %"))
        if module:
            aim(f"MEMORY USAGE off used_memory, {side}", abs(got["off_percent"]), "%", 10)
    show(f"MEMORY USAGE beside the growth of used_memory; N is {count}, the value is a key's bytes less a key alone",
         ("a key of", "bytes/key", "value", "bytes/order", "MEMORY USAGE", "off"), lines)
    aim("bytes of a queue of one order, without the key's own", report.figures["1 order"]["value_bytes"], "B", 300)


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
                    pump(server, batches(HSET, ((name,) for name in names)), 1)
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
    for side, list_ in runs.items():
        report.put(side, list_)
    lines = []
    for side, other in (("ours", "Lua"), ("ours, payload 64", "Lua, payload 64"), ("ours, kept a day", "Lua")):
        got = report.figures[side]
        got["ratio"] = round(ratio(runs[other], runs[side]), 3)
        lines.append((side, f"{got['cpu_us']:.2f}", f"{got['k_per_s']:.0f}", f"{got['ratio']:.2f}x"))
        if side != "ours, kept a day":
            theirs = report.figures[other]
            lines.append((other, f"{theirs['cpu_us']:.2f}", f"{theirs['k_per_s']:.0f}", ""))
            aim(f"CLAIM + MACK, {side}, against Lua, processor time", got["ratio"], "x", 3, least=True)
    show(f"CLAIM COUNT {BATCH} + MACK {BATCH} of {count} due orders, one closer, against Lua",
         ("side", "cpu us/order", "k/s", "ours is"), lines)
