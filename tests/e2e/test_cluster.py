"""A Cluster of three primaries and three replicas under load and faults, with one accounting at the end.

ORDERWHEEL_CLUSTER_ROUNDS says how often all faults happen: 1 if it is not set.
"""

import os
import random
import signal
import subprocess
import threading
import time
import zlib
from collections import Counter

import pytest
import redis

from support.cluster import cluster_client, make_cluster
from support.wait import until

ROUNDS = int(os.environ.get("ORDERWHEEL_CLUSTER_ROUNDS", "1"))
PARTITIONS = 64
QUEUES = [f"orders:{{{number}}}" for number in range(PARTITIONS)]
#: An error that says that nothing was done.
NOT_DONE = (
    redis.exceptions.MovedError, redis.exceptions.AskError, redis.exceptions.ClusterDownError, redis.exceptions.TryAgainError,
    redis.exceptions.ReadOnlyError, redis.exceptions.BusyLoadingError, redis.exceptions.MasterDownError)


class Unknown(Exception):
    """Nobody knows whether it was done."""


class Caller:
    """Commands to the node of a queue, each with `WAIT 1` behind it on the same connection."""

    def __init__(self, nodes, ends):
        self.nodes, self.ends = nodes, ends
        self.client = until(self.connect, 30, "the cluster lets a client in")

    def connect(self):
        """A cluster client, or None while there is no cluster."""
        try:
            return cluster_client(self.nodes)
        except redis.RedisError:
            return None

    def look(self):
        """Asks again which node has which slot."""
        time.sleep(0.05)
        try:
            self.client.nodes_manager.initialize()
        except redis.RedisError:
            pass

    def call(self, queue, *words):
        """The reply, and whether the replica has it."""
        while not self.ends.is_set():
            try:
                node = self.client.get_node_from_key(queue)
                pipe = node.redis_connection.pipeline(transaction=False)
                pipe.execute_command(words[0], queue, *words[1:])
                pipe.execute_command("WAIT", 1, 1000)
                said, replicas = pipe.execute(raise_on_error=False)
            except redis.RedisError as fault:
                self.look()
                raise Unknown from fault
            if isinstance(said, redis.RedisError):
                if not isinstance(said, NOT_DONE) and not str(said).startswith("UNBLOCKED"):
                    raise said
                self.look()
                continue
            return said, isinstance(replicas, int) and replicas >= 1
        raise Unknown


class Load:
    """Schedulers, payers, lockers, closers, and what was promised to each."""

    def __init__(self, nodes):
        self.nodes, self.ends = nodes, threading.Event()
        self.accepted, self.closed, self.paid, self.faults = set(), set(), set(), []
        self.asked, self.counts = [], Counter()
        jobs = [(self.schedule, number) for number in range(2)] + [(self.pay, 0), (self.lock, 0)]
        jobs += [(self.close, number) for number in range(8)]
        self.threads = [threading.Thread(target=self.guard, args=job) for job in jobs]
        for thread in self.threads:
            thread.start()

    def guard(self, job, number):
        """Runs a job; what it did not expect is told at the end."""
        try:
            job(Caller(self.nodes, self.ends), number)
        except Exception as fault:  # noqa: BLE001 - told below
            self.faults.append(fault)

    def each(self, step, *arguments):
        """A step again and again; one that nobody knows the end of is counted."""
        while not self.ends.is_set():
            try:
                step(*arguments)
            except Unknown:
                self.counts["unknown"] += 1

    def schedule(self, caller, number):
        """New orders, due within three seconds."""
        chance, serial = random.Random(number), iter(range(10**9))

        def step():
            order = f"{number}-{next(serial)}"
            queue = QUEUES[zlib.crc32(order.encode()) % PARTITIONS]
            self.asked.append((queue, order))
            said, is_safe = caller.call(
                queue, "ORDER.SCHEDULE", order, "PX", chance.randrange(200, 3000), "STATUS", "unpaid")
            if said[0] == "OK" and is_safe:
                self.accepted.add((queue, order))
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
                if said[0] == "OK" and is_safe:
                    self.paid.add((queue, order))

        self.each(step)

    def lock(self, caller, _):
        """Locks; the fence of one id grows, whatever happens between."""
        fences, chance = {}, random.Random(9)

        def step():
            time.sleep(0.01)
            queue = chance.choice(QUEUES)
            said, _ = caller.call(queue, "ORDER.LOCK", "held", f"me-{chance.random()}", "PX", 200)
            if said[0] == "OK":
                assert said[1] > fences.get(queue, 0), (queue, said, fences[queue])
                fences[queue] = said[1]
                self.counts["locked"] += 1
                if chance.random() < 0.5:
                    caller.call(queue, "ORDER.UNLOCK", "held", said[1])

        self.each(step)

    def close(self, caller, number):
        """A closer of eight partitions; every second one claims with SESSION."""
        more = ("SESSION",) if number % 2 else ()

        def step():
            for queue in QUEUES[number::8]:
                rows, _ = caller.call(queue, "ORDER.CLAIM", f"closer-{number}", "PX", 2000, "COUNT", 10, "BLOCK", 20, *more)
                for row in rows:
                    said, is_safe = caller.call(queue, "ORDER.ACK", row[0], row[1], "STATUS", "closed")
                    self.counts["ack " + said[0]] += 1
                    if said[0] == "OK" and is_safe and row[0] != "held":
                        self.closed.add((queue, row[0]))

        self.each(step)

    def stop(self):
        """Ends all of it."""
        self.ends.set()
        for thread in self.threads:
            thread.join(40)
        assert not any(thread.is_alive() for thread in self.threads)


def role(node):
    """master or slave."""
    return node.run("ROLE")[0]


def agreed(nodes):
    """Whether all nodes say the same of all slots, as a reshard wants it."""
    done = subprocess.run(["redis-cli", "--cluster", "check", f"127.0.0.1:{nodes[0].port}"],
                          capture_output=True, text=True, timeout=30, check=False)
    return done.returncode == 0 and "All nodes agree" in done.stdout and "[WARNING]" not in done.stdout


def whole(nodes):
    """Waits until three primaries have a replica each that is in sync, and all nodes agree."""
    def holds():
        try:
            for node in nodes:
                said = node.run("ROLE")
                if (len(said[2]) != 1) if said[0] == "master" else (said[3] != "connected"):
                    return False
                if "cluster_state:ok" not in node.cli("CLUSTER", "INFO"):
                    return False
            return sum(role(node) == "master" for node in nodes) == 3 and agreed(nodes)
        except redis.RedisError:
            return False

    until(holds, 60, "the cluster is whole", every=0.1)


def primaries(nodes):
    """The nodes that are primaries now."""
    return [node for node in nodes if role(node) == "master"]


def killed(nodes):
    """kill -9 of a primary; its replica is promoted, and it comes back as a replica."""
    victim = primaries(nodes)[0]
    others = [node for node in nodes if node is not victim]
    victim.kill()
    until(lambda: len(primaries(others)) == 3, 30, "the replica is promoted", every=0.1)
    victim.start()


def handed_over(nodes):
    """A replica takes over by hand."""
    replica = next(node for node in nodes if role(node) == "slave")
    assert replica.cli("CLUSTER", "FAILOVER") == "OK"
    until(lambda: role(replica) == "master", 30, "it took over", every=0.05)


def resharded(nodes):
    """Slots go to another node and come back, with all that is in them."""
    here, there = primaries(nodes)[:2]
    for source, target in ((here, there), (there, here)):
        done = subprocess.run(
            ["redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", source.cli("CLUSTER", "MYID"),
             "--cluster-to", target.cli("CLUSTER", "MYID"), "--cluster-slots", "600", "--cluster-yes"],
            capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        whole(nodes)


def cut_off(nodes):
    """All others are paused: the one that is left hands out nothing once it knows, and goes on afterwards."""
    left = primaries(nodes)[0]
    others = [node for node in nodes if node is not left]
    for node in others:
        node.signal(signal.SIGSTOP)
    try:
        until(lambda: "cluster_state:fail" in left.cli("CLUSTER", "INFO"), 20, "it knows", every=0.1)
        own = left.run("CLUSTER", "SLOTS")
        queue = next(queue for queue in QUEUES for first, last, (_, port, *_), *_ in own
                     if port == left.port and first <= int(left.cli("CLUSTER", "KEYSLOT", queue)) <= last)
        assert "CLUSTERDOWN" in left.cli("ORDER.CLAIM", queue, "cut-off")
    finally:
        for node in others:
            node.signal(signal.SIGCONT)


def records(node):
    """Each order that a node has: the queue and id, its state, its status."""
    with node.client() as client:
        for queue in client.keys("*"):
            cursor, seen = "0", {}
            while True:
                cursor, rows = client.execute_command("ORDER.SCAN", queue, cursor, "COUNT", 1000)
                seen.update({row[0]: (row[1], row[2]) for row in rows})
                if int(cursor) == 0:
                    break
            yield queue, seen


def is_equal(primary, nodes):
    """Whether the replica of a primary has the same content."""
    port = int(primary.run("ROLE")[2][0][1])
    replica = next(node for node in nodes if node.port == port)
    keys = sorted(primary.run("KEYS", "*"))
    return keys == sorted(replica.run("KEYS", "*")) and (
        primary.run("DEBUG", "DIGEST-VALUE", *keys) == replica.run("DEBUG", "DIGEST-VALUE", *keys))


@pytest.mark.timeout(150 + 90 * ROUNDS)
def test_the_accounts_of_a_cluster_are_right_after_every_fault(serve):
    nodes = make_cluster(serve, 3, 1, "enable-debug-command yes")
    client = cluster_client(nodes)
    for queue in QUEUES:
        client.execute_command("ORDER.CONFIG", queue, "SET", "keep-ms", 3_600_000)
    client.close()
    whole(nodes)
    load = Load(nodes)
    try:
        for _ in range(ROUNDS):
            for fault in (killed, handed_over, resharded, cut_off):
                time.sleep(1)
                fault(nodes)
                whole(nodes)
        before = len(load.closed)
        until(lambda: len(load.closed) > before + 20, 30, "closing goes on")
    finally:
        load.stop()
    whole(nodes)
    print(f"accepted {len(load.accepted)} closed {len(load.closed)} paid {len(load.paid)}", dict(load.counts))
    assert not load.faults, load.faults
    assert load.counts["locked"] > 20 and len(load.accepted) > 200 and load.paid
    for primary in primaries(nodes):
        until(lambda primary=primary: is_equal(primary, nodes), 20, "primary and replica are equal", every=0.2)
    held = Counter(queue for primary in primaries(nodes) for queue in primary.run("KEYS", "*"))
    assert held == Counter(QUEUES), "each queue is on one node"
    found = {queue: seen for primary in primaries(nodes) for queue, seen in records(primary)}
    state = {(queue, order): row for queue, seen in found.items() for order, row in seen.items()}
    lost = [order for order in load.accepted if order not in state]
    assert not lost, f"{len(lost)} confirmed orders are gone: {lost[:5]}"
    ends = Counter("closed" if row == ("finished", "closed") else "paid" if row == ("finished", "paid") else
                   "dead" if row[0] == "dead" else "present" if row[0] != "finished" else f"wrong {row}"
                   for row in (state[order] for order in load.accepted))
    print("accounting", dict(ends))
    assert set(ends) <= {"closed", "paid", "dead", "present"}, ends
    assert sum(ends.values()) == len(load.accepted)
    assert not load.closed & load.paid, "an end that was confirmed is the only one"
    assert not [order for order in load.closed if state[order] != ("finished", "closed")]
    assert not [order for order in load.paid if state[order] != ("finished", "paid")]


@pytest.mark.timeout(120)
def test_an_atomic_slot_migration_carries_every_field_and_tells_who_waits(serve):
    nodes = make_cluster(serve, 3, 0, "enable-debug-command yes")
    if "MIGRATESLOTS" not in nodes[0].cli("CLUSTER", "HELP"):
        pytest.skip("this server has no CLUSTER MIGRATESLOTS: it came with Valkey 9")
    queue, slot = "orders:{3}", int(nodes[0].cli("CLUSTER", "KEYSLOT", "orders:{3}"))
    here = next(node for node in nodes if "MOVED" not in node.cli("ORDER.GET", queue, "x"))
    there = next(node for node in nodes if node is not here)
    here.run("ORDER.CONFIG", queue, "SET", "keep-ms", 3_600_000)
    here.run("ORDER.SCHEDULE", queue, "leased", "PX", 0, "STATUS", "unpaid", "PAYLOAD", "a b")
    fence = here.run("ORDER.CLAIM", queue, "closer", "PX", 60_000)[0][1]
    here.run("ORDER.LOCK", queue, "locked", "me", "PX", 60_000)
    here.run("ORDER.SCHEDULE", queue, "ended", "PX", 60_000, "STATUS", "unpaid")
    here.run("ORDER.FINISH", queue, "ended", "FROM", "unpaid", "STATUS", "paid")
    here.run("ORDER.SCHEDULE", queue, "later", "PX", 60_000, "STATUS", "unpaid")
    told = []

    def wait():
        try:
            told.append(here.run("ORDER.CLAIM", queue, "waiter", "BLOCK", 30_000))
        except redis.RedisError as fault:
            told.append(str(fault))

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: "blocked_clients:1" in here.cli("INFO", "clients"), 10, "somebody waits")
    digest = here.run("DEBUG", "DIGEST-VALUE", queue)
    assert here.cli("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", there.cli("CLUSTER", "MYID")) == "OK"
    until(lambda: "MOVED" not in there.cli("ORDER.GET", queue, "later"), 30, "the slot is there")
    assert there.run("DEBUG", "DIGEST-VALUE", queue) == digest
    waiter.join(20)
    # redis-py takes the word MOVED off: what is left is the slot and where it is now.
    assert told == [f"{slot} 127.0.0.1:{there.port}"]
    assert there.run("ORDER.ACK", queue, "leased", fence, "STATUS", "closed")[0] == "OK"
