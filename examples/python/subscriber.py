"""Prints what falls due: python subscriber.py redis://127.0.0.1:6400 [PROTOCOL]

Events are hints. What happened while nobody listened is in the queue, not here.
The server needs notify-keyspace-events with E and d.
"""

import sys
import time

import redis

CHANNEL = "__keyevent@0__:order.expired"


def listen(url, heard, protocol=2):
    """Calls `heard(queue, order)` until that answers False. Reconnects."""
    wait = 0.1
    while True:
        client = redis.Redis.from_url(url, protocol=protocol, socket_connect_timeout=2, socket_timeout=5)
        try:
            with client.pubsub(ignore_subscribe_messages=True) as events:
                events.subscribe(CHANNEL)
                while True:
                    # A PING now and then: a connection that died in silence is noticed.
                    message = events.get_message(timeout=3)
                    if message is None:
                        events.ping()
                    elif message["type"] == "message":
                        queue, _, order = message["data"].decode().rpartition(":")
                        if heard(queue, order) is False:
                            return
                    wait = 0.1
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            print(f"{error}; again in {wait:.1f} s", file=sys.stderr, flush=True)
            time.sleep(wait)
            wait = min(2 * wait, 5)
        finally:
            client.close()


if __name__ == "__main__":
    listen(sys.argv[1], lambda queue, order: print("due", queue, order, flush=True), int((sys.argv + ["2"])[2]))
