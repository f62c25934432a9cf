"""What top.sh and console.sh know of the servers: queues, their figures and rates, orders.

Every look is bounded: so many calls of SCAN and STATS per look, whatever the servers hold. What goes wrong with one
key or one node is noted for that one, and the look goes on. Names and ids are bytes; `shown` makes a text of them
that is safe to print, `meant` takes such a text back.
"""

import logging
import os
import re
import threading
import time
from dataclasses import dataclass, field

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError
from redis.retry import Retry

#: Calls of SCAN per look and node, and keys looked at by each.
SCAN_CALLS, SCAN_COUNT = 20, 1000
#: Queues that are read per look: the worst of the last one, and those read longest ago.
QUEUES_PER_LOOK, WORST = 250, 50
#: Commands sent at once: a server answers those of one client in one go, and others wait meanwhile.
BATCH = 20
#: Names that are kept, and bytes of one: a longer one fits into no address.
KNOWN_MAX, NAME_MAX = 10_000, 2048
#: What is kept of each queue: so many points.
HISTORY = 150
#: Later than any moment in milliseconds.
NEVER = 1 << 53
#: Totals whose growth is a rate.
RATES = {
    "claimed": "claimed_total",
    "closed": "acked_total",
    "scheduled": "scheduled_total",
    "finished": "finished_total",
}
#: Codes of errors that redis-py leaves out of its texts. The first three concern the whole server, not one key.
CODES = {
    redis.exceptions.MasterDownError: "MASTERDOWN",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
    redis.exceptions.NoPermissionError: "NOPERM",
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.OutOfMemoryError: "OOM",
}
OF_THE_SERVER = ("MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "UNKILLABLE")
#: Errors of a connection, or of a server that answers nothing now.
NOT_CONNECTED = (redis.ConnectionError, redis.TimeoutError, OSError)
log = logging.getLogger("console")


def shown(data):
    r"""Bytes as a text on one line that `meant` takes back: `\` is `\\`, what is not printable is escaped."""
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else str(data)
    return "".join(_escaped(c) for c in text)


def _escaped(char):
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def said(error):
    """An error in the server's words, with its code; on one line."""
    code = next((code for kind, code in CODES.items() if isinstance(error, kind)), "")
    words = str(error) or type(error).__name__
    if isinstance(error, redis.AuthenticationError) and "HELLO" in words:
        words = "NOAUTH Authentication required: REDISCLI_AUTH, or -a"
    return shown(words if not code or words.startswith(code) else f"{code} {words}")


def meant(text):
    """The bytes of a text as `shown` makes it."""
    data = text.encode("utf-8", "surrogateescape")
    return re.sub(
        rb"\\(\\|x[0-9a-fA-F]{2})", lambda found: b"\\" if found[1] == b"\\" else bytes([int(found[1][1:], 16)]), data
    )


def seconds(text):
    """Seconds between two looks: what is asked of the servers stays bounded."""
    if not 0.01 <= float(text) <= 3600:
        raise ValueError
    return float(text)


def add_options(parser):
    """The options of redis-cli that say where a server is, and how often it is asked."""
    parser.add_argument("--every", type=seconds, default=2.0, help="seconds between two looks, 0.01 to 3600")
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
    parser.add_argument("--insecure", action="store_true", help="with --tls: any certificate will do")


def named(address):
    """A node as people write it."""
    return ":".join(map(str, address)) if isinstance(address, tuple) else str(address)


class Source:
    """The servers: one, or the primaries of a cluster. Any thread may ask."""

    def __init__(self, options):
        self.options = options
        self.seed = options.socket or (options.host, options.port)
        self.lock = threading.Lock()
        self.clients = {}
        # Nodes that may be asked for the slots, the best first: all that were ever in the cluster's answer.
        self.known = [self.seed]
        # First slot, last slot, primary; None: to be asked for.
        self.slots = None

    def client(self, address, tries=2):
        """The client of a node. It connects anew by itself; of two `tries` one is for a connection that was closed."""
        with self.lock:
            if (address, tries) not in self.clients:
                self.clients[address, tries] = self._connect(address, tries)
            return self.clients[address, tries]

    def _connect(self, address, tries):
        o = self.options
        common = {
            "username": o.user,
            "password": o.password,
            "socket_timeout": 5,
            "socket_connect_timeout": 2,
            "protocol": 3,
            "db": 0 if o.cluster else o.db,
            "retry": Retry(NoBackoff(), tries - 1, (redis.ConnectionError,)),
            "retry_on_error": [redis.ConnectionError] if tries > 1 else [],
        }
        if isinstance(address, str):
            return redis.Redis(unix_socket_path=address, **common)
        if o.tls:
            common.update(
                ssl=True,
                ssl_ca_certs=o.cacert,
                ssl_certfile=o.cert,
                ssl_keyfile=o.key,
                ssl_cert_reqs="none" if o.insecure else "required",
                ssl_check_hostname=not o.insecure,
            )
        return redis.Redis(host=address[0], port=address[1], **common)

    def nodes(self):
        """The primaries, each once."""
        return list(dict.fromkeys(address for _, _, address in self._map()))

    def of(self, key):
        """The node that has a key."""
        if not self.options.cluster:
            return self.seed
        slot = key_slot(key)
        for first, last, address in self._map():
            if first <= slot <= last:
                return address
        raise redis.ConnectionError(f"no node has slot {slot}")

    def _map(self):
        if not self.options.cluster:
            return [(0, 16383, self.seed)]
        slots = self.slots
        if slots is None:
            slots = self.slots = self._ask()
        return slots

    def _ask(self):
        """The slots, from the first node that knows them."""
        error = None
        for address in list(self.known):
            try:
                said = self.client(address).execute_command("CLUSTER SLOTS")
            except (redis.RedisError, OSError) as failed:
                error = failed
                continue
            # A node that does not know its own name means the address that it was asked at.
            own = "127.0.0.1" if isinstance(address, str) else address[0]
            at = lambda node: (node[0].decode() if node[0] and node[0] != b"?" else own, node[1])
            slots = [(first, last, at(primary)) for first, last, primary, *_ in said]
            if not slots:
                error = redis.ResponseError(f"{named(address)} has no slots")
                continue
            nodes = [at(node) for _, _, *nodes in said for node in nodes]
            with self.lock:
                # The living first; what was known before may be what is left after the next fault.
                self.known = list(dict.fromkeys([address, *nodes, self.seed, *self.known]))[:1000]
            return slots
        raise error

    def forget(self):
        """The slots are asked for again, and another node is asked first."""
        if self.options.cluster:
            with self.lock:
                self.slots = None
                self.known = self.known[1:] + self.known[:1]

    def execute(self, key, *command, tries=2):
        """One command to the node that has the key, also if it moves meanwhile. What writes is sent once: `tries` 1."""
        address, asking = self.of(key), False
        for _ in range(5):
            try:
                client = self.client(address, tries)
                if not asking:
                    return client.execute_command(*command)
                with client.pipeline(transaction=False) as pipe:
                    pipe.execute_command("ASKING")
                    pipe.execute_command(*command)
                    return pipe.execute()[1]
            except AskError as error:
                # MOVED is an ASK in redis-py.
                asking = not isinstance(error, MovedError)
                if not asking:
                    self.forget()
                address = (error.host or address[0], error.port)
            except NOT_CONNECTED:
                self.forget()
                raise
        raise redis.ResponseError("the key moves to and fro")

    def many(self, commands):
        """The answers to `(key, *command)`s, in batches, each node's for itself. An error is an answer too."""
        answers, nodes = [None] * len(commands), {}
        for number, (key, *_) in enumerate(commands):
            try:
                nodes.setdefault(self.of(key), []).append(number)
            except (redis.RedisError, OSError) as error:
                answers[number] = error
        for address, numbers in nodes.items():
            for start in range(0, len(numbers), BATCH):
                part = numbers[start : start + BATCH]
                try:
                    with self.client(address).pipeline(transaction=False) as pipe:
                        for number in part:
                            pipe.execute_command(*commands[number][1:])
                        said = pipe.execute(raise_on_error=False)
                except (redis.RedisError, OSError) as error:
                    self.forget()
                    for number in numbers[start:]:
                        answers[number] = error
                    break
                for number, answer in zip(part, said):
                    answers[number] = answer
        moved = [number for number, answer in enumerate(answers) if isinstance(answer, AskError)]
        if moved:
            self.forget()
        for number in moved[:100]:
            try:
                answers[number] = self.execute(*commands[number])
            except (redis.RedisError, OSError) as error:
                answers[number] = error
        return answers


@dataclass(frozen=True)
class Trouble:
    """What can not be read, why, and since when. `lost`: there is no connection."""

    where: str
    error: str
    since: float
    lost: bool


@dataclass(frozen=True)
class View:
    """What one look left behind. It never changes: any thread may walk through it."""

    #: Name and figures of each queue that was read, the worst first.
    rows: tuple = ()
    figures: dict = field(default_factory=dict)
    #: Points of each queue: moment, due, claimed, closed per second, lateness, close time.
    history: dict = field(default_factory=dict)
    #: What could not be read: (name, Trouble) of each queue, and a Trouble per node.
    unread: tuple = ()
    troubles: tuple = ()
    nodes: int = 1
    #: Primary of a node that is a replica.
    replica_of: str | None = None
    #: All names, whether all keys have been walked once, and whether there are more names than are kept.
    names: tuple = ()
    walked: bool = False
    full: bool = False
    #: Queues whose names are too long to be read.
    too_long: int = 0
    #: When something was last read, and how long the look took.
    read_at: float | None = None
    look_ms: float = 0.0

    @property
    def status(self):
        """What is wrong with the reading and for how long, and the error; None if all nodes were read."""
        if not self.troubles:
            return None
        first = min(self.troubles, key=lambda trouble: trouble.since)
        what = "not connected" if first.lost else "reading fails"
        some = f"{len(self.troubles)} of {self.nodes} nodes: " if self.nodes > 1 else ""
        return f"{some}{what} for {max(0, int(time.time() - first.since))} s", first.error

    @property
    def problem(self):
        """The status in one line."""
        return ": ".join(self.status) if self.troubles else None


def worst(item):
    """How bad a queue is: dead orders, then how long overdue, then how many."""
    figures = item[1]
    return figures["dead"] > 0, -figures["overdue_since"], figures["overdue"], figures["orders"]


class Reader:
    """Queues with their figures, as they change. One thread looks; `view` is what any thread may see."""

    def __init__(self, options):
        self.source = Source(options)
        self.view = View()
        # Where the walk over the keys of a node is, and the nodes that were walked through.
        self.cursors, self.walked = {}, set()
        # Names that are too long: of this walk over a node so far, and of the last one.
        self.long, self.too_long = {}, {}
        # When each name was tried last.
        self.tried = {}
        self.figures, self.history, self.unread = {}, {}, {}
        # What is wrong with a node, now and at the look before.
        self.troubles, self.before = {}, {}
        self.roles, self.may_ask_role = {}, True
        self.read_at = None
        self.opened, self.lock = {}, threading.Lock()

    def open(self, key):
        """A queue that somebody looks at is read at each look, for half a minute."""
        with self.lock:
            self.opened[key] = time.monotonic()

    def refresh(self):
        """One look. What is wrong with it, or None; what was known stays."""
        began, nodes = time.monotonic(), []
        self.before, self.troubles = self.troubles, {}
        try:
            nodes = self.source.nodes()
        except Exception as error:  # noqa: BLE001: whatever it is, it is said, and the next look comes
            self._trouble(self.source.seed, error)
        for address in nodes:
            try:
                self._walk(address)
            except Exception as error:  # noqa: BLE001: as above
                self._trouble(address, error)
        try:
            self._read([key for key in self._turn() if self._home(key) not in self.troubles])
        except Exception as error:  # noqa: BLE001: as above
            self._trouble("figures", error)
        if nodes and not set(nodes) <= set(self.troubles):
            self.read_at = time.time()
        self._publish(nodes, began)
        return self.view.problem

    def _trouble(self, address, error):
        """Notes what is wrong with a node. The log has each new error once."""
        lost = isinstance(error, NOT_CONNECTED)
        before = self.before.get(address)
        words = said(error)
        if not lost and not isinstance(error, redis.RedisError):
            words = f"{type(error).__name__}: {words}"
        if self.source.options.cluster and isinstance(address, tuple):
            words = f"{named(address)}: {words}"
        if before is None or before.error != words:
            log.warning(
                "%s: %s",
                named(address),
                words,
                exc_info=None if isinstance(error, (redis.RedisError, OSError)) else error,
            )
        self.troubles[address] = Trouble(named(address), words, before.since if before else time.time(), lost)
        if lost:
            self.source.forget()

    def _home(self, key):
        try:
            return self.source.of(key)
        except (redis.RedisError, OSError):
            return None

    def _walk(self, address):
        """Goes on with the walk over all keys of a node, some calls per look."""
        client = self.source.client(address)
        cursor = self.cursors.get(address, 0)
        for _ in range(SCAN_CALLS):
            cursor, keys = client.scan(cursor, count=SCAN_COUNT, _type="ordrwheel")
            for key in keys:
                if len(key) > NAME_MAX:
                    self.long[address] = self.long.get(address, 0) + 1
                elif len(self.tried) < KNOWN_MAX:
                    self.tried.setdefault(key, 0.0)
            if cursor == 0:
                self.walked.add(address)
                self.too_long[address] = self.long.pop(address, 0)
                break
        self.cursors[address] = cursor
        if self.may_ask_role:
            try:
                role = client.execute_command("ROLE")
                self.roles[address] = named((role[1].decode(), role[2])) if role[0] == b"slave" else None
            except redis.exceptions.NoPermissionError:
                self.may_ask_role = False
        if not self.tried:
            # No queue, or no module: an unknown command is said before anything else is looked at.
            try:
                client.execute_command("ORDER.STATS", "")
            except redis.ResponseError as error:
                if "unknown command" in str(error):
                    raise redis.ResponseError("this server has no orderwheel") from None

    def _turn(self):
        """The queues that are read now: opened ones, the worst of the last look, and those tried longest ago."""
        with self.lock:
            self.opened = {key: at for key, at in self.opened.items() if time.monotonic() - at < 30}
            opened = [key for key in self.opened if key in self.tried][:50]
        # What was never read comes before what was.
        again = [key for key, _ in self.view.rows[:WORST] if key in self.tried] if all(self.tried.values()) else []
        first = dict.fromkeys(opened + again)
        rest = sorted((key for key in self.tried if key not in first), key=self.tried.get)
        return [*first, *rest][:QUEUES_PER_LOOK]

    def _read(self, keys):
        """Reads the figures of these queues."""
        answers = self.source.many([(key, "ORDER.STATS", key) for key in keys])
        now, empty = time.time(), []
        for key, answer in zip(keys, answers):
            self.tried[key] = now
            try:
                if self._failed(key, answer):
                    continue
                figures = {
                    name.decode(): value if isinstance(value, (int, float)) else shown(value)
                    for name, value in answer.items()
                }
                self._take(key, figures, now)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self._not_read(key, f"its figures are not understood: {type(error).__name__}: {error}")
                continue
            if figures["orders"] == 0 and not figures["claim_waiters"] and figures["paused_ms"] == -2:
                # Gone, or empty.
                empty.append(key)
        for key, there in zip(empty, self.source.many([(key, "EXISTS", key) for key in empty])):
            if there == 0:
                for known in (self.tried, self.figures, self.history, self.unread):
                    known.pop(key, None)

    def _failed(self, key, answer):
        """Whether an answer is an error, which is noted where it belongs."""
        if not isinstance(answer, Exception):
            return False
        if isinstance(answer, NOT_CONNECTED) or said(answer).startswith(OF_THE_SERVER):
            self._trouble(self._home(key) or self.source.seed, answer)
        else:
            self._not_read(key, said(answer))
        return True

    def _not_read(self, key, words):
        before = self.unread.get(key)
        if before is None or before.error != words:
            log.warning("%s: %s", shown(key), words)
        self.unread[key] = Trouble(shown(key), words, before.since if before else time.time(), False)
        # What it was is not what it is.
        self.figures.pop(key, None)
        self.history.pop(key, None)

    def _take(self, key, figures, now):
        before = self.figures.get(key)
        passed = now - before["at"] if before else 0
        grown = lambda name: figures[name] - before[name]
        for name, total in RATES.items():
            figures[f"{name}_per_s"] = round(max(0, grown(total)) / passed, 2) if passed else 0.0
        # What became overdue: what is overdue now, and what was closed meanwhile.
        figures["due_per_s"] = round(max(0, grown("overdue") + grown("acked_total")) / passed, 2) if passed else 0.0
        # `oldest_overdue_ms` is up to a second behind, by turns: queues would change places at each look.
        since = now * 1000 - figures["oldest_overdue_ms"] if figures["oldest_overdue_ms"] else NEVER
        if before and abs(since - before["overdue_since"]) < 2000:
            since = min(since, before["overdue_since"])
        figures.update(at=now, overdue_since=since)
        point = (
            round(now, 1),
            figures["due_per_s"],
            figures["claimed_per_s"],
            figures["closed_per_s"],
            figures["lateness_ms_p99_1m"],
            figures["close_ms_p99_1m"],
        )
        # A field that is lacking is found here, before anything is kept.
        worst((key, figures))
        self.unread.pop(key, None)
        self.figures[key] = figures
        if passed:
            self.history[key] = (self.history.get(key, ()) + (point,))[-HISTORY:]

    def _publish(self, nodes, began):
        self.view = View(
            rows=tuple(sorted(self.figures.items(), key=worst, reverse=True)),
            figures=dict(self.figures),
            history=dict(self.history),
            unread=tuple(sorted(self.unread.items())),
            troubles=tuple(self.troubles.values()),
            nodes=max(1, len(nodes)),
            names=tuple(self.tried),
            walked=bool(nodes) and set(nodes) <= self.walked,
            full=len(self.tried) >= KNOWN_MAX,
            too_long=sum(self.too_long.get(address, 0) for address in nodes),
            read_at=self.read_at,
            look_ms=round((time.monotonic() - began) * 1000, 1),
            replica_of=next((primary for primary in map(self.roles.get, nodes) if primary), None),
        )

    def complete(self):
        """Whether every key was walked over and every queue tried."""
        return self.view.walked and all(self.tried.values())

    def walk(self, key, state, calls=30):
        return Walk(self.source, key, state, calls)

    def order(self, key, order):
        """All that is known of an order, or None."""
        record = self.source.execute(key, "ORDER.GET", key, order)
        return None if record is None else {name.decode(): value for name, value in record.items()}

    def find(self, order, most=1000, seconds=3.0):
        """The queues that have an order: (queue, record) of each, how many were asked, and how many could not say."""
        keys, found, unread, asked, end = self.view.names, [], 0, 0, time.monotonic() + seconds
        for start in range(0, min(most, len(keys)), 100):
            part = keys[start : min(start + 100, most)]
            for key, answer in zip(part, self.source.many([(key, "ORDER.GET", key, order) for key in part])):
                if isinstance(answer, Exception):
                    unread += 1
                elif answer is not None:
                    found.append((key, {name.decode(): value for name, value in answer.items()}))
            asked += len(part)
            if time.monotonic() > end:
                break
        return found, asked, len(keys), unread


class Walk:
    """The orders of a queue in a state, found bit by bit: a few calls per step, whatever the queue holds."""

    #: Rows that are shown.
    ROWS = 100

    def __init__(self, source, key, state, calls):
        """`calls` per step, each of which looks at ten times its COUNT of orders."""
        self.source, self.key, self.state, self.calls = source, key, state, calls
        self.lock = threading.Lock()
        self.cursor, self.found, self.last = b"0", {}, {}
        self.looked, self.whole, self.more = 0, False, False

    def step(self):
        """Rows as ORDER.SCAN has them. `whole`: all orders were looked at once, or `more` were found than are shown."""
        with self.lock:
            for _ in range(self.calls):
                count = 100 if self.cursor == b"0" else 1000
                self.cursor, rows = self.source.execute(
                    self.key, "ORDER.SCAN", self.key, self.cursor, "STATE", self.state, "COUNT", count
                )
                self.looked += 10 * count
                self.found.update((row[0], row) for row in rows)
                if self.cursor == b"0" or len(self.found) >= self.ROWS:
                    self.more = self.cursor != b"0" or len(self.found) > self.ROWS
                    self.last, self.whole = self.found, True
                    self.cursor, self.found, self.looked = b"0", {}, 0
                    break
            return list({**self.last, **self.found}.values())[: self.ROWS]
