"""Sends random commands to a server and compares; `python -m blackbox.run MINUTES [SEED]` in tests/e2e."""

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from blackbox.model import Differs, Model, same  # noqa: E402
from blackbox.words import IDS, KEYS, MATCHES, OWNERS, STATES, STATUSES, Command, Words  # noqa: E402
from support.server import CRASH, Server  # noqa: E402

#: Nothing changes by the clock while a run lasts.
LINES = (
    "enable-debug-command yes", "orderwheel.lock-ms-max 86400000", "orderwheel.lease-ms 3600000", "orderwheel.backoff-ms 7200000",
    "orderwheel.backoff-ms-max 7200000", "repl-diskless-sync-delay 0",
)
#: After so many steps all is compared, and after so many comparisons all begins anew.
ROUND, EPOCH = 200, 10
CALL = b"return redis.pcall(unpack(ARGV))"
#: Fields of the answers that are an array without names in RESP2, so in Lua; those of `get` and `stats` have names.
ORDER_REPLY = (b"outcome", b"state", b"status", b"deadline", b"rev", b"lease_ms", b"was", b"result")
LEASE_REPLY = (b"outcome", b"fence", b"lease_ms", b"holds", b"state", b"status", b"result")
FIELDS = dict.fromkeys(("schedule", "finish", "status", "ack", "nack"), ORDER_REPLY) \
    | dict.fromkeys(("lock", "renew", "unlock", "break"), LEASE_REPLY)


class Connection:
    """One client, in RESP3, whose answers are bytes and whose errors are values."""

    def __init__(self, server, database=0):
        self.link = redis.UnixDomainSocketConnection(path=server.socket, protocol=3, decode_responses=False, db=database,
                                                     socket_timeout=60)
        self.link.connect()
        self.id = self.ask(b"CLIENT", b"ID")

    def ask(self, *words):
        """One command; its answer."""
        self.link.send_command(*words)
        return self.answer()

    def answer(self):
        """The next answer."""
        try:
            return self.link.read_response()
        except redis.ResponseError as error:
            return error

    def close(self):
        """Ends it."""
        self.link.disconnect()


def quoted(word):
    """A word as redis-cli reads it."""
    word = word if isinstance(word, bytes) else str(word).encode()
    if word and all(33 <= byte <= 126 and byte not in b"\"'\\" for byte in word):
        return word.decode()
    return '"' + "".join(chr(byte) if 32 <= byte <= 126 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word) + '"'


class Fuzzer:
    """A server, a replica, a model, and a seed."""

    def __init__(self, folder, seed, say=print):
        self.seed, self.say = seed, say
        self.random = random.Random(seed)
        self.primary = Server(Path(folder) / "primary", *LINES, port=True)
        self.replica = Server(Path(folder) / "replica", *LINES, port=True)
        self.sent, self.steps, self.last, self.kinds = 0, 0, deque(maxlen=30), Counter()
        self.outcomes, self.orders = Counter(), []
        self.connections = []

    def start(self):
        """Starts both."""
        self.primary.start()
        self.replica.start()
        self.control = Connection(self.primary)
        self.second = Connection(self.replica)
        self.second.ask("REPLICAOF", "127.0.0.1", self.primary.port)
        self.connections = [Connection(self.primary) for _ in range(3)]
        self.begin()

    def begin(self):
        """All anew."""
        self.ask("FLUSHALL")
        for database in (1, 0):
            self.ask("SELECT", database)
            self.ask("SET", "text", "1")
        self.model = Model(self.outcomes)
        self.words = Words(self.random, self.model)

    def end(self):
        """Ends both; what was wrong with them."""
        return [fault for server in (self.primary, self.replica) if (fault := server.end())]

    def ask(self, *words):
        """By the connection that no session is bound to; kept for the report."""
        self.note(words)
        return self.control.ask(*words)

    def note(self, words, before=""):
        """One more line of the report."""
        self.sent += 1
        self.last.append(before + " ".join(map(quoted, words)))

    def step(self):
        """One command, some in MULTI, one by Lua, or something done to the server."""
        self.steps += 1
        dice = self.random.random()
        if dice < 0.008:
            self.lose_client()
        elif dice < 0.012:
            self.reload()
        elif dice < 0.03:
            self.dump_and_restore()
        elif dice < 0.15:
            self.multi([self.words.make() for _ in range(self.random.randint(1, 6))])
        else:
            command = self.words.make()
            if dice < 0.27 and not command.session and not command.plain and command.name != "swapdb":
                self.script(command)
            else:
                self.plain(command)
        self.learn()

    def bind(self, command, client):
        """A SESSION command holds by the client that sends it."""
        if command.session:
            command.options["session"] = client.id

    def plain(self, command):
        """Sent as it is."""
        number = self.random.randrange(len(self.connections))
        client = self.connections[number]
        self.bind(command, client)
        self.note(command.argv)
        self.check(command, client.ask(*command.argv))
        self.wait_until_gone(command)

    def multi(self, commands):
        """All in one transaction; a key that RELEASE empties is gone a moment later, so that is sent alone."""
        commands = [command for command in commands if command.name != "release"] or [self.words.make_get(KEYS[0])]
        client = self.random.choice(self.connections)
        self.note([b"MULTI"])
        client.link.send_command(b"MULTI")
        for command in commands:
            self.bind(command, client)
            self.note(command.argv)
            client.link.send_command(*command.argv)
        self.note([b"EXEC"])
        client.link.send_command(b"EXEC")
        queued = [client.answer() for _ in range(len(commands) + 1)]
        answers = client.answer()
        refused = [command for command, answer in zip(commands, queued[1:]) if isinstance(answer, Exception)]
        if refused and all(command.name == "error" for command in refused):
            # A wrong number of arguments is told at once, and then nothing is done.
            if not isinstance(answers, redis.exceptions.ExecAbortError):
                raise Differs(f"EXEC: expected EXECABORT, got {answers!r}")
            return
        if isinstance(answers, Exception):
            raise Differs(f"EXEC: {answers!r} after {queued}")
        same("EXEC: answers", len(commands), len(answers))
        for command, answer in zip(commands, answers):
            self.check(command, answer)

    def script(self, command):
        """By Lua, which turns maps into arrays."""
        argv = [b"EVAL", CALL, b"1", command.key, *command.argv]
        self.note(argv)
        answer = self.random.choice(self.connections).ask(*argv)
        if command.name in FIELDS and isinstance(answer, list):
            answer = dict(zip(FIELDS[command.name], answer))
        elif (command.name in ("get", "stats") or command.options.get("get")) and isinstance(answer, list):
            answer = dict(zip(answer[::2], answer[1::2]))
        self.check(command, answer)
        self.wait_until_gone(command)

    def wait_until_gone(self, command):
        """A queue that RELEASE has emptied is removed by the server's timer."""
        until = time.monotonic() + 20
        while command.name == "release" and command.key not in self.model.dbs[0] and self.control.ask("EXISTS", command.key):
            if time.monotonic() > until:
                raise Differs(f"{command.key!r} is empty and still there")
            time.sleep(0.001)

    def check(self, command, answer):
        """The model's turn."""
        self.kinds[command.name] += 1
        self.model.run(command, answer)

    def learn(self):
        """Reads the numbers that the last step has made."""
        for key, id_ in self.model.unknown():
            argv = [b"ORDER.GET", key, id_]
            self.note(argv)
            self.model.run(Command("get", key, argv, {"id": id_}), self.control.ask(*argv))

    def lose_client(self):
        """A connection ends: by itself, or killed."""
        number = self.random.randrange(len(self.connections))
        client = self.connections[number]
        if self.random.random() < 0.5:
            self.ask("CLIENT", "KILL", "ID", client.id)
        else:
            self.note([b"QUIT"])
        client.close()
        self.connections[number] = Connection(self.primary)
        bound = self.model.lapse_session(client.id)
        for key, id_ in bound:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                got = self.control.ask("ORDER.GET", key, id_)
                if got is None or got[b"lease_ms"] == -2:
                    break
                time.sleep(0.005)
        deadline = time.monotonic() + 20
        while f"id={client.id} ".encode() in self.control.ask("CLIENT", "LIST"):
            if time.monotonic() > deadline:
                raise Differs("a closed client is still in CLIENT LIST")
            time.sleep(0.005)

    def reload(self):
        """All through an RDB file."""
        before = self.digest(self.control)
        same("RELOAD", b"OK", self.ask("DEBUG", "RELOAD"))
        same("digest after RELOAD", before, self.digest(self.control))
        self.model.restarted()

    def digest(self, client):
        """Of all keys of database 0."""
        return client.ask("DEBUG", "DIGEST-VALUE", *KEYS)

    def dump_and_restore(self):
        """A whole payload makes an equal queue; a damaged one is refused, or makes one that can be read."""
        key, other = self.random.sample(KEYS, 2)
        payload = self.ask("DUMP", key)
        same("DUMP", key in self.model.dbs[0], payload is not None)
        if payload is None:
            return
        how = self.random.random()
        if how < 0.3:
            same("RESTORE", b"OK", self.ask("RESTORE", other, 0, payload, "REPLACE"))
            self.model.dbs[0][other] = self.model.copied(self.model.dbs[0][key])
            return
        damaged = bytearray(payload)
        if how < 0.6 and len(damaged) > 20:
            del damaged[self.random.randrange(len(damaged) - 10):len(damaged) - 10]
        else:
            for _ in range(self.random.randint(1, 3)):
                damaged[self.random.randrange(len(damaged) - 10)] ^= 1 << self.random.randrange(8)
        if bytes(damaged) == payload:
            return
        if self.random.random() < 0.2:
            if not isinstance(answer := self.ask("RESTORE", "torn", 0, bytes(damaged)), Exception):
                raise Differs(f"RESTORE of a damaged payload with its old checksum: {answer!r}")
            return
        # With a right checksum it is the module that must refuse it, or take it for another queue.
        damaged[-8:] = crc64(damaged[:-8]).to_bytes(8, "little")
        answer = self.ask("RESTORE", "torn", 0, bytes(damaged))
        self.kinds["torn taken" if answer == b"OK" else "torn refused"] += 1
        if answer == b"OK":
            for words in (("ORDER.STATS", "torn"), ("ORDER.SCAN", "torn", "0", "COUNT", "1000"), ("ORDER.CLAIM", "torn", "w", "COUNT", "1000"),
                          ("DEBUG", "DIGEST-VALUE", "torn"), ("DUMP", "torn")):
                self.ask(*words)
            self.ask("DEL", "torn")

    def compare(self):
        """All orders field by field, counts, SCAN, and the replica."""
        self.orders.append(sum(len(self.model.queue(key).orders) for key in KEYS))
        for key in KEYS:
            self.model.run(Command("stats", key, []), self.ask("ORDER.STATS", key))
            self.model.run(Command("exists", key, []), self.ask("EXISTS", key))
            for id_ in {*IDS, *self.model.queue(key).orders}:
                self.model.run(Command("get", key, [], {"id": id_}), self.ask("ORDER.GET", key, id_))
            o, filters = self.filters()
            rows, cursor = [], b"0"
            for _ in range(1000):
                cursor, page = self.ask("ORDER.SCAN", key, cursor, "COUNT", self.random.randint(1, 9), *filters)
                rows += page
                if cursor == b"0":
                    break
            same(f"SCAN {key!r}", self.model.scan_rows(key, o), sorted(rows, key=lambda row: row[0]))
        want, offset = self.digest(self.control), None
        deadline = time.monotonic() + 30
        while (offset := self.digest(self.second)) != want:
            if time.monotonic() > deadline:
                same("digest of the replica", want, offset)
            time.sleep(0.02)

    def filters(self):
        """Some of SCAN's options, as the model and as the server reads them."""
        values = {"state": STATES, "status": STATUSES, "owner": OWNERS, "match": MATCHES}
        o = {name: self.random.choice(some) for name, some in values.items() if self.random.random() < 0.3}
        return o, [word for name, value in o.items() for word in (name.upper(), value)]

    def memory(self):
        """used_memory after FLUSHALL, without the backlog and the buffers of clients, which come and go."""
        self.begin()
        return self.control.ask("MEMORY", "STATS")[b"dataset.bytes"]

    def run(self, seconds):
        """For so long; raises Differs."""
        self.start()
        self.base = None
        until = time.monotonic() + seconds
        rounds = 0
        while time.monotonic() < until:
            for _ in range(ROUND):
                self.step()
                if time.monotonic() > until:
                    break
            self.compare()
            rounds += 1
            if rounds % EPOCH == 0:
                # The first epoch fills caches and pools.
                self.base = self.memory() if rounds == EPOCH else self.base
                self.begin()
        self.finale()

    def finale(self):
        """The server is well, and has given back its memory."""
        same("PING", b"PONG", self.control.ask("PING"))
        for server in (self.primary, self.replica):
            log = server.log.read_text(errors="replace")
            if any(mark in log for mark in (*CRASH, "panic")):
                raise Differs(f"a crash in the log of {server.folder}")
        info = self.control.ask("INFO", "orderwheel")
        for line in info.decode().splitlines():
            if "panic" in line and not line.endswith(":0"):
                raise Differs(line)
        if b"panic" not in info:
            raise Differs("INFO orderwheel counts no panics")
        deadline = time.monotonic() + 30
        while (after := self.memory()) > (self.base or after) + 500_000:
            if time.monotonic() > deadline:
                raise Differs(f"used_memory after FLUSHALL: {after}, at the start {self.base}")
            time.sleep(0.1)
        self.memory_after = after


def crc64(data):
    """The checksum at the end of DUMP: CRC-64 of Jones, reflected."""
    value = 0
    for byte in data:
        value = TABLE[(value ^ byte) & 255] ^ value >> 8
    return value


def table():
    """Of crc64, byte by byte."""
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x95AC9329AC4BC9B5 if value & 1 else 0)
        rows.append(value)
    return rows


TABLE = table()


def fuzz(folder, seconds, seed, say=print):
    """Runs for `seconds`; 0, or 1 after a difference was printed."""
    fuzzer = Fuzzer(folder, seed, say)
    say(f"blackbox: seed {seed}")
    began, fault = time.monotonic(), None
    try:
        fuzzer.run(seconds)
    except (Differs, redis.RedisError, OSError, KeyError, TypeError, AttributeError) as error:
        if not isinstance(error, (Differs, OSError)):
            traceback.print_exc()
        fault = f"{type(error).__name__}: {error}"
    ends = fuzzer.end()
    if fault or ends:
        say(f"blackbox: seed {seed}, step {fuzzer.steps}, the last commands:")
        for line in fuzzer.last:
            say(line if len(line) < 4000 else line[:4000] + "…")
        for line in (fault, *ends):
            if line:
                say(line)
        say(f"blackbox: FAILED, the servers' folder is {folder}")
        return 1
    say("blackbox: " + ", ".join(f"{name} {count}" for name, count in fuzzer.kinds.most_common()))
    say("blackbox: " + ", ".join(f"{name} {count}" for name, count in sorted(fuzzer.outcomes.items())))
    say(f"blackbox: {sum(fuzzer.orders) / len(fuzzer.orders):.1f} orders at a comparison, {len(fuzzer.orders)} comparisons, "
        f"{fuzzer.base} bytes after the first epoch, {fuzzer.memory_after} at the end")
    say(f"blackbox: passed: {fuzzer.sent} commands, {fuzzer.steps} steps, {time.monotonic() - began:.0f} s, seed {seed}")
    return 0


def main():
    """MINUTES [SEED]."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 2
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**9)
    folder = tempfile.mkdtemp(prefix="blackbox-")
    status = fuzz(folder, minutes * 60, seed)
    if status == 0:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())
