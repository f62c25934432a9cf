"""docs/locks.md: what a lock is worth where those of others are known to fail."""

import json
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from support.pages import blocks
from support.server import free_port
from support.wait import until

LONG = 60_000

# A holder that is a process of its own: takes the lock, says so, and does what it is told.
HOLDER = """
import json, sqlite3, sys
import redis

socket, database, statement, owner, lease_ms, *more = sys.argv[1:]
client = redis.Redis(unix_socket_path=socket, decode_responses=True)
outcome, fence = client.execute_command("ORDER.LOCK", "accounts", "7", owner, "PX", lease_ms, *more)[:2]
print(json.dumps({"outcome": outcome, "fence": fence}), flush=True)
sys.stdin.readline()
rows = sqlite3.connect(database)
with rows:
    changed = rows.execute(statement, {"id": 7, "fence": fence}).rowcount
unlock = client.execute_command("ORDER.UNLOCK", "accounts", "7", fence)[0]
print(json.dumps({"changed": changed, "unlock": unlock}), flush=True)
"""


def reply(values):
    """A lease reply: in RESP2 its values, in this order."""
    return dict(zip(("outcome", "fence", "lease_ms", "holds", "state", "status", "result"), values))


def lock(server, owner, *more, ms=LONG):
    """Locks account 7."""
    return reply(server.run("ORDER.LOCK", "accounts", "7", owner, "PX", ms, *more))


@pytest.fixture
def database(tmp_path):
    """A table with one account, and the statement of the page that takes from it."""
    path = tmp_path / "rows.db"
    statement = blocks("docs/locks.md", "sql")[0]
    with sqlite3.connect(path) as rows:
        rows.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL DEFAULT 0)")
        rows.execute("INSERT INTO accounts (id, balance) VALUES (7, 100)")
    return path, statement


def write(database, fence):
    """What a holder does to the account. Whether it changed anything."""
    path, statement = database
    with sqlite3.connect(path) as rows:
        return rows.execute(statement, {"id": 7, "fence": fence}).rowcount == 1


def balance(database):
    with sqlite3.connect(database[0]) as rows:
        return rows.execute("SELECT balance FROM accounts").fetchone()[0]


@pytest.fixture
def hold(database):
    """Starts holders; they end with the test."""
    holders = []

    def start(server, owner, *more, ms=LONG):
        path, statement = database
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, server.socket, str(path), statement, owner, str(ms), *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holders.append(process)
        return process, json.loads(process.stdout.readline())

    yield start
    for process in holders:
        process.kill()
        process.wait()


def pair(serve, *lines):
    """A primary and a replica that has all."""
    primary = serve("repl-diskless-sync-delay 0", *lines, port=True)
    replica = serve(f"replicaof 127.0.0.1 {primary.port}", port=True)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "the replica is in sync")
    return primary, replica


def test_a_holder_that_slept_through_its_lease_changes_nothing(server, hold, database):
    process, first = hold(server, "slow", ms=300)
    assert first["outcome"] == "OK"
    process.send_signal(signal.SIGSTOP)
    # The next one waits in line, works, and is done.
    second = lock(server, "quick", "BLOCK", 20_000)
    assert second["outcome"] == "OK" and second["fence"] > first["fence"]
    assert write(database, second["fence"])
    # The first one wakes up, certain that it holds the lock.
    process.send_signal(signal.SIGCONT)
    process.stdin.write("go on\n")
    process.stdin.flush()
    done = json.loads(process.stdout.readline())
    assert done == {"changed": 0, "unlock": "STALE"}
    assert balance(database) == 90, "taken once"
    assert lock(server, "quick")["outcome"] == "HELD", "the second one's lock was left alone"


def test_a_lock_that_a_failover_lost_is_told_by_its_fence(serve, database):
    primary, replica = pair(serve)
    # The link between them is cut: the replica looks for its primary where nobody is.
    replica.run("REPLICAOF", "127.0.0.1", free_port())
    until(lambda: "connected_slaves:0" in primary.cli("INFO", "replication"), 20, "the link is down")
    first = lock(primary, "one")
    assert first["outcome"] == "OK"
    primary.kill()
    replica.run("REPLICAOF", "NO", "ONE")
    second = lock(replica, "other")
    assert second["outcome"] == "OK"
    assert second["fence"] > first["fence"], "it was never seen here, and is smaller all the same"
    assert write(database, second["fence"])
    assert not write(database, first["fence"])
    assert reply(replica.run("ORDER.UNLOCK", "accounts", "7", first["fence"]))["outcome"] == "STALE"
    assert balance(database) == 90


def test_a_lock_that_every_replica_has_outlives_a_failover(serve):
    primary, replica = pair(serve)
    with primary.client() as client:
        first = reply(client.execute_command("ORDER.LOCK", "accounts", "7", "one", "PX", LONG))
        assert client.wait(1, 10_000) == 1
    primary.kill()
    replica.run("REPLICAOF", "NO", "ONE")
    assert lock(replica, "other")["outcome"] == "BUSY"
    held = lock(replica, "one")
    assert (held["outcome"], held["fence"]) == ("HELD", first["fence"])


def test_a_lock_outlives_a_crash_and_never_its_time(serve):
    server = serve("appendonly yes", "appendfsync always")
    short = lock(server, "one", ms=1_500)
    granted = time.monotonic()
    server.kill()
    server.start()
    after = lock(server, "other")
    if after["outcome"] == "BUSY":
        # Still within its time: held by the same one, with no more than is left.
        assert after["fence"] == short["fence"] and 0 < after["lease_ms"] <= 1_500
        got = lock(server, "other", "BLOCK", 20_000)
        assert got["outcome"] == "OK" and got["fence"] > short["fence"]
        assert time.monotonic() - granted < 15
    else:
        assert time.monotonic() - granted >= 1.49, "the machine was slow: its time was over"
        assert after["outcome"] == "OK" and after["fence"] > short["fence"]


def test_nobody_else_gives_a_lock_back(server):
    first = lock(server, "one")
    for fence in (first["fence"] - 1, first["fence"] + 1, 1):
        assert reply(server.run("ORDER.UNLOCK", "accounts", "7", fence))["outcome"] == "STALE"
    assert lock(server, "other")["outcome"] == "BUSY"
    assert reply(server.run("ORDER.UNLOCK", "accounts", "7", first["fence"]))["outcome"] == "OK"


def test_the_lock_of_a_killed_process_is_free_at_once(server, hold):
    process, first = hold(server, "one", "SESSION")
    assert first["outcome"] == "OK"
    process.kill()
    killed = time.monotonic()
    got = lock(server, "other", "BLOCK", 20_000)
    assert got["outcome"] == "OK" and got["fence"] > first["fence"]
    assert time.monotonic() - killed < 15, "long before the minute that it was granted for"


def test_every_failure_of_the_page_names_a_test(root):
    """The table is the claim; `tests/docs.rs` looks at the names in docs/promises.md alone."""
    page = (root / "docs/locks.md").read_text()
    code = "".join(path.read_text() for kind in ("*.rs", "*.py") for path in (root / "tests").rglob(kind))
    rows = [line for line in page.split("## Failure by failure")[1].split("\n## ")[0].splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 12
    for row in rows:
        name = row.rstrip("| ").rsplit("`", 2)[-2]
        assert f"fn {name}(" in code or f"def {name}(" in code, row
