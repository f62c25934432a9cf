"""A closer: claims unpaid orders in batches, closes each, acknowledges them.

    python closer.py redis://127.0.0.1:6400 orders closer-1 [PROTOCOL] [WORK_MS]

SIGTERM ends it after the order in hand: what is left goes back at once.
"""

import random
import signal
import sys
import time

import redis
from orderwheel import Orderwheel, is_final

COUNT, LEASE_MS, BLOCK_MS = 10, 30000, 2000


class Away(Exception):
    """The database does not answer: no order's fault, so no try is counted."""


class Closer:
    """`close(order)` returns the status that the database has then: `closed`, or `paid` if it was paid."""

    def __init__(self, connect, queue, owner, close):
        self.connect, self.queue, self.owner, self.close = connect, queue, owner, close
        self.wheel, self.stop = None, False
        # In hand, also over a lost connection: claimed and not closed; closed and not acknowledged.
        self.rows, self.done = [], []

    def run(self):
        """Until `stop`. Each failure waits longer, up to five seconds."""
        wait = 0.1
        while not self.stop:
            try:
                self.step()
                wait = 0.1
            except (Away, redis.RedisError, OSError) as error:
                if is_final(error):
                    raise
                print(f"{error}; again in {wait:.1f} s", file=sys.stderr, flush=True)
                if not isinstance(error, Away):
                    self.disconnect()
                time.sleep(wait * random.uniform(0.8, 1.2))
                wait = min(2 * wait, 5)
        self.disconnect()

    def step(self):
        """One batch. Returns the outcome per order that was acknowledged."""
        if not self.wheel:
            self.wheel = self.connect()
            self.give_back("DELAY", 0)
        self.rows = self.wheel.claim(
            self.queue, self.owner, "COUNT", COUNT, "PX", LEASE_MS, "BLOCK", BLOCK_MS, "SESSION")
        began = acknowledged = time.monotonic()
        outcomes = {}
        while self.rows:
            order, now = self.rows[0], time.monotonic()
            if self.stop or now - began > order["lease_ms"] / 2000:
                break
            try:
                self.done.append((order["id"], order["fence"], self.close(order)))
            except Away as error:
                self.give_back("ERROR", str(error))
                raise
            except Exception as error:  # pylint: disable=broad-except
                # An ERROR may have 256 bytes.
                self.wheel.order("ORDER.NACK", self.queue, order["id"], order["fence"], "ERROR", str(error)[:64])
            self.rows.pop(0)
            # A closer that dies repeats what it did not acknowledge: a second's work at most.
            if now - acknowledged > 1:
                outcomes.update(self.acknowledge())
                acknowledged = now
        outcomes.update(self.give_back("DELAY", 0))
        return outcomes

    def acknowledge(self):
        """Whatever is not OK has another holder, or is finished: nothing is left to do."""
        if not self.done:
            return {}
        words = [word for order in self.done for word in order]
        replies = self.wheel.batch("ORDER.MACK", self.queue, "STATUSES", len(self.done), *words)
        names, self.done = [order[0] for order in self.done], []
        return dict(zip(names, replies))

    def give_back(self, *options):
        """Acknowledges what is closed and hands back what is not; no try is counted."""
        outcomes = self.acknowledge()
        if self.rows:
            words = [word for order in self.rows for word in (order["id"], order["fence"])]
            self.wheel.batch("ORDER.MNACK", self.queue, len(self.rows), *words, "UNTRIED", *options)
            self.rows = []
        return outcomes

    def disconnect(self):
        """What is still in hand is offered to others at once."""
        if self.wheel:
            self.wheel.close()
            self.wheel = None


def main(url, queue="orders", owner="closer-1", protocol="2", work_ms="0"):
    """The closer as a program, with WORK_MS in the place of a database."""

    def close(order):
        # Yours: UPDATE orders SET status = 'closed', fence = :fence
        #         WHERE id = :id AND status = 'unpaid' AND fence < :fence
        time.sleep(int(work_ms) / 1000)
        print("closed", order["id"], order["fence"], flush=True)
        return "closed"

    closer = Closer(lambda: Orderwheel(url, int(protocol), BLOCK_MS / 1000 + 5), queue, owner, close)

    def on_signal(*_):
        closer.stop = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    closer.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
