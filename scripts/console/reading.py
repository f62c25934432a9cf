"""What top.sh and console.sh know of a server: queues, their figures and rates, orders.

Every look is bounded: so many calls of SCAN and STATS per refresh, whatever the server holds. Names and
ids are bytes; `shown` makes a text of them that is safe to print.
"""

import collections
import os
import time

import redis

#: Calls of SCAN per refresh and node, and keys looked at by each.
SCAN_CALLS, SCAN_COUNT = 20, 1000
#: Queues that are read per refresh, in turn if there are more.
QUEUES_MAX = 1000
#: What is kept of each queue: so many looks.
HISTORY = 150
#: Totals whose growth is a rate.
RATES = {"claimed": ("claimed_total",), "closed": ("acked_total",), "scheduled": ("scheduled_total",),
         "finished": ("finished_total",)}


def shown(data):
    """Bytes as a text without control characters: what is not printable is escaped."""
    text = data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else str(data)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def add_options(parser):
    """The options of redis-cli that say where a server is."""
    parser.add_argument("-h", dest="host", default="127.0.0.1")
    parser.add_argument("-p", dest="port", type=int, default=6379)
    parser.add_argument("-s", dest="socket")
    parser.add_argument("-n", dest="db", type=int, default=0)
    parser.add_argument("-c", dest="cluster", action="store_true", help="a cluster: all its primaries")
    parser.add_argument("--user")
    parser.add_argument("-a", "--pass", dest="password", default=os.environ.get("REDISCLI_AUTH"))
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--cacert")
    parser.add_argument("--cert")
    parser.add_argument("--key")


class Source:
    """The servers: one, or the primaries of a cluster. Connects anew after an error."""

    def __init__(self, options):
        self.options = options
        self.clients = None

    def _one(self, host=None, port=None):
        o = self.options
        common = {"username": o.user, "password": o.password, "socket_timeout": 5, "socket_connect_timeout": 2, "protocol": 2}
        if o.socket and host is None:
            return redis.Redis(unix_socket_path=o.socket, db=o.db, **common)
        if o.tls:
            common.update(ssl=True, ssl_ca_certs=o.cacert, ssl_certfile=o.cert, ssl_keyfile=o.key)
        return redis.Redis(host=host or o.host, port=port or o.port, db=0 if host else o.db, **common)

    def all(self):
        """A client per primary."""
        if self.clients is None:
            one = self._one()
            if not self.options.cluster:
                self.clients = [one]
            else:
                nodes = one.execute_command("CLUSTER NODES")
                self.clients = [self._one(*address.split("@")[0].rsplit(":", 1)) for address, node in nodes.items()
                                if "master" in node["flags"] and "fail" not in node["flags"] and node["slots"]]
        return self.clients

    def lost(self):
        """Forgets the connections: the next look makes new ones."""
        for client in self.clients or []:
            client.close()
        self.clients = None

    def of(self, key):
        """The client that has a key."""
        clients = self.all()
        if len(clients) == 1:
            return clients[0]
        for client in clients:
            try:
                client.exists(key)
                return client
            except redis.ResponseError:
                continue
        raise redis.RedisError("no node has this key")


class Reader:
    """Queues with their figures, as they change."""

    def __init__(self, options):
        self.source = Source(options)
        self.cursors = {}
        self.queues = {}
        self.history = {}
        self.error = None
        self.lost_at = None
        self.known = 0

    def find(self):
        """Goes on with the walk over all keys, some calls per refresh."""
        for number, client in enumerate(self.source.all()):
            cursor = self.cursors.get(number, 0)
            for _ in range(SCAN_CALLS):
                cursor, keys = client.scan(cursor, count=SCAN_COUNT, _type="ordrwheel")
                for key in keys:
                    if len(self.queues) < 10 * QUEUES_MAX:
                        self.queues.setdefault(key, {})
                if cursor == 0:
                    break
            self.cursors[number] = cursor
        self.known = len(self.queues)

    def refresh(self):
        """One look. The error, if there was one; what was known stays."""
        try:
            self.find()
            for key in self._turn():
                self._read(key)
            self.error, self.lost_at = None, None
        except (redis.RedisError, OSError) as error:
            self.error = shown(str(error))
            self.lost_at = self.lost_at or time.time()
            self.source.lost()
        return self.error

    def _turn(self):
        """The queues that are read now: those looked at longest ago."""
        keys = sorted(self.queues, key=lambda key: self.queues[key].get("at", 0))
        return keys[:QUEUES_MAX]

    def _read(self, key):
        now = time.time()
        figures = self.stats(key)
        before = self.queues[key]
        if figures["orders"] == 0 and not figures["claim_waiters"] and figures["paused_ms"] == -2:
            # Gone, or empty: asked by name, as it would be made by nothing here.
            if not self.source.of(key).exists(key):
                self.queues.pop(key)
                self.history.pop(key, None)
                return
        passed = now - before["at"] if before.get("at") else None
        for name, totals in RATES.items():
            grown = sum(figures[total] - before.get(total, 0) for total in totals)
            figures[f"{name}_per_s"] = round(max(0, grown) / passed, 2) if passed else 0.0
        # What became overdue: what is overdue now, and what was closed meanwhile.
        due = figures["overdue"] - before.get("overdue", figures["overdue"]) + figures["acked_total"] - before.get(
            "acked_total", figures["acked_total"])
        figures["due_per_s"] = round(max(0, due) / passed, 2) if passed else 0.0
        figures["at"] = now
        self.queues[key] = figures
        line = self.history.setdefault(key, collections.deque(maxlen=HISTORY))
        if passed:
            line.append((round(now, 1), figures["due_per_s"], figures["claimed_per_s"], figures["closed_per_s"],
                         figures["lateness_ms_p99_1m"], figures["close_ms_p99_1m"]))

    def stats(self, key):
        """ORDER.STATS: numbers as numbers, texts as texts."""
        flat = self.source.of(key).execute_command("ORDER.STATS", key)
        figures = {}
        for name, value in zip(flat[::2], flat[1::2]):
            if isinstance(value, bytes):
                try:
                    value = float(value)
                except ValueError:
                    value = shown(value)
            figures[name.decode()] = value
        return figures

    def worst_first(self, by=None):
        """The queues, the worst first: dead, then how long overdue, then how many."""
        worst = lambda item: (item[1].get("dead", 0) > 0, item[1].get("oldest_overdue_ms", 0), item[1].get("overdue", 0),
                              item[1].get("orders", 0))
        key = worst if by is None else (lambda item: item[1].get(by, 0))
        read = [(name, figures) for name, figures in self.queues.items() if "at" in figures]
        return sorted(read, key=key, reverse=True)

    def orders(self, key, state, count=100, calls=20):
        """Some orders in a state: at most `count`, with at most `calls` calls."""
        found, cursor = [], b"0"
        for _ in range(calls):
            cursor, rows = self.source.of(key).execute_command(
                "ORDER.SCAN", key, cursor, "STATE", state, "COUNT", count)
            found += rows
            if cursor == b"0" or len(found) >= count:
                break
        return found[:count]

    def order(self, key, order):
        """All that is known of an order, or None."""
        flat = self.source.of(key).execute_command("ORDER.GET", key, order)
        return None if flat is None else {name.decode(): value for name, value in zip(flat[::2], flat[1::2])}
