#!/usr/bin/env python3
"""The story of one shop, live: python3 demo.py SOCKET

Run by demo.sh against a fresh server. Standard library only. Exits 0 only if
every order ended as the story says and nothing came before its deadline.
"""

import socket
import subprocess
import sys
import threading
import time

SOCKET = sys.argv[1]
QUEUE = "orders"
# A queue that no closer works on.
UNATTENDED = "orders:unattended"
# One whose closers end their leases with their connections.
SESSIONS = "orders:session"
# What a closer does that is a process of its own and is killed.
KILLED = """
import socket, sys, time
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(sys.argv[1])
words = ["ORDER.CLAIM", sys.argv[2], "closer-3", "PX", "60000", "BLOCK", "10000", "SESSION"]
parts = ["*%d\\r\\n" % len(words)] + ["$%d\\r\\n%s\\r\\n" % (len(word), word) for word in words]
connection.sendall("".join(parts).encode())
connection.recv(1000)
print("claimed", flush=True)
time.sleep(60)
"""


class Client:
    """One connection: sends a command, reads its reply."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(SOCKET)
        self.lines = self.socket.makefile("rb")

    def send(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            return self.lines.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        raise RuntimeError(f"unexpected reply {line!r}")

    def __call__(self, *words):
        self.send(*words)
        return self.read()

    def order(self, *words):
        """A command that answers an order reply, with its fields by name."""
        names = ["outcome", "state", "status", "deadline", "rev", "lease_ms", "was", "result"]
        return dict(zip(names, self(*words)))

    def close(self):
        # A program that dies: the connection goes, nothing is said.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


STARTED = time.time()
PRINTING = threading.Lock()
FAULTS = []
ANNOUNCED = {}  # id -> seconds, each time
CLAIMED = {}  # id -> (seconds, attempt), each time
DEADLINE = {}  # id -> milliseconds


def tell(text):
    with PRINTING:
        print(f"{time.time() - STARTED:7.3f} s  {text}", flush=True)


def check(holds, what):
    if not holds:
        FAULTS.append(what)
        tell(f"WRONG: {what}")


def late(order, seconds):
    """Milliseconds from the order's deadline to a moment."""
    return seconds * 1000 - DEADLINE[order]


def subscriber(ready):
    """Hears of every order whose deadline has passed."""
    client = Client()
    client("SUBSCRIBE", "__keyevent@0__:order.expired")
    ready.set()
    try:
        while True:
            _, _, key = client.read()
            now = time.time()
            order = key.rsplit(":", 1)[1]
            first = order not in ANNOUNCED
            ANNOUNCED.setdefault(order, []).append(now)
            if first:
                tell(f"{order}  announced, {late(order, now):.2f} ms after its deadline")
            else:
                tell(f"{order}  announced again: it can be claimed again")
    except (OSError, ConnectionError):
        pass


def closer(name, ready, stop):
    """Closes unpaid orders: waits for one, closes it in the shop, says so."""
    client = Client()
    ready.set()
    while not stop.is_set():
        for order, fence, _, attempt, _, _, payload in client("ORDER.CLAIM", QUEUE, name, "PX", 2000, "BLOCK", 500):
            now = time.time()
            CLAIMED.setdefault(order, []).append((now, attempt))
            if attempt == 1:
                tell(f"{order}  claimed by {name}, {late(order, now):.2f} ms after its deadline")
            else:
                tell(f"{order}  claimed by {name}, attempt {attempt}")
            if payload == "shop database down" and attempt == 1:
                client.order("ORDER.NACK", QUEUE, order, fence, "DELAY", 700, "ERROR", "shop database down")
                tell(f"{order}  handed back by {name}: the shop's database is down, again in 700 ms")
                continue
            reply = client.order("ORDER.ACK", QUEUE, order, fence, "FROM", "unpaid", "STATUS", "closed")
            check(reply["outcome"] == "OK", f"{order} acknowledged by {name}: {reply}")
            tell(f"{order}  closed")


def sleep_until(seconds):
    time.sleep(max(0.0, STARTED + seconds - time.time()))


def killed(shop):
    """A closer is killed while it holds an order for a minute, and another one waits."""
    reply = shop.order("ORDER.SCHEDULE", SESSIONS, "3000", "PX", 200, "STATUS", "unpaid")
    DEADLINE["3000"] = reply["deadline"]
    process = subprocess.Popen([sys.executable, "-c", KILLED, SOCKET, SESSIONS], stdout=subprocess.PIPE)
    check(process.stdout.readline() == b"claimed\n", "3000 claimed by closer-3")
    claimed = time.time()
    tell("3000  claimed by closer-3, a process of its own; lease 60000 ms, SESSION")
    following = Client()
    following.send("ORDER.CLAIM", SESSIONS, "closer-4", "PX", 60000, "BLOCK", 10000, "SESSION")
    waiting = 0
    while not waiting:
        stats = shop("ORDER.STATS", SESSIONS)
        waiting = dict(zip(stats[::2], stats[1::2]))["claim_waiters"]
    at = time.time()
    process.kill()
    [(order, fence, _, attempt, _, _, _)] = following.read()
    now = time.time()
    process.wait()
    check(order == "3000" and attempt == 2, f"3000 comes to the next closer with attempt 2, not {attempt}")
    check(now - at < 5, f"3000 was with the next closer after {now - at:.1f} s")
    tell(f"3000  closer-3 was killed, closer-4 has its order {(now - at) * 1000:.2f} ms later, attempt {attempt}")
    reply = following.order("ORDER.ACK", SESSIONS, order, fence, "FROM", "unpaid", "STATUS", "closed")
    check(reply["outcome"] == "OK", f"3000 acknowledged by closer-4: {reply}")
    CLAIMED["3000"] = [(claimed, 1), (now, attempt)]


def create(shop, order, milliseconds, payload="basket"):
    reply = shop.order(
        "ORDER.SCHEDULE", QUEUE, order, "PX", milliseconds, "STATUS", "unpaid", "PAYLOAD", payload
    )
    check(reply["outcome"] == "OK", f"{order} created: {reply}")
    DEADLINE[order] = reply["deadline"]
    tell(f"{order}  created, to be paid within {milliseconds} ms")


def main():
    shop = Client()
    threading.Thread(target=subscriber, args=(heard := threading.Event(),), daemon=True).start()
    heard.wait()

    tell("A closer that will die waits for work.")
    doomed = Client()
    doomed.send("ORDER.CLAIM", QUEUE, "closer-0", "PX", 1500, "BLOCK", 10000)

    create(shop, "1000", 400)
    create(shop, "1001", 2000)
    create(shop, "1002", 1500)
    create(shop, "1003", 1500)
    create(shop, "1004", 1600, "shop database down")
    create(shop, "1005", 1200)
    create(shop, "1006", 1300)
    again = shop.order("ORDER.SCHEDULE", QUEUE, "1001", "PX", 2000, "STATUS", "unpaid")
    check(again["outcome"] == "EXISTS", f"1001 created twice: {again}")
    tell("1001  'created' delivered a second time: EXISTS, nothing moved")

    # 1000 falls due and goes to the closer that dies with it.
    [(order, stale, _, attempt, _, _, _)] = doomed.read()
    now = time.time()
    check(order == "1000" and attempt == 1, f"the first order due is 1000, not {order}")
    CLAIMED[order] = [(now, attempt)]
    tell(f"{order}  claimed by closer-0, {late(order, now):.2f} ms after its deadline; lease 1500 ms")
    doomed.close()
    tell(f"{order}  closer-0 dies with it")

    stop = threading.Event()
    closers = []
    for name in ("closer-1", "closer-2"):
        thread = threading.Thread(target=closer, args=(name, ready := threading.Event(), stop))
        thread.start()
        ready.wait()
        closers.append(thread)

    sleep_until(0.8)
    reply = shop.order("ORDER.FINISH", QUEUE, "1001", "FROM", "unpaid", "STATUS", "paid", "RESULT", "pay:9f3c")
    check(reply["outcome"] == "OK" and reply["was"] == "scheduled", f"1001 paid: {reply}")
    tell("1001  paid in time (pay:9f3c): it will never be closed")

    sleep_until(0.9)
    moved = shop.order("ORDER.SCHEDULE", QUEUE, "1005", "PX", 2100, "XX", "GT")
    check(moved["outcome"] == "OK", f"1005 moved: {moved}")
    DEADLINE["1005"] = moved["deadline"]
    tell("1005  the customer asked for more time: deadline moved later")

    sleep_until(1.0)
    names = ["outcome", "fence", "lease_ms", "holds", "state", "status", "result"]
    lock = dict(zip(names, shop("ORDER.LOCK", QUEUE, "1006", "pay:51c2", "PX", 1500)))
    check(lock["outcome"] == "OK", f"1006 locked: {lock}")
    tell("1006  the customer is paying: locked, the close waits")

    sleep_until(1.9)
    late_finish = shop.order("ORDER.FINISH", QUEUE, "1006", "FENCE", lock["fence"], "FROM", "unpaid", "STATUS", "paid", "RESULT", "pay:51c2")
    check(late_finish["outcome"] == "OK" and late_finish["was"] == "leased", f"1006 paid: {late_finish}")
    tell("1006  paid under the lock, after its deadline: it was never offered to a closer")

    sleep_until(2.4)
    reply = shop.order("ORDER.FINISH", QUEUE, "1003", "FROM", "unpaid", "STATUS", "paid", "RESULT", "pay:77aa")
    check(reply["outcome"] == "FINISHED" and reply["status"] == "closed", f"1003 paid too late: {reply}")
    tell("1003  paid too late (pay:77aa): FINISHED, closed already: refund the customer")

    # 2000 lies in a queue that no closer works on: late, and still in time.
    reply = shop.order("ORDER.SCHEDULE", UNATTENDED, "2000", "PX", 100, "STATUS", "unpaid")
    DEADLINE["2000"] = reply["deadline"]
    sleep_until(2.7)
    reply = shop.order("ORDER.FINISH", UNATTENDED, "2000", "FROM", "unpaid", "STATUS", "paid")
    check(reply["outcome"] == "OK" and reply["was"] == "expired", f"2000 paid late: {reply}")
    tell("2000  paid after its deadline but before anybody claimed it: OK, it was expired")

    killed(shop)

    # Everything ends by itself; wait for the last of it.
    until = time.time() + 10
    expected = {"1000": 2, "1002": 1, "1003": 1, "1004": 2, "1005": 1}
    while time.time() < until:
        states = {order: shop("ORDER.GET", QUEUE, order)[3] for order in ["1001", "1006", *expected]}
        if all(state == "finished" for state in states.values()):
            break
        time.sleep(0.02)
    reply = shop.order("ORDER.ACK", QUEUE, "1000", stale, "STATUS", "closed twice")
    check(reply["outcome"] in ("FINISHED", "STALE"), f"1000 acknowledged by the dead closer: {reply}")
    tell(f"1000  closer-0 comes back and says it is done: {reply['outcome']}, nothing changed")
    stop.set()
    for thread in closers:
        thread.join()

    print("\norder   deadline   announced     claimed  attempts  status")
    for order in sorted(DEADLINE):
        record = shop("ORDER.GET", {"2000": UNATTENDED, "3000": SESSIONS}.get(order, QUEUE), order)
        record = dict(zip(record[::2], record[1::2]))
        tries = CLAIMED.get(order, [])
        told = ANNOUNCED.get(order, [])
        want = "paid" if order in ("1001", "1006", "2000") else "closed"
        check(record["state"] == "finished" and record["status"] == want, f"{order} ended as {record}")
        check(len(tries) == {**expected, "3000": 2}.get(order, 0), f"{order} was claimed {len(tries)} times")
        check([attempt for _, attempt in tries] == list(range(1, len(tries) + 1)), f"{order} attempts {tries}")
        check(all(late(order, at) >= 0 for at, _ in tries), f"{order} was handed out before its deadline")
        check(all(late(order, at) >= 0 for at in told), f"{order} was announced before its deadline")
        check(bool(told) == (order not in ("1001", "1006")), f"{order} was announced {len(told)} times")
        announced = f"+{late(order, told[0]):.2f} ms" if told else "never"
        claimed = f"+{late(order, tries[0][0]):.2f} ms" if tries else "never"
        print(
            f"{order:<6}{DEADLINE[order] / 1000 - STARTED:8.3f} s{announced:>12}{claimed:>12}"
            f"{len(tries):>10}  {record['status']}"
        )
    if FAULTS:
        print(f"\nThe story went wrong: {len(FAULTS)} times.")
        return 1
    print("\nEvery order ended as it should, none before its time.")
    return 0


sys.exit(main())
