"""The faults that the alert rules are for: each has a server of its own on which it is provoked and mended."""

import signal
import time
from dataclasses import dataclass, field

import redis

from .server import free_port


@dataclass
class Fault:
    """A server with something wrong, from `start` to `mend`; `again` is done over and over in between."""

    name: str
    #: The alerts that must fire, for this server and no other.
    alerts: set
    #: What may fire too, because the fault is also that.
    also: set = field(default_factory=set)
    lines: tuple = ()
    module: bool = True

    def start(self, server):
        """Makes the fault."""

    def again(self, server):
        """What must go on for the fault to last."""

    def mend(self, server):
        """Ends the fault, as an operator would."""


def claim(client, count=20, owner="closer", *more):
    """Claims orders: a flat list of id and fence, as MACK and MNACK take it."""
    rows = client.execute_command("ORDER.CLAIM", "orders", owner, "COUNT", count, *more)
    return [len(rows), *[word for row in rows for word in row[:2]]]


def close_all(server):
    """What closers do when they are back."""
    with server.client() as client:
        while close(client):
            pass


def close(client):
    """Claims orders and closes them. How many there were."""
    claimed = claim(client)
    if claimed[0]:
        client.execute_command("ORDER.MACK", "orders", *claimed, "KEEP", 0)
    return claimed[0]


def fall_due(client, count=20, since_ms=0):
    """Orders whose deadline was so long ago, those that are there already again."""
    at = int(time.time() * 1000) - since_ms
    for number in range(count):
        client.execute_command("ORDER.SCHEDULE", "orders", number, "PXAT", at, "UPSERT")


class Down(Fault):
    """The server is killed."""

    def start(self, server):
        server.kill()

    def mend(self, server):
        server.start()


class Bare(Fault):
    """Somebody took the line `loadmodule` out."""

    def mend(self, server):
        server.stop()
        configuration = server.folder / "redis.conf"
        configuration.write_text(configuration.read_text() + f"loadmodule {server.good_module}\n")
        server.start()


class Evicting(Fault):
    """maxmemory-policy evicts any key."""

    def start(self, server):
        server.run("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru")

    def mend(self, server):
        server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")


class Full(Fault):
    """Memory is nearly full."""

    def start(self, server):
        with server.client() as client:
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.02))

    def mend(self, server):
        server.run("CONFIG", "SET", "maxmemory", "1gb")


class Orphan(Fault):
    """A replica whose primary is gone."""

    def start(self, server):
        server.run("REPLICAOF", "127.0.0.1", free_port())

    def mend(self, server):
        server.run("REPLICAOF", "NO", "ONE")


class Behind(Fault):
    """A replica that is stopped: its primary has not heard of it for long."""

    def start(self, server):
        server.replica.signal(signal.SIGSTOP)

    def mend(self, server):
        server.replica.signal(signal.SIGCONT)


class Refused(Fault):
    """A client calls what only servers may."""

    def start(self, server):
        try:
            server.run("ORDER.APPLY", "orders", 1, "x")
        except redis.ResponseError:
            return
        raise AssertionError("ORDER.APPLY from a client")


def number(value):
    """A number as effects carry it."""
    return bytes([253]) + value.to_bytes(8, "little") if value > 250 else bytes([value])


class Clock(Fault):
    """A lock arrives whose fence is two hours ahead of this server's clock."""

    def start(self, server):
        ahead = int((time.time() + 7200) * 1_000_000)
        end = int(time.time() * 1000) + 600_000
        lock = b"\6" + b"\1o" + b"\4shop" + number(ahead) + number(end) + number(end + 1000) + b"\0\1"
        server.run("CONFIG", "SET", "orderwheel.apply-from-clients", "yes")
        server.run("ORDER.APPLY", "locks", 1, lock)

    def mend(self, server):
        server.run("DEL", "locks")


class Backlog(Fault):
    """Orders two minutes overdue, and nobody there."""

    def start(self, server):
        with server.client() as client:
            fall_due(client, since_ms=120_000)

    def mend(self, server):
        close_all(server)


class Late(Fault):
    """Orders are closed, two minutes after their deadline."""

    def again(self, server):
        with server.client() as client:
            fall_due(client, since_ms=120_000)
        close_all(server)


class Stalled(Fault):
    """The server stops for most of a second while orders fall due, again and again."""

    def start(self, server):
        self.next = 0

    def again(self, server):
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + 3
        with server.client() as client:
            at = int(time.time() * 1000) + 100
            for n in range(20):
                client.execute_command("ORDER.SCHEDULE", "orders", n, "PXAT", at, "UPSERT")
        server.signal(signal.SIGSTOP)
        time.sleep(0.7)
        server.signal(signal.SIGCONT)
        close_all(server)


class Failing(Fault):
    """The closers' database is away: they hand everything back."""

    def again(self, server):
        with server.client() as client:
            fall_due(client)
            client.execute_command("ORDER.MNACK", "orders", *claim(client), "UNTRIED", "DELAY", 0)

    def mend(self, server):
        close_all(server)


class Crashing(Fault):
    """Closers die with orders in their hands."""

    def again(self, server):
        with server.client() as client:
            fall_due(client)
            claim(client, 20, "closer", "SESSION")

    def mend(self, server):
        close_all(server)


class Dead(Fault):
    """Two orders die, and only one is kept."""

    def start(self, server):
        with server.client() as client:
            client.execute_command("ORDER.CONFIG", "orders", "SET", "dead-max", 1)
            fall_due(client, 2)
            client.execute_command("ORDER.MNACK", "orders", *claim(client), "DEAD", "ERROR", "no stock")

    def mend(self, server):
        server.run("ORDER.REQUEUE", "orders")
        close_all(server)


class Braked(Fault):
    """More falls due than claims-per-s-max lets through."""

    def start(self, server):
        server.run("ORDER.CONFIG", "orders", "SET", "claims-per-s-max", 1)

    def again(self, server):
        with server.client() as client:
            fall_due(client)
            close(client)

    def mend(self, server):
        server.run("ORDER.CONFIG", "orders", "RESET", "claims-per-s-max")
        close_all(server)


class Paused(Fault):
    """Somebody forgot a pause."""

    def start(self, server):
        with server.client() as client:
            fall_due(client)
            client.execute_command("ORDER.PAUSE", "orders", "REASON", "for a moment")

    def again(self, server):
        with server.client() as client:
            fall_due(client)

    def mend(self, server):
        server.run("ORDER.RESUME", "orders")
        close_all(server)


class Busy(Fault):
    """One LOCK in eleven finds another holder."""

    def again(self, server):
        with server.client() as client:
            for n in range(10):
                row = client.execute_command("ORDER.LOCK", "locks", n, "shop", "PX", 60_000)
                if n == 0:
                    client.execute_command("ORDER.LOCK", "locks", n, "other", "PX", 60_000)
                client.execute_command("ORDER.UNLOCK", "locks", n, row[1])


class Contended(Fault):
    """Everybody wants the same lock, which one holds."""

    def start(self, server):
        server.run("ORDER.LOCK", "locks", "hot", "holder", "PX", 600_000)

    def again(self, server):
        with server.client() as client:
            for n in range(10):
                client.execute_command("ORDER.LOCK", "locks", "hot", f"shop-{n}", "PX", 60_000)

    def mend(self, server):
        server.run("ORDER.BREAK", "locks", "hot")


class Unseen(Fault):
    """More queues than the script reports."""

    def start(self, server):
        with server.client() as client:
            for n in range(25):
                client.execute_command("ORDER.SCHEDULE", f"queue-{n}", 1, "PX", 600_000)

    def mend(self, server):
        with server.client() as client:
            client.delete(*[f"queue-{n}" for n in range(10)])


#: All of them. Together they have every rule fire.
FAULTS = [
    Down("down", {"OrderwheelServerDown"}),
    Bare("bare", {"OrderwheelModuleGone"}, module=False),
    Evicting("evicting", {"OrderwheelEvictingPolicy"}),
    Full("full", {"OrderwheelMemoryFull"}),
    Orphan("orphan", {"OrderwheelReplicaLag"}),
    Behind("behind", {"OrderwheelReplicaLag"}),
    Refused("refused", {"OrderwheelFault"}),
    Clock("clock", {"OrderwheelClockStep"}),
    Backlog("backlog", {"OrderwheelBacklogOld", "OrderwheelClosersGone"}, also={"OrderwheelClosesLate"}),
    Late("late", {"OrderwheelClosesLate"}),
    Stalled("stalled", {"OrderwheelLate"}, also={"OrderwheelServerDown"}),
    Failing("failing", {"OrderwheelClosesFail"}),
    Crashing("crashing", {"OrderwheelClosersCrash"}, lines=("orderwheel.max-attempts 0",)),
    # A dead order is overdue until it is offered again.
    Dead("dead", {"OrderwheelDead", "OrderwheelDeadDropped"}, also={"OrderwheelBacklogOld"}),
    Braked("braked", {"OrderwheelBrakeLong"}),
    # What a pause held is announced late, and counts as that.
    Paused("paused", {"OrderwheelPausedLong"}, also={"OrderwheelLate"}),
    Busy("busy", {"OrderwheelLockFailures"}),
    Contended("contended", {"OrderwheelLockFailures", "OrderwheelLockContention"}),
    Unseen("unseen", {"OrderwheelQueuesUnseen"}),
]
