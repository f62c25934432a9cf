"""orderwheel over redis-py 5 to 8, RESP2 and RESP3: commands, replies as dicts, errors.

A call raises on an error and returns None for null. Payloads and results stay bytes.
"""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ORDER = ("outcome", "state", "status", "deadline", "rev", "lease_ms", "was", "result")
LEASE = ("outcome", "fence", "lease_ms", "holds", "state", "status", "result")
ROW = ("id", "fence", "deadline", "attempt", "lease_ms", "status", "payload")


def text(value):
    """Bytes as text; everything else as it is."""
    return value.decode() if isinstance(value, bytes) else value


def named(names, values):
    """The fields of a reply by name. What bytes a shop stored are not touched."""
    pairs = ((text(name), value) for name, value in zip(names, values))
    return {name: value if name in ("payload", "result") else text(value) for name, value in pairs}


class Orderwheel:
    """One connection: SESSION leases end with it. A read waits for `read_s`, longer than any BLOCK."""

    def __init__(self, url, protocol=2, read_s=10):
        self.redis = redis.Redis.from_url(
            url, protocol=protocol, socket_connect_timeout=2, socket_timeout=read_s, socket_keepalive=True,
            single_connection_client=True, retry=Retry(NoBackoff(), 0))

    def call(self, *words):
        """One command, as the server answers it."""
        return self.redis.execute_command(*words)

    def order(self, *words):
        """SCHEDULE, FINISH, STATUS, ACK, NACK: a list in RESP2, a map in RESP3."""
        reply = self.call(*words)
        return named(reply.keys(), reply.values()) if isinstance(reply, dict) else named(ORDER, reply)

    def lease(self, *words):
        """LOCK, RENEW, UNLOCK, BREAK."""
        reply = self.call(*words)
        return named(reply.keys(), reply.values()) if isinstance(reply, dict) else named(LEASE, reply)

    def get(self, queue, order):
        """One order, or None if it is missing."""
        reply = self.call("ORDER.GET", queue, order)
        if reply is None or isinstance(reply, dict):
            return reply and named(reply.keys(), reply.values())
        return named(reply[::2], reply[1::2])

    def claim(self, *words):
        """The rows of a CLAIM, one dict per order."""
        return [named(ROW, row) for row in self.call("ORDER.CLAIM", *words)]

    def batch(self, *words):
        """MSCHEDULE, MFINISH, MACK, MNACK, MRENEW: an outcome per order."""
        return [text(word) for word in self.call(*words)]

    def close(self):
        """Ends the connection, and with it what SESSION bound to it."""
        self.redis.close()


def is_final(error):
    """Whether no second try mends it: a mistake in the program, or a right that it lacks.

    redis-py cuts off the word ERR and leaves words like UNBLOCKED, after which one reconnects.
    """
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.NoPermissionError)):
        return True
    word = str(error).split(" ")[0]
    return type(error) is redis.ResponseError and (word == "WRONGTYPE" or not word.isupper())
