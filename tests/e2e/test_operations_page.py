"""docs/operations.md, what an operator would doubt: where a field stands, and ORDER.APPLY in MONITOR at a deadline."""

import re
import subprocess

from support.runbook import LONG, schedule, stat
from support.wait import until


def test_the_fields_stand_where_the_page_says(server):
    with server.client() as client:
        order = client.execute_command("ORDER.SCHEDULE", "orders", "1", "PX", 0, "STATUS", "unpaid")
        assert order[1] == "expired", "second in the order reply"
        client.execute_command("ORDER.SCHEDULE", "orders", "2", "PXAT", order[3] - 5_000)
        client.execute_command("ORDER.SCHEDULE", "orders", "3", "PX", LONG)
        lease = client.execute_command("ORDER.LOCK", "orders", "3", "pay", "PX", LONG)
        assert lease[4] == "leased", "fifth in the lease reply"
        row = client.execute_command("ORDER.SCAN", "orders", 0, "MATCH", "3")[1][0]
        assert row == ["3", "leased", "", row[3], "pay", 0, None], "id, state, status, deadline, owner, attempt, error"
        rows = client.execute_command("ORDER.SCAN", "orders", 0, "STATE", "expired", "COUNT", 1000)[1]
        assert min(rows, key=lambda row: row[3])[0] == "2", "the smallest fourth field is the oldest"
        assert stat(server, "oldest_overdue_ms") >= 4_000


def test_apply_in_monitor_at_a_deadline_is_no_write(serve):
    server = serve("appendonly yes", "notify-keyspace-events KEd", port=True)
    replica = serve("repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {server.port}", port=True)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "in sync")
    server.run("CONFIG", "SET", "repl-ping-replica-period", 3600)
    # With redis-cli: redis-py does not read what newer servers say of a client that is none.
    seen = server.folder / "monitor"
    with seen.open("w") as file:
        monitor = subprocess.Popen(["redis-cli", "-s", server.socket, "MONITOR"], stdout=file, stderr=file)
    try:
        until(lambda: "OK" in seen.read_text(), 20, "it listens")
        watch(server)
        until(lambda: re.search(r'"ORDER.APPLY" "orders" "\d+" ""$', seen.read_text(), re.M), 20, "it is seen")
    finally:
        monitor.kill()
        monitor.wait(20)


def watch(server):
    """An order falls due; what is written stands still meanwhile."""
    heard = server.client().pubsub()
    heard.subscribe("__keyevent@0__:order.expired")
    schedule(server, "1", ms=1_000)
    figures = lambda: (int(server.cli("INFO", "replication").split("master_repl_offset:")[1].split()[0]),
                       int(server.cli("INFO", "persistence").split("aof_current_size:")[1].split()[0]))
    # The write itself has gone out by now.
    before = figures()
    until(lambda: (message := heard.get_message(timeout=1)) and message["type"] == "message", 20, "it is announced")
    assert figures() == before, "neither the replication offset nor the AOF has moved"
