"""docs/runbooks.md: each symptom is made, the commands of the page are typed, and the end is seen as it says."""

import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import redis

from support.clock import Clock
from support.pages import blocks
from support.runbook import LONG, PAGE, claim, lines, schedule, stat, state, typed, work
from support.wait import until


def test_ten_seconds_show_each_queue_and_what_is_wrong(server):
    schedule(server, "1", "2")
    schedule(server, "1", ms=LONG, queue="fine")
    claim(server)
    said = typed(blocks(PAGE, "sh", "Ten seconds")[0], server)
    mine = next(line for line in said.splitlines() if line.startswith('"orders" '))
    for word in ("overdue=2", "expired=1", "live_claims=1", "retrying=0", "dead=0", "claim_waiters=0", "paused_ms=-2",
                 "claim_limit_wait_ms=0", "oldest_overdue_ms="):
        assert f" {word}" in mine, (word, mine)
    assert any(line.startswith('"fine" ') for line in said.splitlines())
    for field in ("overdue:2", "evicting_policy:0", "panics_total:0", "clock_steps_total:"):
        assert f"orderwheel_{field}" in said


def test_queues_of_any_name_are_seen_and_paused(server):
    names = ["two\nlines", "-n", "$(id) *", 'O"Reilly\\n', "订单", "nul\x00", ""]
    for name in names:
        schedule(server, "1", queue=name)
        server.run("ORDER.PAUSE", name, "REASON", "two\nlines \x00")
    said = typed(blocks(PAGE, "sh", "Ten seconds")[0], server).splitlines()
    assert sum(" overdue=1 " in line and " claim_limit_wait_ms=" in line for line in said) == len(names), said
    typed(blocks(PAGE, "sh", "The database is slow or away")[1], server)
    assert {stat(server, "pause_reason", name) for name in names} == {"database away"}
    assert server.run("DBSIZE") == len(names), "and nothing else"


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
        (["ORDER.PAUSE", "orders", "REASON", "lunch"], r'paused_ms"\s+-1\n"pause_reason"\s+"lunch"', resume),
        (["ORDER.CONFIG", "orders", "SET", "max-leased", "1"], r'live_claims"\s+1', places),
        (["ORDER.CONFIG", "orders", "SET", "claims-per-s-max", "1"], r'claim_limit_wait_ms"\s+[1-9]', brake),
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
        assert re.search(shows, said) and re.search(r'expired"\s+[45]', said), said
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


#: A closer whose database is a port on loopback: it closes an order if that takes its connection.
CLOSER = """
import redis, socket, sys
c = redis.Redis(unix_socket_path=sys.argv[1], decode_responses=True)
while True:
    for order, fence, *_ in c.execute_command('ORDER.CLAIM', 'orders', sys.argv[3], 'COUNT', 5, 'BLOCK', 1000):
        try:
            socket.create_connection(('127.0.0.1', int(sys.argv[2])), 5).close()
        except OSError as error:
            c.execute_command('ORDER.NACK', 'orders', order, fence, 'UNTRIED', 'ERROR', str(error))
        else:
            c.execute_command('ORDER.ACK', 'orders', order, fence, 'STATUS', 'closed')
"""


@pytest.fixture
def closers():
    """Starts closers as processes, and ends them: `closers(2, server, port)`."""
    processes = []

    def start(number, server, port):
        for _ in range(number):
            processes.append(subprocess.Popen(
                [sys.executable, "-c", CLOSER, server.socket, str(port), f"closer-{len(processes)}"],
                stderr=subprocess.DEVNULL))

    yield start
    for process in processes:
        process.kill()
        process.wait(20)


def test_the_database_is_slow_or_away(server, closers):
    heading = "The database is slow or away"
    pause, everywhere, slow, back = (blocks(PAGE, "sh", heading)[number] for number in range(4))
    database = socket.create_server(("127.0.0.1", 0), backlog=200)
    port = database.getsockname()[1]
    database.close()
    server.run("CONFIG", "SET", "orderwheel.max-attempts", 3)
    schedule(server, *map(str, range(40)))
    schedule(server, "1", ms=LONG, queue="others")
    # It refuses connections: that is what is to be seen.
    closers(2, server, port)
    until(lambda: stat(server, "nacked_total") >= 120, 30, "closers hand back")
    assert stat(server, "dead") == 0, "UNTRIED: none dies of it"
    scanned = server.run("ORDER.SCAN", "orders", 0, "STATE", "retrying", "COUNT", 1000)[1]
    assert not scanned or "refused" in scanned[0][6]
    typed(pause, server)
    until(lambda: stat(server, "live_claims") == 0, 20, "what was in hand is handed back")
    nacked = stat(server, "nacked_total")
    time.sleep(1.2)
    assert stat(server, "nacked_total") == nacked, "nothing hammers it"
    assert stat(server, "pause_reason") == "database away"
    server.run("ORDER.RESUME", "orders")
    typed(everywhere, server)
    assert {stat(server, "pause_reason", queue) for queue in ("orders", "others")} == {"database away"}
    # It is back, and slow: some ten a second while the brake is on.
    typed(slow.replace("50", "10"), server)
    assert stat(server, "claims-per-s-max") == 10
    with socket.create_server(("127.0.0.1", port), backlog=200):
        resume, requeue, reset = back.strip().splitlines()
        began = time.monotonic()
        typed(resume, server)
        until(lambda: typed(requeue, server).split()[-1] == "0", 20, "the last number is 0")
        until(lambda: stat(server, "acked_total") >= 10, 20, "closers work again")
        assert stat(server, "acked_total") <= 2 + 10 * (time.monotonic() - began + 0.5), "no faster than the brake"
        typed(reset, server)
        assert stat(server, "claims-per-s-max") == 0
        until(lambda: stat(server, "acked_total") == 40, 30, "all are closed")
    assert (stat(server, "retrying"), stat(server, "overdue"), stat(server, "dead")) == (0, 0, 0)


def test_backlog_after_an_outage(serve):
    server = serve("appendonly yes")
    orders = 4000
    with server.client() as client:
        for first in range(0, orders, 1000):
            rows = [word for number in range(first, first + 1000) for word in (number, 300)]
            assert set(client.execute_command("ORDER.MSCHEDULE", "orders", "PX", 1000, *rows)) == {"OK"}
    server.kill()
    time.sleep(0.4)
    server.start()
    see, limit, lift = blocks(PAGE, "sh", "Backlog after an outage")
    assert re.search(rf'overdue"\s+{orders}', typed(see, server))
    typed(limit, server)
    began, got = time.monotonic(), []
    while time.monotonic() < began + 1:
        got += claim(server, 100)
    assert 50 <= len(got) <= 500 * (time.monotonic() - began) + 51, "no faster than the brake, but it goes on"
    typed(lift, server)
    assert len(got) + len(work(server, 1000)) == orders
    for row in got:
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


def test_a_dead_order_among_many_others_is_found_as_the_page_says(server, root):
    """The first answer shows none: whoever stops there takes the queue for a sound one."""
    rule = "If the first line of its answer is not `0`, ask again with that number"
    assert rule in (root / PAGE).read_text()
    schedule(server, "sick")
    [[order, fence, *_]] = claim(server)
    server.run("ORDER.NACK", "orders", order, fence, "DEAD", "ERROR", "card service: 500")
    with server.client() as client:
        for first in range(0, 40_000, 1_000):
            words = [word for number in range(first, first + 1_000) for word in (number, LONG)]
            client.execute_command("ORDER.MSCHEDULE", "orders", "PX", 1_000, *words)
    see, cursor, seen = blocks(PAGE, "sh", "Dead letters")[0], "0", []
    while not seen or cursor != "0":
        seen.append(typed(see.replace(" 0 ", f" {cursor} "), server))
        cursor = seen[-1].split()[0]
    assert len(seen) > 1 and sum("card service: 500" in said for said in seen) == 1


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
    assert stat(server, "finished") == 0
    # Nothing is left to forget: more memory helps.
    server.run("CONFIG", "SET", "maxmemory", server.run("INFO", "memory")["used_memory"] - 1000)
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        server.run("ORDER.SCHEDULE", "orders", "new", "PX", LONG)
    typed(more, server)
    assert server.run("ORDER.SCHEDULE", "orders", "new", "PX", LONG)[0] == "OK"


def test_a_lease_that_nobody_ends(server):
    """A closer that is stopped in the middle of its work: its connection stays, so nothing ends its leases."""
    see, end = (lines("A lease that nobody ends", number) for number in range(2))
    schedule(server, "1001", "1002", "1003")
    holds = ("import redis, sys\n"
             "c = redis.Redis(unix_socket_path=sys.argv[1], decode_responses=True)\n"
             "rows = c.execute_command('ORDER.CLAIM', 'orders', 'closer-7', 'COUNT', 3, 'PX', 3600000, 'SESSION')\n"
             "print('holds', flush=True)\n"
             "sys.stdin.read()\n"
             "print(*(c.execute_command('ORDER.ACK', 'orders', row[0], row[1])[0] for row in rows), flush=True)\n")
    with subprocess.Popen([sys.executable, "-c", holds, server.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as holder:
        try:
            assert holder.stdout.readline() == "holds\n"
            holder.send_signal(signal.SIGSTOP)
            assert claim(server, 3, owner="closer-8") == []
            said = "".join(typed(line, server) for line in see)
            assert said.count("closer-7") == 4 and "leased" in said, said
            one, all_of = end
            typed(one, server)
            assert (state(server, "1002"), state(server, "1001")) == ("expired", "leased")
            typed(all_of, server)
            assert {state(server, order) for order in ("1001", "1002", "1003")} == {"expired"}
            assert len(claim(server, 3, owner="closer-8")) == 3
            assert "closer-8" in typed(see[1], server), "another owner: it is over"
        finally:
            holder.send_signal(signal.SIGCONT)
        holder.stdin.close()
        assert holder.stdout.readline().split() == ["STALE"] * 3, "what the old owner still sends"
        holder.wait(20)


def test_clock_wrong(serve, tmp_path):
    clock = Clock(tmp_path / "clock")
    server = serve(program=clock.program)
    clock.rules(server)
    time.sleep(0.2)
    steps = lambda: int(re.search(r"orderwheel_clock_steps_total:(\d+)", server.cli("INFO", "orderwheel")).group(1))
    schedule(server, "1", ms=1_800_000)
    see, hold, go = blocks(PAGE, "sh", "Clock wrong")
    before = steps()
    clock.ahead(3600)
    until(lambda: steps() > before, 20, "the step is counted")
    times = [int(typed(command, server).split()[0]) for command in see.strip().splitlines()]
    assert 3580 < times[0] - times[1] < 3620, "the two commands show how far it is off"
    assert "clock" in server.log.read_text()
    typed(hold, server)
    assert claim(server) == [], "held, though it is due by the wrong time"
    assert state(server, "1") == "expired"
    clock.ahead(0)
    until(lambda: steps() > before + 1, 20, "the step back is counted")
    typed(go, server)
    assert claim(server) == [] and state(server, "1") == "scheduled", "not early by the right time"
