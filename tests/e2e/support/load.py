"""A shop's load while servers fail, what was promised to it, and the accounting at the end.

A promise is a reply of OK with `WAIT` behind it on the same connection, answered by as many replicas as the test
wants. Whatever was not promised may be there or not.
"""

import random
import threading
import time
import zlib
from collections import Counter

import redis

#: An error that says that nothing was done.
NOT_DONE = (
    redis.exceptions.MovedError, redis.exceptions.AskError, redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError, redis.exceptions.ReadOnlyError,
    redis.exceptions.BusyLoadingError, redis.exceptions.MasterDownError)
#: Each state an order can be in.
STATES = ("scheduled", "expired", "leased", "retrying", "dead", "finished", "reserved")


class Unknown(Exception):
    """Nobody knows whether it was done."""


class Caller:
    """Commands to whoever is in charge of a queue, each with `WAIT` behind it on the same connection."""

    def __init__(self, ends, replicas, wait_ms):
        """`ends`: an event that says that it is over. `replicas`: how many must have a write."""
        self.ends, self.replicas, self.wait_ms = ends, replicas, wait_ms

    def client_of(self, queue):
        """The client of redis-py for this queue."""
        raise NotImplementedError

    def look(self):
        """Finds out again who is in charge."""
        time.sleep(0.05)

    def call(self, queue, *words):
        """The reply, and whether the replicas have it."""
        while not self.ends.is_set():
            try:
                pipe = self.client_of(queue).pipeline(transaction=False)
                pipe.execute_command(words[0], queue, *words[1:])
                pipe.execute_command("WAIT", self.replicas, self.wait_ms)
                said, replicas = pipe.execute(raise_on_error=False)
            except redis.RedisError as fault:
                self.look()
                raise Unknown from fault
            if isinstance(said, redis.RedisError):
                if not isinstance(said, NOT_DONE) and not str(said).startswith("UNBLOCKED"):
                    raise said
                self.look()
                continue
            return said, isinstance(replicas, int) and replicas >= self.replicas
        raise Unknown


class Load:
    """Schedulers, payers, lockers, closers, and what was promised to each."""

    def __init__(self, make_caller, queues, closers=8, block_ms=20):
        """`make_caller(ends)` makes the Caller of a thread. The queues are shared out among the closers."""
        self.make_caller, self.queues = make_caller, queues
        self.closers, self.block_ms = closers, block_ms
        self.ends, self.goes, self.busy = threading.Event(), threading.Event(), Counter()
        self.goes.set()
        self.accepted, self.closed, self.paid, self.dead, self.faults = set(), set(), set(), set(), []
        #: (queue, order) to grants: asked at, told at, fence.
        self.grants = {}
        self.asked, self.counts = [], Counter()
        jobs = [(self.schedule, number) for number in range(2)] + [(self.pay, 0), (self.lock, 0)]
        jobs += [(self.close, number) for number in range(closers)]
        self.threads = [threading.Thread(target=self.guard, args=job) for job in jobs]
        for thread in self.threads:
            thread.start()

    def guard(self, job, number):
        """Runs a job; what it did not expect is told at the end."""
        try:
            job(self.make_caller(self.ends), number)
        except Exception as fault:  # noqa: BLE001 - told below
            self.faults.append(fault)

    def each(self, step):
        """A step again and again; one that nobody knows the end of is counted."""
        me = threading.get_ident()
        while not self.ends.is_set():
            if not self.goes.wait(0.5):
                continue
            self.busy[me] = 1
            try:
                # Held between the look and the word: not this one.
                if self.goes.is_set():
                    step()
            except Unknown:
                self.counts["unknown"] += 1
            finally:
                self.busy[me] = 0

    def hold(self, seconds=30):
        """Nobody begins a step until `go`; answers when all have ended theirs."""
        self.goes.clear()
        end = time.monotonic() + seconds
        while any(self.busy.copy().values()):
            assert time.monotonic() < end, "the load comes to rest"
            time.sleep(0.01)

    def go(self):
        """Goes on after `hold`."""
        self.goes.set()

    def promise(self, is_safe, kept, queue, order):
        """Takes down what was promised."""
        if is_safe:
            kept.add((queue, order))
            self.counts["confirmed"] += 1

    def schedule(self, caller, number):
        """New orders, due within three seconds."""
        chance, serial = random.Random(number), iter(range(10**9))

        def step():
            order = f"{number}-{next(serial)}"
            queue = self.queues[zlib.crc32(order.encode()) % len(self.queues)]
            self.asked.append((queue, order))
            said, is_safe = caller.call(
                queue, "ORDER.SCHEDULE", order, "PX", chance.randrange(200, 3000), "STATUS", "unpaid")
            if said[0] == "OK":
                self.promise(is_safe, self.accepted, queue, order)
            time.sleep(0.005)

        self.each(step)

    def pay(self, caller, number):
        """Payments of orders made lately."""
        chance = random.Random(number)

        def step():
            time.sleep(0.01)
            if self.asked:
                queue, order = chance.choice(self.asked[-400:])
                said, is_safe = caller.call(queue, "ORDER.FINISH", order, "FROM", "unpaid", "STATUS", "paid")
                self.counts["pay " + said[0]] += 1
                if said[0] == "OK":
                    self.promise(is_safe, self.paid, queue, order)

        self.each(step)

    def lock(self, caller, _):
        """Locks; the fence of one id grows, whatever happens between."""
        fences, chance = {}, random.Random(9)

        def step():
            time.sleep(0.01)
            queue = chance.choice(self.queues)
            said, is_safe = caller.call(queue, "ORDER.LOCK", "held", f"me-{chance.random()}", "PX", 200)
            if said[0] == "OK":
                assert said[1] > fences.get(queue, 0), (queue, said, fences[queue])
                fences[queue] = said[1]
                self.counts["locked"] += 1
                self.counts["confirmed"] += is_safe
                if chance.random() < 0.5:
                    caller.call(queue, "ORDER.UNLOCK", "held", said[1])

        self.each(step)

    def close(self, caller, number):
        """A closer of its share of the queues; every second one claims with SESSION, a few orders are hopeless."""
        more = ("SESSION",) if number % 2 else ()

        def step():
            for queue in self.queues[number::self.closers]:
                asked = time.monotonic()
                rows, _ = caller.call(
                    queue, "ORDER.CLAIM", f"closer-{number}", "PX", 2000, "COUNT", 10, "BLOCK", self.block_ms, *more)
                told = time.monotonic()
                for row in rows:
                    self.grants.setdefault((queue, row[0]), []).append((asked, told, row[1]))
                for row in rows:
                    self.end_one(caller, queue, row)

        self.each(step)

    def end_one(self, caller, queue, row):
        """Closes a claimed order, or gives one in fifty up for dead."""
        if zlib.crc32(row[0].encode()) % 50 == 0:
            said, is_safe = caller.call(queue, "ORDER.NACK", row[0], row[1], "DEAD", "ERROR", "no stock")
            kind, kept = "nack ", self.dead
        else:
            said, is_safe = caller.call(queue, "ORDER.ACK", row[0], row[1], "STATUS", "closed")
            kind, kept = "ack ", self.closed
        self.counts[kind + said[0]] += 1
        if said[0] == "OK" and row[0] != "held":
            self.promise(is_safe, kept, queue, row[0])

    def stop(self):
        """Ends all of it."""
        self.ends.set()
        for thread in self.threads:
            thread.join(40)
        assert not any(thread.is_alive() for thread in self.threads)


def keys_of(server):
    """The names of all queues of a server, sorted."""
    return sorted(server.run("KEYS", "*"))


def are_equal(primary, *replicas):
    """Whether these replicas hold the same queues, each with the same DIGEST-VALUE."""
    keys = keys_of(primary)
    if not keys:
        return all(not keys_of(replica) for replica in replicas)
    digests = primary.run("DEBUG", "DIGEST-VALUE", *keys)
    return all(keys_of(replica) == keys and replica.run("DEBUG", "DIGEST-VALUE", *keys) == digests
               for replica in replicas)


def page_by_page(client, queue, *which):
    """The rows of a whole SCAN."""
    cursor, seen = "0", {}
    while True:
        cursor, rows = client.execute_command("ORDER.SCAN", queue, cursor, *which, "COUNT", 1000)
        seen.update({row[0]: row for row in rows})
        if int(cursor) == 0:
            return seen


def records(server):
    """Each queue of a server with its orders: id to state and status."""
    with server.client() as client:
        for queue in client.keys("*"):
            yield queue, {order: (row[1], row[2]) for order, row in page_by_page(client, queue).items()}


def states_of(server, queue):
    """The ids that are in two states or in none, and whether STATS counts what SCAN shows.

    Time goes on between the states: only what stays so is wrong.
    """
    with server.client() as client:
        seen = Counter()
        for state in STATES:
            seen.update(page_by_page(client, queue, "STATE", state).keys())
        wrong = [order for order in page_by_page(client, queue) if seen[order] != 1]
        flat = client.execute_command("ORDER.STATS", queue)
    figures = dict(zip(flat[::2], flat[1::2]))
    parts = sum(figures[state] for state in STATES)
    return wrong, parts == figures["orders"] == sum(seen.values())


def account(load, found):
    """accepted = closed + paid + dead + present, of what was confirmed. Answers how they ended.

    `found` has the orders of each queue as `records` gives them.
    """
    state = {(queue, order): row for queue, seen in found.items() for order, row in seen.items()}
    lost = [order for order in load.accepted if order not in state]
    ends = Counter("closed" if row == ("finished", "closed") else "paid" if row == ("finished", "paid") else
                   "dead" if row[0] == "dead" else "present" if row[0] != "finished" else f"wrong {row}"
                   for order in load.accepted if (row := state.get(order)))
    lost += [order for order in load.closed if state.get(order) != ("finished", "closed")]
    lost += [order for order in load.paid if state.get(order) != ("finished", "paid")]
    # A dead one may still be paid.
    lost += [order for order in load.dead
             if order not in state or (state[order][0] != "dead" and state[order] != ("finished", "paid"))]
    print(f"confirmed {load.counts['confirmed']}: accepted {len(load.accepted)} closed {len(load.closed)} "
          f"paid {len(load.paid)} dead {len(load.dead)}; lost {len(lost)}; ends {dict(ends)}; {dict(load.counts)}")
    assert not load.faults, load.faults
    assert not lost, f"{len(lost)} confirmed writes are gone: {lost[:5]}"
    assert set(ends) <= {"closed", "paid", "dead", "present"}, ends
    assert sum(ends.values()) == len(load.accepted)
    assert not load.closed & (load.paid | load.dead), "an end that was confirmed is the only one"
    return ends
