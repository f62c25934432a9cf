"""The examples of every language against a real server: their story, and closers in trouble."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.pages import blocks
from support.server import ROOT, TARGET
from support.wait import until

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


# --- the story -------------------------------------------------------------------------------

@each(ALL)
def test_the_story_is_the_same_in_every_client(client, server, programs):
    story = programs(client, client.story(url_of(server)))
    assert story.wait() == 0, story.said("err")
    wanted = blocks("examples/README.md", "text")[0]
    # redis-py alone cuts off the word of the error.
    if client.ending == ".py":
        wanted = wanted.replace("ERR value", "value")
    assert story.said() == wanted

    def got(order, *names):
        found = record(server, "story", order)
        return tuple(found.get(name) for name in names)

    payment = ("state", "status", "result", "attempt")
    assert got("1001", *payment) == ("finished", "paid", "pay:9f3c", 0)
    assert got("1002", *payment) == ("finished", "closed", None, 1)
    assert got("1003", *payment) == ("finished", "paid", None, 1)
    assert got("1004", *payment) == ("finished", "closed", None, 2)
    assert got("1005", *payment) == ("finished", "closed", None, 1)
    for order in ("1006", "1007", "1008"):
        assert got(order, *payment) == ("finished", "closed", None, 1)
    for order in ("1009", "1010"):
        assert got(order, "state", "attempt", "lease_ms") == ("expired", 0, -2)
    assert got("1011", "state") == (None,)
    assert record(server, "story:once", "1001:mail")["result"] == "42"
    # Nothing was early: each closed order was finished at its deadline or after.
    for order in ("1002", "1004", "1006", "1007", "1008"):
        found = record(server, "story", order)
        assert found["finished_at"] >= found["finished_deadline"] > 0


def test_each_redis_py_is_the_version_that_its_folder_says():
    for version in (5, 6, 8):
        done = subprocess.run([sys.executable, "-c", "import redis; print(redis.__version__)"], capture_output=True, text=True,
                              check=True, env={**os.environ, "PYTHONPATH": str(CLIENTS / f"redis-py-{version}")})
        assert done.stdout.startswith(f"{version}.")


def test_the_lock_file_names_no_host_to_load_from():
    assert '"resolved"' not in (EXAMPLES / "node" / "package-lock.json").read_text()


def test_the_story_in_lua_keeps_the_stock(server):
    done = subprocess.run([str(EXAMPLES / "lua" / "story.sh"), url_of(server)], capture_output=True, text=True, check=False,
                          timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == blocks("examples/lua/README.md", "text")[0]
    assert server.run("HGET", "story:stock", "sku-7") == "7"
    assert [record(server, "story", order)["status"] for order in ("1001", "1002", "1003")] == ["paid", "closed", "closed"]
    assert record(server, "story", "1009") == {}
    assert server.run("FCALL", "shop_pay", 1, "story", "1002", "late") == ["FINISHED", None]


def test_a_thousand_fences_are_exact_in_javascript(server):
    """JavaScript has no integers but doubles: odd and even numbers must come back as they went."""
    program = """
      const { connect } = require('./orderwheel.js');
      (async () => {
        const wheel = await connect(process.argv[1]);
        let last = 0;
        for (let at = 0; at < 1000; at += 1) {
          const { outcome, fence } = await wheel.lease('ORDER.LOCK', 'js', 'job', 'me', 'PX', 10000);
          const freed = await wheel.lease('ORDER.UNLOCK', 'js', 'job', fence);
          if (outcome !== 'OK' || freed.outcome !== 'OK' || !Number.isSafeInteger(fence) || fence <= last) {
            throw new Error(`${at}: ${outcome} ${fence} ${freed.outcome}`);
          }
          last = fence;
        }
        console.log('exact');
        wheel.end();
      })();"""
    done = subprocess.run(["node", "-e", program, url_of(server)], cwd=EXAMPLES / "node", capture_output=True, text=True,
                          check=False, timeout=60, env={**os.environ, "NODE_PATH": str(CLIENTS / "node" / "node_modules")})
    assert (done.stdout, done.stderr) == ("exact\n", "")


# --- closers in trouble ------------------------------------------------------------------------

def in_hand(server, programs, client, queue, orders=5, work_ms=400):
    """A closer with `orders` claimed, the first of them just closed."""
    with server.client() as redis:
        due = [word for order in range(1, orders + 1) for word in (str(order), 0)]
        redis.execute_command("ORDER.MSCHEDULE", queue, "PX", orders, *due, "STATUS", "unpaid", "NX")
    closer = programs(client, client.closer(url_of(server), queue, work_ms))
    until(lambda: closer.said().startswith("closed"), 30, f"{client.name} closes the first order: {closer.said('err')}")
    return closer


@each(CLOSERS)
def test_a_closer_that_is_told_to_stop_hands_back_at_once(client, server, programs):
    closer = in_hand(server, programs, client, "stop")
    closer.process.send_signal(signal.SIGTERM)
    told = time.monotonic()
    assert closer.wait(10) == 0, closer.said("err")
    # The order in hand is finished; three more would have taken longer than this on any machine.
    closed = closer.said().count("closed")
    assert closed in (1, 2, 3), closer.said()
    assert count(server, "stop", "finished") == closed
    assert count(server, "stop", "leased") == 0
    left = count(server, "stop", "expired")
    assert left == 5 - closed > 0
    assert record(server, "stop", "5")["attempt"] == 0
    assert time.monotonic() - told < 10
    # It was idle when told: that ends it too, at the latest with BLOCK.
    with server.client() as redis:
        assert len(redis.execute_command("ORDER.CLAIM", "stop", "next", "COUNT", 10)) == left


@each([client for client in CLOSERS if client.name != "redis-cli"])
def test_the_orders_of_a_killed_closer_are_with_the_next_within_a_second(client, server, programs):
    closer = in_hand(server, programs, client, "kill")
    got = []

    def claim():
        with server.client() as redis:
            while len(got) + count(server, "kill", "finished") < 5:
                for row in redis.execute_command("ORDER.CLAIM", "kill", "next", "COUNT", 10, "BLOCK", 20000):
                    got.append((time.monotonic(), row))

    thread = threading.Thread(target=claim)
    thread.start()
    until(lambda: count(server, "kill", "claim_waiters") == 1, 10, "the next closer waits")
    killed = time.monotonic()
    closer.end()
    thread.join(30)
    assert len(got) >= 1 and len(got) + count(server, "kill", "finished") == 5, got
    late = max(at for at, _ in got) - killed
    assert late < 1, f"{late:.3f} s, with a lease of 30 s"
    # The tries of the dead closer count.
    assert {row[3] for _, row in got} == {2}


@each(CLOSERS)
def test_closer_and_subscriber_come_back_with_the_server(client, serve, programs):
    server = serve("appendonly yes", "notify-keyspace-events KEd", port=True)
    subscriber = programs(client, client.subscriber(url_of(server)))
    closer = in_hand(server, programs, client, "back", orders=25, work_ms=20)
    until(lambda: count(server, "back", "finished") >= 10, 30, "half of it is closed")
    server.kill()
    time.sleep(0.3)
    server.start()
    until(lambda: count(server, "back", "finished") == 25, 40, f"the rest is closed: {closer.said('err')}")
    assert closer.process.poll() is None
    # No order was lost; those in hand when the server died may have been closed twice: one batch.
    closed = [line.split()[1] for line in closer.said().splitlines()]
    assert set(closed) == {str(order) for order in range(1, 26)}
    assert len(closed) <= 35
    assert closer.said("err"), "it says that the connection was lost"

    number = iter(range(1000))

    def hint():
        server.run("ORDER.SCHEDULE", "hints", str(next(number)), "PX", 20)
        return "due hints" in subscriber.said()

    until(hint, 30, f"the subscriber hears again: {subscriber.said('err')}", every=0.2)
    assert subscriber.process.poll() is None


@each(CLOSERS)
def test_a_mistake_ends_a_closer_instead_of_being_tried_for_ever(client, server, programs):
    server.run("SET", "text", "1")
    closer = programs(client, client.closer(url_of(server), "text"))
    assert closer.wait(20) not in (0, -signal.SIGKILL)
    assert "WRONGTYPE" in closer.said("err") + closer.said()


def test_redis_cli_is_not_told_to_use_session():
    """Each redis-cli is a connection of its own: a lease of SESSION would end with the call."""
    code = [line for line in (EXAMPLES / "redis-cli" / "closer.sh").read_text().splitlines() if not line.lstrip().startswith("#")]
    assert not any("SESSION" in line for line in code)


def test_the_programs_are_clean():
    """bash: shellcheck, where it is."""
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = sorted(str(path) for path in EXAMPLES.rglob("*.sh"))
    assert len(scripts) >= 5
    done = subprocess.run(["shellcheck", "-x", "-P", str(ROOT), *scripts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
