"""scripts/top.sh: the table for scripts, and the live view in a terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

import pytest

from support.cluster import cluster_client, make_cluster
from support.pages import ROOT

TOP = ROOT / "scripts/top.sh"


@pytest.fixture(scope="session", autouse=True)
def installed():
    """The packages are there before anything is timed."""
    subprocess.run([TOP, "--once", "-p", "1"], capture_output=True, timeout=170, check=False)


def once(*options):
    done = subprocess.run([TOP, "--once", *map(str, options)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def rows(said):
    head, *lines = said.splitlines()
    return [dict(zip(head.split(), line.split())) for line in lines]


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


def test_the_table_has_the_worst_first(server):
    fill(server)
    status, said, _ = once("-s", server.socket)
    assert status == 0
    assert [row["QUEUE"] for row in rows(said)] == ["sick", "late", "fine"]
    sick, late, fine = rows(said)
    assert (sick["DEAD"], late["OVERDUE"], fine["ORDERS"], fine["PAUSED"]) == ("1", "3", "5", "yes")
    assert once("-p", server.port)[1] == said or rows(once("-p", server.port)[1])[0]["QUEUE"] == "sick"


def test_a_password_and_a_user_are_taken(serve):
    server = serve(port=True)
    server.run("ACL", "SETUSER", "top", "on", ">secret", "~*", "+@all")
    server.run("CONFIG", "SET", "requirepass", "other")
    status, _, error = once("-p", server.port)
    assert status != 0 and "NOAUTH" in error or "Authentication" in error
    assert once("-p", server.port, "--user", "top", "-a", "secret")[0] == 0
    with server.client(password="other") as client:
        client.config_set("requirepass", "")


def test_a_server_that_is_not_there_is_said():
    status, said, error = once("-p", 1)
    assert status != 0 and not said and "top.sh:" in error


def test_a_thousand_queues_and_hostile_names(server):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.execute_command("ORDER.SCHEDULE", f"q{number}", "1", "PX", 600_000)
        pipe.execute_command("ORDER.SCHEDULE", b"evil\x1b]0;\x00\r\n\xff", "1", "PX", 600_000)
        pipe.execute()
    started = time.monotonic()
    status, said, _ = once("-s", server.socket)
    assert status == 0 and time.monotonic() - started < 30
    assert len(said.splitlines()) == 1002
    assert not any(ord(c) < 32 for c in said if c != "\n")


def test_all_nodes_of_a_cluster(serve):
    nodes = make_cluster(serve, 3)
    client = cluster_client(nodes)
    for part in range(16):
        client.execute_command("ORDER.SCHEDULE", f"orders:{{{part}}}", "1", "PX", 0)
    status, said, error = once("-p", nodes[0].port, "-c")
    assert status == 0, error
    assert {row["QUEUE"] for row in rows(said)} == {f"orders:{{{part}}}" for part in range(16)}
    client.close()


class Terminal:
    """top.sh in a terminal of its own, 100 by 24."""

    def __init__(self, *options):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen(
            [TOP, "--every", "0.2", *map(str, options)], stdin=slave, stdout=slave, stderr=slave, close_fds=True,
            env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        self.seen = ""

    def until(self, word, seconds=20):
        end = time.monotonic() + seconds
        while word not in self.seen:
            assert time.monotonic() < end, (word, self.seen[-2000:])
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode("utf-8", "replace")

    def press(self, keys):
        self.seen = ""
        os.write(self.master, keys.encode())

    def end(self):
        self.press("q")
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            os.close(self.master)


def test_the_live_view_opens_a_queue_and_outlives_the_server(server):
    fill(server)
    terminal = Terminal("-s", server.socket)
    terminal.until("sick")
    terminal.until("3 queues")
    terminal.press("\n")
    terminal.until("DEAD")
    terminal.until("service")
    assert "\x1b[31m service" not in terminal.seen, "what an error holds is not sent to the terminal"
    terminal.press("\x1b")
    terminal.until("QUEUE")
    terminal.press("O")
    server.kill()
    terminal.until("not connected")
    terminal.seen = ""
    server.start()
    terminal.until(time.strftime("%H:"))
    assert terminal.end() == 0
