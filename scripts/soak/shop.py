"""A shop of the soak: a primary and a replica, the ledger of its orders, and those who work in it."""

import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/e2e"))
from support.server import Server  # noqa: E402

QUEUES = [f"orders:{number}" for number in range(6)]
#: How long a finished order is kept, for those who did not hear how it ended.
KEEP = 15_000
#: Errors after which nothing was done, and asking again is right: of a replica, and of who waited in one that became it.
LATER = (redis.exceptions.ReadOnlyError, redis.exceptions.MasterDownError)
UNBLOCKED = "UNBLOCKED"


class Fault(Exception):
    """What must not happen."""


class Ledger:
    """What was said of each order. An order is here from its acceptance to its end."""

    def __init__(self):
        self.guard = threading.Lock()
        self.open, self.ended_first, self.counts = {}, {}, Counter()
        self.late_ms, self.faults = [], []

    def accepted(self, queue, orders):
        """The server has them."""
        with self.guard:
            self.counts["accepted"] += len(orders)
            for order in orders:
                if (how := self.ended_first.pop(order, None)) is None:
                    self.open[order] = queue
                else:
                    self.counts[how] += 1

    def ended(self, order, how):
        """paid, closed or purged. Its acceptance may still be on its way."""
        with self.guard:
            if self.open.pop(order, None) is None:
                if order in self.ended_first:
                    self.faults.append(f"{order} ended twice: {self.ended_first[order]}, {how}")
                self.ended_first[order] = how
            else:
                self.counts[how] += 1

    def fault(self, text):
        """Something that must not happen did."""
        with self.guard:
            self.faults.append(text)


class Shop:
    """Two servers that change their parts, and threads that work."""

    def __init__(self, folder, name, rate, seed):
        # With `everysec` a write may wait for two seconds in the server: what SIGKILL then takes was answered.
        lines = ["appendonly yes", "appendfsync no", "repl-diskless-sync-delay 0", "repl-timeout 20",
                 "enable-debug-command local", "maxmemory-policy noeviction"]
        self.name, self.rate, self.chance = name, rate, random.Random(seed)
        self.servers = [Server(Path(folder) / f"{name}{number}", *lines, port=True).start() for number in range(2)]
        self.primary, self.replica = self.servers
        self.replica.run("REPLICAOF", "127.0.0.1", self.primary.port)
        self.ledger, self.ends, self.rests = Ledger(), threading.Event(), threading.Event()
        # Set: no new orders.
        self.drains = threading.Event()
        self.healed, self.fences, self.resting = set(), {}, 0
        self.guard = threading.Lock()
        for queue in QUEUES:
            self.primary.run("ORDER.SCHEDULE", queue, "keeps-the-settings", "PX", 10**9)
            self.primary.run("ORDER.CONFIG", queue, "SET", "max-attempts", 5, "backoff-ms", 50, "backoff-ms-max", 400)
        jobs = [self.make, self.make_many, self.pay, self.lock, self.listen]
        jobs += [lambda link, number=number: self.close(link, number) for number in range(4)]
        self.threads = [threading.Thread(target=self.work, args=(job, seed + number), daemon=True)
                        for number, job in enumerate(jobs)]

    def start(self):
        """The work begins."""
        for thread in self.threads:
            thread.start()

    def work(self, job, seed):
        """One thread: its job again and again, but for rests."""
        link = Link(self, seed)
        step = job(link)
        while not self.ends.is_set():
            if self.rests.is_set():
                with self.guard:
                    self.resting += 1
                while self.rests.is_set() and not self.ends.is_set():
                    time.sleep(0.01)
                with self.guard:
                    self.resting -= 1
                continue
            try:
                step()
            except Exception as fault:  # noqa: BLE001 - told in the verdict
                self.ledger.fault(f"{self.name}: {type(fault).__name__}: {fault}")
                time.sleep(0.2)

    def rest(self):
        """Has all who work come to a rest between two steps."""
        self.rests.set()
        end = time.monotonic() + 90
        while self.resting < len(self.threads):
            if time.monotonic() > end:
                raise Fault(f"{self.name}: {len(self.threads) - self.resting} do not come to rest")
            time.sleep(0.01)

    # --- who works ---

    def make(self, link):
        """Orders one by one."""
        serial, chance = iter(range(10**9)), link.chance

        def step():
            if self.drains.is_set():
                return time.sleep(0.1)
            order = f"s{next(serial)}"
            queue = chance.choice(QUEUES)
            said = link.ask("ORDER.SCHEDULE", queue, order, "PX", chance.randrange(50, 2500), "STATUS", "unpaid",
                            "PAYLOAD", "x" * chance.randrange(0, 120))
            if said["outcome"] not in ("OK", "EXISTS", "FINISHED"):
                raise Fault(f"SCHEDULE of {order}: {said}")
            self.ledger.accepted(queue, [order])
            time.sleep(4 / self.rate)

        return step

    def make_many(self, link):
        """Orders in batches."""
        serial, chance = iter(range(10**9)), link.chance

        def step():
            if self.drains.is_set():
                return time.sleep(0.1)
            orders = [f"m{next(serial)}" for _ in range(chance.choice((1, 10, 50)))]
            queue = chance.choice(QUEUES)
            words = [word for order in orders for word in (order, chance.randrange(50, 2500))]
            said = link.ask("ORDER.MSCHEDULE", queue, "PX", len(orders), *words, "STATUS", "unpaid")
            if not set(said) <= {"OK", "EXISTS", "FINISHED"}:
                raise Fault(f"MSCHEDULE: {said}")
            self.ledger.accepted(queue, orders)
            time.sleep(len(orders) * 4 / 3 / self.rate)

        return step

    def pay(self, link):
        """Payments, by one who does not know whether the order is still open."""
        def step():
            time.sleep(8 / self.rate)
            with self.ledger.guard:
                some = next(iter(reversed(self.ledger.open.items())), None) if link.chance.random() < 0.7 else None
            if some is None:
                return
            order, queue = some
            said = link.ask("ORDER.FINISH", queue, order, "FROM", "unpaid", "STATUS", "paid", "KEEP", KEEP)
            # Asked twice, the second answer is FINISHED, with the status of who was first; only one pays.
            if said["status"] == "paid" and said["outcome"] in ("OK", "FINISHED"):
                if order not in link.done:
                    link.done[order] = True
                    self.ledger.ended(order, "paid")

        return step

    def lock(self, link):
        """Locks of few ids; the fence of each grows, whatever is done to the servers."""
        def step():
            time.sleep(8 / self.rate)
            order, owner = f"held-{link.chance.randrange(5)}", f"me-{link.chance.random()}"
            more = ("SESSION",) if link.chance.random() < 0.3 else ()
            said = link.ask("ORDER.LOCK", QUEUES[0], order, owner, "PX", link.chance.randrange(1, 300), *more)
            if said["outcome"] == "OK":
                if said["fence"] <= self.fences.get(order, 0):
                    raise Fault(f"fence of {order}: {said['fence']} after {self.fences[order]}")
                self.fences[order] = said["fence"]
                if link.chance.random() < 0.5:
                    link.ask("ORDER.UNLOCK", QUEUES[0], order, said["fence"])

        return step

    def close(self, link, number):
        """A closer: claims, and acknowledges, hands back, gives up, or dies over it."""
        owner, chance = f"closer-{number}", link.chance

        def step():
            queue = chance.choice(QUEUES)
            more = ("SESSION",) if number % 2 else ()
            rows = link.ask("ORDER.CLAIM", queue, owner, "PX", 1500, "COUNT", chance.choice((1, 20, 100)), "BLOCK", 50, *more)
            now = time.time() * 1000
            acked = []
            for order, fence, deadline, attempt, *_ in rows or ():
                if deadline > now:
                    raise Fault(f"{order} is early by {deadline - now} ms")
                if attempt == 1:
                    self.ledger.late_ms.append(now - deadline)
                if order.endswith("77") and order not in self.healed:
                    link.ask("ORDER.NACK", queue, order, fence, "DEAD", "ERROR", "its stock can not be given back")
                elif chance.random() < 0.05:
                    link.ask("ORDER.NACK", queue, order, fence, "DELAY", 30, "ERROR", "later")
                elif chance.random() < 0.02:
                    pass  # As if it had died: the lease ends by itself.
                else:
                    acked.append((order, fence))
            if acked:
                words = [word for order in acked for word in order]
                said = link.ask("ORDER.MACK", queue, len(acked), *words, "STATUS", "closed", "KEEP", KEEP)
                self.settle(link, queue, owner, acked, said)

        return step

    def settle(self, link, queue, owner, acked, said):
        """What MACK did. Where it was asked twice, the record says who has closed the order."""
        # Of the MACK: what is asked below is another question.
        asked_twice = link.asked_twice
        for (order, _), outcome in zip(acked, said, strict=True):
            self.ledger.counts[f"ack {outcome}"] += 1
            if outcome == "FINISHED" and asked_twice:
                record = link.ask("ORDER.GET", queue, order)
                outcome = "OK" if record and record["status"] == "closed" and record["owner"] == owner else outcome
            if outcome == "OK" and order not in link.done:
                link.done[order] = True
                self.ledger.ended(order, "closed")

    def listen(self, link):
        """Somebody who reads, and asks operators' questions."""
        def step():
            time.sleep(0.1)
            queue = link.chance.choice(QUEUES)
            link.ask("ORDER.STATS", queue)
            link.ask("ORDER.SCAN", queue, 0, "COUNT", 100)
            link.ask("ORDER.NEXT", queue, "COUNT", 10)
            link.ask("INFO", "orderwheel")
            if link.chance.random() < 0.05:
                link.ask("ORDER.PAUSE", queue, "PX", 300)
            if link.chance.random() < 0.05:
                link.ask("ORDER.CONFIG", queue, "SET", "claims-per-s-max", link.chance.choice((0, 0, 200)))
            if link.chance.random() < 0.05:
                link.ask("ORDER.RELEASE", queue, f"closer-{link.chance.randrange(4)}")

        return step


class Link:
    """A connection to whichever server is the primary. A command is asked again until it is answered."""

    def __init__(self, shop, seed):
        self.shop, self.chance = shop, random.Random(seed)
        self.client, self.server, self.asked_twice = None, None, False
        self.done = Recent(20_000)

    def ask(self, *words):
        """The reply. `asked_twice` then says whether an earlier one may have been lost."""
        self.asked_twice = False
        end = time.monotonic() + 60
        while True:
            try:
                if self.server is not self.shop.primary or self.client is None:
                    self.server = self.shop.primary
                    self.client = self.server.client(protocol=3, socket_timeout=10, retry=None, single_connection_client=True)
                return self.client.execute_command(*words)
            except (redis.ConnectionError, redis.TimeoutError, OSError) as fault:
                self.asked_twice, why = True, fault
            except redis.ResponseError as fault:
                if not isinstance(fault, LATER) and not str(fault).startswith(UNBLOCKED):
                    raise
                why = fault
            if self.client is not None:
                self.client.close()
            self.client = None
            if time.monotonic() > end:
                raise Fault(f"{words[:3]}: no answer for a minute: {why}")
            time.sleep(0.02)


class Recent(dict):
    """The last so many keys."""

    def __init__(self, most):
        super().__init__()
        self.most = most

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if len(self) > self.most:
            del self[next(iter(self))]
