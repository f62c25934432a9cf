"""A primary, replicas and sentinels of the test's own, on loopback."""

import signal
import subprocess

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from .load import Caller
from .runbook import replica_of
from .server import CRASH, PROGRAM, free_port
from .wait import until

#: The name that the sentinels know the primary by.
NAME = "shop"
#: How often sentinels ask and tell, in ms. Their own figures are seconds, and a round would take half a minute.
QUICK = ("INFO-PERIOD", 500, "ASK-PERIOD", 250, "PUBLISH-PERIOD", 500, "TILT-TRIGGER", 30_000)


class Sentinels:
    """Three sentinels that watch a primary. `end` ends them, and says what was wrong with them."""

    def __init__(self, folder, primary, down_after_ms=1000, failover_timeout_ms=3000):
        self.ports, self.processes, self.logs = [free_port() for _ in range(3)], [], []
        self.down_after_ms = down_after_ms
        for port in self.ports:
            own = folder / f"sentinel-{port}"
            own.mkdir()
            (own / "sentinel.conf").write_text(
                f"port {port}\nbind 127.0.0.1\ndir {own}\nsentinel monitor {NAME} 127.0.0.1 {primary.port} 2\n"
                f"sentinel down-after-milliseconds {NAME} {down_after_ms}\n"
                f"sentinel failover-timeout {NAME} {failover_timeout_ms}\n")
            self.logs.append(own / "log")
            with self.logs[-1].open("ab") as log:
                self.processes.append(subprocess.Popen(
                    [PROGRAM, own / "sentinel.conf", "--sentinel"], stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def ask(self, *words, port=None):
        """What one of them answers, the first if not said which: a reply of redis-py, or the error as a text."""
        try:
            with redis.Redis(port=port or self.ports[0], decode_responses=True, socket_timeout=5) as client:
                return client.execute_command(*words)
        except redis.RedisError as fault:
            return str(fault)

    def agree(self, replicas=2):
        """Waits until each knows the others and all replicas; makes them quick."""
        for port in self.ports:
            until(lambda port=port: self.ask("SENTINEL", "DEBUG", *QUICK, port=port) in ("OK", True), 30, "it is quick")
            until(lambda port=port: str(self.ask("SENTINEL", "CKQUORUM", NAME, port=port)).startswith("OK 3 "), 60,
                  "they agree", every=0.1)
            until(lambda port=port: len(self.ask("SENTINEL", "REPLICAS", NAME, port=port)) == replicas, 60,
                  "they know the replicas", every=0.1)

    def said(self, port=None):
        """The port of the primary, as one of them says; 0 if it does not."""
        address = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME, port=port)
        return int(address[1]) if isinstance(address, (list, tuple)) else 0

    def client(self, seconds=20):
        """A redis-py client that asks the sentinels for the primary, and tries nothing a second time by itself."""
        # A write that was tried again would count twice.
        once = {"retry": Retry(NoBackoff(), 0), "decode_responses": True}
        finder = Sentinel([("127.0.0.1", port) for port in self.ports], sentinel_kwargs={"socket_timeout": 1},
                          socket_timeout=seconds, socket_connect_timeout=2, **once)
        return finder.master_for(NAME)

    def end(self):
        """Ends them. A text if one had ended by itself or its log holds a crash report, else None."""
        died = [process for process in self.processes if process.poll() is not None]
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(20)
        logs = [log.read_text(errors="replace") for log in self.logs]
        if died or any(mark in log for mark in CRASH for log in logs):
            return "a sentinel died\n" + "\n".join(log[-3000:] for log in logs)
        return None


class SentinelCaller(Caller):
    """Commands to the primary that the sentinels name, each with `WAIT` behind it."""

    def __init__(self, sentinels, ends, replicas=2, wait_ms=300):
        super().__init__(ends, replicas, wait_ms)
        self.client = sentinels.client()

    def client_of(self, queue):
        return self.client


def make_group(serve, folder, *lines, replicas=2, **options):
    """A primary, its replicas in sync, and sentinels that watch them: servers by port, the primary, sentinels."""
    lines = ("repl-diskless-sync-delay 0", "repl-backlog-size 16mb", *lines)
    primary = serve(*lines, port=True)
    followers = [replica_of(serve, primary, *lines[1:]) for _ in range(replicas)]
    sentinels = Sentinels(folder, primary, **options)
    try:
        sentinels.agree(replicas)
    except BaseException:
        sentinels.end()
        raise
    return {server.port: server for server in (primary, *followers)}, primary, sentinels
