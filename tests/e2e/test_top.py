"""scripts/top.sh: the values for scripts, and the live view in a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

from support.certificate import certificate  # noqa: F401 (a fixture)
from support.cluster import cluster_client, make_cluster
from support.pages import ROOT, blocks
from support.proxy import Proxy
from support.server import free_port
from support.wait import until

TOP = ROOT / "scripts/top.sh"


@pytest.fixture(scope="session", autouse=True)
def installed():
    """The packages are there before anything is timed."""
    subprocess.run([TOP, "--once", "-p", "1"], capture_output=True, timeout=170, check=False)


def once(*options):
    """Status, standard output and standard error of --once."""
    done = subprocess.run([TOP, "--once", *map(str, options)], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def rows(said):
    """The lines of --once, as a script reads them."""
    head, *lines = said.split("\n")[:-1]
    names = head.split("\t")
    assert all(line.count("\t") == head.count("\t") for line in lines)
    return [dict(zip(names, line.split("\t"))) for line in lines]


def original(name):
    """The bytes of a name of --once, by the rule of the page."""
    return re.sub(
        rb"\\(\\|x[0-9a-f]{2})",
        lambda part: b"\\" if part[1] == b"\\" else bytes([int(part[1][1:], 16)]),
        name.encode(),
    )


def fill(server):
    with server.client() as client:
        for number in range(5):
            client.execute_command("ORDER.SCHEDULE", "fine", number, "PX", 600_000)
        for number in range(3):
            client.execute_command("ORDER.SCHEDULE", "late", number, "PX", 0)
        client.execute_command("ORDER.SCHEDULE", "sick", "1", "PX", 0)
        row = client.execute_command("ORDER.CLAIM", "sick", "closer")[0]
        client.execute_command("ORDER.NACK", "sick", "1", row[1], "DEAD", "ERROR", "card\x1b[31m service")
        client.execute_command("ORDER.PAUSE", "fine", "REASON", "lunch")


# --- for scripts -----------------------------------------------------------------------


def test_the_worst_comes_first(server):
    fill(server)
    for where in (("-s", server.socket), ("-p", server.port), ("-h", "localhost", "-p", server.port)):
        status, said, error = once(*where)
        assert (status, error) == (0, "")
        sick, late, fine = rows(said)
        assert (sick["queue"], late["queue"], fine["queue"]) == ("sick", "late", "fine")
        assert (sick["dead"], late["overdue"], fine["orders"], fine["paused_ms"], fine["pause_reason"]) == (
            "1",
            "3",
            "5",
            "-1",
            "lunch",
        )
        assert (sick["newest_dead"], sick["newest_dead_error"]) == ("1", "card\\x1b[31m service")
        assert (late["pause_reason"], late["newest_dead"]) == ("", "")


def test_names_are_whole_and_figures_exact(server):
    names = [
        b"a queue with spaces",
        b"evil\x1b]0;\x00\r\n\t\xff",
        b"back\\slash\\x00",
        "注文🦀".encode(),
        b"q" * 300,
        b" ",
        b"-",
        b"\xe2\x80\xaeright to left",
    ]
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.execute_command("ORDER.SCHEDULE", name, "1", "PX", 600_000)
        for start in range(0, 123_456, 1000):
            count = min(1000, 123_456 - start)
            pipe.execute_command(
                "ORDER.MSCHEDULE", "many", "PX", count, *[word for at in range(count) for word in (start + at, 600_000)]
            )
        pipe.execute()
    status, said, error = once("-s", server.socket)
    assert (status, error) == (0, "")
    got = rows(said)
    assert sorted(original(row["queue"]) for row in got) == sorted([*names, b"many"])
    assert not any(ord(char) < 32 for char in said if char not in "\n\t")
    many = next(row for row in got if row["queue"] == "many")
    figures = dict(zip(*[iter(server.run("ORDER.STATS", "many"))] * 2))
    assert (many["orders"], many["scheduled"], many["scheduled_total"]) == ("123456",) * 3
    for name in ("bytes", "next_deadline", "paused_ms", "dead", "acked_total"):
        assert many[name] == str(figures[name]), name


def test_every_field_is_one_of_stats(server):
    fill(server)
    figures = set(server.run("ORDER.STATS", "fine")[::2])
    head = once("-s", server.socket)[1].split("\n")[0].split("\t")
    assert head[0] == "queue" and set(head[1:]) <= figures and len(head) == len(set(head))


def test_the_command_of_the_page_is_typed(server):
    fill(server)
    now = int(time.time() * 1000)
    server.run("ORDER.SCHEDULE", "two words", "1", "PXAT", now - 90_000)
    script = blocks("docs/console.md", "sh", "For scripts")[0]
    assert "-p 6400" in script
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("6400", str(server.port))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "two words 1\n"


def test_a_password_and_a_user_are_taken(serve, monkeypatch):
    server = serve(port=True)
    server.run("ACL", "SETUSER", "top", "on", ">secret", "~*", "+@all")
    server.run("CONFIG", "SET", "requirepass", "other")
    with server.client(password="other", db=3) as client:
        client.execute_command("ORDER.SCHEDULE", "third", "1", "PX", 0)
    status, said, error = once("-p", server.port)
    assert (status, said) == (1, "")
    assert re.fullmatch(r"top\.sh: not connected for \d s: NOAUTH .*\n", error), error
    monkeypatch.setenv("REDISCLI_AUTH", "wrong")
    status, said, error = once("-p", server.port)
    assert (status, said) == (1, "")
    assert re.fullmatch(
        r"top\.sh: not connected for \d s: invalid username-password pair or user is disabled\.\n", error
    ), error
    assert once("-p", server.port, "--user", "top", "-a", "secret")[::2] == (0, "")
    monkeypatch.setenv("REDISCLI_AUTH", "other")
    assert once("-p", server.port)[::2] == (0, "")
    assert [row["queue"] for row in rows(once("-p", server.port)[1])] == []
    assert [row["queue"] for row in rows(once("-p", server.port, "-n", 3)[1])] == ["third"]


def test_tls_is_spoken(serve, certificate):
    server = serve(f"tls-port {(port := free_port())}", *certificate.lines, "tls-auth-clients no")
    fill(server)
    status, said, error = once("-p", port, "--tls", "--cacert", certificate.authority)
    assert (status, error, len(rows(said))) == (0, "", 3)
    assert once("-p", port, "--tls", "--insecure")[0] == 0
    status, said, error = once("-p", port, "--tls")
    assert (status, said) == (1, "") and "CERTIFICATE_VERIFY_FAILED" in error
    status, said, error = once("-h", "localhost", "-p", port, "--tls", "--cacert", certificate.authority)
    assert (status, said) == (1, "") and "CERTIFICATE_VERIFY_FAILED" in error, "it is for another name"
    assert once("-p", port)[:2] == (1, "")


def test_what_can_not_be_read_is_named(server):
    """A key that the user may not read ends nothing."""
    fill(server)
    server.run(
        "ACL", "SETUSER", "some", "on", ">secret", "%R~late", "+scan", "+order.stats", "+exists", "+hello", "+auth"
    )
    status, said, error = once("-s", server.socket, "--user", "some", "-a", "secret")
    assert status == 3 and [row["queue"] for row in rows(said)] == ["late"]
    lines = sorted(error.splitlines())
    assert [line.split(": ")[1:3] for line in lines] == [["not read", "fine"], ["not read", "sick"]]
    assert all("NOPERM" in line for line in lines)
    server.run("ORDER.SCHEDULE", "y" * 2049, "1", "PX", 900_000)
    status, said, error = once("-s", server.socket)
    assert (status, len(rows(said)), error) == (3, 3, "top.sh: not read: 1 with names above 2048 bytes\n")
    server.run("ACL", "SETUSER", "some", "-scan")
    status, said, error = once("-s", server.socket, "--user", "some", "-a", "secret")
    assert (status, said) == (1, "") and re.match(r"top\.sh: reading fails for \d s: NOPERM .*scan", error), error


def test_a_server_that_is_not_there_or_has_no_module_is_said(serve):
    status, said, error = once("-p", 1)
    assert (status, said) == (1, "") and re.fullmatch(r"top\.sh: not connected for \d s: .*refused.*\n", error), error
    status, said, error = once("-s", serve(module=None).socket)
    assert (status, said) == (1, "") and error.endswith("this server has no orderwheel\n")


def test_a_reader_that_stops_and_a_locale_without_letters_change_nothing(server):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.execute_command("ORDER.SCHEDULE", f"订单{number}", "1", "PX", 600_000)
        pipe.execute()
    done = subprocess.run(
        ["bash", "-c", f'"{TOP}" --once -s "{server.socket}" | head -n 1; exit ${{PIPESTATUS[0]}}'],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.startswith(b"queue\t")
    done = subprocess.run(
        [TOP, "--once", "-s", server.socket],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert {row["queue"] for row in rows(done.stdout.decode())} == {f"订单{number}" for number in range(1000)}


@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf", "soon"])
def test_looks_without_a_pause_are_no_option(every):
    assert once("--every", every)[0] == 2


def test_a_thousand_queues(server):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.execute_command("ORDER.SCHEDULE", f"q{number}", "1", "PX", 600_000)
        pipe.execute()
    proxy = Proxy(server)
    started = time.monotonic()
    status, said, _ = once("-p", proxy.port)
    assert status == 0 and time.monotonic() - started < 30
    assert {row["queue"] for row in rows(said)} == {f"q{number}" for number in range(1000)}
    assert max(sent.count(b"ORDER.STATS") for sent in proxy.sent) == 20, "bounded batches"
    proxy.close()


@pytest.mark.timeout(120)
def test_all_nodes_of_a_cluster_and_one_that_is_dead(serve):
    nodes = make_cluster(serve, 3, 0, "cluster-require-full-coverage no")
    client = cluster_client(nodes)
    for part in range(16):
        client.execute_command("ORDER.SCHEDULE", f"orders:{{{part}}}", "1", "PX", 0)
    client.close()
    status, said, error = once("-p", nodes[0].port, "-c")
    assert status == 0, error
    everything = {row["queue"] for row in rows(said)}
    assert everything == {f"orders:{{{part}}}" for part in range(16)}
    own = set(nodes[2].run("KEYS", "*"))
    nodes[2].kill()
    status, said, error = once("-p", nodes[0].port, "-c")
    assert status == 3 and {row["queue"] for row in rows(said)} == everything - own
    assert re.match(rf"top\.sh: 1 of 3 nodes: not connected for \d s: 127\.0\.0\.1:{nodes[2].port}: ", error), error


def test_without_a_terminal_it_says_what_to_do(server):
    done = subprocess.run(
        [TOP, "-s", server.socket], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "top.sh: this is no terminal; --once prints the figures\n",
    )


# --- in a terminal -------------------------------------------------------------------------


class Terminal:
    """top.sh in a terminal of its own. What is on the screen is known at each moment."""

    def __init__(self, *options, height=24, width=100, deaf=False):
        """`deaf`: no signal tells the program of another size."""
        self.master, slave = pty.openpty()
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.resize(height, width)
        self.process = subprocess.Popen(
            [TOP, "--every", "0.2", *map(str, options)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            close_fds=True,
            start_new_session=True,
            preexec_fn=(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})) if deaf else None,
            env={**os.environ, "TERM": "linux"},
        )
        os.close(slave)

    def resize(self, height, width):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.screen.resize(height, width)

    def read(self, seconds=0.1):
        """Takes what is there, up to a pause: a screen is drawn in one go."""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.raw += data
            self.stream.feed(data)
            seconds = 0.03

    def lines(self):
        self.read()
        return [line.rstrip() for line in self.screen.display]

    def until(self, holds, seconds=20):
        """Waits until something holds of the lines on the screen, and answers them."""
        end = time.monotonic() + seconds
        while not holds(lines := self.lines()):
            assert time.monotonic() < end, "\n".join(lines)
        return lines

    def shows(self, pattern):
        return self.until(lambda lines: any(re.search(pattern, line) for line in lines))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def quit(self):
        """Its status."""
        self.press("q")
        return until(
            lambda: (self.read(0.05), self.process.poll())[1] is not None and [self.process.returncode], 20, "it ends"
        )[0]

    def close(self):
        """The terminal goes away, as a window that is closed."""
        if self.master is not None:
            os.close(self.master)
            self.master = None


@pytest.fixture
def terminal():
    terminals = []

    def start(*options, **size):
        terminals.append(Terminal(*options, **size))
        return terminals[-1]

    yield start
    for one in terminals:
        one.process.kill()
        one.process.wait()
        one.close()


def test_it_ends_with_its_terminal(server, terminal):
    one = terminal("-s", server.socket)
    one.shows(r"^\d\d:\d\d:\d\d  0 queues ")
    one.close()
    # A hang-up is what ends it, or the end of its input: -1 and 0.
    assert one.process.wait(20) in (0, -signal.SIGHUP)


def test_the_live_view_opens_a_queue(server, terminal):
    fill(server)
    one = terminal("-s", server.socket)
    lines = one.shows(r"^\d\d:\d\d:\d\d  3 queues  4 overdue  1 dead  ")
    assert (
        lines[1].split()
        == "QUEUE ORDERS OVERDUE OLDEST DEAD LEASED RETRY WAIT DUE/S CLAIM/S CLOSE/S LATE99".split()[
            : len(lines[1].split())
        ]
    )
    assert [line.split()[0] for line in lines[2:5]] == ["sick", "late", "fine"]
    # The columns stand below each other.
    for heading, queue, figure in (("DEAD", 2, "1"), ("OVERDUE", 3, "3"), ("ORDERS", 4, "5")):
        end = lines[1].index(heading) + len(heading)
        assert lines[queue][:end].split()[-1] == figure and lines[queue][end - 1] == figure
    one.press("\n")
    lines = one.shows("^DEAD")
    assert re.match(r"sick  \d\d:\d\d:\d\d  3 queues", lines[0])
    assert "died last: 1  card\\x1b[31m service" in lines
    row = next(line for line in lines if line.startswith("  1 "))
    assert row.split()[1:2] == ["overdue"] and row.endswith("attempt 1   card\\x1b[31m service")
    assert b"\x1b[31m service" not in one.raw, "what an error holds is not sent to the terminal"
    one.press("\x1b")
    one.shows("^QUEUE")
    one.press("O")
    one.until(lambda lines: [line.split()[:1] for line in lines[2:5]] == [["fine"], ["late"], ["sick"]])
    assert one.quit() == 0


def test_it_outlives_the_server(serve, terminal):
    server = serve("appendonly yes")
    fill(server)
    one = terminal("-s", server.socket)
    one.shows(r"^\d\d:\d\d:\d\d  3 queues ")
    server.kill()
    lines = one.shows(r"^not connected for \d+ s  3 queues  4 overdue  1 dead  Error \d+ connecting")
    assert [line.split()[0] for line in lines[2:5]] == ["sick", "late", "fine"], "what was known is still shown"
    server.start()
    one.shows(r"^\d\d:\d\d:\d\d  3 queues ")
    with server.client() as client:
        client.execute_command("ORDER.SCHEDULE", "fresh", "1", "PX", 600_000)
    one.shows(r"^fresh ")
    assert one.quit() == 0


def test_keys_are_answered_while_the_server_is_not(server, terminal):
    fill(server)
    one = terminal("-s", server.socket)
    one.shows(r"^\d\d:\d\d:\d\d  3 queues ")
    server.signal(signal.SIGSTOP)
    try:
        time.sleep(0.5)
        started = time.monotonic()
        one.press("O")
        one.until(lambda lines: lines[2].startswith("fine"))
        assert one.quit() == 0
        assert time.monotonic() - started < 4, "less than it waits for a server"
    finally:
        server.signal(signal.SIGCONT)


def test_what_can_not_be_read_is_shown(server, terminal):
    fill(server)
    one = terminal("-s", server.socket)
    one.shows(r"^\d\d:\d\d:\d\d  3 queues ")
    server.run("SET", "late", "a text")
    lines = one.shows(r"^late +not read for \S+: WRONGTYPE ")
    assert "1 not read" in lines[0] and [line.split()[0] for line in lines[2:5]] == ["sick", "fine", "late"]
    server.run("ORDER.SCHEDULE", "fine", "6", "PX", 600_000)
    one.shows(r"^fine +6 ")
    server.run("DEL", "late")
    one.until(lambda lines: "  2 queues  " in lines[0] and "not read" not in lines[0])
    assert one.quit() == 0


@pytest.mark.parametrize("height, width", [(1, 1), (1, 80), (2, 80), (2, 2), (3, 5), (4, 13), (24, 1), (24, 30)])
def test_a_small_terminal_does_not_break_it(server, terminal, height, width):
    fill(server)
    one = terminal("-s", server.socket, height=height, width=width, deaf=height % 2 == 0)
    until(lambda: (one.read(0.05), one.raw.count(b"\x1b"))[1] > 2, 20, "it draws")
    if width >= 30:
        one.shows(r"^\d\d:\d\d:\d\d  3 queues")
    for keys in ("\n", "\x1b[B", "\x1b[A", "\x1b", "O", "\x1b[6~"):
        one.press(keys)
        one.read(0.3)
    assert one.process.poll() is None, one.raw[-2000:]
    one.resize(24, 100)
    one.press("\x1b")
    one.shows(r"^\d\d:\d\d:\d\d  3 queues  4 overdue")
    one.resize(height, width)
    one.read(0.5)
    assert one.quit() == 0
    assert b"Traceback" not in one.raw


def test_wide_and_long_names_keep_the_columns(server, terminal):
    for name in ("注文🦀" * 20, "q" * 300, "x\x1b[2J", "e\u0301" * 30):
        server.run("ORDER.SCHEDULE", name, "1", "PX", 600_000)
    one = terminal("-s", server.socket)
    lines = one.shows(r"^\d\d:\d\d:\d\d  4 queues")
    end = lines[1].index("ORDERS") + len("ORDERS")
    # Column by column of the terminal: a wide character takes two.
    for number in range(2, 6):
        cells = [one.screen.buffer[number][column].data for column in range(100)]
        assert cells[end - 1] == "1" and cells[end - 2] == " ", lines[number]
    assert any("…" in line for line in lines) and b"\x1b[2J\x1b[2J" not in one.raw
    assert one.quit() == 0


def test_many_queues_are_scrolled(server, terminal):
    for number in range(40):
        server.run(
            "ORDER.SCHEDULE", f"queue-{number:02}", "1", "PXAT", int(time.time() * 1000) - 600_000 + number * 10_000
        )
    one = terminal("-s", server.socket, height=10)
    shown = lambda first: (
        lambda lines: [line.split(" ")[0] for line in lines[2:9]] == [f"queue-{first + at:02}" for at in range(7)]
    )
    one.until(lambda lines: "  40 queues  " in lines[0] and shown(0)(lines))
    one.press("\x1b[6~" * 10)
    one.until(shown(33))
    one.press("\n")
    one.until(lambda lines: lines[0].startswith("queue-39  "))
    assert one.quit() == 0
