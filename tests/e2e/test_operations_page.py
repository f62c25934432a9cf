"""docs/operations.md: its ten questions, and what an operator would doubt."""

import re
import subprocess
from collections import Counter

import pytest

from support.pages import ROOT, blocks
from support.runbook import LONG, claim, replica_of, schedule, stat
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


class Shop:
    """A server somebody else has filled, and a bash that has typed the first block of "Ten questions"."""

    def __init__(self, server):
        self.server = server
        self.blocks = blocks("docs/operations.md", "sh", "Ten questions")
        assert len(self.blocks) == 11, "the functions, then ten answers"

    def asks(self, question):
        """What the answer to a question prints, by line."""
        done = self.types(question)
        assert not done.stderr, (question, done.stderr)
        assert not re.search(r"^\(error\)|^ERR", done.stdout, re.M), done.stdout
        return done.stdout.splitlines()

    def types(self, question):
        """Types the first block, with this server in its first line, and the answer to a question. Nothing else is
        changed: whatever does not go through that line asks another server."""
        first, rest = self.blocks[0].split("\n", 1)
        assert "-p 6379" in first and "redis-cli -p" not in rest + self.blocks[question]
        shell = "\n".join((first.replace("-p 6379", f"-s {self.server.socket}"), rest, self.blocks[question]))
        return subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False)

    def figures(self, question):
        """The same as name and number, of lines such as `orderwheel_overdue:12`."""
        return {name.strip().removeprefix("orderwheel_"): float(value)
                for name, value in (line.split(":", 1) for line in self.asks(question))}

    def queues(self, question):
        """The same of the lines of `each`: queue, name, value."""
        found = {}
        for line in self.asks(question):
            queue, *fields = re.split(r" (?=[a-z_-]+=)", line)
            found[queue[1:-1]] = dict(field.split("=", 1) for field in fields)
        return found


@pytest.fixture
def shop(server):
    """Overdue, claimed by a closer that never comes back, locked, dead with errors, paused, braked, full, retrying."""
    do = server.run
    with server.client() as client:
        now = int(client.time()[0]) * 1_000
        pipe = client.pipeline(transaction=False)
        for n in range(1_500):
            pipe.execute_command("ORDER.SCHEDULE", "orders", f"late{n}", "PXAT", now - 600_000 + n, "STATUS",
                                 "unpaid" if n % 3 else "authorised", "PAYLOAD", '{"sku":%d}' % n)
        for n in range(2_000):
            pipe.execute_command("ORDER.SCHEDULE", "orders", f"later{n}", "PX", 3_600_000, "STATUS", "unpaid")
        pipe.execute()
        tried = [row for count in (1_000, 200) for row in claim(server, count, owner="closer-3")]
        for n, (order, fence, *_) in enumerate(tried):
            error = "no such sku" if n >= 1_100 else 'HTTP 502\nfrom "stock"'
            pipe.execute_command("ORDER.NACK", "orders", order, fence, "DEAD", "ERROR", error)
        pipe.execute()
    for order, fence, *_ in do("ORDER.CLAIM", "orders", "closer-3", "PX", LONG, "COUNT", 4):
        do("ORDER.ACK", "orders", order, fence, "STATUS", "closed")
    do("ORDER.CLAIM", "orders", "closer-7", "PX", 10 * LONG, "COUNT", 50)
    for n in range(6):
        do("ORDER.LOCK", "orders", f"later{n}", f"pay-{n}", "PX", 5 * LONG)
    schedule(server, *"abc", queue="shop:paused")
    do("ORDER.PAUSE", "shop:paused", "PX", 3_600_000, "REASON", "migration by anna")
    do("ORDER.CONFIG", "shop:full", "SET", "max-leased", 2)
    do("ORDER.CONFIG", "shop:braked", "SET", "claims-per-s-max", 1)
    do("ORDER.CONFIG", "shop:retrying", "SET", "backoff-ms", 600_000, "backoff-ms-max", 600_000)
    for queue in ("shop:full", "shop:braked", "shop:retrying"):
        schedule(server, *"abcd", queue=queue)
    claim(server, 4, queue="shop:full", owner="w1")
    for order, fence, *_ in claim(server, 4, queue="shop:retrying", owner="w1"):
        do("ORDER.NACK", "shop:retrying", order, fence, "ERROR", "db away")
    return Shop(server)


def test_how_late_are_we_and_since_when(shop):
    late = shop.figures(1)
    assert set(late) == {"oldest_overdue_ms", *(f"overdue_close_ms_{part}_1m" for part in ("p50", "p99", "max"))}
    assert all(598_000 <= ms < 900_000 for ms in late.values()), late
    queues = shop.queues(2)
    assert {queue: int(fields["overdue"]) for queue, fields in queues.items()} == {
        "orders": 1_496, "shop:paused": 3, "shop:full": 4, "shop:braked": 4, "shop:retrying": 4}
    orders = {name: int(value) for name, value in queues["orders"].items()}
    assert 598_000 <= orders.pop("oldest_overdue_ms") < 900_000
    assert orders == {"overdue": 1_496, "expired": 246, "live_claims": 50, "retrying": 0, "dead": 1_200}


def test_what_is_dead_and_who_holds_what(shop):
    assert [line.split(maxsplit=1) for line in shop.asks(3)] == [
        ["1100", r'"HTTP 502\nfrom \"stock\""'], ["100", '"no such sku"']]
    said = shop.asks(4)
    assert [line.split(maxsplit=1) for line in said[:7]] == [
        ["50", '"closer-7"'], *(["1", f'"pay-{n}"'] for n in reversed(range(6)))]
    orders = [line.split("\t") for line in said[7:]]
    assert len(orders) == 50
    assert all(len(row) == 7 and row[1] == '"leased"' and row[4] == '"closer-7"' for row in orders)
    assert sorted(row[0] for row in orders) == sorted(f'"late{n}"' for n in range(1_204, 1_254))


def test_are_the_closers_gone(shop):
    figures, connections = shop.asks(5)[:3], shop.asks(5)[3:]
    assert {line.strip() for line in figures} >= {"orderwheel_claim_waiters:0"} and not connections
    before = shop.asks(5)
    assert shop.asks(5) == before, "nobody works: claimed_total stands"
    with shop.server.client() as idle, Waiting(shop.server, "nothing-here"):
        idle.client_setname("closer-9")
        idle.execute_command("ORDER.CLAIM", "orders", "closer-9")
        until(lambda: "orderwheel_claim_waiters:1" in "".join(shop.asks(5)), 20, "one waits")
        after = shop.asks(5)
        assert after[:3] != before[:3], "claimed_total has moved"
        waits, idles = sorted(after[3:], key=lambda line: "flags=b" not in line)
        assert "flags=b" in waits and "name=closer-9" in idles and re.search(r"idle=\d", idles)


class Waiting:
    """A closer that waits in CLAIM."""

    def __init__(self, server, queue):
        self.words = ["redis-cli", "-s", server.socket, "ORDER.CLAIM", queue, "waiter", "BLOCK", "60000"]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(20)


def test_why_claim_gives_nothing(shop):
    queues = shop.queues(6)
    # Each field that the section "CLAIM answers nothing" looks at is shown.
    section = (ROOT / "docs/operations.md").read_text().split("### CLAIM answers nothing")[1].split("\n## ")[0]
    fields = {field.split()[0] for row in re.findall(r"^\| ([^|]*`[^|]*) \|", section, re.M)
              for field in re.findall(r"`([^`]+)`", row)}
    assert fields >= {"orders", "expired", "claim_limit_wait_ms"}, fields
    for name, shown in queues.items():
        assert fields <= set(shown), (name, fields - set(shown))
    paused, full, retrying = (queues[f"shop:{name}"] for name in ("paused", "full", "retrying"))
    assert int(paused["paused_ms"]) > 0 and paused["pause_reason"] == '"migration by anna"'
    assert full["live_claims"] == full["max-leased"] == "2"
    assert (retrying["expired"], retrying["retrying"]) == ("0", "4")
    claim(shop.server, 4, queue="shop:braked")
    braked = shop.queues(6)["shop:braked"]
    assert braked["claims-per-s-max"] == "1" and 0 < int(braked["claim_limit_wait_ms"]) <= 1_000


def test_slowing_closers_down_and_replaying_the_dead(shop):
    server = shop.server
    slow, fast = shop.blocks[7].strip().splitlines()
    for command, limit in ((slow, 200), (fast, 0)):
        shop.blocks[7] = command
        assert shop.asks(7) == ["OK"]
        assert stat(server, "claims-per-s-max") == limit
    assert dead_by_status(server) == {"unpaid": 800, "authorised": 400}
    assert [line.split() for line in shop.asks(8)] == [["800", "1", "0"]]
    assert dead_by_status(server) == {"authorised": 400}
    assert not shop.asks(8), "there is nothing left to do"


HOSTILE = ("<script>", "nul\x00 \x1b[31m", "two\nlines\tand tabs", 'O"Reilly\\n', "订单🦀", "\u202eleft", "-n", "$(id)", "*", "' '")


def test_texts_of_any_bytes_take_nothing_away_from_an_answer(serve):
    """A reason with a line end, an id in Chinese: each queue still has all its figures, each order is moved."""
    server, wrong = serve(), HOSTILE[1] + HOSTILE[2] + HOSTILE[4]
    shop = Shop(server)
    for queue in HOSTILE:
        schedule(server, "1", queue=queue)
        server.run("ORDER.PAUSE", queue, "REASON", wrong)
    schedule(server, *HOSTILE)
    for order, fence, *_ in claim(server, 100, owner=wrong):
        server.run("ORDER.NACK", "orders", order, fence, "DEAD", "ERROR", wrong)
    for question in (2, 6, 9):
        lines = shop.asks(question)
        names = re.search(r"each '(.*)'", shop.blocks[question])[1].split("|")
        assert len(lines) == len(HOSTILE) + 1, lines
        assert all(f" {name}=" in line for line in lines for name in names), lines
    assert [line.split()[0] for line in shop.asks(3)] == [str(len(HOSTILE))]
    assert [line.split() for line in shop.asks(8)] == [[str(len(HOSTILE)), "1", "0"]]
    assert stat(server, "dead") == 0


def test_who_may_not_ask_is_told_so(serve):
    """No answer looks like "there is nothing" to somebody who has forgotten the password."""
    server = serve()
    shop = Shop(server)
    server.run("CONFIG", "SET", "requirepass", "secret")
    for question in range(1, 11):
        done = shop.types(question)
        assert "NOAUTH" in done.stderr, (question, done.stdout, done.stderr)


def dead_by_status(server):
    """How many dead orders there are of each status."""
    found, cursor = Counter(), "0"
    while True:
        cursor, rows = server.run("ORDER.SCAN", "orders", cursor, "STATE", "dead", "COUNT", 1_000)
        found.update(row[2] for row in rows)
        if cursor == "0":
            return found


def test_how_much_memory_and_what_a_backup_weighs(shop):
    server = shop.server
    queues = shop.queues(9)
    assert 0 <= server.run("MEMORY", "USAGE", "orders") - int(queues["orders"]["bytes"]) < 1_000
    said = sum(int(fields["dump_bytes"]) for fields in queues.values())
    weighs = {}
    for compress in ("no", "yes"):
        server.run("CONFIG", "SET", "rdbcompression", compress)
        server.run("SAVE")
        weighs[compress] = (server.folder / "dump.rdb").stat().st_size
    assert weighs["yes"] < weighs["no"] * 0.9, weighs
    assert 0.8 * said < weighs["no"] < 1.2 * said, ("about", said, weighs)


def test_what_is_lost_if_the_machine_dies(serve):
    server = serve(port=True)
    shop = Shop(server)
    schedule(server, "1", "2", "3")
    said = [line.strip() for line in shop.asks(10)]
    # A server may say them in either order.
    assert {tuple(line.split("\t")) for line in said[:2]} == {("appendonly", "no"), ("appendfsync", "everysec")}
    assert {"rdb_changes_since_last_save:3", "connected_slaves:0", "aof_last_write_status:ok"} <= set(said)
    server.run("SAVE")
    assert "rdb_changes_since_last_save:0" in [line.strip() for line in shop.asks(10)]
    server.run("CONFIG", "SET", "appendonly", "yes")
    replica_of(serve, server)
    # Each cell of the table that is a line of the answer.
    until(lambda: re.search(r"slave0:.*state=online,offset=(\d+).*\nmaster_repl_offset:\1\b", "\n".join(shop.asks(10))),
          30, "the replica has everything")
    assert "appendonly\tyes" in shop.asks(10)
