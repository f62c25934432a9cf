"""docs/runbooks.md: each symptom is made, the commands of the page are typed, and the end is seen as it says."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis

from support.pages import blocks
from support.server import free_port
from support.wait import until

PAGE = "docs/runbooks.md"
LONG = 60_000


def typed(block, server, other=None):
    """Types a block in a shell; what it printed."""
    block = block.replace("-p 6400", f"-s {server.socket}").replace(" 6400 ", f" {server.port} ")
    if other:
        block = block.replace("-p 6401", f"-s {other.socket}")
    done = subprocess.run(["bash", "-ec", block], capture_output=True, text=True, timeout=60, check=False)
    # grep without a hit is an answer too.
    assert done.returncode in (0, 1) and not done.stderr, (block, done.stdout, done.stderr)
    return done.stdout


def lines(heading, number):
    """The commands of a block, one by one."""
    return blocks(PAGE, "sh", heading)[number].strip().splitlines()


def stat(server, field, queue="orders"):
    flat = server.run("ORDER.STATS", queue)
    return dict(zip(flat[::2], flat[1::2]))[field]


def schedule(server, *orders, ms=0, queue="orders"):
    with server.client() as client:
        for order in orders:
            client.execute_command("ORDER.SCHEDULE", queue, order, "PX", ms, "STATUS", "unpaid")


def claim(server, count=1, *more, owner="closer", queue="orders"):
    return server.run("ORDER.CLAIM", queue, owner, "COUNT", count, "PX", LONG, *more)


def state(server, order, queue="orders"):
    flat = server.run("ORDER.GET", queue, order)
    return flat and dict(zip(flat[::2], flat[1::2]))["state"]


def work(server, count=10, queue="orders"):
    """A closer that does what there is. What it closed."""
    closed = []
    while rows := server.run("ORDER.CLAIM", queue, "closer", "COUNT", count, "PX", LONG):
        for row in rows:
            assert server.run("ORDER.ACK", queue, row[0], row[1], "STATUS", "closed")[0] == "OK"
            closed.append(row[0])
    return closed


def test_ten_seconds_show_each_queue_and_what_is_wrong(server):
    schedule(server, "1", "2")
    schedule(server, "1", ms=LONG, queue="fine")
    claim(server)
    said = typed(blocks(PAGE, "sh", "Ten seconds")[0], server)
    mine = next(line for line in said.splitlines() if line.startswith("orders "))
    for word in ("overdue=2", "expired=1", "live_claims=1", "retrying=0", "dead=0", "claim_waiters=0", "paused_ms=-2",
                 "claim_limit_wait_ms=0", "oldest_overdue_ms="):
        assert f" {word}" in mine, (word, mine)
    assert any(line.startswith("fine ") for line in said.splitlines())
    for field in ("overdue:2", "evicting_policy:0", "panics_total:0", "clock_steps_total:"):
        assert f"orderwheel_{field}" in said


def test_every_symptom_of_the_first_table_leads_to_a_section(root):
    page = (root / PAGE).read_text()
    rows = [line for line in page.split("| you see |")[1].split("\n\n")[0].splitlines() if line.startswith("|")][1:]
    assert len(rows) >= 8
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^## (.*)$", page, re.M)}
    for row in rows:
        assert set(re.findall(r"\(#([\w-]+)\)", row)) <= anchors, row


def test_nothing_is_handed_out(server):
    heading = "Nothing is handed out"
    resume, places, brake = lines(heading, 1)
    for cause, shows, mend in (
        (["ORDER.PAUSE", "orders", "REASON", "lunch"], r"paused_ms\s+-1\npause_reason\s+lunch", resume),
        (["ORDER.CONFIG", "orders", "SET", "max-leased", "1"], r"live_claims\s+1", places),
        (["ORDER.CONFIG", "orders", "SET", "claims-per-s-max", "1"], r"claim_limit_wait_ms\s+[1-9]", brake),
    ):
        server.run("FLUSHALL")
        schedule(server, *map(str, range(5)))
        if "PAUSE" not in cause[0]:
            server.run(*cause)
            assert len(claim(server)) == 1
        else:
            server.run(*cause)
        assert claim(server) == []
        said = typed(blocks(PAGE, "sh", heading)[0], server)
        assert re.search(shows, said) and re.search(r"expired\s+[45]", said), said
        typed(mend, server)
        assert claim(server, 10), cause


def test_a_closer_that_crashes_on_one_order(server):
    heading = "A closer that crashes on one order"
    # A closer that dies of order 1002: each time its lease is over the next one has it.
    crash = ("import redis, sys, os\nc = redis.Redis(unix_socket_path=sys.argv[1], decode_responses=True)\n"
             "for row in c.execute_command('ORDER.CLAIM', 'orders', 'closer', 'COUNT', 1, 'PX', 60000, 'SESSION'):\n"
             "    if row[0] == '1002': os.kill(os.getpid(), 9)\n"
             "    c.execute_command('ORDER.ACK', 'orders', row[0], row[1], 'STATUS', 'closed')\n")
    schedule(server, "1001", "1002", "1003")
    for _ in range(6):
        subprocess.run([sys.executable, "-c", crash, server.socket], check=False)
        until(lambda: stat(server, "live_claims") == 0, 20, "the lease ends with the connection")
    assert stat(server, "lapsed_total") >= 3
    said = "".join(typed(line, server) for line in lines(heading, 0))
    assert "1002" in said and stat(server, "acked_total") <= 2
    attempt = server.run("ORDER.SCAN", "orders", 0, "STATE", "expired", "COUNT", 1000)[1][0][5]
    assert attempt >= 3, "a high attempt is the one"
    typed(blocks(PAGE, "sh", heading)[1], server)
    assert state(server, "1002") == "dead"
    assert sorted(work(server)) in (["1001", "1003"], ["1003"], []), "the others go on"
    # Mended.
    assert server.run("ORDER.REQUEUE", "orders", "ID", "1002")[0] == 1
    assert work(server) == ["1002"]


def test_the_database_is_slow_or_away(server):
    heading = "The database is slow or away"
    pause, slow, back = (lines(heading, number) for number in range(3))
    schedule(server, *map(str, range(40)))
    for row in claim(server, 40):
        server.run("ORDER.NACK", "orders", row[0], row[1], "ERROR", "no database", "DELAY", LONG)
    assert stat(server, "retrying") == 40 and stat(server, "nacked_total") == 40
    for command in pause:
        typed(command, server)
    assert claim(server) == [] and stat(server, "pause_reason") == "database away"
    for command in slow:
        typed(command, server)
    assert stat(server, "claims-per-s-max") == 50
    resume, requeue, reset = back
    typed(resume, server)
    until(lambda: typed(requeue, server).split()[-1] == "0", 20, "the last number is 0")
    typed(reset, server)
    assert sorted(work(server), key=int) == [str(number) for number in range(40)]
    assert (stat(server, "retrying"), stat(server, "overdue"), stat(server, "dead")) == (0, 0, 0)


def test_backlog_after_an_outage(serve):
    server = serve("appendonly yes")
    schedule(server, *map(str, range(500)), ms=200)
    server.kill()
    time.sleep(0.4)
    server.start()
    see, limit, lift = blocks(PAGE, "sh", "Backlog after an outage")
    assert re.search(r"overdue\s+500", typed(see, server))
    typed(limit, server)
    # A tenth of a second's worth at once, not more.
    first = claim(server, 500)
    assert 0 < len(first) < 200
    typed(lift, server)
    assert len(first) + len(work(server, 100)) == 500
    for row in first:
        server.run("ORDER.ACK", "orders", row[0], row[1])
    assert stat(server, "oldest_overdue_ms") == 0


def test_dead_letters(server):
    see, requeue = blocks(PAGE, "sh", "Dead letters")
    schedule(server, "1001", "1002", "2026-12-01/7")
    for row in claim(server, 3):
        server.run("ORDER.NACK", "orders", row[0], row[1], "DEAD", "ERROR", "card service: 500")
    assert stat(server, "dead") == 3
    assert typed(see, server).count("card service: 500") == 3
    assert server.run("ORDER.REQUEUE", "orders", "MATCH", "2026-12-*")[0] == 1
    assert server.run("ORDER.FINISH", "orders", "1001", "STATUS", "closed")[0] == "OK"
    typed(requeue, server)
    assert sorted(work(server)) == ["1002", "2026-12-01/7"]
    assert stat(server, "dead") == 0


def test_memory_full(serve):
    server = serve("maxmemory 4gb", "maxmemory-policy allkeys-lru", port=True)
    see, mend = (lines("Memory full", number) for number in range(2))
    with server.client() as client:
        for number in range(3000):
            client.execute_command("ORDER.FINISH", "orders", number, "CREATE", "STATUS", "paid", "RESULT", "r" * 100)
    schedule(server, "waits", ms=LONG)
    assert "orderwheel_evicting_policy:1" in server.cli("INFO", "orderwheel")
    noevict, purge, more = mend
    typed(noevict, server)
    assert "orderwheel_evicting_policy:0" in server.cli("INFO", "orderwheel")
    server.run("CONFIG", "SET", "maxmemory", server.run("INFO", "memory")["used_memory"] - 1000)
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        server.run("ORDER.SCHEDULE", "orders", "new", "PX", LONG)
    said = "".join(typed(line, server) for line in see)
    assert "maxmemory_policy:noeviction" in said and '"orders"' in said
    assert server.run("ORDER.FINISH", "orders", "waits", "STATUS", "paid")[0] == "OK", "paying goes on"
    until(lambda: typed(purge, server).split()[-1] == "0", 20, "the last number is 0")
    typed(more, server)
    assert server.run("ORDER.SCHEDULE", "orders", "new", "PX", LONG)[0] == "OK"


def test_a_lease_that_nobody_ends(server):
    see, end = (lines("A lease that nobody ends", number) for number in range(2))
    schedule(server, "1001", "1002", "1003")
    rows = {row[0]: row[1] for row in claim(server, 3, owner="closer-7")}
    said = "".join(typed(line, server) for line in see)
    assert "closer-7" in said and "leased" in said
    one, all_of = end
    typed(one, server)
    assert (state(server, "1002"), state(server, "1001")) == ("expired", "leased")
    typed(all_of, server)
    assert {state(server, order) for order in rows} == {"expired"}
    mine = claim(server, 3, owner="closer-8")
    assert len(mine) == 3
    assert {server.run("ORDER.ACK", "orders", order, fence)[0] for order, fence in rows.items()} == {"STALE"}


def replica_of(serve, primary):
    replica = serve("repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {primary.port}", port=True)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "the replica is in sync")
    return replica


def test_a_failover_by_hand(serve):
    primary = serve(port=True)
    replica = replica_of(serve, primary)
    see, promote = blocks(PAGE, "sh", "Failover")
    schedule(primary, "1", "2", ms=100)
    with primary.client() as client:
        client.execute_command("ORDER.SCHEDULE", "orders", "3", "PX", LONG)
        fence = client.execute_command("ORDER.LOCK", "orders", "3", "pay", "PX", LONG)[1]
        assert client.wait(1, 10_000) == 1
    assert "connected_slaves:1" in typed(see, primary)
    primary.kill()
    typed(promote, replica)
    assert "role:master" in typed(see, replica)
    until(lambda: stat(replica, "expired") == 2, 20, "what is overdue is offered")
    assert sorted(work(replica)) == ["1", "2"]
    assert replica.run("ORDER.LOCK", "orders", "3", "other", "PX", LONG)[0] == "BUSY", "leases keep their end"
    assert replica.run("ORDER.LOCK", "orders", "4", "other", "PX", LONG)[1] > fence, "fences grow"


def test_a_failover_with_sentinel(serve, tmp_path):
    """Three sentinels, a primary and two replicas; what WAIT 2 confirmed is there after it."""
    sentinel = shutil.which("redis-sentinel") or shutil.which("redis-server")
    primary = serve("repl-diskless-sync-delay 0", port=True)
    replicas = [replica_of(serve, primary) for _ in range(2)]
    servers = {server.port: server for server in (primary, *replicas)}
    ports, sentinels = [free_port() for _ in range(3)], []
    try:
        for port in ports:
            folder = tmp_path / f"sentinel-{port}"
            folder.mkdir()
            (folder / "sentinel.conf").write_text(
                f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor shop 127.0.0.1 {primary.port} 2\n"
                "sentinel down-after-milliseconds shop 800\nsentinel failover-timeout shop 3000\n")
            sentinels.append(subprocess.Popen(
                [sentinel, folder / "sentinel.conf", "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        ask = lambda port, *words: subprocess.run(
            ["redis-cli", "-p", str(port), *words], capture_output=True, text=True, check=False).stdout.split()
        until(lambda: all(ask(port, "SENTINEL", "CKQUORUM", "shop")[:1] == ["OK"] for port in ports), 60, "they agree")
        until(lambda: len(re.findall("slave0|slave1", primary.cli("INFO", "replication"))) == 2, 30, "two replicas")
        confirmed, fences = [], []
        with primary.client() as client:
            for number in range(50):
                client.execute_command("ORDER.SCHEDULE", "orders", number, "PX", 2_000 if number % 2 else LONG)
                fences.append(client.execute_command("ORDER.LOCK", "locks", number, "me", "PX", LONG)[1])
                if client.wait(2, 5_000) == 2:
                    confirmed.append(number)
        assert len(confirmed) > 40
        # A closer that waits on a replica-to-be is told where it stands, or served.
        primary.kill()
        promoted = lambda: (ask(ports[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop") or ["", "0"])[1]
        until(lambda: promoted() not in ("0", str(primary.port)), 60, "a replica is promoted")
        new = servers[int(promoted())]
        until(lambda: "role:master" in new.cli("INFO", "replication"), 30, "it is a primary")
        for number in confirmed:
            assert state(new, number) in ("scheduled", "expired"), number
            assert new.run("ORDER.LOCK", "locks", number, "other", "PX", LONG)[0] == "BUSY"
        until(lambda: stat(new, "expired") == len([number for number in confirmed if number % 2]), 30, "overdue ones are offered")
        assert new.run("ORDER.LOCK", "locks", "fresh", "other", "PX", LONG)[1] > max(fences)
        # The old one comes back as a replica.
        primary.start()
        until(lambda: "role:slave" in primary.cli("INFO", "replication"), 60, "the old primary is a replica")
        with pytest.raises(redis.exceptions.ReadOnlyError):
            schedule(primary, "late")
    finally:
        for process in sentinels:
            process.terminate()
            process.wait(20)


def test_restore_from_a_backup(serve):
    old = serve("appendonly no", port=True)
    schedule(old, "paid", "closed", "open", ms=100)
    old.run("SAVE")
    backup = (old.folder / "dump.rdb").read_bytes()
    # Since the backup one was paid and one closed, as the database knows; then the queue was deleted.
    old.run("ORDER.FINISH", "orders", "paid", "STATUS", "paid")
    time.sleep(0.2)
    row = claim(old)[0]
    old.run("ORDER.ACK", "orders", row[0], row[1], "STATUS", "closed")
    gone = {"paid": "paid", row[0]: "closed"}
    old.run("UNLINK", "orders")
    # A server that no closer knows.
    fresh = serve(port=True)
    fresh.stop()
    (fresh.folder / "dump.rdb").write_bytes(backup)
    fresh.start()
    pause, resume, move = blocks(PAGE, "sh", "Restore from a backup")
    typed(pause, old, fresh)
    assert claim(fresh, 10) == []
    # The reconcile job, the way from the queue to the database.
    for order, status in gone.items():
        assert fresh.run("ORDER.FINISH", "orders", order, "STATUS", status)[0] == "OK"
    typed(move, old, fresh)
    assert fresh.run("EXISTS", "orders") == 0
    assert claim(old, 10) == [], "the pause goes with it"
    typed(resume.replace("6401", "6400"), old)
    left = ({"paid", "closed", "open"} - set(gone)).pop()
    assert work(old) == [left]
    assert stat(old, "overdue") == 0


def test_upgrade_from_the_first_release(serve):
    before = os.environ.get("ORDERWHEEL_OLD_MODULE")
    if not before:
        pytest.skip("ORDERWHEEL_OLD_MODULE names no build of an older release")
    primary = serve(port=True, module=Path(before))
    schedule(primary, "1", "2", ms=LONG)
    fence = primary.run("ORDER.LOCK", "orders", "2", "pay", "PX", LONG)[1]
    replica = serve("repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {primary.port}", port=True)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "the new one reads the old one's")
    schedule(primary, "3", ms=LONG)
    until(lambda: state(replica, "3") == "scheduled", 20, "and its stream")
    typed(blocks(PAGE, "sh", "Upgrade")[0], primary)
    until(lambda: "role:master" in replica.cli("INFO", "replication"), 30, "it has taken over")
    assert [state(replica, order) for order in "123"] == ["scheduled", "leased", "scheduled"]
    assert replica.run("ORDER.FINISH", "orders", "2", "FENCE", fence, "STATUS", "paid")[0] == "OK"
    primary.stop()
    said = typed(blocks(PAGE, "sh", "Upgrade")[1], replica)
    assert "orderwheel_version:" in said


def test_a_planned_failover_of_the_same_release(serve):
    primary = serve("repl-diskless-sync-delay 0", port=True)
    replica = replica_of(serve, primary)
    told = []

    def waits():
        try:
            primary.run("ORDER.CLAIM", "orders", "closer", "BLOCK", 30_000)
        except redis.RedisError as error:
            told.append(str(error))

    thread = threading.Thread(target=waits)
    thread.start()
    until(lambda: stat(primary, "claim_waiters") == 1, 20, "a closer waits")
    schedule(primary, "1", ms=LONG)
    typed(blocks(PAGE, "sh", "Upgrade")[0], primary)
    until(lambda: "role:master" in replica.cli("INFO", "replication"), 30, "it has taken over")
    thread.join(30)
    assert told and told[0].startswith("UNBLOCKED"), told
    assert state(replica, "1") == "scheduled"


def test_clock_wrong(serve, tmp_path, root, monkeypatch):
    """The clock is set by a library that is loaded before the others, as in tests/server."""
    source = re.search(r'const SHIM: &str = r#"(.*?)"#;', (root / "tests/server/support/clock.rs").read_text(), re.S).group(1)
    (tmp_path / "clock.c").write_text(source)
    built = subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c", "-ldl"],
                           capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    hand = tmp_path / "ahead"
    hand.write_bytes(bytes(16))
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "clock.so"))
    monkeypatch.setenv("ORDERWHEEL_TEST_CLOCK", str(hand))
    server = serve()
    monkeypatch.delenv("LD_PRELOAD")

    def ahead(seconds):
        with hand.open("r+b") as file:
            file.write(int(seconds * 1_000_000).to_bytes(8, "little", signed=True))

    steps = lambda: int(re.search(r"orderwheel_clock_steps_total:(\d+)", server.cli("INFO", "orderwheel")).group(1))
    schedule(server, "1", ms=1_800_000)
    see, hold, go = blocks(PAGE, "sh", "Clock wrong")
    time_command, _ = see.strip().splitlines()
    if abs(int(typed(time_command, server).split()[0]) - time.time()) > 5:
        pytest.skip("this server does not see the clock that is set")
    before = steps()
    ahead(3600)
    until(lambda: steps() > before, 20, "the step is counted")
    assert abs(int(typed(time_command, server).split()[0]) - time.time() - 3600) < 20
    assert "clock" in server.log.read_text()
    typed(hold, server)
    assert claim(server) == [], "held, though it is due by the wrong time"
    ahead(0)
    until(lambda: steps() > before + 1, 20, "the step back is counted")
    typed(go, server)
    assert claim(server) == [] and state(server, "1") == "scheduled", "not early by the right time"
