"""What the tests of docs/runbooks.md are written with: the page's commands as typed, and a few of our own."""

import subprocess

from .pages import blocks
from .wait import until

PAGE = "docs/runbooks.md"
LONG = 60_000


def typed(block, server, other=None, folder=None, **ports):
    """Types a block in a shell; what it printed. `other` is the page's second server; `p26379=…` another port."""
    block = block.replace("-p 6400", f"-s {server.socket}").replace(" 6400 ", f" {server.port} ")
    if other:
        block = block.replace("-p 6401", f"-s {other.socket}")
    for name, port in ports.items():
        block = block.replace(f"-p {name[1:]}", f"-p {port}")
    done = subprocess.run(["bash", "-ec", block], capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    # grep without a hit is an answer too.
    assert done.returncode in (0, 1) and not done.stderr, (block, done.stdout, done.stderr)
    assert not any(line.startswith(("ERR", "WRONGTYPE", "NOSCRIPT")) for line in done.stdout.splitlines()), (
        block, done.stdout)
    return done.stdout


def lines(heading, number):
    """The commands of a block, one by one."""
    return blocks(PAGE, "sh", heading)[number].strip().splitlines()


def stat(server, field, queue="orders"):
    """One figure of ORDER.STATS."""
    flat = server.run("ORDER.STATS", queue)
    return dict(zip(flat[::2], flat[1::2]))[field]


def listed_version(server):
    """The module's version as MODULE LIST shows it. Newer servers have modules of their own beside it."""
    (ours,) = [row for row in (dict(zip(row[::2], row[1::2])) for row in server.run("MODULE", "LIST"))
               if row["name"] == "orderwheel"]
    return ours["ver"]


def schedule(server, *orders, ms=0, queue="orders"):
    """Makes unpaid orders that are due in `ms`."""
    with server.client() as client:
        for order in orders:
            client.execute_command("ORDER.SCHEDULE", queue, order, "PX", ms, "STATUS", "unpaid")


def claim(server, count=1, *more, owner="closer", queue="orders"):
    """Rows of a CLAIM."""
    return server.run("ORDER.CLAIM", queue, owner, "COUNT", count, "PX", LONG, *more)


def state(server, order, queue="orders"):
    """The state of an order; None without one."""
    flat = server.run("ORDER.GET", queue, order)
    return flat and dict(zip(flat[::2], flat[1::2]))["state"]


def work(server, count=10, queue="orders"):
    """A closer that does what there is. What it closed."""
    closed = []
    while rows := server.run("ORDER.CLAIM", queue, "closer", "COUNT", count, "PX", LONG):
        for row in rows:
            assert server.run("ORDER.ACK", queue, row[0], row[1], "STATUS", "closed")[0] == "OK"
            closed.append(row[0])
    return closed


def replica_of(serve, primary, *more):
    """A replica that is in sync; `more` are lines of its configuration."""
    replica = serve("repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {primary.port}", *more, port=True)
    until(lambda: "master_link_status:up" in replica.cli("INFO", "replication"), 30, "the replica is in sync")
    return replica
