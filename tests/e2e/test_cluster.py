"""A Cluster of three primaries and three replicas under load and faults, with one accounting at the end.

ORDERWHEEL_CLUSTER_ROUNDS says how often all faults happen: 1 if it is not set.
"""

import os
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest
import redis

from support.cluster import ClusterCaller, cluster_client, make_cluster
from support.load import Load, account, are_equal, records
from support.wait import until

ROUNDS = int(os.environ.get("ORDERWHEEL_CLUSTER_ROUNDS", "1"))
PARTITIONS = 64
QUEUES = [f"orders:{{{number}}}" for number in range(PARTITIONS)]


def role(node):
    """master or slave."""
    return node.run("ROLE")[0]


def agreed(nodes):
    """Whether all nodes say the same of all slots, as a reshard wants it."""
    done = subprocess.run(["redis-cli", "--cluster", "check", f"127.0.0.1:{nodes[0].port}"],
                          capture_output=True, text=True, timeout=30, check=False)
    return done.returncode == 0 and "All nodes agree" in done.stdout and "[WARNING]" not in done.stdout


def whole(nodes):
    """Waits until three primaries have a replica each that is in sync, and all nodes agree."""
    def holds():
        try:
            for node in nodes:
                said = node.run("ROLE")
                if (len(said[2]) != 1) if said[0] == "master" else (said[3] != "connected"):
                    return False
                if "cluster_state:ok" not in node.cli("CLUSTER", "INFO"):
                    return False
            return sum(role(node) == "master" for node in nodes) == 3 and agreed(nodes)
        except redis.RedisError:
            return False

    until(holds, 60, "the cluster is whole", every=0.1)


def primaries(nodes):
    """The nodes that are primaries now."""
    return [node for node in nodes if role(node) == "master"]


def killed(nodes):
    """kill -9 of a primary; its replica is promoted, and it comes back as a replica."""
    victim = primaries(nodes)[0]
    others = [node for node in nodes if node is not victim]
    victim.kill()
    until(lambda: len(primaries(others)) == 3, 30, "the replica is promoted", every=0.1)
    victim.start()


def handed_over(nodes):
    """A replica takes over by hand."""
    replica = next(node for node in nodes if role(node) == "slave")
    assert replica.cli("CLUSTER", "FAILOVER") == "OK"
    until(lambda: role(replica) == "master", 30, "it took over", every=0.05)


def resharded(nodes):
    """Slots go to another node and come back, with all that is in them."""
    here, there = primaries(nodes)[:2]
    for source, target in ((here, there), (there, here)):
        done = subprocess.run(
            ["redis-cli", "--cluster", "reshard", f"127.0.0.1:{source.port}", "--cluster-from", source.cli("CLUSTER", "MYID"),
             "--cluster-to", target.cli("CLUSTER", "MYID"), "--cluster-slots", "600", "--cluster-yes"],
            capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        whole(nodes)


def cut_off(nodes):
    """All others are paused: the one that is left hands out nothing once it knows, and goes on afterwards."""
    left = primaries(nodes)[0]
    others = [node for node in nodes if node is not left]
    for node in others:
        node.signal(signal.SIGSTOP)
    try:
        until(lambda: "cluster_state:fail" in left.cli("CLUSTER", "INFO"), 20, "it knows", every=0.1)
        own = left.run("CLUSTER", "SLOTS")
        queue = next(queue for queue in QUEUES for first, last, (_, port, *_), *_ in own
                     if port == left.port and first <= int(left.cli("CLUSTER", "KEYSLOT", queue)) <= last)
        assert "CLUSTERDOWN" in left.cli("ORDER.CLAIM", queue, "cut-off")
    finally:
        for node in others:
            node.signal(signal.SIGCONT)


def is_equal(primary, nodes):
    """Whether the replica of a primary has the same content."""
    port = int(primary.run("ROLE")[2][0][1])
    return are_equal(primary, next(node for node in nodes if node.port == port))


@pytest.mark.timeout(150 + 90 * ROUNDS)
def test_the_accounts_of_a_cluster_are_right_after_every_fault(serve):
    nodes = make_cluster(serve, 3, 1, "enable-debug-command yes")
    client = cluster_client(nodes)
    for queue in QUEUES:
        client.execute_command("ORDER.CONFIG", queue, "SET", "keep-ms", 3_600_000)
    client.close()
    whole(nodes)
    load = Load(lambda ends: ClusterCaller(nodes, ends), QUEUES)
    try:
        for _ in range(ROUNDS):
            for fault in (killed, handed_over, resharded, cut_off):
                time.sleep(1)
                fault(nodes)
                whole(nodes)
        before = len(load.closed)
        until(lambda: len(load.closed) > before + 20, 30, "closing goes on")
    finally:
        load.stop()
    whole(nodes)
    assert load.counts["locked"] > 20 and len(load.accepted) > 200 and load.paid
    for primary in primaries(nodes):
        until(lambda primary=primary: is_equal(primary, nodes), 20, "primary and replica are equal", every=0.2)
    held = Counter(queue for primary in primaries(nodes) for queue in primary.run("KEYS", "*"))
    assert held == Counter(QUEUES), "each queue is on one node"
    found = {queue: seen for primary in primaries(nodes) for queue, seen in records(primary)}
    account(load, found)


@pytest.mark.timeout(120)
def test_an_atomic_slot_migration_carries_every_field_and_tells_who_waits(serve):
    nodes = make_cluster(serve, 3, 0, "enable-debug-command yes")
    if "MIGRATESLOTS" not in nodes[0].cli("CLUSTER", "HELP"):
        pytest.skip("this server has no CLUSTER MIGRATESLOTS: it came with Valkey 9")
    queue, slot = "orders:{3}", int(nodes[0].cli("CLUSTER", "KEYSLOT", "orders:{3}"))
    here = next(node for node in nodes if "MOVED" not in node.cli("ORDER.GET", queue, "x"))
    there = next(node for node in nodes if node is not here)
    here.run("ORDER.CONFIG", queue, "SET", "keep-ms", 3_600_000)
    here.run("ORDER.SCHEDULE", queue, "leased", "PX", 0, "STATUS", "unpaid", "PAYLOAD", "a b")
    fence = here.run("ORDER.CLAIM", queue, "closer", "PX", 60_000)[0][1]
    here.run("ORDER.LOCK", queue, "locked", "me", "PX", 60_000)
    here.run("ORDER.SCHEDULE", queue, "ended", "PX", 60_000, "STATUS", "unpaid")
    here.run("ORDER.FINISH", queue, "ended", "FROM", "unpaid", "STATUS", "paid")
    here.run("ORDER.SCHEDULE", queue, "later", "PX", 60_000, "STATUS", "unpaid")
    told = []

    def wait():
        try:
            told.append(here.run("ORDER.CLAIM", queue, "waiter", "BLOCK", 30_000))
        except redis.RedisError as fault:
            told.append(str(fault))

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: "blocked_clients:1" in here.cli("INFO", "clients"), 10, "somebody waits")
    digest = here.run("DEBUG", "DIGEST-VALUE", queue)
    assert here.cli("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", there.cli("CLUSTER", "MYID")) == "OK"
    until(lambda: "MOVED" not in there.cli("ORDER.GET", queue, "later"), 30, "the slot is there")
    assert there.run("DEBUG", "DIGEST-VALUE", queue) == digest
    waiter.join(20)
    # redis-py takes the word MOVED off: what is left is the slot and where it is now.
    assert told == [f"{slot} 127.0.0.1:{there.port}"]
    assert there.run("ORDER.ACK", queue, "leased", fence, "STATUS", "closed")[0] == "OK"
