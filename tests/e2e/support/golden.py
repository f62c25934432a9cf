"""Queues with an order in every state, saved in every way there is: how tests/fixtures/release-0.1.0 was made.

    ORDERWHEEL_OLD_MODULE=… python -m support.golden FOLDER          in the folder tests/e2e

Never made again: what is there is in files out there. A later release has a folder of its own.
"""

import json
import shutil
import sys
import time
from pathlib import Path

from .server import Server
from .wait import until

HOUR = 3_600_000
QUEUES = ("orders", "locks", "set")
#: The ways of saving: a folder of each, as the server's own folder looks.
WAYS = ("rdb", "aof", "aof-rewritten", "aof-commands")


def fill(client):
    """Makes the orders: each state, each field, bytes of each kind."""
    run = client.execute_command
    past = int(time.time() * 1000) - 50_000

    def ok(*words):
        said = run(*words)
        assert said[0] == "OK", (words, said)
        return said

    def claim(order, lease_ms):
        return run("ORDER.CLAIM", "orders", "closer-1", "ID", order, "PX", lease_ms)[0][1]

    def schedule(order, *more, queue="orders"):
        ok("ORDER.SCHEDULE", queue, order, *more)

    schedule("scheduled", "PX", HOUR)
    schedule("full", "PX", 2 * HOUR, "STATUS", "unpaid", "PAYLOAD", "a\0b\r\n%s%n\xff{}")
    schedule("empty", "PX", 2 * HOUR, "STATUS", "", "PAYLOAD", "")
    schedule("moved", "PX", HOUR, "PAYLOAD", "x" * 300)
    schedule("moved", "PX", 3 * HOUR, "GT", "STATUS", "later")
    schedule("id \0\r\n%s\xc4\x80{}", "PX", 4 * HOUR)
    schedule("i" * 255, "PX", 4 * HOUR)
    for number in range(3):
        schedule(f"expired-{number}", "PXAT", past + number % 2, "STATUS", "unpaid", "PAYLOAD", "{}")
    schedule("leased", "PXAT", past, "STATUS", "unpaid", "PAYLOAD", "p")
    ok("ORDER.RENEW", "orders", "leased", claim("leased", HOUR // 2), "PX", HOUR)
    schedule("lapsed", "PXAT", past, "PAYLOAD", "p")
    claim("lapsed", 1)
    schedule("lapsed-dead", "PXAT", past)
    run("ORDER.CONFIG", "orders", "SET", "max-attempts", 1)
    claim("lapsed-dead", 1)
    run("ORDER.CONFIG", "orders", "SET", "max-attempts", 16)
    schedule("given-back", "PXAT", past)
    for _ in range(3):
        ok("ORDER.NACK", "orders", "given-back", claim("given-back", HOUR), "DELAY", 0, "ERROR", "first \0 try")
    schedule("retrying", "PXAT", past, "STATUS", "unpaid", "PAYLOAD", "again")
    ok("ORDER.NACK", "orders", "retrying", claim("retrying", HOUR), "DELAY", HOUR, "ERROR", "time-out")
    schedule("dead", "PXAT", past, "STATUS", "unpaid")
    ok("ORDER.NACK", "orders", "dead", claim("dead", HOUR), "DEAD", "ERROR", "no stock")
    schedule("shipped", "PX", HOUR, "STATUS", "unpaid")
    ok("ORDER.STATUS", "orders", "shipped", "shipped")
    schedule("paid", "PX", HOUR, "STATUS", "unpaid", "PAYLOAD", "p")
    ok("ORDER.FINISH", "orders", "paid", "STATUS", "paid", "RESULT", "pay:1", "KEEP", 10 * HOUR)
    schedule("closed", "PXAT", past, "STATUS", "unpaid")
    ok("ORDER.ACK", "orders", "closed", claim("closed", HOUR), "STATUS", "closed", "KEEP", 10 * HOUR)
    schedule("forgotten", "PX", HOUR)
    ok("ORDER.FINISH", "orders", "forgotten", "KEEP", 0)
    schedule("locked", "PX", HOUR, "STATUS", "unpaid")
    ok("ORDER.LOCK", "orders", "locked", "pay:9f3c", "PX", HOUR // 10)
    schedule("broken", "PX", HOUR)
    ok("ORDER.LOCK", "orders", "broken", "pay:77aa", "PX", HOUR // 10)
    ok("ORDER.BREAK", "orders", "broken")
    ok("ORDER.LOCK", "locks", "reserved", "w1", "PX", HOUR // 10, "FP", "f00d")
    ok("ORDER.LOCK", "locks", "twice", "w2", "PX", HOUR // 10, "REENTRANT")
    assert run("ORDER.LOCK", "locks", "twice", "w2", "PX", HOUR // 10, "REENTRANT")[0] == "HELD"
    run("ORDER.CONFIG", "set", "SET", "keep-ms", 5 * HOUR, "max-leased", 7, "transitions", "unpaid>paid unpaid>closed")
    schedule("waits", "PXAT", past, queue="set")
    run("ORDER.PAUSE", "set", "PX", 24 * HOUR, "REASON", "stocktaking")
    # What was to lapse has lapsed.
    time.sleep(0.05)


def raw_client(server):
    """A client for bytes of any kind: a character is a byte."""
    return server.client(encoding="latin-1")


def pairs(flat):
    """A flat list as a dictionary."""
    return dict(zip(flat[::2], flat[1::2]))


def look(client):
    """All that can be read of the queues: each order with its fields, and the settings."""
    orders = {}
    for queue in QUEUES:
        cursor, ids = "0", set()
        while True:
            cursor, rows = client.execute_command("ORDER.SCAN", queue, cursor, "COUNT", 1000)
            ids.update(row[0] for row in rows)
            if int(cursor) == 0:
                break
        orders[queue] = {order: pairs(client.execute_command("ORDER.GET", queue, order)) for order in sorted(ids)}
    stats = {queue: pairs(client.execute_command("ORDER.STATS", queue)) for queue in QUEUES}
    return {"orders": orders, "stats": stats}


def save_all(server, folder):
    """Saves the server's queues in every way, into a folder."""
    def rewritten(way):
        server.run("BGREWRITEAOF")
        until(lambda: "aof_rewrite_in_progress:0" in server.cli("INFO", "persistence")
              and "aof_rewrite_scheduled:0" in server.cli("INFO", "persistence"), 30, "rewritten")
        shutil.copytree(server.folder / "appendonlydir", folder / way / "appendonlydir")

    folder.mkdir(parents=True)
    shutil.copytree(server.folder / "appendonlydir", folder / "aof" / "appendonlydir")
    server.run("SAVE")
    (folder / "rdb").mkdir()
    shutil.copy(server.folder / "dump.rdb", folder / "rdb" / "dump.rdb")
    with raw_client(server) as client:
        for queue in QUEUES:
            (folder / f"{queue}.dump").write_bytes(client.dump(queue))
    rewritten("aof-rewritten")
    server.run("CONFIG", "SET", "aof-use-rdb-preamble", "no")
    rewritten("aof-commands")


def make(folder, server):
    """Fills a server that logs to an AOF, saves all of it, and writes down what it says of itself."""
    with raw_client(server) as client:
        fill(client)
        seen = look(client)
    seen["made_at"] = int(time.time() * 1000)
    save_all(server, folder)
    (folder / "expected.json").write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")


def main():
    """Makes the files with the module that ORDERWHEEL_OLD_MODULE names."""
    from .old import old_module
    folder = Path(sys.argv[1])
    module, why = old_module()
    assert module, why
    server = Server(folder.with_name(folder.name + "-server"), "appendonly yes", module=module).start()
    try:
        make(folder, server)
    finally:
        assert server.end() is None
        shutil.rmtree(server.folder)


if __name__ == "__main__":
    main()
