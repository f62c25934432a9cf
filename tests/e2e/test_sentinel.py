"""A primary, two replicas and three sentinels under load: what failovers of each kind keep, and what they may lose.

ORDERWHEEL_SENTINEL_ROUNDS says how many failovers: 4 if it is not set. The kinds take turns.
"""

import os
import signal
import socket
import threading
import time
from collections import Counter

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.load import Load, account, are_equal, records, states_of
from support.sentinel import SentinelCaller, make_group
from support.server import free_port
from support.wait import until

ROUNDS = int(os.environ.get("ORDERWHEEL_SENTINEL_ROUNDS", "4"))
QUEUES = [f"orders:{number}" for number in range(4)]
#: Milliseconds, longer than any round.
LONG = 120_000


class Probe:
    """Writes again and again to the primary that the sentinels name; notes when that worked."""

    def __init__(self, sentinels, goes):
        """It rests while `goes` is not set."""
        self.client, self.written = sentinels.client(seconds=0.5), []
        self.goes, self.ends = goes, threading.Event()
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        while not self.ends.is_set():
            self.goes.wait(0.5)
            if not self.goes.is_set():
                continue
            try:
                said = self.client.execute_command("ORDER.SCHEDULE", "probe", "1", "PX", LONG, "UPSERT")
                assert said[0] == "OK", said
                self.written.append(time.monotonic())
            except redis.RedisError:
                pass
            time.sleep(0.01)

    def longest_gap(self, since):
        """The longest time without a write since then, in seconds."""
        times = [since, *(at for at in self.written.copy() if at >= since)]
        return max(after - before for before, after in zip(times, [*times[1:], time.monotonic()]))

    def stop(self):
        self.ends.set()
        self.thread.join(20)


class Blocked:
    """A client that waits with BLOCK on one server; the error that ends it, and when it came."""

    def __init__(self, server, *words):
        self.error, self.said, self.at = None, None, None
        self.thread = threading.Thread(target=self.wait, args=(server, words))
        self.thread.start()

    def wait(self, server, words):
        try:
            # It waits as long as the server does, and does not ask again by itself.
            with server.client(socket_timeout=None, retry=Retry(NoBackoff(), 0)) as client:
                self.said = client.execute_command(*words)
        except redis.RedisError as fault:
            self.error = fault
        self.at = time.monotonic()


class Marks:
    """Orders of a queue that nobody works on: what each promoted server must make of them."""

    #: Those that are overdue already.
    DUE = [f"due-{number}" for number in range(10)]

    def __init__(self):
        #: The largest fence ever seen of each order.
        self.fences = Counter()

    def grant(self, order, fence):
        """A new fence of an order is larger than all before."""
        assert fence > self.fences[order], f"{order}: fence {fence} after {self.fences[order]}"
        self.fences[order] = fence

    def make(self, primary):
        """Makes them, and waits until both replicas have them all."""
        with primary.client() as client:
            run = client.execute_command
            for order in [*self.DUE, "leased", "short"]:
                assert run("ORDER.SCHEDULE", "marks", order, "PX", 0, "STATUS", "unpaid")[0] == "OK", order
            assert run("ORDER.SCHEDULE", "marks", "soon", "PX", 1500)[0] == "OK"
            before = time.time()
            for order, lease in (("leased", LONG), ("short", 2500)):
                self.grant(order, run("ORDER.CLAIM", "marks", "holder", "ID", order, "PX", lease)[0][1])
            said = run("ORDER.LOCK", "marks", "locked", "holder", "PX", LONG)
            assert said[0] == "OK", said
            self.grant("locked", said[1])
            self.granted = before, time.time()
            self.soon = dict(pairs(run("ORDER.GET", "marks", "soon")))["deadline"]
            until(lambda: client.wait(2, 5_000) == 2, 30, "both replicas have the marks")

    def expect_end(self, client, order, lease_ms):
        """The lease has the end that it was granted with."""
        asked = time.time()
        left = dict(pairs(client.execute_command("ORDER.GET", "marks", order)))["lease_ms"]
        first = lease_ms - (time.time() - self.granted[0]) * 1000
        last = lease_ms - (asked - self.granted[1]) * 1000
        # The server's milliseconds are whole ones.
        assert first - 20 <= left <= last + 20, (order, first, left, last)

    def check(self, promoted):
        """Overdue orders are offered in the first answer, leases keep their end, fences grow."""
        due, short_end = set(self.DUE), self.granted[0] * 1000 + 2500
        with promoted.client() as client:
            run = client.execute_command
            claim = ("ORDER.CLAIM", "marks", "closer", "COUNT", 100, "PX", LONG)
            first = [(row, time.time() * 1000) for row in run(*claim)]
            ids = {row[0] for row, _ in first}
            assert due <= ids <= due | {"soon", "short"}, f"the first claim brings {ids}"
            self.expect_end(client, "leased", LONG)
            self.expect_end(client, "locked", LONG)
            said = run("ORDER.LOCK", "marks", "locked", "other", "PX", LONG)
            assert said[0] == "BUSY" and said[1] == self.fences["locked"], said

            def rest():
                first.extend((row, time.time() * 1000) for row in run(*claim))
                return {row[0] for row, _ in first} == due | {"soon", "short"}

            until(rest, 10, "what falls due meanwhile is offered too")
            for row, at in first:
                # Milliseconds of one clock, read by two programs.
                assert at >= {"soon": self.soon, "short": short_end}.get(row[0], 0) - 20, row
                assert row[3] == (2 if row[0] == "short" else 1), "the try of the lapsed lease counts"
                self.grant(row[0], row[1])
            # Who held a lease goes on; the next one has a larger fence.
            assert run("ORDER.ACK", "marks", "leased", self.fences["leased"], "KEEP", 0)[0] == "OK"
            assert run("ORDER.UNLOCK", "marks", "locked", self.fences["locked"])[0] == "OK"
            said = run("ORDER.LOCK", "marks", "locked", "other", "PX", LONG)
            self.grant("locked", said[1])
            assert run("ORDER.UNLOCK", "marks", "locked", said[1])[0] == "OK"
            for order in [*self.DUE, "soon", "short"]:
                assert run("ORDER.ACK", "marks", order, self.fences[order], "KEEP", 0)[0] == "OK"


def pairs(flat):
    """A flat list as pairs."""
    return zip(flat[::2], flat[1::2])


def role(server):
    """What ROLE answers; an empty list if nobody answers."""
    if server.process.poll() is not None:
        return [""]
    try:
        with server.client(socket_timeout=1) as client:
            return client.execute_command("ROLE")
    except redis.RedisError:
        return [""]


class Group:
    """The servers and sentinels of a test."""

    def __init__(self, servers, sentinels):
        self.servers, self.sentinels = servers, sentinels

    def primary(self):
        """The one that all sentinels name, None while they differ."""
        named = {self.sentinels.said(port) for port in self.sentinels.ports}
        return self.servers.get(named.pop()) if len(named) == 1 else None

    def promoted(self, old, seconds=60):
        """Waits until the sentinels name another one, which is a primary."""
        def another():
            server = self.servers.get(self.sentinels.said())
            return server if server not in (None, old) and role(server)[0] == "master" else None

        return until(another, seconds, "a replica is promoted", every=0.01)

    def whole(self):
        """Waits until all agree: one primary, and all others are its replicas, in sync. Answers it."""
        def agreed():
            primary = self.primary()
            others = [server for server in self.servers.values() if server is not primary]
            return primary and role(primary)[0] == "master" and len(role(primary)[2]) == len(others) and all(
                role(other)[:1] == ["slave"] and role(other)[2:4] == [primary.port, "connected"] for other in others
            ) and primary

        return until(agreed, 90, "one primary and all others its replicas", every=0.1)


def killed(group, primary):
    """kill -9; it comes back by itself and finds that it is a replica."""
    primary.kill()
    return group.promoted(primary), primary.start


def stopped(group, primary):
    """It stands still, as a machine whose disk or hypervisor hangs, and then goes on as if nothing had been."""
    primary.signal(signal.SIGSTOP)
    try:
        promoted = group.promoted(primary)
    except BaseException:
        primary.signal(signal.SIGCONT)
        raise
    return promoted, lambda: primary.signal(signal.SIGCONT)


def told_the_sentinel(group, primary):
    """SENTINEL FAILOVER, as an operator."""
    until(lambda: group.sentinels.ask("SENTINEL", "FAILOVER", "shop") in ("OK", True), 30, "it takes the word",
          every=0.2)
    return group.promoted(primary), lambda: None


def told_the_server(group, primary):
    """FAILOVER on the server; the sentinels find out and may promote another one yet."""
    until(lambda: primary.cli("FAILOVER", "TIMEOUT", 5000) == "OK", 30, "it takes the word", every=0.2)
    until(lambda: role(primary)[0] == "slave", 30, "it has handed over")
    return group.promoted(primary), lambda: None


KINDS = (killed, stopped, told_the_sentinel, told_the_server)


def one_round(group, marks, probe, load, kind):
    """One failover of a kind. How long nobody took writes, in seconds, and when it was going on."""
    primary, accepted = group.whole(), len(load.accepted)
    until(lambda: len(load.accepted) > accepted + 50, 30, "writes are confirmed")
    marks.make(primary)
    blocked = [Blocked(primary, "ORDER.CLAIM", "quiet", "waiter", "BLOCK", 0),
               Blocked(primary, "ORDER.CLAIM", "quiet", "waiter", "BLOCK", 0, "SESSION"),
               Blocked(primary, "ORDER.LOCK", "marks", "locked", "waiter", "PX", LONG, "BLOCK", LONG)]
    until(lambda: (waiting(primary, "quiet", "claim_waiters"), waiting(primary, "marks", "lock_waiters")) == (2, 1), 20,
          "they wait")
    before = len(load.closed)
    began = time.monotonic()
    promoted, comes_back = kind(group, primary)
    marks.check(promoted)
    comes_back()
    back = time.monotonic()
    for one in blocked:
        one.thread.join(30)
        assert not one.thread.is_alive(), f"{kind.__name__}: silence for a waiting client"
        assert one.error is not None and one.said is None, (kind.__name__, one.said)
    assert group.whole() is not primary or kind is told_the_server
    until(lambda: len(load.closed) > before + 10, 30, "closing goes on")
    without = probe.longest_gap(began)
    load.hold()
    try:
        now = group.whole()
        others = [server for server in group.servers.values() if server is not now]
        until(lambda: are_equal(now, *others), 30, "each replica holds the same", every=0.1)
    finally:
        load.go()
    waited = max(one.at for one in blocked) - began
    print(f"{kind.__name__}: {without:.2f} s without a primary; blocked clients were told after {waited:.2f} s, it was "
          f"back after {back - began:.2f} s; {time.monotonic() - began:.1f} s in all", flush=True)
    return without, (began, time.monotonic())


def waiting(server, queue, field):
    """A figure of STATS."""
    return dict(pairs(server.run("ORDER.STATS", queue)))[field]


def check_fences(load, failovers):
    """Of two grants of an order the one that was asked for after the other was told has the larger fence.

    Not of those in the middle of a failover: an old primary that has not heard of it yet still grants. Its fences are
    no larger than the new one's, as they should be.
    """
    several = 0
    for order, grants in load.grants.items():
        several += len(grants) > 1
        assert len({fence for _, _, fence in grants}) == len(grants), f"{order}: a fence twice"
        for _, told, fence in grants:
            later = [other for asked, _, other in grants
                     if asked > told and not any(began <= asked <= ended for began, ended in failovers)]
            assert all(other > fence for other in later), (order, grants)
    return several


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_what_two_replicas_have_confirmed_survives_every_failover(serve, tmp_path):
    servers, primary, sentinels = make_group(serve, tmp_path, "appendonly yes", "enable-debug-command yes")
    group, marks, without, failovers = Group(servers, sentinels), Marks(), {}, []
    load = probe = None
    try:
        for queue in QUEUES:
            primary.run("ORDER.CONFIG", queue, "SET", "keep-ms", 3_600_000)
        load = Load(lambda ends: SentinelCaller(sentinels, ends), QUEUES, closers=4, block_ms=500)
        probe = Probe(sentinels, load.goes)
        until(lambda: len(load.closed) > 10, 60, "orders are closed")
        for number in range(ROUNDS):
            kind = KINDS[number % len(KINDS)]
            gap, when = one_round(group, marks, probe, load, kind)
            without.setdefault(kind.__name__, []).append(gap)
            failovers.append(when)
        load.stop()
        probe.stop()
        primary = group.whole()
        others = [server for server in servers.values() if server is not primary]
        until(lambda: are_equal(primary, *others), 30, "each replica holds the same", every=0.1)
    finally:
        for job in (load, probe):
            if job:
                job.stop()
        fault = sentinels.end()
    assert not fault, fault
    print("rounds", {kind: (len(gaps), f"{max(gaps):.2f} s") for kind, gaps in without.items()},
          "orders with several grants", check_fences(load, failovers))
    for queue in QUEUES:
        until(lambda queue=queue: states_of(primary, queue) == ([], True), 20, "each order is in one state", every=0.2)
    account(load, dict(records(primary)))
    assert load.counts["locked"] > 10 and len(load.accepted) > 100 and load.paid and load.closed
    for server in servers.values():
        figures = dict(line.split(":", 1) for line in server.cli("INFO", "orderwheel").splitlines() if ":" in line)
        for name in ("panics", "reentries", "apply_mismatch", "apply_refused"):
            assert figures[f"orderwheel_{name}_total"].strip() == "0", (name, server.folder)


class Cable:
    """A cable between a replica and its primary, which can be cut: nothing goes through, and nobody is told."""

    def __init__(self, primary):
        self.to, self.port = primary.port, free_port()
        self.whole, self.ends, self.sockets = threading.Event(), threading.Event(), []
        self.whole.set()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while not self.ends.is_set():
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self.to))
            self.sockets += [here, there]
            for source, target in ((here, there), (there, here)):
                self.threads.append(threading.Thread(target=self.carry, args=(source, target)))
                self.threads[-1].start()

    def carry(self, source, target):
        try:
            while data := source.recv(65_536):
                while not self.whole.wait(0.1):
                    if self.ends.is_set():
                        return
                target.sendall(data)
        except OSError:
            pass
        # One side is gone: so is the other, unless the cable is cut, when nobody hears of it.
        if self.whole.is_set():
            target.close()

    def cut(self):
        self.whole.clear()

    def end(self):
        self.ends.set()
        # close alone does not wake who waits in accept or recv.
        for one in (self.listener, *self.sockets):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        for thread in self.threads:
            thread.join(10)


class Writer:
    """Schedules orders, and takes down which of two WAITs was content with each."""

    def __init__(self, sentinels, number, ends):
        self.one, self.two, self.ends = [], [], ends
        self.client, self.number = sentinels.client(), number
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        for serial in range(10**9):
            if self.ends.is_set():
                return
            order = f"{self.number}-{serial}"
            pipe = self.client.pipeline(transaction=False)
            pipe.execute_command("ORDER.SCHEDULE", "orders", order, "PX", LONG)
            pipe.execute_command("WAIT", 1, 1000)
            pipe.execute_command("WAIT", 2, 20)
            try:
                said, one, two = pipe.execute()
            except redis.RedisError:
                # The primary is gone.
                return
            if said[0] == "OK":
                if one >= 1:
                    self.one.append(order)
                if two >= 2:
                    self.two.append(order)


@pytest.mark.timeout(150)
def test_wait_1_of_two_loses_what_wait_2_keeps(serve, tmp_path):
    """The replica that is behind may be the one that is promoted: here it is preferred by its replica-priority."""
    # The sentinels leave the replica its cable; else they tell it to use another after failover-timeout.
    servers, primary, sentinels = make_group(serve, tmp_path, "appendonly yes", failover_timeout_ms=60_000)
    behind, near = (server for server in servers.values() if server is not primary)
    ends, cable, writers = threading.Event(), Cable(primary), []
    try:
        behind.run("CONFIG", "SET", "replica-priority", 1)
        behind.run("REPLICAOF", "127.0.0.1", cable.port)
        until(lambda: role(behind)[3:4] == ["connected"] and len(role(primary)[2]) == 2, 30, "both are in sync")
        priority = lambda: {dict(pairs(row))["port"]: dict(pairs(row))["slave-priority"]
                            for row in sentinels.ask("SENTINEL", "REPLICAS", "shop")}[str(behind.port)]
        until(lambda: priority() == "1", 30, "the sentinels know whom to prefer", every=0.1)
        writers = [Writer(sentinels, number, ends) for number in range(4)]
        count = lambda kind: sum(len(getattr(writer, kind)) for writer in writers)
        until(lambda: count("two") >= 200, 60, "both have some")
        cable.cut()
        before = count("one")
        until(lambda: count("one") >= before + 200, 60, "one of two has more")
        primary.kill()
        ends.set()
        group = Group(servers, sentinels)
        promoted = group.promoted(primary)
        assert promoted is behind, "the sentinels chose by priority"
        for writer in writers:
            writer.thread.join(30)
        there = {order for _, orders in records(promoted) for order in orders}
        safe_by = {kind: [order for writer in writers for order in getattr(writer, kind)] for kind in ("one", "two")}
        gone = {kind: [order for order in orders if order not in there] for kind, orders in safe_by.items()}
        print({kind: f"{len(gone[kind])} of {len(safe_by[kind])} gone" for kind in gone})
        assert not gone["two"], gone["two"][:5]
        # Those that were on their way when the cable was cut are with both.
        assert len(gone["one"]) >= 100, "WAIT 1 was content with writes that are gone"
        # The other one had them, and throws them away to follow the new primary.
        until(lambda: role(near)[2:4] == [behind.port, "connected"], 60, "it follows", every=0.1)
        assert {order for _, orders in records(near) for order in orders} == there
    finally:
        ends.set()
        cable.end()
        for writer in writers:
            writer.thread.join(30)
        fault = sentinels.end()
    assert not fault, fault
