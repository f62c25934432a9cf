"""Leases that end with a connection: the row session."""

import os
import resource
import select
import signal
import socket
import subprocess
import time

from tools import (QUEUE, TIMEOUT_S, Client, Server, aim, alternate, check, child, command, libc, median, options,
                   percentile, ratio, result, show, spread, stats)
from times import prober

# Closers that are killed one by one, and together.
KILLED = 50
# The lease of those without SESSION: what they are waited for, and not longer than needed to see it.
PLAIN_LEASE_MS = 500
PLAIN_KILLED = 10
LONG_MS = 600_000
# Leases of a connection of those that close together.
EACH = 100
CONNECTS_PER_S = 5_000


class Holder:
    """A closer that is a process: it waits for an order, says so, and holds it. See tests/closer/hold.rs."""

    def __init__(self, address, lease_ms, session):
        self.process = subprocess.Popen(
            [options.closer, address, "hold", "closer", str(lease_ms), "1", *(["SESSION"] if session else [])],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))

    def granted(self):
        """When it was given its order, Unix seconds, and which attempt."""
        if not select.select([self.process.stdout], [], [], TIMEOUT_S)[0]:
            raise SystemExit("bench: a closer is given nothing")
        words = self.process.stdout.readline().split()
        if len(words) != 4:
            raise SystemExit(f"bench: {words}")
        return int(words[0]) / 1e6, int(words[3])

    def kill(self):
        """SIGKILL; when, Unix seconds."""
        at = time.time()
        self.process.send_signal(signal.SIGKILL)
        return at

    def reap(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(holds, what):
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"bench: {what}")
        time.sleep(0.001)


def blocked(server):
    return int(server.info("clients", "blocked_clients"))


def one_by_one(server, address, count, lease_ms, session, by_hand=False):
    """From the kill of a closer to its order being with the one that waits, milliseconds."""
    took = []
    for number in range(count):
        if by_hand:
            # A connection of this process, whose close is one call.
            first = Client(server.path)
            first.send(command("ORDER.CLAIM", QUEUE, "me", "PX", lease_ms, "BLOCK", 0, "SESSION"))
        else:
            first = Holder(address, lease_ms, session)
        wait_until(lambda: blocked(server) == 1, "a closer does not wait")
        server.client("ORDER.SCHEDULE", QUEUE, f"order:{number}", "PX", 0)
        attempt = first.read()[0][3] if by_hand else first.granted()[1]
        check("the first attempt", attempt, 1)
        second = Holder(address, LONG_MS, session)
        wait_until(lambda: blocked(server) == 1, "a closer does not wait")
        if by_hand:
            at = time.time()
            first.close()
        else:
            at = first.kill()
        granted, attempt = second.granted()
        check("the next attempt", attempt, 2)
        took.append((granted - at) * 1000)
        if not by_hand:
            first.reap()
        second.reap()
        server.client("ORDER.FINISH", QUEUE, f"order:{number}", "FENCE", fence(server, f"order:{number}"), "KEEP", 0)
    return spread(took)


def fence(server, order):
    """The fence of an order: the closer that has it was killed and said nothing."""
    flat = server.client("ORDER.GET", QUEUE, order)
    return dict(zip(flat[::2], flat[1::2]))[b"fence"]


def together(server, address, count):
    """The same for `count` closers that are killed at once while as many wait."""
    for number in range(count):
        server.client("ORDER.SCHEDULE", QUEUE, f"order:{number}", "PX", 0)
    first = [Holder(address, LONG_MS, True) for _ in range(count)]
    for holder in first:
        holder.granted()
    second = [Holder(address, LONG_MS, True) for _ in range(count)]
    wait_until(lambda: blocked(server) == count, "a closer does not wait")
    at = first[0].kill()
    for holder in first[1:]:
        holder.kill()
    took = []
    for holder in second:
        granted, attempt = holder.granted()
        check("the next attempt", attempt, 2)
        took.append((granted - at) * 1000)
    for holder in first + second:
        holder.reap()
    server.client("DEL", QUEUE)
    return spread(took)


def crowd(pipe, path, connections, each):
    """Connections that claim `each` orders each; they close when it is told so, by its end."""
    clients = [Client(path) for _ in range(connections)]
    pipe.send("ready")
    for client in clients:
        client("PING")
        if each:
            rows = client("ORDER.CLAIM", QUEUE, "me", "COUNT", each, "PX", LONG_MS, "SESSION")
            check("orders of a connection", len(rows), each)
    pipe.send("claimed")
    pipe.recv()
    os._exit(0)


def mass_close(connections, each):
    """What others wait while very many leases end together, and until when all are claimable."""
    orders = connections * each
    with Server("maxclients 20000") as server:
        for number in range(0, orders, 500):
            pieces = [command("ORDER.SCHEDULE", QUEUE, f"order:{n}", "PX", 0) for n in range(number, number + 500)]
            server.client.send(b"".join(pieces))
            for _ in pieces:
                server.client.read()
        process, pipe = child(crowd, server.path, connections, each)
        if not pipe.poll(4 * TIMEOUT_S):
            raise SystemExit("bench: the connections do not get their orders")
        pipe.recv()
        looker, looked = child(prober, server.path)
        check("orders left", stats(server.client)["expired"], 0)
        before_us = int(server.info("orderwheel", "orderwheel_pass_us_max"))
        time.sleep(0.5)
        start = time.perf_counter()
        pipe.send("close")
        wait_until(lambda: int(server.info("clients", "connected_clients")) <= 2, "not all are closed")
        wait_until(lambda: stats(server.client)["expired"] == orders, "not all are claimable")
        end = time.perf_counter()
        time.sleep(0.5)
        looked.send("stop")
        times = result(looker, looked)
        process.join(TIMEOUT_S)
        calm = sorted(ms for at, ms in times if start - 0.5 < at < start)
        busy = sorted(ms for at, ms in times if start <= at <= end)
        pass_us = max(before_us, int(server.info("orderwheel", "orderwheel_pass_us_max")))
    return {"all_claimable_ms": (end - start) * 1000, "get_p99": percentile(busy, 0.99), "get_max": busy[-1],
            "calm_p99": percentile(calm, 0.99), "pass_us_max": pass_us}


def comes_and_goes(pipe, path, seconds):
    """CONNECTS_PER_S connections a second, each of which says PING; how many there were."""
    ping = command("PING")
    pipe.send("ready")
    start, count = time.perf_counter(), 0
    while (now := time.perf_counter()) < start + seconds:
        if count < (now - start) * CONNECTS_PER_S:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.connect(path)
            client.sendall(ping)
            client.recv(100)
            client.close()
            count += 1
        else:
            time.sleep(0.0002)
    pipe.send(count)


def churn(server, seconds):
    """Processor time of the server for one connection, microseconds."""
    start_us = server.cpu_us()
    count = result(*child(comes_and_goes, server.path, seconds))
    return {"cpu_us": (server.cpu_us() - start_us) / count, "per_s": count / seconds}


def row_session(report):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sides = {"killed, SESSION": [], "closed, SESSION": [], "50 killed at once, SESSION": [],
             f"killed, lease of {PLAIN_LEASE_MS} ms": []}
    port = free_port()
    with Server(f"port {port}", "bind 127.0.0.1") as server:
        address = f"127.0.0.1:{port}"
        one_by_one(server, address, 3, LONG_MS, True)
        for _ in range(options.rounds):
            killed, closed, at_once, plain = sides.values()
            killed.append(one_by_one(server, address, KILLED, LONG_MS, True))
            closed.append(one_by_one(server, address, KILLED, LONG_MS, True, by_hand=True))
            at_once.append(together(server, address, KILLED))
            plain.append(one_by_one(server, address, PLAIN_KILLED, PLAIN_LEASE_MS, False))
    lines = []
    for side, runs in sides.items():
        got = report.put(side, runs)
        lines.append((side, f"{got['p50']:.2f}", f"{got['p99']:.2f}", f"{got['max']:.2f}"))
    show("from the end of a closer to its order being with the next one, ms", ("closer", "p50", "p99", "max"), lines)
    aim("next closer has the order, p50", report.figures["killed, SESSION"]["p50"], "ms", 1.0)
    aim("next closer has the order, p99", report.figures["killed, SESSION"]["p99"], "ms", 3.0)

    connections = max(10, options.orders // EACH)
    runs = {each: [] for each in (0, EACH)}
    for _ in range(options.rounds):
        for each, list_ in runs.items():
            list_.append(mass_close(connections, each))
    lines = []
    for each, list_ in runs.items():
        got = report.put(f"{each} claims each", list_)
        lines.append((f"{each} claims each", f"{got['all_claimable_ms']:.0f}", f"{got['get_p99']:.2f}",
                      f"{got['get_max']:.2f}", f"{got['calm_p99']:.2f}", f"{got['pass_us_max'] / 1000:.2f}"))
    show(f"{connections} connections close together, ms",
         ("with", "all closed and claimable", "GET p99 meanwhile", "GET max", "GET p99 before", "longest pass"), lines)
    aim("GET p99 while they close", got["get_p99"], "ms", 1.5)
    aim("all claimable", got["all_claimable_ms"], "ms", 1000)

    runs = {"no module": [], "module": [], "module, one SESSION lease": []}
    with Server(module=False) as none, Server() as ours, Server() as bound:
        bound.client("ORDER.LOCK", QUEUE, "1", "me", "PX", LONG_MS, "SESSION")
        servers = dict(zip(runs, (none, ours, bound)))
        for number in range(2 * options.rounds):
            for side in alternate(runs, number):
                runs[side].append(churn(servers[side], options.window_s / 2))
    figures = {side: report.put(side, list_) for side, list_ in runs.items()}
    lines = [(side, f"{got['cpu_us']:.2f}", f"{got['per_s']:.0f}", f"{ratio(runs[side], runs['no module']):.3f}")
             for side, got in figures.items()]
    show("connections that come and go: CPU of the server for each, µs",
         ("server", "cpu µs", "a second", "to no module"), lines)
    dearer = median([our["cpu_us"] / other["cpu_us"] for our, other in zip(runs["module"], runs["no module"])])
    aim("module without SESSION, CPU of a connection", 100 * (dearer - 1), "%", 2.0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
