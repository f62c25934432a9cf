"""docs/partitions.md: the same partition in each language, closers over a Cluster, from one queue to sixteen."""

import os
import random
import signal
import subprocess
import threading
import time
import zlib

import pytest

from support.cluster import cluster_client, make_cluster
from support.pages import ROOT, blocks
from support.wait import until

PARTITIONS = 16
IDS = ["1001", "order:42", "", "a b", "订单-7", "x" * 255, "2026-12-01/9"]
GO = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}


def now_ms():
    return int(time.time() * 1000)


def partition(order):
    return f"orders:{{{zlib.crc32(order.encode()) % PARTITIONS}}}"


# --- the same in each language ----------------------------------------------------------


def block(language):
    return blocks("docs/partitions.md", language, "How many, and which one")[0]


def in_php(ids):
    code = "foreach (array_slice($argv, 1) as $id) { " + block("php") + ' echo $queue, "\\n"; }'
    return subprocess.run(["php", "-r", code, "--", *ids], capture_output=True, text=True, check=True).stdout.splitlines()


def in_go(ids, folder):
    program = folder / "p.go"
    program.write_text(
        'package main\nimport ("fmt"; "hash/crc32"; "os")\nfunc main() { for _, id := range os.Args[1:] {\n'
        + block("go") + "fmt.Println(queue) } }\n")
    return subprocess.run(["go", "run", program, *ids], capture_output=True, text=True, check=True, env=GO).stdout.splitlines()


def in_python(ids):
    said = []
    for order in ids:
        names = {"zlib": zlib, "id": order}
        exec(block("python"), names)  # noqa: S102 - the page is ours
        said.append(names["queue"])
    return said


def in_node(ids):
    code = "for (const id of process.argv.slice(1)) { " + block("js").replace("// Node 20.15", "") + " console.log(queue) }"
    return subprocess.run(["node", "-e", code, "--", *ids], capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_language_names_the_same_partition(tmp_path):
    chance = random.Random(3)
    ids = IDS + [f"order-{chance.randrange(10**9)}" for _ in range(200)]
    wanted = [partition(order) for order in ids]
    assert in_python(ids) == wanted
    assert in_php(ids) == wanted
    assert in_go(ids, tmp_path) == wanted
    assert len(set(wanted)) == PARTITIONS


def test_node_names_the_same_partition():
    if subprocess.run(["node", "-e", "process.exit(require('zlib').crc32 ? 0 : 1)"], check=False).returncode:
        pytest.skip("this Node.js has no zlib.crc32: it came with 20.15")
    assert in_node(IDS) == [partition(order) for order in IDS]


# --- over a Cluster -----------------------------------------------------------------------


class Closer:
    """A closer of examples/partitions, and what it says it has closed."""

    def __init__(self, *words, folder=ROOT, environment=None):
        self.process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.closed, self.said = [], []
        for pipe, lines in ((self.process.stdout, self.closed), (self.process.stderr, self.said)):
            threading.Thread(target=lambda pipe=pipe, lines=lines: lines.extend(iter(pipe.readline, "")), daemon=True).start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.said
        return [line.split()[1] for line in self.closed]


def php_closer(address, *parts):
    """As the page of the examples starts it."""
    words = blocks("examples/partitions/README.md", "sh")[0].split()
    at = words.index("127.0.0.1:6400")
    return Closer(*words[:at], address, *map(str, parts))


def go_words(program, address, partitions):
    """As the page starts it, but for the build, which is done once."""
    words = blocks("examples/partitions/README.md", "sh")[1].split()
    at = words.index("closer.go")
    assert words[at - 2:at] == ["go", "run"] and words[at + 1:] == ["127.0.0.1:6400", "16"], words
    return program, address, str(partitions)


@pytest.fixture(scope="module")
def go_closer(tmp_path_factory):
    program = tmp_path_factory.mktemp("go") / "closer"
    subprocess.run(["go", "build", "-o", program, "closer.go"], cwd=ROOT / "examples/partitions", env=GO, check=True, timeout=170)
    return str(program)


@pytest.mark.timeout(180)
def test_from_one_queue_to_sixteen_while_orders_are_in_flight(serve, go_closer):
    nodes = make_cluster(serve, 3)
    client = cluster_client(nodes)
    address = f"127.0.0.1:{nodes[0].port}"
    statuses, paid = {}, set()
    # The old queue, with a closer of its own.
    for number in range(300):
        order = f"old-{number}"
        statuses[order] = now_ms() + 500 + number * 12
        client.execute_command("ORDER.SCHEDULE", "orders", order, "PXAT", statuses[order], "STATUS", "unpaid")
    ends, old_closed, faults = threading.Event(), [], []

    def old_closer():
        try:
            mine = cluster_client(nodes)
            while not ends.is_set():
                for row in mine.execute_command("ORDER.CLAIM", "orders", "old", "COUNT", 10, "BLOCK", 100):
                    old_closed.append(row[0])
                    mine.execute_command("ORDER.ACK", "orders", row[0], row[1], "STATUS", "closed")
        except Exception as fault:  # noqa: BLE001 - told below
            faults.append(fault)

    thread = threading.Thread(target=old_closer)
    thread.start()
    # Step 1: closers on the partitions, each partition with two.
    php = [php_closer(address, *part) for part in (range(0, 8), range(8, 16))]
    go = Closer(*go_words(go_closer, address, PARTITIONS))

    def pay(order):
        """Step 2: in the partition, or in the old queue."""
        for queue in (partition(order), "orders"):
            outcome = client.execute_command("ORDER.FINISH", queue, order, "FROM", "unpaid", "STATUS", "paid")[0]
            if outcome != "MISSING":
                return outcome
        return outcome

    # Step 3: creations go to the partitions; payments of old and new ones meanwhile.
    chance = random.Random(1)
    for number in range(300):
        order = f"new-{number}"
        statuses[order] = now_ms() + chance.randrange(300, 1500)
        client.execute_command("ORDER.SCHEDULE", partition(order), order, "PXAT", statuses[order], "STATUS", "unpaid")
        some = chance.choice(list(statuses))
        outcome = pay(some)
        assert outcome in ("OK", "FINISHED", "LEASED"), (some, outcome)
        if outcome == "OK":
            assert some not in paid
            paid.add(some)
        time.sleep(0.01)
    # Step 4: until nothing is open in the old queue, as the page asks.
    ask = blocks("docs/partitions.md", "sh", "From one queue to sixteen")[0].replace("-p 6400", f"-p {nodes[0].port}")

    def numbers():
        said = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()
        return [int(word) for word in said if word.isdigit()]

    until(lambda: len(numbers()) == 5 and sum(numbers()) == 0, 60, "the old queue is empty")

    def is_open():
        return [order for order in statuses if order not in paid and order not in old_closed and not any(
            f"closed {order}\n" in closer.closed for closer in (*php, go))]

    until(lambda: not is_open(), 60, "every order is decided", every=0.1)
    ends.set()
    thread.join(20)
    closed = old_closed + [order for closer in (*php, go) for order in closer.stop()]
    assert not faults, faults
    assert len(closed) == len(set(closed)), "nothing is closed twice"
    assert not set(closed) & paid, "nothing that was paid is closed"
    assert set(closed) | paid == set(statuses)
    assert all(order.startswith("old-") for order in old_closed)
    # The work was spread: over nodes, and over closers.
    assert len({client.get_node_from_key(f"orders:{{{part}}}").port for part in range(PARTITIONS)}) == 3
    client.close()


@pytest.mark.timeout(180)
def test_a_closer_follows_its_partition_to_another_node(serve, go_closer):
    nodes = make_cluster(serve, 3)
    client = cluster_client(nodes)
    queue = "orders:{3}"
    php = php_closer(f"127.0.0.1:{nodes[0].port}", 3)
    go = Closer(*go_words(go_closer, f"127.0.0.1:{nodes[1].port}", 4))
    client.execute_command("ORDER.SCHEDULE", queue, "before", "PX", 0)
    until(lambda: "closed before\n" in php.closed + go.closed, 30, "it is closed", every=0.05)
    client.execute_command("ORDER.SCHEDULE", queue, "across", "PX", 3000)
    # The slot moves, with its queue and those who wait for it.
    slot = client.keyslot(queue)
    source = client.get_node_from_key(queue).port
    there = next(node for node in nodes if node.port != source)
    here = next(node for node in nodes if node.port == source)
    there_id, here_id = there.cli("CLUSTER", "MYID"), here.cli("CLUSTER", "MYID")
    assert there.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", here_id) == "OK"
    assert here.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", there_id) == "OK"
    assert here.cli("MIGRATE", "127.0.0.1", there.port, queue, 0, 10_000) == "OK"
    for node in (there, here, *nodes):
        assert node.cli("CLUSTER", "SETSLOT", slot, "NODE", there_id) == "OK"
    until(lambda: "closed across\n" in php.closed + go.closed, 40, "it is closed over there", every=0.05)
    assert len([line for line in php.closed + go.closed if line == "closed across\n"]) == 1
    for closer in (php, go):
        closer.stop()
    client.close()
