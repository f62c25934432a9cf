"""The life of some orders: python story.py redis://127.0.0.1:6400 [PROTOCOL]"""

import sys
import threading
import time

import redis
from closer import Closer
from orderwheel import Orderwheel
from subscriber import listen

QUEUE, ONCE = "story", "story:once"


def story(url, protocol):
    """Prints a line per chapter; examples/README.md shows them."""
    wheel = Orderwheel(url, protocol)
    wheel.call("DEL", QUEUE, ONCE)
    wheel.call("ORDER.CONFIG", QUEUE, "SET", "max-attempts", 2, "backoff-ms", 50)

    # Create: commit the order in the database, then schedule it. Safe to repeat.
    deadline = int(time.time() * 1000) + 900000
    create = ("ORDER.SCHEDULE", QUEUE, "1001", "PXAT", deadline, "STATUS", "unpaid", "PAYLOAD", b'\x00\r\n{"sku":7}')
    first, again = wheel.order(*create), wheel.order(*create)
    print(f"create       1001 {first['outcome']}, again {again['outcome']}")

    # Read: a missing order is None, not an error.
    order = wheel.get(QUEUE, "1001")
    whole = "whole" if order["payload"] == b'\x00\r\n{"sku":7}' and order["deadline"] == deadline else "broken"
    print(f"read         1001 {order['status']}, payload {whole}; 1999 {'null' if wheel.get(QUEUE, '1999') is None else 'there'}")

    # Pay: lock, take the money, write it into the database, then finish with the fence.
    lock = wheel.lease("ORDER.LOCK", QUEUE, "1001", "pay:9f3c", "PX", 60000)
    other = wheel.lease("ORDER.LOCK", QUEUE, "1001", "pay:77aa", "PX", 60000)
    paid = wheel.order("ORDER.FINISH", QUEUE, "1001", "FENCE", lock["fence"], "STATUS", "paid", "RESULT", "pay:9f3c")
    twice = wheel.order("ORDER.FINISH", QUEUE, "1001", "STATUS", "paid", "RESULT", "pay:77aa")
    print(f"pay          lock {lock['outcome']}, another's {other['outcome']}, paid {paid['outcome']}, "
          f"second payment {twice['outcome']} by {twice['result'].decode()}")

    # Close: a closer's batch.
    mended = set()

    def close(order):
        if order["id"] == "1003":
            return "paid"  # the database knows better
        if order["id"] == "1004" and order["attempt"] == 1:
            raise RuntimeError("mail is down")
        if order["id"] == "1005" and "1005" not in mended:
            raise RuntimeError("no such stock")
        if order["id"] == "1008":
            closer.stop = True  # as on SIGTERM
        return "closed"

    closer = Closer(lambda: Orderwheel(url, protocol), QUEUE, "closer-1", close)

    def until(name, state):
        while (order := wheel.get(QUEUE, name))["state"] != state:
            closer.step()
        return order

    wheel.batch("ORDER.MSCHEDULE", QUEUE, "PX", 2, "1002", 0, "1003", 0, "STATUS", "unpaid")
    outcomes = closer.step()
    statuses = {name: wheel.get(QUEUE, name)["status"] for name in outcomes}
    print("close        " + ", ".join(f"{name} {statuses[name]} {outcomes[name]}" for name in outcomes))

    # Retry: NACK with the reason; it is offered again after a wait that grows.
    wheel.order("ORDER.SCHEDULE", QUEUE, "1004", "PX", 0, "STATUS", "unpaid")
    closer.step()
    order = wheel.get(QUEUE, "1004")
    print(f"retry        1004 try {order['attempt']}: {order['error']}; closed at try {until('1004', 'finished')['attempt']}")

    # Dead letter: the last try failed. Mend what was wrong, offer it again.
    wheel.order("ORDER.SCHEDULE", QUEUE, "1005", "PX", 0, "STATUS", "unpaid")
    order = until("1005", "dead")
    mended.add("1005")
    moved, left = wheel.call("ORDER.REQUEUE", QUEUE, "ID", "1005")
    print(f"dead letter  1005 {order['state']} after {order['attempt']}: {order['error']}; "
          f"requeued {moved}, left {left}, then {until('1005', 'finished')['status']}")

    # Hint: an event names what fell due; ask the queue for it.
    heard = []
    ears = threading.Thread(target=listen, args=(url, lambda *what: heard.append(what) or False, protocol), daemon=True)
    ears.start()
    wheel.order("ORDER.SCHEDULE", QUEUE, "1006", "PX", 500, "STATUS", "unpaid")
    ears.join(20)
    queue, name = heard[0]
    row = wheel.claim(queue, "story", "ID", name)[0]
    done = wheel.order("ORDER.ACK", queue, name, row["fence"], "STATUS", "closed")
    print(f"hint         {name} fell due, {done['status']} {done['outcome']}")

    # Run once: the result of the first run is kept for whoever asks again.
    once = ("ORDER.LOCK", ONCE, "1001:mail")
    first = wheel.lease(*once, "attempt-1", "PX", 30000, "FP", "hash-a")
    wheel.order("ORDER.ACK", ONCE, "1001:mail", first["fence"], "STATUS", "done", "RESULT", "42")
    again = wheel.lease(*once, "attempt-2", "PX", 30000, "FP", "hash-a")
    wrong = wheel.lease(*once, "attempt-3", "PX", 30000, "FP", "hash-b")
    print(f"run once     {first['outcome']}, again {again['outcome']} with {again['result'].decode()}, "
          f"another request {wrong['outcome']}")

    # Transaction: both or neither. CLAIM does not wait in it.
    both = wheel.redis.pipeline(transaction=True)
    both.execute_command("ORDER.SCHEDULE", QUEUE, "1007", "PX", 0, "STATUS", "unpaid")
    both.execute_command("ORDER.CLAIM", QUEUE, "story", "BLOCK", 100000)
    _, rows = both.execute()
    fence = rows[0][1]
    stale = wheel.order("ORDER.ACK", QUEUE, "1007", fence + 1, "STATUS", "closed")
    done = wheel.order("ORDER.ACK", QUEUE, "1007", fence, "STATUS", "closed")
    print(f"transaction  {rows[0][0].decode()} claimed, another fence {stale['outcome']}, its own {done['outcome']}")

    # Stop: the order in hand is finished, the rest goes back untried.
    wheel.batch("ORDER.MSCHEDULE", QUEUE, "PX", 3, "1008", 0, "1009", 0, "1010", 0, "STATUS", "unpaid")
    outcomes = closer.step()
    left = [wheel.get(QUEUE, name) for name in ("1009", "1010")]
    print("stop         1008 closed " + outcomes["1008"] + "; "
          + ", ".join(f"{order['id']} {order['state']} with {order['attempt']} tries" for order in left))
    closer.disconnect()

    # Error: an exception, and it names the argument.
    try:
        wheel.order("ORDER.SCHEDULE", QUEUE, "1011", "PX", "soon")
    except redis.ResponseError as error:
        print(f"error        {error}")
    wheel.close()


if __name__ == "__main__":
    story(sys.argv[1], int((sys.argv + ["2"])[2]))
