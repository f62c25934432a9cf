"""The programs of `examples/`: how each client's are started, and what they said."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .server import ROOT, TARGET

EXAMPLES = ROOT / "examples"
CLIENTS = TARGET / "clients"
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}


@dataclass(frozen=True)
class Client:
    """How the programs of one client are started. `tail` follows the URL, `closer_tail` queue and owner."""

    name: str
    program: tuple
    ending: str
    tail: tuple = ()
    env: dict = field(default_factory=dict, hash=False)

    def command(self, what, *words):
        """The command line of the story, the closer or the subscriber."""
        return [*self.program, what] if self.name == "redigo" else [*self.program, f"{what}{self.ending}"]

    def story(self, url):
        return [*self.command("story"), url, *self.tail]

    def closer(self, url, queue, work_ms=0):
        return [*self.command("closer"), url, queue, "it", *self.tail, str(work_ms)]

    def subscriber(self, url):
        return [*self.command("subscriber"), url, *self.tail]


def python(version, protocol):
    env = {"PYTHONPATH": str(CLIENTS / f"redis-py-{version}")}
    return Client(f"redis-py-{version}-resp{protocol}", (sys.executable,), ".py", (str(protocol),), env)


def node(package, protocol):
    env = {"NODE_PATH": str(CLIENTS / "node" / "node_modules")}
    return Client(f"{package}-resp{protocol}", ("node",), ".js", (package, str(protocol)), env)


FOLDERS = {".py": "python", ".php": "php", ".js": "node", ".sh": "redis-cli"}
ALL = [
    Client("php-redis", ("php",), ".php", ("redis",)),
    Client("predis", ("php",), ".php", ("predis",)),
    Client("redigo", (), "", (), GO),
    *(python(version, protocol) for version in (5, 6, 8) for protocol in (2, 3)),
    *(node(package, protocol) for package in ("redis", "redis-6") for protocol in (2, 3)),
    *(node(package, protocol) for package, protocol in (("ioredis", 2), ("ioredis-6", 2), ("ioredis-6", 3))),
    Client("redis-cli", ("bash",), ".sh"),
]
#: One closer per library; the story covers both protocols of each.
CLOSERS = [client for client in ALL if client.name in (
    "php-redis", "predis", "redigo", "redis-py-5-resp2", "redis-py-8-resp3", "redis-resp3", "redis-6-resp3", "ioredis-resp2",
    "ioredis-6-resp3", "redis-cli")]


def each(clients):
    return pytest.mark.parametrize("client", clients, ids=lambda client: client.name)


@pytest.fixture(scope="module")
def node_major():
    return int(subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout[1:].split(".")[0])


@pytest.fixture(scope="module")
def go_program(tmp_path_factory):
    """The Go example, compiled as its page says: without modules, with what Debian packages."""
    program = tmp_path_factory.mktemp("go") / "example"
    env = {**os.environ, "GOCACHE": os.environ.get("GOCACHE", str(TARGET / "go-cache")), **GO}
    subprocess.run(["go", "vet", "./examples/go"], cwd=ROOT, env=env, check=True, timeout=170)
    subprocess.run(["go", "build", "-o", str(program), "./examples/go"], cwd=ROOT, env=env, check=True, timeout=170)
    return program


@pytest.fixture
def programs(tmp_path, request, node_major):
    """Starts programs of a client; all end with the test."""
    started = []

    def start(client, command):
        if "-6-" in client.name and client.ending == ".js" and node_major < 20:
            pytest.skip(f"{client.name} needs Node.js 20, this is {node_major}")
        if client.name == "redigo":
            command = [str(request.getfixturevalue("go_program")), *command]
        else:
            at = command.index(next(word for word in command if word.endswith(client.ending)))
            command = [*command[:at], str(EXAMPLES / FOLDERS[client.ending] / command[at]), *command[at + 1:]]
        started.append(Program(tmp_path / f"out-{len(started)}", command, client.env))
        return started[-1]

    yield start
    for program in started:
        program.end()


class Program:
    """A running example. What it says is in two files."""

    def __init__(self, path, command, env):
        self.path = path
        with open(f"{path}.out", "wb") as out, open(f"{path}.err", "wb") as err:
            # A process group of its own: a shell's children end with it.
            self.process = subprocess.Popen(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, start_new_session=True)

    def said(self, stream="out"):
        return Path(f"{self.path}.{stream}").read_text(errors="replace")

    def wait(self, seconds=60):
        """Its exit status."""
        return self.process.wait(seconds)

    def end(self):
        """Kills it and its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(30)


def url_of(server):
    return f"redis://127.0.0.1:{server.port}"


def record(server, queue, order):
    """An order as a dict, {} if it is missing."""
    with server.client(protocol=3) as client:
        return client.execute_command("ORDER.GET", queue, order) or {}


def count(server, queue, state):
    with server.client(protocol=3) as client:
        return client.execute_command("ORDER.STATS", queue)[state]
