"""soak.py [MINUTES [SEED]]: see scripts/soak.sh."""

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter

import redis

from shop import QUEUES, Fault, Shop

#: Orders a second and shop. What two cores carry beside the servers' other troubles.
RATE = int(os.environ.get("ORDERWHEEL_SOAK_RATE", "150"))
#: Seconds between two accounts.
PERIOD = float(os.environ.get("ORDERWHEEL_SOAK_PERIOD", "60"))
#: What may be left of a server's memory at the end: the allocator's and the server's own ups and downs.
MEMORY_SLACK, RSS_SLACK = 4 << 20, 48 << 20
#: States of an order that is still open.
OPEN = ("scheduled", "expired", "leased", "retrying", "dead")


def until(holds, seconds, what):
    """Polls; a fault if it does not hold in time."""
    end = time.monotonic() + seconds
    while True:
        try:
            if value := holds():
                return value
        except redis.RedisError:
            pass
        if time.monotonic() > end:
            raise Fault(f"waited {seconds} s for {what}")
        time.sleep(0.05)


class Chaos:
    """What is done to the servers of a shop, one thing at a time, not while it rests."""

    def __init__(self, shop, seed, kills):
        self.shop, self.chance, self.counts = shop, random.Random(seed), Counter()
        self.guard, self.ends = threading.Lock(), threading.Event()
        self.ways = [self.rewrite, self.save, self.reload, self.lose_clients, self.pause, self.sleep, self.change_parts]
        self.ways += [self.kill_primary, self.kill_replica, self.stop_primary] * 2 if kills else []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        """One way after another."""
        while not self.ends.wait(self.chance.uniform(1, PERIOD / 6)):
            way = self.chance.choice(self.ways)
            with self.guard:
                if self.shop.rests.is_set():
                    continue
                try:
                    way()
                    self.counts[way.__name__] += 1
                except redis.RedisError as fault:
                    # A save beside a save, a part that is not ready: the server says no, and that is right.
                    self.counts[f"{way.__name__} refused"] += 1
                    del fault
                except Exception as fault:  # noqa: BLE001 - told in the verdict
                    self.shop.ledger.fault(f"{self.shop.name}: {way.__name__}: {type(fault).__name__}: {fault}")

    def rewrite(self):
        self.shop.primary.run("BGREWRITEAOF")

    def save(self):
        self.shop.replica.run("BGSAVE")

    def reload(self):
        self.shop.primary.run("DEBUG", "RELOAD")

    def lose_clients(self):
        self.shop.primary.run("CLIENT", "KILL", "TYPE", "normal")

    def pause(self):
        self.shop.primary.run("CLIENT", "PAUSE", 700, "WRITE")

    def sleep(self):
        self.shop.primary.run("DEBUG", "SLEEP", "0.3")

    def stop_primary(self):
        """The machine hangs."""
        self.shop.primary.signal(signal.SIGSTOP)
        time.sleep(1.5)
        self.shop.primary.signal(signal.SIGCONT)

    def kill_primary(self):
        """It comes back on its file."""
        self.shop.primary.kill()
        self.shop.primary.start()

    def kill_replica(self):
        self.shop.replica.kill()
        self.shop.replica.start()
        self.shop.replica.run("REPLICAOF", "127.0.0.1", self.shop.primary.port)

    def change_parts(self):
        """A failover that loses nothing."""
        shop = self.shop
        in_step(shop)
        shop.primary.run("FAILOVER", "TO", "127.0.0.1", shop.replica.port, "TIMEOUT", 10_000)
        until(lambda: shop.primary.run("INFO", "replication")["master_failover_state"] == "no-failover", 20, "the failover")
        if shop.replica.run("ROLE")[0] == "master":
            shop.primary, shop.replica = shop.replica, shop.primary


def in_step(shop):
    """Waits until the replica has all that the primary has."""
    def holds():
        with shop.primary.client() as client:
            client.execute_command("ORDER.CONFIG", QUEUES[0], "SET", "max-attempts", 5)
            return client.execute_command("WAIT", 1, 1000) == 1
    until(holds, 60, f"{shop.name}: the replica is in step")


def lose(shop):
    """What the tests of the soak ask for: an order that goes missing, or comes from nowhere."""
    loss, queue = os.environ.get("ORDERWHEEL_SOAK_LOSS"), QUEUES[0]
    if loss == "invent":
        shop.primary.run("ORDER.SCHEDULE", queue, "from-nowhere", "PX", 10**8)
    if loss == "forget":
        order = next(order for order, where in shop.ledger.open.items() if where == queue)
        shop.primary.run("ORDER.BREAK", queue, order)
        shop.primary.run("ORDER.FINISH", queue, order, "KEEP", 0)


def account(shop, minute):
    """All work rests: every order that was accepted and not ended is there, nothing else is, and both copies agree."""
    shop.rest()
    ledger = shop.ledger
    lose(shop)
    in_step(shop)
    client = shop.primary.client(protocol=3)
    if ledger.ended_first:
        ledger.fault(f"{shop.name}: ended and never accepted: {dict(list(ledger.ended_first.items())[:5])}")
    by_queue = {queue: [order for order, where in ledger.open.items() if where == queue] for queue in QUEUES}
    dead = 0
    for queue, orders in by_queue.items():
        for start in range(0, len(orders), 500):
            pipe = client.pipeline(transaction=False)
            for order in orders[start:start + 500]:
                pipe.execute_command("ORDER.GET", queue, order)
            for order, record in zip(orders[start:start + 500], pipe.execute(), strict=True):
                if record is None or record["state"] not in OPEN:
                    ledger.fault(f"{shop.name}: {order} of {queue} is open by the books, and {record}")
        stats = client.execute_command("ORDER.STATS", queue)
        # One order more, that keeps the settings.
        there = sum(stats[state] for state in OPEN) - 1
        if there != len(orders):
            ledger.fault(f"{shop.name}: {queue} has {there} open orders, the books {len(orders)}")
        dead += stats["dead"]
        same = lambda queue=queue: (shop.primary.run("DEBUG", "DIGEST-VALUE", queue)
                                    == shop.replica.run("DEBUG", "DIGEST-VALUE", queue))
        try:
            until(same, 20, f"{shop.name}: {queue} is the same on both servers")
        except Fault as fault:
            ledger.fault(str(fault))
        operate(shop, client, queue, minute)
    info = shop.primary.run("INFO", "memory")
    late = sorted(ledger.late_ms) or [0]
    with ledger.guard:
        counts = Counter(ledger.counts)
        total = counts["paid"] + counts["closed"] + counts["purged"] + len(ledger.open)
        if counts["accepted"] != total:
            ledger.faults.append(f"{shop.name}: accepted {counts['accepted']}, accounted {total}")
        line = (f"{shop.name}: accepted {counts['accepted']} = paid {counts['paid']} + closed {counts['closed']}"
                f" + purged {counts['purged']} + open {len(ledger.open)} ({dead} dead);"
                f" late p50 {late[len(late) // 2]:.1f} ms;"
                f" memory {info['used_memory'] >> 10} KB, resident {info['used_memory_rss'] >> 10} KB;"
                f" faults {len(ledger.faults)}")
        ledger.late_ms.clear()
    client.close()
    return line


def operate(shop, client, queue, minute):
    """What an operator does about the dead: mostly offers them again, sometimes gives them up."""
    orders, cursor = [], "0"
    while True:
        cursor, rows = client.execute_command("ORDER.SCAN", queue, cursor, "STATE", "dead", "COUNT", 1000)
        orders += [row[0] for row in rows]
        if str(cursor) == "0":
            break
    orders = list(dict.fromkeys(orders))[:1000]
    if not orders:
        return
    if minute % 3:
        shop.healed.update(orders)
        client.execute_command("ORDER.REQUEUE", queue, "ID", *orders)
    else:
        client.execute_command("ORDER.PURGE", queue, "STATE", "dead", "COUNT", 1000)
        for order in orders:
            shop.ledger.ended(order, "purged")


def memory(server):
    """Used and resident bytes, after the allocator gave back what it can."""
    server.run("MEMORY", "PURGE")
    info = server.run("INFO", "memory")
    return info["used_memory"], info["used_memory_rss"]


def wind_up(shops, base):
    """No new orders; all that is there is closed, and the memory of those who lived is as it was."""
    for shop in shops:
        shop.drains.set()
        shop.rests.clear()
    for shop in shops:
        def empty(shop=shop):
            if not shop.ledger.open:
                return True
            if not shop.rests.is_set():
                with shop.primary.client(protocol=3) as client:
                    for queue in QUEUES:
                        operate(shop, client, queue, 1)
            return False
        until(empty, 120, f"{shop.name}: every order has ended")
    lines = [account(shop, 1) for shop in shops]
    steady = shops[1]
    for server in steady.servers:
        used, resident = base[server]
        def back(server=server, used=used, resident=resident):
            now = memory(server)
            return now[0] <= used + MEMORY_SLACK and now[1] <= resident + RSS_SLACK
        try:
            until(back, 60, f"{steady.name}: memory of {used} and resident {resident} at the start")
        except Fault as fault:
            steady.ledger.fault(f"{fault}: {memory(server)}")
        now = memory(server)
        lines.append(f"{steady.name}: used {used >> 10} KB at the start, {now[0] >> 10} KB at the end;"
                     f" resident {resident >> 10} KB, {now[1] >> 10} KB")
    return lines


def main():
    """Runs it all; the exit status is the verdict."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"soak: {minutes:g} minutes, seed {seed}, {RATE} orders a second and shop", flush=True)
    folder = tempfile.mkdtemp(prefix="orderwheel-soak-")
    shops = [Shop(folder, "one", RATE, seed), Shop(folder, "two", RATE, seed + 1000)]
    chaos = [Chaos(shop, seed + number, kills=number == 0) for number, shop in enumerate(shops)]
    faults = []
    try:
        base = {}
        for shop in shops:
            in_step(shop)
            base |= {server: memory(server) for server in shop.servers}
        for one in (*shops, *(chaos_of.thread for chaos_of in chaos)):
            one.start()
        end, minute = time.monotonic() + minutes * 60, 0
        while time.monotonic() < end:
            time.sleep(max(0.0, min(PERIOD, end - time.monotonic())))
            minute += 1
            for shop, its in zip(shops, chaos, strict=True):
                with its.guard:
                    print(f"{time.strftime('%H:%M:%S')} {account(shop, minute)}", flush=True)
                    shop.rests.clear()
        for its in chaos:
            its.ends.set()
            its.thread.join(90)
        for line in wind_up(shops, base):
            print(line, flush=True)
    except (Fault, redis.RedisError) as fault:
        faults.append(f"{type(fault).__name__}: {fault}")
    finally:
        for shop in shops:
            shop.ends.set()
        for shop in shops:
            for thread in shop.threads:
                if thread.ident is not None:
                    thread.join(70)
            faults += shop.ledger.faults
            faults += [said[:3000] for server in shop.servers if (said := server.end())]
    done = sum((its.counts for its in chaos), Counter())
    print("done to the servers: " + ", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    for fault in faults[:20]:
        print(f"FAULT {fault}")
    counts = sum((shop.ledger.counts for shop in shops), Counter())
    print(f"soak: {'NOT ' if faults else ''}passed: {counts['accepted']} orders, {len(faults)} faults")
    if faults:
        print(f"what the servers left behind lies in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
