"""What a look of top.sh and console.sh costs a server that holds much. A measurement, not a test:

    target/venv/bin/python tests/e2e/measure_console.py --orders 10000000 --queues 1

Times of the server are those of INFO commandstats; what took more than a millisecond is listed from SLOWLOG.
"""

import argparse
import json
import subprocess
import tempfile
import time
import urllib.request

from support.pages import ROOT
from support.server import Server, free_port
from support.wait import until

#: What the two may ask.
COMMANDS = ("scan", "role", "exists", "order.stats", "order.scan", "order.get")


def fill(client, orders, queues):
    """So many orders in pipelines of MSCHEDULE, half of them in the first queue, and a dead one below all others."""
    client.execute_command("ORDER.SCHEDULE", "queue-0", "needle", "PX", 0)
    fence = client.execute_command("ORDER.CLAIM", "queue-0", "closer")[0][1]
    client.execute_command("ORDER.NACK", "queue-0", "needle", fence, "DEAD", "ERROR", "why")
    with client.pipeline(transaction=False) as pipe:
        for batch in range(orders // 1000):
            ids = [word for at in range(1000) for word in (f"2026-{batch:06}{at:03}", 3_600_000 + batch)]
            queue = 0 if batch % 2 == 0 else batch // 2 % queues
            pipe.execute_command("ORDER.MSCHEDULE", f"queue-{queue}", "PX", 1000, *ids, "STATUS", "unpaid")
            if batch % 20 == 19:
                pipe.execute()
        pipe.execute()


def reset(client):
    client.config_resetstat()
    client.slowlog_reset()


def told(client, what, looks, whole_ms):
    """One line: calls and the server's time of so many looks, and how long they took in all."""
    stats = {name: value for name, value in client.info("commandstats").items() if name[8:] in COMMANDS}
    calls = ", ".join(
        f"{value['calls'] / looks:.1f} {name[8:].upper()} of {value['usec_per_call']:.0f} us"
        for name, value in stats.items()
    )
    server_ms = sum(value["usec"] for value in stats.values()) / 1000 / looks
    slow = [round(entry["duration"] / 1000, 1) for entry in client.slowlog_get(100)]
    print(
        f"{what}: {server_ms:.2f} ms of the server, {whole_ms:.1f} ms in all; {calls}; above 1 ms: {slow or 'none'}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=10_000_000)
    parser.add_argument("--queues", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "slowlog-log-slower-than 1000", port=True).start()
        try:
            with server.client() as client:
                fill(client, options.orders, options.queues)
                memory = client.info("memory")["used_memory_human"]
                print(f"{options.orders} orders in {client.dbsize()} queues, {memory}", flush=True)
                reset(client)
                measure(server, client)
        finally:
            server.end()


def measure(server, client):
    began = time.monotonic()
    subprocess.run(
        [ROOT / "scripts/top.sh", "--once", "-p", str(server.port)], check=True, stdout=subprocess.DEVNULL, timeout=600
    )
    told(client, "top.sh --once", 1, (time.monotonic() - began) * 1000)
    port = free_port()
    console = subprocess.Popen(
        [ROOT / "scripts/console.sh", "-p", str(server.port), "--listen", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        token = console.stdout.readline().strip().split("token=")[1]

        def get(path):
            began = time.monotonic()
            asked = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", headers={"Cookie": f"orderwheel-console-{port}={token}"}
            )
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.load(answer), (time.monotonic() - began) * 1000

        until(lambda: get("/api/queues")[0]["read"] == client.dbsize(), 60, "all queues are read", every=0.2)
        reset(client)
        looks = []
        for _ in range(10):
            time.sleep(2)
            looks.append(get("/api/queues")[0]["look_ms"])
        told(client, "console.sh, a look", 10, sum(looks) / 10)
        key = next(queue["key"] for queue in get("/api/queues")[0]["queues"] if queue["name"] == "queue-0")
        reset(client)
        took, got = [], {"whole": False}
        while not got["whole"]:
            got, ms = get(f"/api/queue/{key}?state=dead")
            took.append(ms)
        assert [order["id"] for order in got["orders"]] == ["needle"]
        told(client, f"console.sh, a queue's dead orders, found at look {len(took)}", len(took), sum(took) / len(took))
        reset(client)
        found, ms = get("/api/find?id=needle")
        assert len(found["found"]) == 1
        told(client, "console.sh, an order over all queues", 1, ms)
    finally:
        console.terminate()
        console.wait(20)


if __name__ == "__main__":
    main()
