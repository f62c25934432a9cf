"""The example shop under test: its programs in both languages, and the accounting at the end."""

import itertools
import os
import signal
import subprocess
import time
from pathlib import Path

from .server import TARGET
from .wait import until

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / "examples/shop"
LANGUAGES = ("php", "go")


def build():
    """The Go programs, built from Debian's packages without the module proxy."""
    binary = TARGET / "shop" / "shop"
    binary.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "",
                   "GOCACHE": os.environ.get("GOCACHE", str(TARGET / "go-cache"))}
    done = subprocess.run(["go", "build", "-o", str(binary), "."], cwd=PLACE / "go", env=environment,
                          capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return binary


class Program:
    """One running program; its answers are read from a file, so nobody waits for anybody."""

    def __init__(self, shop, language, name, *arguments, at="", count=10):
        self.language, self.name, self.at = language, name, at
        #: What it was asked, in order: its answers come in the same order.
        self.questions = []
        number = next(shop.numbers)
        self.output = shop.folder / f"{number}-{language}-{name}.out"
        self.errors = shop.folder / f"{number}-{language}-{name}.err"
        words = ["php", str(PLACE / "php" / f"{name}.php")] if language == "php" else [str(shop.binary), name]
        environment = {**os.environ, **shop.database.environment(language), "SHOP_REDIS": shop.redis.socket,
                       "SHOP_AT": at, "SHOP_COUNT": str(count)}
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen([*words, *map(str, arguments)], env=environment, stdin=subprocess.PIPE,
                                            stdout=out, stderr=err)
        shop.programs.append(self)

    def ask(self, line):
        """One line to its standard input; lost if it is dead."""
        self.questions.append(line)
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def unanswered(self):
        """What it was asked and has not answered."""
        return self.questions[len(self.lines()):]

    def close(self):
        """Ends its standard input."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def lines(self):
        """What it has said, in whole lines."""
        return [line.split() for line in self.output.read_text().split("\n")[:-1]]

    @property
    def alive(self):
        """Whether it runs, or is halted."""
        return self.process.poll() is None

    def halted(self):
        """Whether it has stopped itself at its step."""
        assert self.alive, f"{self.name} at {self.at} ended: {self.errors.read_text()[-500:]}"
        return Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"

    def signal(self, number):
        """A signal, if it lives."""
        if self.alive:
            self.process.send_signal(number)

    def kill(self):
        """SIGKILL, and its end."""
        self.process.kill()
        self.process.wait(20)


class Shop:
    """A database, a Redis, and whatever programs run between them."""

    #: What each article has at first.
    STOCK = 1000

    def __init__(self, folder, binary, database, redis):
        self.folder, self.binary, self.database, self.redis = Path(folder), binary, database, redis
        self.numbers = itertools.count()
        self.programs = []
        #: order -> the line that made it
        self.wanted = {}
        #: payment -> its order
        self.payments = {}
        database.fresh()

    def stock(self, items):
        """Fills the shelves."""
        self.items = items
        rows = ", ".join(f"({item}, {self.STOCK})" for item in range(1, items + 1))
        self.database.sql(f"INSERT INTO stock (item, amount) VALUES {rows}")

    def start(self, language, name, *arguments, **options):
        """Starts a program."""
        return Program(self, language, name, *arguments, **options)

    def once(self, language, name, *arguments):
        """Runs a program to its end; whether it ended well."""
        program = self.start(language, name, *arguments)
        try:
            return program.process.wait(60) == 0
        except subprocess.TimeoutExpired:
            program.kill()
            raise

    def line(self, order, deadline_in, item=None, remind_in=None):
        """The request for an order, whose times count from now."""
        now = int(time.time() * 1000)
        line = f"{order} {item or order} 2 {now + int(deadline_in * 1000)}"
        if remind_in is not None:
            line += f" {now + int(remind_in * 1000)}"
        self.wanted[str(order)] = line
        return line

    def ask_all(self, name, lines, seconds=60):
        """Has every line answered by programs that nobody harms."""
        programs = [self.start(language, name) for language in LANGUAGES]
        for number, line in enumerate(lines):
            programs[number % 2].ask(line)
        until(lambda: sum(len(program.lines()) for program in programs) >= len(lines), seconds, f"{name}: answers", 0.02)
        for program in programs:
            program.close()
            program.process.wait(20)
        return [line for program in programs for line in program.lines()]

    def open_orders(self):
        """How many are unpaid and open."""
        return int(self.database.sql("SELECT count(*) FROM orders WHERE status = 'unpaid'")[0][0])

    def live(self):
        """How many orders Redis has that have not ended."""
        figures = self.redis.run("ORDER.STATS", "orders")
        figures = dict(zip(figures[::2], figures[1::2]))
        return figures["orders"] - figures["finished"]

    def settle(self, seconds=60):
        """Runs relays, closers and reconcile until nothing is open any more."""
        workers = [self.start(language, name) for language in LANGUAGES for name in ("relay", "closer")]
        languages = itertools.cycle(LANGUAGES)
        end = time.monotonic() + seconds
        while self.open_orders() or self.live():
            assert time.monotonic() < end, (self.open_orders(), self.live(), self.redis.run("ORDER.SCAN", "orders", 0))
            time.sleep(0.3)
            self.once(next(languages), "reconcile", 300)
            # Nobody pays now: an order that Redis has as ended and the database as open was acknowledged too early.
            assert "FINISHED" not in [line[-1] for line in self.programs[-1].lines()], self.programs[-1].lines()
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            # One that has hardly begun does not know the signal yet.
            assert worker.process.wait(20) in (0, -signal.SIGTERM), worker.errors.read_text()[-1000:]

    def account(self):
        """Holds the database, Redis, and what customers were told against each other. Answers how it ended."""
        rows = self.database.sql(
            "SELECT id, item, quantity, status, coalesce(payment, ''), reminded, deadline, coalesce(closed_at, 0)"
            " FROM orders")
        orders = {row[0]: row for row in rows}
        told = {}
        for program in self.programs:
            for question, line in zip(program.questions, program.lines()):
                if program.name == "create":
                    assert line[1] == "created" and line[0] in orders, f"{line}: {orders.get(line[0])}"
                elif program.name == "pay" and line[1] != "busy":
                    told.setdefault(question.split()[1], set()).add(line[1])
        for payment, order in self.payments.items():
            paid = orders[order][3] == "paid" and orders[order][4] == payment
            assert told.get(payment) == {"paid" if paid else "refund"}, f"{payment}: {told.get(payment)}, {orders[order]}"
        for order in orders.values():
            assert order[3] in ("paid", "closed"), f"still open: {order}"
            assert (order[3] == "paid") == (order[4] in self.payments), order
            assert order[3] != "closed" or int(order[7]) >= int(order[6]), f"closed early: {order}"
            assert int(order[5]) <= 1, f"reminded twice: {order}"
        sold = {}
        for order in orders.values():
            sold[order[1]] = sold.get(order[1], 0) + (int(order[2]) if order[3] == "paid" else 0)
        left = dict(self.database.sql("SELECT item, amount FROM stock"))
        wrong = {item: (amount, sold.get(item, 0)) for item, amount in left.items()
                 if int(amount) != self.STOCK - sold.get(item, 0)}
        assert not wrong, f"stock: {wrong}"
        cursor, seen = "0", 0
        while True:
            cursor, entries = self.redis.run("ORDER.SCAN", "orders", cursor, "COUNT", 1000)
            for entry in entries:
                assert entry[1] == "finished", entry
                assert entry[2] == orders[entry[0]][3], f"Redis says {entry}, the database {orders[entry[0]]}"
                seen += 1
            if cursor == "0":
                break
        count = [order[3] for order in orders.values()].count
        return {"orders": len(orders), "paid": count("paid"), "closed": count("closed"), "in redis": seen,
                "late ms": sorted(int(order[7]) - int(order[6]) for order in orders.values() if order[3] == "closed")}

    def end(self):
        """Ends whatever still runs."""
        for program in self.programs:
            program.close()
            if program.alive:
                program.kill()
