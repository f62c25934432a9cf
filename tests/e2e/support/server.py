"""A redis-server of the test's own, in a folder of its own, ended by its pid."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .wait import until

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
#: The module under test: what scripts/test.sh built.
MODULE = Path(os.environ.get("ORDERWHEEL_MODULE", TARGET / "release" / "liborderwheel.so"))
#: The server program under test.
PROGRAM = os.environ.get("REDIS_SERVER", "redis-server")
#: What redis-server writes into its log when it dies of a fault.
CRASH = ("REDIS BUG REPORT", "VALKEY BUG REPORT", "crashed by signal", "ASSERTION FAILED", "Guru Meditation")


def free_port():
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """One server. `start` waits until it answers; `end` ends it and says what was wrong with it."""

    def __init__(self, folder, *lines, port=False, module=MODULE, program=PROGRAM):
        """`lines` are added to its redis.conf. `port`: True for a free one, or a number; else socket only."""
        self.folder = Path(folder)
        self.lines = lines
        self.port = free_port() if port is True else int(port)
        self.module = module
        self.program = program
        self.socket = str(self.folder / "s")
        self.log = self.folder / "log"
        self.process = None
        # Whether the test itself ended it.
        self.ended = False

    def start(self):
        """Starts it, again if it was started before, and waits until it has loaded its data."""
        self.folder.mkdir(parents=True, exist_ok=True)
        own = [f"dir {self.folder}", f"port {self.port}", "bind 127.0.0.1", f"unixsocket {self.socket}", 'save ""']
        if self.module:
            own.append(f"loadmodule {self.module}")
        configuration = self.folder / "redis.conf"
        if not configuration.exists():
            configuration.write_text("\n".join([*own, *self.lines]) + "\n")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([self.program, str(configuration)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.ended = False
        until(lambda: self.process.poll() is not None or self.answers(), 30, f"{self.program} answers")
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
        return self

    def answers(self):
        """Whether it answers PING with PONG."""
        try:
            # Not again by itself: it would wait for seconds.
            with self.client(socket_timeout=2, retry=Retry(NoBackoff(), 0)) as client:
                return client.ping()
        except redis.RedisError:
            return False

    def client(self, protocol=2, **options):
        """A redis-py client on its socket file."""
        options.setdefault("socket_timeout", 60)
        return redis.Redis(unix_socket_path=self.socket, protocol=protocol, decode_responses=True, **options)

    def run(self, *words):
        """One command over a connection of its own; errors are raised."""
        with self.client() as client:
            return client.execute_command(*words)

    def cli(self, *arguments, **options):
        """What redis-cli prints, without the last line end."""
        options.setdefault("timeout", 60)
        done = subprocess.run(
            ["redis-cli", "-s", self.socket, *map(str, arguments)], capture_output=True, text=True, check=False, **options
        )
        return done.stdout.rstrip("\n") + done.stderr

    @property
    def pid(self):
        """The process, while it runs."""
        return self.process.pid

    def signal(self, number):
        """Sends it a signal: SIGSTOP, SIGCONT."""
        os.kill(self.process.pid, number)

    def kill(self):
        """SIGKILL, as a machine that fails. `start` starts it again on what is on disk."""
        self.ended = True
        self.process.kill()
        self.process.wait(30)

    def stop(self):
        """SIGTERM, as an operator; waits for the end."""
        self.ended = True
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)

    def end(self):
        """Ends it. A text if it had ended by itself or its log holds a crash report, else None."""
        if self.process is None:
            return None
        died = not self.ended and self.process.poll() is not None
        if self.process.poll() is None:
            self.stop()
        log = self.log.read_text(errors="replace")
        if died or any(mark in log for mark in CRASH):
            return f"{self.folder}: the server died\n{log[-6000:]}"
        return None
