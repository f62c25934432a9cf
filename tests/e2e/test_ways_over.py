"""docs/ways-over: old and new closers side by side, orders and payments meanwhile, and the way back."""

import json
import os
import random
import subprocess
import sys
import threading
import time

import pytest
from redis.client import NEVER_DECODE

from support.pages import ROOT, blocks
from support.wait import until

#: Orders that lie in the old form at the start, and how far ahead they fall due, seconds.
OLD, AHEAD = 900, (0.5, 6.0)
#: Those that fall due long after the test.
FAR = 200
#: Orders of a move that is repeated: more than two batches of move.py.
MANY = 2_300
#: How long orders keep coming, seconds.
COMING = 5.0


def now_ms():
    return int(time.time() * 1000)


class Shop:
    """The table of orders, with a guarded close: `UPDATE … WHERE status = 'unpaid'`."""

    def __init__(self):
        self.guard = threading.Lock()
        self.orders = {}
        self.closed_by = {"old": 0, "new": 0}
        self.early = []

    def create(self, order, deadline):
        with self.guard:
            self.orders[order] = ["unpaid", deadline]

    def decide(self, order, status, by=None):
        """Whether the order was open and is now in that status."""
        with self.guard:
            entry = self.orders[order]
            if by and now_ms() < entry[1]:
                self.early.append((order, by, entry[1] - now_ms()))
            if entry[0] != "unpaid":
                return False
            entry[0] = status
            if by:
                self.closed_by[by] += 1
            return True

    def status(self, order):
        with self.guard:
            return self.orders[order][0]

    def open_and_due(self):
        with self.guard:
            now = now_ms()
            return [order for order, (status, deadline) in self.orders.items() if status == "unpaid" and deadline < now]


# --- the old forms: how a shop writes them, and what its closers do ----------------------


class SortedSet:
    page = "sorted-set"

    def add(self, client, order, deadline):
        client.zadd("deadlines", {order: deadline})

    def remove(self, client, order):
        client.zrem("deadlines", order)

    def due(self, client):
        return client.eval(
            "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 50)\n"
            "if #ids > 0 then redis.call('ZREM', KEYS[1], unpack(ids)) end return ids", 1, "deadlines", now_ms())


class ExpiredEvents:
    page = "expired-events"

    def __init__(self):
        self.own = threading.local()

    def add(self, client, order, deadline):
        client.set(f"order:{order}", "unpaid", pxat=deadline)

    def remove(self, client, order):
        client.delete(f"order:{order}")

    def due(self, client):
        if not hasattr(self.own, "listening"):
            self.own.listening = client.pubsub(ignore_subscribe_messages=True)
            self.own.listening.subscribe("__keyevent@0__:expired")
        got = []
        while (message := self.own.listening.get_message(timeout=0.02)) is not None:
            got.append(message["data"].removeprefix("order:"))
        return got


class Redisson:
    page = "redisson"

    def add(self, client, order, deadline):
        # Packed by the server's own struct library, as the client's script does.
        client.eval(
            "local value = struct.pack('Bc0Lc0', string.len(ARGV[2]), ARGV[2], string.len(ARGV[3]), ARGV[3])\n"
            "redis.call('ZADD', KEYS[1], ARGV[1], value) redis.call('RPUSH', KEYS[2], value)",
            2, "redisson_delay_queue_timeout:{orders-delayed}", "redisson_delay_queue:{orders-delayed}",
            deadline, random.randbytes(8), order)

    def remove(self, client, order):
        """Left to the closers, who find it paid."""

    def due(self, client):
        client.eval(
            "for _, v in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 50)) do\n"
            "  local _, value = struct.unpack('Bc0Lc0', v)\n"
            "  redis.call('RPUSH', KEYS[3], value) redis.call('LREM', KEYS[2], 1, v) redis.call('ZREM', KEYS[1], v)\n"
            "end", 3, "redisson_delay_queue_timeout:{orders-delayed}", "redisson_delay_queue:{orders-delayed}",
            "orders-delayed", now_ms())
        return client.lpop("orders-delayed", 50) or []


class Asynq:
    page = "asynq"

    def add(self, client, order, deadline):
        payload = json.dumps({"id": order})
        text = lambda number, value: chr(number << 3 | 2) + chr(len(value)) + value
        message = text(1, "order:close") + text(2, payload) + text(3, f"task-{order}") + text(4, "close")
        with client.pipeline() as pipe:
            pipe.hset(f"asynq:{{close}}:t:task-{order}", mapping={"msg": message, "state": "scheduled"})
            pipe.zadd("asynq:{close}:scheduled", {f"task-{order}": -(-deadline // 1000)})
            pipe.sadd("asynq:queues", "close")
            pipe.execute()

    def remove(self, client, order):
        """Left to the workers, who find it paid."""

    def due(self, client):
        client.eval(
            "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 50)\n"
            "for _, id in ipairs(ids) do redis.call('LPUSH', KEYS[2], id) redis.call('ZREM', KEYS[1], id) end",
            2, "asynq:{close}:scheduled", "asynq:{close}:pending", int(time.time()))
        got = []
        while (task := client.rpop("asynq:{close}:pending")) is not None:
            # As bytes: numbers in a message, such as its time-out, are not UTF-8.
            message = client.execute_command("HGET", f"asynq:{{close}}:t:{task}", "msg", **{NEVER_DECODE: True})
            got.append(json.loads(message[message.index(b"{"):message.index(b"}") + 1])["id"])
            client.delete(f"asynq:{{close}}:t:{task}")
        return got


class CronScan:
    page = "cron-scan"

    def __init__(self):
        self.shop = None

    def add(self, client, order, deadline):
        """The table has it."""

    def remove(self, client, order):
        """The table has it."""

    def due(self, client):
        return self.shop.open_and_due()


FORMS = [SortedSet, ExpiredEvents, Redisson, Asynq, CronScan]


# --- the shop at work -----------------------------------------------------------------------


class Move:
    """A shop on its way over."""

    def __init__(self, server, form):
        self.server, self.form, self.shop = server, form, Shop()
        form.shop = self.shop
        self.threads, self.faults = [], []
        # What creations and payments do at this step, and who closes.
        self.writes_old, self.writes_new = True, False
        self.old_closes, self.ends, self.comes = True, False, True

    def start(self, work):
        def guarded():
            try:
                with self.server.client() as client:
                    work(client)
            except Exception as fault:  # noqa: BLE001 - told at the end of the test
                self.faults.append(fault)

        thread = threading.Thread(target=guarded)
        thread.start()
        self.threads.append(thread)

    def create(self, client, order, deadline):
        self.shop.create(order, deadline)
        if self.writes_old:
            self.form.add(client, order, deadline)
        if self.writes_new:
            client.execute_command("ORDER.SCHEDULE", "orders", order, "PXAT", deadline, "STATUS", "unpaid")

    def pay(self, client, order):
        if not self.shop.decide(order, "paid"):
            return
        if self.writes_old:
            self.form.remove(client, order)
        if self.writes_new:
            client.execute_command("ORDER.FINISH", "orders", order, "CREATE", "STATUS", "paid")

    def old_closer(self, client):
        while not self.ends:
            if self.old_closes:
                for order in self.form.due(client):
                    self.shop.decide(order, "closed", "old")
            time.sleep(0.02)

    def new_closer(self, client):
        while not self.ends:
            rows = client.execute_command("ORDER.CLAIM", "orders", "new", "COUNT", 20, "PX", 10_000, "BLOCK", 100)
            for row in rows:
                self.shop.decide(row[0], "closed", "new")
            words = [word for row in rows for word in (row[0], row[1], self.shop.status(row[0]))]
            if rows:
                client.execute_command("ORDER.MACK", "orders", "STATUSES", len(rows), *words)

    def customers(self, client):
        number = 0
        chance = random.Random(4)
        while not self.ends:
            if self.comes:
                self.create(client, f"new-{number}", now_ms() + chance.randrange(1_500, 4_000))
                number += 1
                self.pay(client, chance.choice(list(self.shop.orders)))
            time.sleep(0.01)

    def type(self, block):
        """Types a block of a page; what was printed, and said."""
        block = block.replace("-p 6400", f"-s {self.server.socket}").replace("python3 ", f"{sys.executable} ")
        url = {"REDIS_URL": f"unix://{self.server.socket}"}
        done = subprocess.run(
            ["bash", "-ec", block], cwd=ROOT, env={**os.environ, **url}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def move_over(self):
        """Step 4; how many were new."""
        if isinstance(self.form, CronScan):
            # As psql prints them.
            command = blocks(f"docs/ways-over/{self.form.page}.md", "text", "Over")[0].split("| ", 1)[1]
            with self.shop.guard:
                unpaid = [(order, at) for order, (status, at) in self.shop.orders.items() if status == "unpaid"]
            lines = "".join(f"{order} {at}\n" for order, at in unpaid)
            block = f"printf '%s' '{lines}' | {command}"
        else:
            block = blocks(f"docs/ways-over/{self.form.page}.md", "sh", "Over")[0]
        said = self.type(block)
        return int(said.split(" moved")[0].split()[-1])

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join(30)
        assert not self.faults, self.faults


@pytest.fixture
def moving(serve):
    moves = []

    def start(form):
        move = Move(serve("notify-keyspace-events Ex", "hz 100"), form())
        moves.append(move)
        return move

    yield start
    for move in moves:
        move.ends = True
        for thread in move.threads:
            thread.join(30)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.page)
def test_the_way_over_and_back(moving, form):
    move = moving(form)
    shop, server = move.shop, move.server
    chance = random.Random(2)
    with server.client() as client:
        start = now_ms()
        for number in range(OLD):
            move.create(client, f"old-{number}", start + int(chance.uniform(*AHEAD) * 1000))
        for number in range(FAR):
            move.create(client, f"far-{number}", start + 3_600_000 + number)
    for work in (move.old_closer, move.old_closer, move.customers):
        move.start(work)
    # The old closers alone, for a while.
    until(lambda: shop.closed_by["old"] > 60, 20, "the old closers close")
    # Steps 1 to 3: the new closers, payments and creations on both sides.
    move.start(move.new_closer)
    move.start(move.new_closer)
    move.writes_new = True
    # Step 4, until nothing is new.
    assert move.move_over() > FAR
    until(lambda: move.move_over() == 0, 30, "everything is moved")
    known = server.run("ORDER.STATS", "orders")
    assert dict(zip(known[::2], known[1::2]))["orders"] >= FAR
    time.sleep(COMING / 5)
    # Step 5 and 6.
    move.old_closes = False
    move.writes_old = False
    time.sleep(COMING)
    move.comes = False
    until(lambda: not shop.open_and_due(), 30, "everything that is due is decided")
    # Far ahead, and still in the queue: paid ones are finished there.
    for number in range(FAR):
        assert shop.status(f"far-{number}") in ("unpaid", "paid")
        state = server.run("ORDER.GET", "orders", f"far-{number}")
        state = state and dict(zip(state[::2], state[1::2]))["state"]
        # What was paid before step 2 the queue need not know.
        paid = shop.status(f"far-{number}") == "paid"
        assert state in ((None, "finished", "scheduled") if paid else ("scheduled",)), (number, state)
    assert shop.early == []
    assert shop.closed_by["new"] > 50 and shop.closed_by["old"] > 20, shop.closed_by
    # Step 7: the rest of the page's commands.
    for block in blocks(f"docs/ways-over/{form.page}.md", "sh", "Over")[1:]:
        move.type(block)
    if form is not ExpiredEvents:
        assert {key for key in server.run("KEYS", "*") if key not in ("orders", "orders-delayed")} == set()

    # And back: what waits is in the old form again, and closed by the old closers.
    with server.client() as client:
        for number in range(100):
            shop.create(f"late-{number}", now_ms() + 3_000)
            deadline = shop.orders[f"late-{number}"][1]
            client.execute_command("ORDER.SCHEDULE", "orders", f"late-{number}", "PXAT", deadline)
    pause, claims = blocks("docs/ways-over.md", "sh", "Back")
    move.type(pause)
    until(lambda: move.type(claims).split()[1] == "0", 30, "the closers have finished what they hold")
    closed = dict(shop.closed_by)
    move.writes_new, move.writes_old = False, True
    back = [block for block in blocks(f"docs/ways-over/{form.page}.md", "sh", "Back") if "move.py" in block]
    said = [move.type(block) for block in back * 2]
    assert len(set(said)) <= 1, "repeated, it says the same"
    move.old_closes = True
    until(lambda: not shop.open_and_due() and shop.status("late-99") != "unpaid", 30, "the old closers close again")
    move.end()
    assert shop.early == []
    assert shop.closed_by["new"] == closed["new"], "the queue is paused"
    assert shop.closed_by["old"] > closed["old"]
    if form is CronScan:
        move.type(blocks(f"docs/ways-over/{form.page}.md", "sh", "Back")[0])
        assert server.run("EXISTS", "orders") == 0


def rows_of(server):
    """All of the queue, in the order of ids."""
    rows, cursor = [], "0"
    while True:
        cursor, some = server.run("ORDER.SCAN", "orders", cursor, "COUNT", 1000)
        rows += some
        if cursor == "0":
            return sorted(rows)


def old_form_of(server):
    """Each key of the old form, with all it has and until when; as bytes."""
    server_keys = sorted(key for key in server.run("KEYS", "*") if key != "orders")
    with server.client() as client:
        def value(key):
            raw, kind = {NEVER_DECODE: True}, client.type(key)
            read = {"zset": ("ZRANGE", key, 0, -1, "WITHSCORES"), "list": ("LRANGE", key, 0, -1),
                    "set": ("SMEMBERS", key), "hash": ("HGETALL", key), "string": ("GET", key)}[kind]
            got = client.execute_command(*read, **raw)
            return sorted(got.items()) if kind == "hash" else sorted(got) if kind == "set" else got

        return {key: (value(key), client.pexpiretime(key)) for key in server_keys}


def shape_of(keys):
    """How many keys of which name, an id at the end left out, have how many entries."""
    return sorted((key.split("far-")[0] if ":t:" not in key else "t", len(value)) for key, (value, _) in keys.items())


@pytest.mark.parametrize("form", [form for form in FORMS if form is not CronScan], ids=lambda form: form.page)
def test_a_repeated_move_changes_nothing(moving, form):
    move = moving(form)
    server, start = move.server, now_ms() + 3_600_000
    wanted = {f"far-{number}": start + number * 7 for number in range(MANY)}
    with server.client() as client:
        for order, deadline in wanted.items():
            move.form.add(client, order, deadline)
    if form is Asynq:
        # It has whole seconds only.
        wanted = {order: -(-deadline // 1000) * 1000 for order, deadline in wanted.items()}
    before = old_form_of(server)
    assert move.move_over() == MANY
    rows = rows_of(server)
    assert {row[0]: row[3] for row in rows} == wanted
    assert old_form_of(server) == before, "the old form is left alone"
    # Again: not even a revision is another one.
    assert move.move_over() == 0
    assert rows_of(server) == rows

    # Back, into nothing; twice.
    server.run("UNLINK", *before)
    back = blocks(f"docs/ways-over/{form.page}.md", "sh", "Back")[0]
    assert f"{MANY} moved back" in move.type(back)
    written = old_form_of(server)
    assert shape_of(written) == shape_of(before), "as a producer of the old form writes it"
    assert f"{MANY} moved back" in move.type(back)
    assert old_form_of(server) == written, "each order is there once, as before"
    assert rows_of(server) == rows, "the queue is left alone"
    # What was written is what the way over reads.
    server.run("UNLINK", "orders")
    assert move.move_over() == MANY
    assert {row[0]: row[3] for row in rows_of(server)} == wanted


def test_an_order_that_is_refused_is_told(moving):
    """A lock on an id that is not there yet keeps the order out: that must not look moved, step 7 deletes the rest."""
    move = moving(SortedSet)
    server = move.server
    with server.client() as client:
        for number in range(3):
            move.form.add(client, f"far-{number}", now_ms() + 3_600_000)
    fence = server.run("ORDER.LOCK", "orders", "far-1", "me", "PX", 60_000)[1]
    with pytest.raises(AssertionError, match="2 moved, 0 were known\\s+1 were refused, .* far-1: LEASED"):
        move.move_over()
    assert server.run("ORDER.UNLOCK", "orders", "far-1", fence)[0] == "OK"
    assert move.move_over() == 1
    assert [row[0] for row in rows_of(server)] == ["far-0", "far-1", "far-2"]
    # An order that is there and held by a lock is known.
    server.run("ORDER.LOCK", "orders", "far-2", "me", "PX", 60_000)
    assert move.move_over() == 0


def test_a_pattern_in_a_prefix_is_only_itself(moving):
    move = moving(ExpiredEvents)
    with move.server.client() as client:
        client.set("a*b:1", "unpaid", px=600_000)
        client.set("axxb:2", "unpaid", px=600_000)
    move.type("python3 examples/ways-over/move.py over expired-events 'a*b:' orders")
    assert [row[0] for row in move.server.run("ORDER.NEXT", "orders", "COUNT", 10)] == ["1"]
