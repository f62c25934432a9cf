"""The example shop in PHP and Go, on PostgreSQL and MariaDB: whatever is killed, halted or taken away at whatever
step, no paid order is closed, no unpaid one stays open, the stock is exact, and nobody is told wrong.

ORDERWHEEL_SHOP_ORDERS makes the last test long; scripts/shop.sh sets it.
"""

import itertools
import os
import random
import signal
import subprocess
import time

import pytest

from support import databases, shop as shops
from support.pages import blocks
from support.wait import until

ORDERS = int(os.environ.get("ORDERWHEEL_SHOP_ORDERS", "200"))

CREATE = ("create_stock", "create_rows", "create_committed")
RELAY = ("relay_read", "relay_sent", "relay_marked")
PAY = ("pay_locked", "pay_updated", "pay_committed", "pay_finished")
CLOSE = ("claimed", "before_close", "close_begun", "close_updated", "close_stocked", "close_committed", "close_acked")
REMIND = ("remind_updated", "remind_committed", "remind_moved")
RECONCILE = ("reconcile_read", "reconcile_offered", "reconcile_scanned")


@pytest.fixture(scope="module")
def binary():
    """The Go programs."""
    return shops.build()


@pytest.fixture(scope="module", params=databases.KINDS)
def database(request):
    """One database after the other."""
    server = databases.KINDS[request.param]()
    try:
        yield server.start()
    finally:
        server.end()


@pytest.fixture
def shop(tmp_path, binary, database, serve):
    """A shop with empty shelves, and a Redis whose every answer is durable."""
    if database.process.poll() is not None:
        database.start()
    redis = serve("appendonly yes", "appendfsync always")
    shop = shops.Shop(tmp_path, binary, database, redis)
    yield shop
    shop.end()


def nothing(_shop, _halted):
    """The programs go on."""


def kill_them(_shop, halted):
    """All of them die."""
    for program in halted:
        program.kill()


def kill_redis(shop, _halted):
    """Redis is away for half a second."""
    shop.redis.kill()


def halt_redis(shop, _halted):
    """Redis does not answer for longer than the programs wait."""
    shop.redis.signal(signal.SIGSTOP)


def kill_database(shop, _halted):
    """The database is away until it has recovered."""
    shop.database.kill()


def halt_database(shop, _halted):
    """The database does not answer."""
    shop.database.signal(signal.SIGSTOP)


def bring_back(shop, event):
    """What was taken away is there again."""
    if event in (kill_redis, kill_database):
        time.sleep(0.5)
        (shop.redis if event is kill_redis else shop.database).start()
    if event is halt_redis:
        time.sleep(3.5)
        shop.redis.signal(signal.SIGCONT)
    if event is halt_database:
        time.sleep(1.5)
        shop.database.signal(signal.SIGCONT)


@pytest.mark.parametrize("event", [nothing, kill_them, kill_redis, halt_redis, kill_database, halt_database],
                         ids=lambda event: event.__name__)
def test_a_failure_in_every_step_costs_no_order(shop, event):
    """Every program of both languages is halted at each of its steps; then customers pay, or something fails."""
    both = shops.LANGUAGES
    shop.stock(100)
    orders = itertools.count(1)

    # Orders for the closers, for the payers, and for the relays.
    due = [next(orders) for _ in both for _ in CLOSE]
    to_remind = [next(orders) for _ in both for _ in REMIND]
    to_pay = [next(orders) for _ in both for _ in PAY]
    shop.ask_all("create", [shop.line(order, 0) for order in due])
    shop.ask_all("create", [shop.line(order, 40) for order in to_pay])
    relay = shop.start("go", "relay")
    until(lambda: shop.live() == len(due) + len(to_pay), 20, "scheduled")
    halted = [shop.start(language, "closer", at=f"{step}=STOP", count=1) for language in both for step in CLOSE]

    def all_halted():
        return all([program.halted() for program in halted])

    until(all_halted, 40, "all closers are at their steps", 0.02)
    # Halted wherever: Redis is told only after the database.
    ended = {row[0] for row in shop.redis.run("ORDER.SCAN", "orders", 0, "STATE", "finished", "COUNT", 1000)[1]}
    still_open = {row[0] for row in shop.database.sql("SELECT id FROM orders WHERE status = 'unpaid'")}
    assert len(ended) == len(both) and not ended & still_open, f"acknowledged and open: {ended & still_open}"
    shop.ask_all("create", [shop.line(order, 8, remind_in=0) for order in to_remind])
    until(lambda: shop.live() >= len(to_pay) + len(to_remind), 20, "scheduled")
    halted += [shop.start(language, "closer", at=f"{step}=STOP", count=1) for language in both for step in REMIND]
    relay.signal(signal.SIGTERM)
    relay.process.wait(20)
    for order, (language, step) in zip(to_pay, itertools.product(both, PAY)):
        shop.payments[f"pay:{order}"] = str(order)
        halted.append(shop.start(language, "pay", at=f"{step}=STOP"))
        halted[-1].ask(f"{order} pay:{order}")
    made = []
    for language, step in itertools.product(both, CREATE):
        made.append(next(orders))
        halted.append(shop.start(language, "create", at=f"{step}=STOP"))
        halted[-1].ask(shop.line(made[-1], 1))
    halted += [shop.start(language, "relay", at=f"{step}=STOP") for language in both for step in RELAY]
    halted += [shop.start(language, "reconcile", 0, at=f"{step}=STOP") for language in both for step in RECONCILE]
    until(all_halted, 60, "all programs are at their steps", 0.02)

    # Customers pay what is being closed, reminded of and created just now: each order has a payer of its own, since
    # some wait for a row that a halted closer holds. Whoever is before its UPDATE then finds the order paid.
    payers = []
    for order in due + to_remind:
        shop.payments[f"late:{order}"] = str(order)
        payers.append(shop.start(both[order % 2], "pay"))
        payers[-1].ask(f"{order} late:{order}")
        payers[-1].ask(f"{order} late:{order}")
    before = len(both) * (CLOSE.index("close_updated") + len(REMIND) - 1)
    until(lambda: int(shop.database.sql("SELECT count(*) FROM orders WHERE payment LIKE 'late:%'")[0][0]) >= before,
          20, "paid while closers are halted", 0.05)
    event(shop, halted)
    for program in halted:
        program.signal(signal.SIGCONT)
    bring_back(shop, event)

    # Programs that answer do; what nobody answered is asked again, as a browser and a provider would.
    asked = [program for program in halted if program.name in ("create", "pay")]
    until(lambda: all(not program.alive or not program.unanswered() for program in asked + payers), 60, "answers", 0.05)
    for program in asked + payers:
        program.close()
    for name in ("create", "pay"):
        kind = [program for program in asked + payers if program.name == name]
        shop.ask_all(name, [line for program in kind for line in program.unanswered()])
    again = set(shop.payments)
    while again:
        for program in shop.programs:
            if program.name == "pay":
                answers = zip(program.questions, program.lines())
                again -= {question.split()[1] for question, line in answers if line[1] != "busy"}
        shop.ask_all("pay", [f"{shop.payments[payment]} {payment}" for payment in sorted(again)])
    for program in halted:
        if program.name in ("closer", "relay"):
            program.signal(signal.SIGTERM)
    shop.settle()
    figures = shop.account()
    assert figures["orders"] == len(shop.wanted)
    assert figures["paid"] >= len(to_pay) and figures["closed"] > 0, figures


@pytest.mark.parametrize("language", shops.LANGUAGES)
def test_reconcile_repairs_both_ways_and_closes_without_redis(shop, language):
    """What Redis lost, what it has ended by mistake, what the database no longer wants; and all alone."""
    shop.stock(9)
    shop.ask_all("create", [shop.line(order, -1) for order in (1, 2, 4, 5)] + [shop.line(3, 60)])
    shop.redis.run("ORDER.FINISH", "orders", 2, "CREATE", "STATUS", "paid")
    shop.redis.run("ORDER.MSCHEDULE", "orders", "PX", 2, 3, 60000, 4, 0, "STATUS", "unpaid")
    shop.database.sql("UPDATE orders SET status = 'paid', payment = 'pay:3' WHERE id = 3")
    shop.payments["pay:3"] = "3"
    shop.ask_all("pay", ["3 pay:3"])
    shop.redis.run("ORDER.SCHEDULE", "orders", 3, "PX", 60000, "FROM", "paid", "STATUS", "unpaid")
    first = shop.start(language, "reconcile", 0)
    assert first.process.wait(30) == 0
    assert sorted(first.lines()) == [["finished", "3", "paid"], ["offered", "1", "OK"], ["offered", "2", "FINISHED"],
                                     ["offered", "4", "EXISTS"], ["offered", "5", "OK"]]
    states = {order: shop.redis.run("ORDER.GET", "orders", order)[3] for order in (1, 2, 3, 4, 5)}
    assert states == {1: "expired", 2: "expired", 3: "finished", 4: "expired", 5: "expired"}
    shop.redis.kill()
    assert shop.once(language, "reconcile", 3600000) and shop.open_orders() == 4, "not within the grace"
    for closed in (4, 0):  # again: nothing is left to close
        alone = shop.start(language, "reconcile", 0)
        assert alone.process.wait(30) == 0
        assert len(alone.lines()) == closed, alone.lines()
    assert shop.open_orders() == 0
    shop.redis.start()
    shop.settle()
    assert shop.account()["closed"] == 4


def test_the_commands_of_the_examples_page_run_as_they_stand(shop, binary):
    """But for where the database and Redis are: an order is made, paid, and both closers end on SIGTERM."""
    shop.stock(9)
    php, go = blocks("examples/shop/README.md", "sh")
    ours = {language: shop.database.environment(language) for language in shops.LANGUAGES}
    for theirs, here in (("127.0.0.1:6400", shop.redis.socket),
                         ("pgsql:host=127.0.0.1;dbname=shop", ours["php"]["SHOP_DSN"]),
                         ("SHOP_USER=shop SHOP_PASSWORD=secret", f"SHOP_USER={ours['php']['SHOP_USER']} SHOP_PASSWORD=")):
        assert theirs in php
        php = php.replace(theirs, here)
    php += "jobs -p\nkill $(jobs -p)\nwait\n"
    done = subprocess.run(["bash", "-c", php], cwd=shops.PLACE, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-4:-2] == ["1001 created", "1001 paid"], (done.stdout, done.stderr)
    build, dsn, closer = go.splitlines()
    assert "go build -o ../shop ." in build and "postgres://" in dsn and closer == "./shop closer"
    shop.settle()
    assert shop.database.sql("SELECT status, payment FROM orders") == [["paid", "pay:9f3c"]]


class Desk:
    """Programs of one kind that answer lines; those that die are replaced, what they left is asked again."""

    def __init__(self, shop, name, steps, mortal):
        self.shop, self.name, self.mortal = shop, name, mortal
        self.lives = itertools.cycle([f"{step}=KILL" for step in steps] + [""])
        self.places = [shop.start(language, name, at=next(self.lives)) for language in shops.LANGUAGES]
        self.deaths = 0

    def ask(self, line):
        """Any of them."""
        random.choice(self.places).ask(line)

    def tend(self):
        """Replaces the dead. While `mortal` says so, the next dies at its step."""
        for place, program in enumerate(self.places):
            if not program.alive:
                self.deaths += 1
                at = next(self.lives) if self.mortal() else ""
                self.places[place] = self.shop.start(program.language, self.name, at=at)
                for line in program.unanswered():
                    self.places[place].ask(line)


def test_a_shop_under_fire_loses_nothing(shop):
    """Orders come, customers pay around the deadline, and all the while programs, Redis and the database are killed."""
    shop.stock(10)
    chance = random.Random(1)
    began = time.monotonic()
    rate = 30
    mortal = lambda: True  # noqa: E731
    desks = {name: Desk(shop, name, steps, lambda: mortal()) for name, steps in (
        ("create", CREATE), ("pay", PAY), ("relay", RELAY), ("closer", CLOSE + REMIND))}
    desks["closer"].places += [shop.start(language, "closer") for language in shops.LANGUAGES]
    busy_seen = {}
    plan, made = [], 0
    next_kill, next_reconcile, reconcile = began + 1, began + 2, None
    outages = []
    length = ORDERS / rate
    # Redis and the database die by turns, one of them every 12 s, and at least once each.
    turns = max(1, int(length / 24))
    for turn in range(turns):
        at = length * (turn + 0.25) / turns
        outages += [(began + at, kill_redis), (began + at + length / turns / 2, kill_database)]
    languages = itertools.cycle(shops.LANGUAGES)

    def asking():
        return any(program.unanswered() for name in ("create", "pay") for program in desks[name].places)

    while made < ORDERS or plan or asking():
        now = time.monotonic()
        assert now < began + length * 3 + 90, "it comes to no end"
        while made < min(ORDERS, (now - began) * rate):
            made += 1
            deadline = chance.uniform(2, 4)
            remind = deadline - 1 if chance.random() < 0.2 else None
            desks["create"].ask(shop.line(made, deadline, item=made % 10 + 1, remind_in=remind))
            if chance.random() < 0.65:
                for second in range(2 if chance.random() < 0.15 else 1):
                    plan.append((now + deadline + chance.uniform(-1.5, 0.8), made, f"pay:{made}:{second}"))
        plan.sort()
        while plan and plan[0][0] <= now:
            _, order, payment = plan.pop(0)
            if any(line.startswith(f"{order} ") for program in desks["create"].places for line in program.unanswered()):
                plan.append((now + 0.2, order, payment))  # nobody pays what was not confirmed
                break
            shop.payments[payment] = str(order)
            desks["pay"].ask(f"{order} {payment}")
        for desk in desks.values():
            desk.tend()
        for program in desks["pay"].places:
            lines = program.lines()
            for question, line in list(zip(program.questions, lines))[busy_seen.get(program, 0):]:
                if line[1] == "busy":
                    plan.append((now + 0.3, line[0], question.split()[1]))
            busy_seen[program] = len(lines)
        if now > next_kill:
            next_kill = now + 1
            chance.choice([program for desk in desks.values() for program in desk.places]).kill()
        if outages and now > outages[0][0]:
            _, event = outages.pop(0)
            event(shop, ())
            time.sleep(1.5)
            bring_back(shop, event)
        if now > next_reconcile and (reconcile is None or not reconcile.alive):
            next_reconcile = now + 2
            reconcile = shop.start(next(languages), "reconcile", 1500)
        time.sleep(0.02)
    mortal = lambda: False  # noqa: E731
    for desk in desks.values():
        desk.tend()
        for program in desk.places:
            program.close()
            program.signal(signal.SIGTERM)
    shop.settle()
    figures = shop.account()
    late = figures.pop("late ms")
    closers = [program for program in shop.programs if program.name == "closer"]
    deliveries = sum(line[0] in ("closed", "found") for program in closers for line in program.lines())
    reconciled = [line for program in shop.programs if program.name == "reconcile" for line in program.lines()]
    print(f"\n{shop.database.name}: {figures}, payments {len(shop.payments)}, "
          f"deaths {({name: desk.deaths for name, desk in desks.items()})}, outages {2 * turns}, deliveries {deliveries}, "
          f"lost schedules found {sum(line[-1] == 'OK' for line in reconciled)}, "
          f"closed without Redis {sum(line[0] == 'closed' for line in reconciled)}, "
          f"closed late by p50 {late[len(late) // 2]} ms, max {late[-1]} ms")
    assert figures["orders"] == ORDERS
    assert figures["paid"] > ORDERS / 4 and figures["closed"] > ORDERS / 10, figures
    assert desks["closer"].deaths > 3 and desks["pay"].deaths > 1


@pytest.mark.skipif("ORDERWHEEL_SHOP_ORDERS" not in os.environ, reason="a measurement: scripts/shop.sh --burst")
@pytest.mark.parametrize("count, session", [(100, False), (10, False), (100, True), (10, True)])
def test_a_burst_is_closed_while_closers_die(shop, count, session, tmp_path, monkeypatch):
    """Many orders due at once, five closers that take 40 ms for each, one killed every second: how late is the last?"""
    if not session:
        without = tmp_path / "shop"
        (without / "php").mkdir(parents=True)
        for file in (shops.PLACE / "php").iterdir():
            (without / "php" / file.name).write_text(file.read_text().replace(", 'SESSION');", ");"))
        monkeypatch.setattr(shops, "PLACE", without)
    shop.stock(ORDERS)
    shop.ask_all("create", [shop.line(order, 2 + ORDERS / 500) for order in range(1, ORDERS + 1)], 120)
    relay = shop.start("go", "relay")
    until(lambda: shop.live() == ORDERS, 60, "scheduled")
    relay.signal(signal.SIGTERM)
    due = int(next(iter(shop.wanted.values())).split()[3]) / 1000
    time.sleep(max(0, due + ORDERS / 500 - time.time()))
    closers = [shop.start("php", "closer", at="before_close=40", count=count) for _ in range(5)]
    all_closers, deaths, kill_at = list(closers), 0, time.monotonic() + 1
    began = time.time()
    while shop.open_orders():
        assert time.time() < began + 400
        time.sleep(0.05)
        if time.monotonic() > kill_at:
            kill_at += 1
            closers[deaths % 5].kill()
            closers[deaths % 5] = shop.start("php", "closer", at="before_close=40", count=count)
            all_closers.append(closers[deaths % 5])
            deaths += 1
    latest = int(shop.database.sql("SELECT max(closed_at) FROM orders")[0][0]) / 1000 - began
    for closer in closers:
        closer.signal(signal.SIGTERM)
        closer.process.wait(20)
    found = sum(line[0] == "found" for closer in all_closers for line in closer.lines())
    attempts = [row[0] for row in shop.database.sql("SELECT count(*) FROM orders WHERE status = 'closed'")]
    print(f"\n{shop.database.name}: COUNT {count}{' SESSION' if session else ''}: {attempts[0]} closed, the last after "
          f"{latest:.1f} s, {deaths} closers killed, {found} deliveries that had nothing to do")
    shop.settle()
    shop.account()
