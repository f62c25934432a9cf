"""A server that refuses writes: what falls due meanwhile waits, nothing diverges, and all goes on afterwards."""

import resource
import signal
import threading

import pytest
import redis

from support.server import PROGRAM
from support.wait import until

LONG = 60_000
POLICIES = ("noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
            "allkeys-lru", "allkeys-lfu", "allkeys-random")


class Waiter:
    """A closer that waits for one order, in a thread. What it was answered stands in `answer`."""

    def __init__(self, server, queue="orders"):
        self.answer = None
        self.error = None
        self.thread = threading.Thread(target=self.wait, args=(server, queue))
        self.thread.start()
        until(lambda: stat(server, "claim_waiters", queue) == 1, 20, "it waits")

    def wait(self, server, queue):
        try:
            self.answer = server.run("ORDER.CLAIM", queue, "closer", "PX", LONG, "BLOCK", 50_000)
        except redis.RedisError as error:
            self.error = error

    def end(self):
        self.thread.join(60)
        assert not self.thread.is_alive() and self.error is None, self.error
        return [row[0] for row in self.answer]


def stat(server, field, queue="orders"):
    flat = server.run("ORDER.STATS", queue)
    return dict(zip(flat[::2], flat[1::2]))[field]


def state(server, order, queue="orders"):
    flat = server.run("ORDER.GET", queue, order)
    return flat and dict(zip(flat[::2], flat[1::2]))["state"]


def info(server, section, field):
    lines = (line.partition(":") for line in server.cli("INFO", section).splitlines())
    return next(value.strip() for name, _, value in lines if name == field)


def digest(server, queue="orders"):
    return server.run("DEBUG", "DIGEST-VALUE", queue)


def account(server, accepted, queue="orders"):
    """accepted = finished + dead + still present, and no mistake of the module."""
    flat = server.run("ORDER.STATS", queue)
    figures = dict(zip(flat[::2], flat[1::2]))
    states = ("scheduled", "expired", "leased", "retrying", "dead", "finished", "reserved")
    parts = sum(figures[part] for part in states)
    assert parts == figures["orders"] == accepted, figures
    for field in ("panics_total", "reentries_total", "apply_mismatch_total"):
        assert info(server, "orderwheel", f"orderwheel_{field}") == "0", field


def full_disk(server, full):
    """Has no file of the server grow any more, as a full disk does; or lets them grow again.

    A limit on the size of files: it needs neither root nor a file system of its own. The server gets EFBIG where
    a full disk gives ENOSPC, and takes both for the same.
    """
    limit = 1 if full else resource.RLIM_INFINITY
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


@pytest.fixture
def unsignalled(tmp_path):
    """The server's program, which gets an error, not SIGXFSZ, where a file may not grow."""
    program = tmp_path / "unsignalled"
    program.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {PROGRAM} \"$@\"\n")
    program.chmod(0o755)
    return str(program)


def test_a_full_disk_refuses_writes_and_what_falls_due_waits(serve, unsignalled):
    server = serve("appendonly yes", "appendfsync everysec", "enable-debug-command yes", program=unsignalled)
    with server.client() as client:
        for number in range(20):
            client.execute_command("ORDER.SCHEDULE", "orders", number, "PX", 0)
        client.execute_command("ORDER.SCHEDULE", "soon", "1", "PX", 3_000)
    held = server.run("ORDER.CLAIM", "orders", "closer", "COUNT", 5, "PX", LONG)
    waiter = Waiter(server, "soon")
    full_disk(server, True)

    def refused():
        # The first ones are taken until the server has tried to write its file.
        try:
            server.run("SET", "probe", "x")
        except redis.RedisError as error:
            return str(error).startswith("MISCONF")
        return False

    until(refused, 30, "MISCONF", every=0.1)
    before = digest(server)
    for words in (("ORDER.SCHEDULE", "orders", "new", "PX", 0), ("ORDER.CLAIM", "orders", "other"),
                  ("ORDER.ACK", "orders", held[0][0], held[0][1])):
        with pytest.raises(redis.RedisError, match="MISCONF"):
            server.run(*words)
    until(lambda: state(server, "1", "soon") == "expired", 20, "it is due")
    assert stat(server, "claim_waiters", "soon") == 1 and waiter.answer is None, "no grant that is not saved"
    assert digest(server) == before
    # The reading side goes on, and there is no busy loop.
    runs = int(info(server, "orderwheel", "orderwheel_timer_runs_total"))
    assert server.run("ORDER.SCAN", "orders", 0, "COUNT", 100)[0] == "0"
    threading.Event().wait(0.3)
    assert int(info(server, "orderwheel", "orderwheel_timer_runs_total")) - runs < 150
    full_disk(server, False)
    assert waiter.end() == ["1"], "and it goes on"
    assert server.run("ORDER.ACK", "orders", held[0][0], held[0][1])[0] == "OK"
    assert len(server.run("ORDER.CLAIM", "orders", "other", "COUNT", 100)) == 15
    account(server, 20)
    # What is on the disk is what is in memory.
    had = digest(server), digest(server, "soon")
    server.stop()
    server.start()
    assert (digest(server), digest(server, "soon")) == had


def test_a_save_that_fails_refuses_writes_and_what_falls_due_waits(serve, unsignalled):
    server = serve("save 3600 1", "stop-writes-on-bgsave-error yes", "enable-debug-command yes", program=unsignalled)
    server.run("ORDER.SCHEDULE", "orders", "1", "PX", 3_000)
    waiter = Waiter(server)
    full_disk(server, True)
    server.run("BGSAVE")
    until(lambda: info(server, "persistence", "rdb_last_bgsave_status") == "err", 30, "the save fails")
    with pytest.raises(redis.RedisError, match="MISCONF"):
        server.run("ORDER.SCHEDULE", "orders", "2", "PX", 0)
    until(lambda: state(server, "1") == "expired", 20, "it is due")
    threading.Event().wait(0.2)
    assert waiter.answer is None
    full_disk(server, False)
    server.run("BGSAVE")
    until(lambda: info(server, "persistence", "rdb_last_bgsave_status") == "ok", 30, "the save is done")
    assert waiter.end() == ["1"]
    account(server, 1)


def test_too_few_replicas_refuse_writes_and_both_go_on_alike(serve):
    primary = serve("enable-debug-command yes", "repl-diskless-sync-delay 0", "min-replicas-max-lag 1", port=True)
    replica = serve("enable-debug-command yes", f"replicaof 127.0.0.1 {primary.port}", port=True)
    until(lambda: info(replica, "replication", "master_link_status") == "up", 30, "in sync")
    primary.run("CONFIG", "SET", "min-replicas-to-write", 1)
    until(lambda: info(primary, "replication", "min_slaves_good_slaves") == "1", 20, "one that is near")
    primary.run("ORDER.SCHEDULE", "orders", "soon", "PX", 3_000)
    primary.run("ORDER.SCHEDULE", "orders", "held", "PX", 0)
    held = primary.run("ORDER.CLAIM", "orders", "closer", "ID", "held", "PX", 3_500)[0]
    waiter = Waiter(primary)
    # It is there but answers nothing, as one behind a network that drops all.
    replica.signal(signal.SIGSTOP)
    try:
        until(lambda: info(primary, "replication", "min_slaves_good_slaves") == "0", 30, "it lags")
        with pytest.raises(redis.RedisError, match="NOREPLICAS"):
            primary.run("ORDER.ACK", "orders", held[0], held[1])
        until(lambda: state(primary, "soon") == "expired" and state(primary, "held") == "expired", 30, "both are due")
        threading.Event().wait(0.2)
        assert waiter.answer is None, "no grant that no replica has"
    finally:
        replica.signal(signal.SIGCONT)
    got = waiter.end()
    until(lambda: info(primary, "replication", "min_slaves_good_slaves") == "1", 30, "it is back")
    got += [row[0] for row in primary.run("ORDER.CLAIM", "orders", "closer", "COUNT", 10, "PX", LONG)]
    assert sorted(got) == ["held", "soon"]
    assert primary.run("ORDER.ACK", "orders", "held", held[1])[0] == "STALE"
    until(lambda: digest(replica) == digest(primary), 20, "both hold the same")
    account(primary, 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_memory_with_each_policy(serve, policy):
    server = serve("appendonly no", "enable-debug-command yes", f"maxmemory-policy {policy}", "maxmemory 1gb")
    evicts = policy.startswith("allkeys")
    assert info(server, "orderwheel", "orderwheel_evicting_policy") == str(int(policy != "noeviction")), (
        "1 with volatile-* too: a queue with an EXPIRE may go")
    with server.client() as client:
        client.set("other", "x" * 1000)
        for number in range(200):
            client.execute_command("ORDER.SCHEDULE", "orders", number, "PX", 700 if number < 100 else LONG)
    waiter = Waiter(server, "elsewhere")
    server.run("ORDER.SCHEDULE", "elsewhere", "1", "PX", 700)
    server.run("CONFIG", "SET", "maxmemory", 1)
    if evicts:
        # The warning of INFO is true: whole queues go. The server lives, waiters wait, the module counts nothing.
        until(lambda: server.run("DBSIZE") == 0, 20, "all is evicted", every=0.05)
        server.run("CONFIG", "SET", "maxmemory", 0)
        server.run("ORDER.SCHEDULE", "elsewhere", "2", "PX", 0)
        assert waiter.end() == ["2"]
        account(server, 1, "elsewhere")
        assert info(server, "orderwheel", "orderwheel_overdue") == "1", "claimed past its deadline"
        return
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        server.run("ORDER.SCHEDULE", "orders", "new", "PX", 0)
    # What falls due by time is handed out, paid and closed on.
    assert waiter.end() == ["1"]
    until(lambda: stat(server, "expired") == 100, 20, "they are due")
    rows = server.run("ORDER.CLAIM", "orders", "closer", "COUNT", 1000, "PX", LONG)
    assert len(rows) == 100
    assert server.run("ORDER.ACK", "orders", rows[0][0], rows[0][1])[0] == "OK"
    assert server.run("ORDER.FINISH", "orders", 150, "STATUS", "paid")[0] == "OK"
    account(server, 200)
    server.run("CONFIG", "SET", "maxmemory", 0)
    assert server.run("ORDER.SCHEDULE", "orders", "new", "PX", LONG)[0] == "OK"
    account(server, 201)


def test_a_policy_that_evicts_is_warned_of_once(serve):
    """In the log and in INFO, for volatile-* too: an EXPIRE can be set on a queue at any time."""
    # Many runs of the cron in a short time.
    server = serve("hz 100", "maxmemory-policy allkeys-lru")
    some_runs = lambda: threading.Event().wait(0.4)
    warned = lambda: server.log.read_text().count("may evict whole queues")
    some_runs()
    assert warned() == 0 and info(server, "orderwheel", "orderwheel_evicting_policy") == "0", "no limit, no eviction"
    server.run("CONFIG", "SET", "maxmemory", "1gb")
    for times, policy in enumerate(POLICIES[1:], 1):
        server.run("CONFIG", "SET", "maxmemory-policy", policy)
        until(lambda times=times: warned() == times, 20, f"{policy} is warned of")
        assert info(server, "orderwheel", "orderwheel_evicting_policy") == "1"
        some_runs()
        assert warned() == times, "once, not with each look"
        server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert info(server, "orderwheel", "orderwheel_evicting_policy") == "0"
        some_runs()
    assert warned() == len(POLICIES) - 1
    # One that is in the configuration is told of at the start.
    later = serve("maxmemory 1gb", "maxmemory-policy volatile-ttl")
    until(lambda: "may evict whole queues" in later.log.read_text(), 20, "it is warned of")
