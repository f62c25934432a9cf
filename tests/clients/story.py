"""The shop's story through redis-py, over RESP2 and RESP3: story.py SOCKET"""

import sys
import threading
import time

import redis

SOCKET = sys.argv[1]
passed = failed = 0


def check(name, want, got):
    """One test."""
    global passed, failed
    if want == got:
        passed += 1
    else:
        failed += 1
        print(f"not ok - {name}: wanted {want!r}, got {got!r}")


def outcome(reply):
    """The outcome word of an order reply in either protocol."""
    word = reply[b"outcome"] if isinstance(reply, dict) else reply[0]
    return word.decode() if isinstance(word, bytes) else word


def as_map(reply):
    """A map in either protocol."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def story(protocol):
    queue = f"orders:{protocol}"
    client = redis.Redis(unix_socket_path=SOCKET, protocol=protocol)

    def run(*words):
        return client.execute_command(*words)

    reply = run("ORDER.SCHEDULE", queue, "1001", "PX", 60000, "STATUS", "unpaid", "PAYLOAD", b"\x00\r\n{}")
    check("schedule", "OK", outcome(reply))
    check("the shape of an order reply", dict if protocol == 3 else list, type(reply))
    check("eight fields", 8, len(reply))
    record = as_map(run("ORDER.GET", queue, "1001"))
    check("payload comes back whole", b"\x00\r\n{}", record[b"payload"])
    check("pay", "OK", outcome(run("ORDER.FINISH", queue, "1001", "FROM", "unpaid", "STATUS", "paid")))
    check("missing", None, run("ORDER.GET", queue, "no such order"))

    # A closer that waits while another connection schedules.
    got = []

    def closer():
        waiting = redis.Redis(unix_socket_path=SOCKET, protocol=protocol)
        got.extend(waiting.execute_command("ORDER.CLAIM", queue, "closer", "BLOCK", 20000))
        waiting.close()

    thread = threading.Thread(target=closer)
    thread.start()
    until = time.time() + 10
    while client.info("clients")["blocked_clients"] == 0 and time.time() < until:
        time.sleep(0.005)
    check("schedule while a closer waits", "OK", outcome(run("ORDER.SCHEDULE", queue, "1002", "PX", 150, "STATUS", "unpaid")))
    thread.join(30)
    check("one order handed over", 1, len(got))
    order, fence, deadline, attempt, _, status, payload = got[0]
    check("the order", (b"1002", 1, b"unpaid", None), (order, attempt, status, payload))
    check("not before its deadline", True, time.time() * 1000 >= deadline)
    check("a fence is exact in a double", fence, int(float(fence)))
    check("many acknowledged at once", ["OK", "MISSING"],
          [word.decode() if isinstance(word, bytes) else word
           for word in run("ORDER.MACK", queue, 2, "1002", fence, "1003", fence, "STATUS", "closed")])

    # In a pipeline and a transaction.
    pipe = client.pipeline(transaction=True)
    pipe.execute_command("ORDER.SCHEDULE", queue, "1004", "PX", 0)
    pipe.execute_command("ORDER.CLAIM", queue, "pipe", "BLOCK", 100000)
    scheduled, claimed = pipe.execute()
    check("transaction", ("OK", 1), (outcome(scheduled), len(claimed)))

    # An event names the order.
    client.execute_command("CONFIG", "SET", "notify-keyspace-events", "KEd")
    listener = client.pubsub()
    listener.subscribe("__keyevent@0__:order.expired")
    check("subscribed", "subscribe", listener.get_message(timeout=10)["type"])
    run("ORDER.SCHEDULE", queue, "1005", "PX", 50)
    check("told of 1005", f"{queue}:1005".encode(), (listener.get_message(timeout=10) or {}).get("data"))
    listener.close()

    try:
        run("ORDER.SCHEDULE", queue, "1006", "PX", "soon")
        check("a bad number is refused", True, False)
    except redis.ResponseError as error:
        check("an error names the argument", True, "PX" in str(error))
    client.close()


story(2)
story(3)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
