"""A wall clock that steps, slews, or differs between primary and replica: nothing early by it, and fences grow."""

import os
import time

import pytest

from support.clock import Clock
from support.wait import until

LONG = 60_000
HOUR = 3600
#: How long the clock slews each way. 60 is what is promised; a short run shows the same faults.
SLEW_SECONDS = float(os.environ.get("ORDERWHEEL_SLEW_SECONDS", "8"))


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


def ruled(serve, clock, *lines, **options):
    """A server under the clock."""
    server = serve(*lines, program=clock.program, **options)
    clock.rules(server)
    return server


def now_us(client):
    seconds, micros = client.time()
    return seconds * 1_000_000 + micros


def order(server, name):
    flat = server.run("ORDER.GET", "orders", name)
    return flat and dict(zip(flat[::2], flat[1::2]))


def steps(server):
    text = server.cli("INFO", "orderwheel")
    return int(text.split("orderwheel_clock_steps_total:")[1].split()[0])


def claim_checked(client, deadlines, fences, got):
    """One CLAIM: none is early by the server's own clock, no order comes twice, fences grow with each grant."""
    rows = client.execute_command("ORDER.CLAIM", "orders", "me", "COUNT", 100, "PX", 80_000_000)
    after = now_us(client)
    for name, fence, deadline, *_ in rows:
        assert deadline == deadlines[name]
        assert deadline * 1000 <= after, f"{name} is early by {deadline * 1000 - after} us"
        assert name not in got, f"{name} twice"
        assert fence > max(fences.values(), default=0), f"{name}: fence"
        fences[name] = fence
        got.add(name)


@pytest.mark.parametrize("step", [1, -1, HOUR, -HOUR])
def test_a_step_and_back(serve, clock, step):
    server = ruled(serve, clock, "appendonly yes")
    counted = steps(server)
    deadlines, fences, got = {}, {}, set()
    with server.client() as client:
        def put(name, ms):
            reply = client.execute_command("ORDER.SCHEDULE", "orders", name, "PX", ms)
            deadlines[name] = reply[3]

        put("due", 0)
        put("soon", 700)
        put("later", 2 * HOUR * 1000)
        claim_checked(client, deadlines, fences, got)
        assert got == {"due"}
        # A lease of 1.5 s: it runs on the monotonic clock and ends when it should, whatever is done to the other.
        put("held", 0)
        began = time.monotonic()
        held = client.execute_command("ORDER.CLAIM", "orders", "it", "ID", "held", "PX", 1_500)[0]
        fences["held"] = held[1]
        clock.ahead(step)
        until(lambda: steps(server) > counted, 20, "the step is counted")
        put("under the step", 0)
        claim_checked(client, deadlines, fences, got)
        assert "under the step" in got and "later" not in got
        assert "soon" in got or step < 0, "due by the new time"
        until(lambda: order(server, "held")["lease_ms"] == -2, 20, "the lease ends")
        assert 1.4 < time.monotonic() - began, "not before its time"
        clock.ahead(0)
        until(lambda: steps(server) > counted + 1, 20, "the step back is counted")

        def all_but_later():
            claim_checked(client, deadlines, fences, got)
            return got == {"due", "soon", "under the step", "held"}

        until(all_but_later, 20, "each of them once, in time")
        assert order(server, "later")["state"] == "scheduled"
        # What is granted after a start has larger fences too.
        last = max(fences.values())
    server.kill()
    server.start()
    assert server.run("ORDER.LOCK", "orders", "later", "other", "PX", LONG)[1] > last


@pytest.mark.parametrize("ppm", [500, -500])
def test_a_slow_slew(serve, clock, ppm):
    """What NTP does: no step, the clock is a little too fast, or too slow."""
    server = ruled(serve, clock)
    counted = steps(server)
    deadlines, fences, got = {}, {}, set()
    began, number = time.monotonic(), 0
    with server.client() as client:
        while (gone := time.monotonic() - began) < SLEW_SECONDS:
            clock.ahead(gone * ppm / 1_000_000)
            reply = client.execute_command("ORDER.SCHEDULE", "orders", number, "PX", number * 7 % 300)
            deadlines[str(number)] = reply[3]
            number += 1
            claim_checked(client, deadlines, fences, got)
            time.sleep(0.005)

        def all_of_them():
            claim_checked(client, deadlines, fences, got)
            return len(got) == number

        until(all_of_them, 20, "each one once")
        assert number > 100
    assert steps(server) == counted, "a slew is no step"


@pytest.mark.parametrize("apart", [30, -30])
def test_a_replica_whose_clock_is_half_a_minute_off_is_promoted(serve, clock, apart):
    primary = serve("repl-diskless-sync-delay 0", "enable-debug-command yes", port=True)
    replica = serve("enable-debug-command yes", "orderwheel.announce-after-start-ms 0",
                    f"replicaof 127.0.0.1 {primary.port}", program=clock.program, port=True)
    clock.rules(replica)
    clock.ahead(apart)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "in sync")
    with primary.client() as client:
        for name, ms in (("due", 0), ("soon", 15_000), ("later", 600_000)):
            client.execute_command("ORDER.SCHEDULE", "orders", name, "PX", ms)
        held = client.execute_command("ORDER.CLAIM", "orders", "it", "ID", "due", "PX", LONG)[0]
        lock = client.execute_command("ORDER.LOCK", "orders", "later", "pay", "PX", LONG)
        assert client.wait(1, 10_000) == 1
    digest = lambda server: server.run("DEBUG", "DIGEST-VALUE", "orders")
    until(lambda: digest(primary) == digest(replica), 20, "both hold the same")
    primary.kill()
    replica.run("REPLICAOF", "NO", "ONE")
    # By its own clock: nothing early, and what is due by it at once.
    with replica.client() as client:
        rows = client.execute_command("ORDER.CLAIM", "orders", "me", "COUNT", 10, "PX", LONG)
        after = now_us(client)
    assert all(row[2] * 1000 <= after for row in rows)
    if apart > 0:
        assert [row[0] for row in rows] == ["soon"], "due by the new time"
    else:
        assert rows == [] and order(replica, "soon")["state"] == "scheduled", "late by the new time, never early"
    # Leases are no longer than they were granted for, and their holders are still heard.
    assert 0 < order(replica, "later")["lease_ms"] <= LONG
    assert replica.run("ORDER.LOCK", "orders", "later", "other", "PX", LONG)[0] == "BUSY"
    assert replica.run("ORDER.ACK", "orders", "due", held[1])[0] == "OK"
    # Fences grow: of this order, of others, and of one that nobody has heard of.
    last = max(held[1], lock[1], *(row[1] for row in rows))
    for name in ("new", "newer"):
        fence = replica.run("ORDER.LOCK", "orders", name, "it", "PX", LONG)[1]
        assert fence > last
        last = fence
    assert replica.run("ORDER.UNLOCK", "orders", "later", lock[1])[0] == "OK"
    assert replica.run("ORDER.LOCK", "orders", "later", "other", "PX", LONG)[1] > last
