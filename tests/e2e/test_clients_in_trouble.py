"""The closers and subscribers of `examples/`: told to stop, killed, without a server, with a mistake."""

import signal
import threading
import time

from support.examples import CLOSERS, count, each, go_program, node_major, programs, record, url_of  # noqa: F401
from support.wait import until


def in_hand(server, programs, client, queue, orders=5, work_ms=400):
    """A closer that waited for `orders` to fall due and has claimed them, the first of them just closed."""
    server.run("ORDER.CONFIG", queue, "SET", "max-attempts", 250)
    closer = programs(client, client.closer(url_of(server), queue, work_ms))
    until(lambda: count(server, queue, "claim_waiters") == 1, 30, f"{client.name} waits: {closer.said('err')}")
    with server.client() as redis:
        due = [word for order in range(1, orders + 1) for word in (str(order), 100)]
        redis.execute_command("ORDER.MSCHEDULE", queue, "PX", orders, *due, "STATUS", "unpaid")
    until(lambda: closer.said().startswith("closed"), 30, f"{client.name} closes the first order: {closer.said('err')}")
    return closer


@each(CLOSERS)
def test_a_closer_that_is_told_to_stop_hands_back_at_once(client, server, programs):
    closer = in_hand(server, programs, client, "stop")
    closer.process.send_signal(signal.SIGTERM)
    told = time.monotonic()
    assert closer.wait(10) == 0, closer.said("err")
    # The order in hand is finished; three more would have taken longer than this on any machine.
    closed = closer.said().count("closed")
    assert closed in (1, 2, 3), closer.said()
    assert count(server, "stop", "finished") == closed
    assert count(server, "stop", "leased") == 0
    left = count(server, "stop", "expired")
    assert left == 5 - closed > 0
    assert record(server, "stop", "5")["attempt"] == 0
    # The closer waited for it, and was not handed it early.
    first = record(server, "stop", closer.said().split()[1])
    assert first["finished_at"] >= first["finished_deadline"] > 0
    assert time.monotonic() - told < 10
    # It was idle when told: that ends it too, at the latest with BLOCK.
    with server.client() as redis:
        assert len(redis.execute_command("ORDER.CLAIM", "stop", "next", "COUNT", 10)) == left


@each([client for client in CLOSERS if client.name != "redis-cli"])
def test_the_orders_of_a_killed_closer_are_with_the_next_within_a_second(client, server, programs):
    closer = in_hand(server, programs, client, "kill")
    got = []

    def claim():
        with server.client() as redis:
            while len(got) + count(server, "kill", "finished") < 5:
                for row in redis.execute_command("ORDER.CLAIM", "kill", "next", "COUNT", 10, "BLOCK", 20000):
                    got.append((time.monotonic(), row))

    thread = threading.Thread(target=claim)
    thread.start()
    until(lambda: count(server, "kill", "claim_waiters") == 1, 10, "the next closer waits")
    killed = time.monotonic()
    closer.end()
    thread.join(30)
    assert len(got) >= 1 and len(got) + count(server, "kill", "finished") == 5, got
    late = max(at for at, _ in got) - killed
    assert late < 1, f"{late:.3f} s, with a lease of 30 s"
    # The tries of the dead closer count.
    assert {row[3] for _, row in got} == {2}


@each(CLOSERS)
def test_closer_and_subscriber_come_back_with_the_server(client, serve, programs):
    server = serve("appendonly yes", "notify-keyspace-events KEd", port=True)
    subscriber = programs(client, client.subscriber(url_of(server)))
    closer = in_hand(server, programs, client, "back", orders=25, work_ms=20)
    until(lambda: count(server, "back", "finished") >= 10, 30, "the first batch is closed")
    # In the middle of the second: a batch takes 200 ms.
    time.sleep(0.08)
    server.kill()
    time.sleep(0.3)
    server.start()
    # Long before the leases of the lost connection end: it hands back itself what it had.
    until(lambda: count(server, "back", "finished") == 25, 25, f"the rest is closed: {closer.said('err')}")
    assert closer.process.poll() is None
    # No order was lost; those in hand when the server died may have been closed twice: one batch.
    closed = [line.split()[1] for line in closer.said().splitlines()]
    assert set(closed) == {str(order) for order in range(1, 26)}
    assert len(closed) <= 35
    assert closer.said("err"), "it says that the connection was lost"

    number = iter(range(1000))

    def hint():
        server.run("ORDER.SCHEDULE", "hints", str(next(number)), "PX", 20)
        return "due hints" in subscriber.said()

    until(hint, 30, f"the subscriber hears again: {subscriber.said('err')}", every=0.2)
    assert subscriber.process.poll() is None


@each(CLOSERS)
def test_a_mistake_ends_a_closer_instead_of_being_tried_for_ever(client, server, programs):
    server.run("SET", "text", "1")
    closer = programs(client, client.closer(url_of(server), "text"))
    assert closer.wait(20) not in (0, -signal.SIGKILL)
    assert "WRONGTYPE" in closer.said("err") + closer.said()


def test_closers_that_are_killed_all_the_time_repeat_little_and_are_not_late(server, programs):
    """A burst, and a closer killed twice a second. Without SESSION each kill would leave a batch to its lease, 30 s."""
    orders, kills = 400, 6
    client = next(client for client in CLOSERS if client.name == "php-redis")
    with server.client() as redis:
        due = [word for order in range(orders) for word in (str(order), 0)]
        redis.execute_command("ORDER.MSCHEDULE", "burst", "PX", orders, *due, "STATUS", "unpaid")
    began = time.monotonic()
    alive = [programs(client, client.closer(url_of(server), "burst", 30)) for _ in range(4)]
    dead = []
    while len(dead) < kills and count(server, "burst", "finished") < orders:
        time.sleep(0.5)
        dead.append(alive.pop(0))
        dead[-1].end()
        alive.append(programs(client, client.closer(url_of(server), "burst", 30)))
    until(lambda: count(server, "burst", "finished") == orders, 60, "the burst is closed")
    took = time.monotonic() - began
    closes = sum(closer.said().count("closed") for closer in dead + alive)
    print(f"{orders} orders, {len(dead)} kills: {took:.1f} s, {closes - orders} closes repeated")
    assert len(dead) >= 4
    # Never more than what a dead closer had in hand; and nobody waited for a lease.
    assert 0 <= closes - orders <= 10 * len(dead)
    assert took < 25
