"""scripts/console.sh: the page in a browser, and who may ask it what."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from support.certificate import certificate  # noqa: F401 (a fixture)
from support.cluster import cluster_client, make_cluster
from support.pages import ROOT
from support.proxy import Proxy
from support.server import TARGET, free_port
from support.wait import until

CONSOLE = ROOT / "scripts/console.sh"
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = TARGET / "screenshots"
HOSTILE = [
    "<script>document.title='broken'</script>",
    '"><img src=x onerror=alert(1)>',
    "nul\x00and\x1b[31m",
    "🦀" * 63,
    "' OR 1=1 --",
    "{{7*7}}",
    "‮right to left",
]


class Console:
    """A console of a server, or of what the options say."""

    def __init__(self, server, *more):
        self.port = free_port()
        where = ["-s", server.socket] if server is not None else []
        self.process = subprocess.Popen(
            [CONSOLE, *where, "--listen", str(self.port), "--every", "0.3", *map(str, more)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = []
        threading.Thread(target=lambda: self.log.extend(iter(self.process.stderr.readline, "")), daemon=True).start()
        self.address = self.token = ""

    def wait(self):
        """Waits until the page is served. It installs its packages first."""
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith(f"http://127.0.0.1:{self.port}/?token="), (self.address, self.log)
        self.token = self.address.split("token=")[1]
        until(lambda: self.ask("/api/queues")[0] == 200, 30, "the page is served")
        return self

    def ask(self, path, method="GET", body=None, cookie=None, **headers):
        """Status, headers and text of an answer."""
        cookie = f"orderwheel-console-{self.port}={self.token}" if cookie is None else cookie
        headers = {"Cookie": cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", method=method, headers=headers, data=body
        )
        opener = urllib.request.build_opener(NoRedirect)
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()
        except urllib.error.URLError:
            return 0, {}, ""

    def get(self, path):
        """What an address answers, as JSON is read by a browser: NaN is none."""
        status, _, text = self.ask(path)
        assert status == 200, text
        return json.loads(text, parse_constant=pytest.fail)

    def queues(self, query=""):
        return self.get(f"/api/queues{query}")

    def names(self):
        return {queue["name"] for queue in self.queues()["queues"]}

    def row(self, name):
        return next((queue for queue in self.queues()["queues"] if queue["name"] == name), None)

    def key(self, name):
        return self.row(name)["key"]

    def operate(self, **wanted):
        return self.ask("/api/operate", "POST", wanted, X_Orderwheel_Console="1", Content_Type="application/json")

    def logged(self, words):
        until(lambda: words in "".join(self.log), 20, f"it is logged: {words}")

    def end(self):
        self.process.terminate()
        self.process.wait(20)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


@pytest.fixture
def console():
    consoles = []

    def start(server, *more):
        consoles.append(Console(server, *more))
        return consoles[-1].wait()

    yield start
    for one in consoles:
        one.end()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def fill(server):
    """A shop in trouble: dead, overdue, leased, scheduled orders; hostile ids; a paused queue."""
    with server.client() as client:
        run = client.execute_command
        for number in range(60):
            run("ORDER.SCHEDULE", "orders", f"2026-12-{number:04}", "PX", 600_000 + number * 1000, "STATUS", "unpaid")
        for number in range(8):
            run("ORDER.SCHEDULE", "orders", f"late-{number}", "PX", 0, "STATUS", "unpaid")
        for order, fence in [row[:2] for row in run("ORDER.CLAIM", "orders", "closer-7", "COUNT", 3, "PX", 60_000)]:
            if order.endswith("0"):
                run("ORDER.NACK", "orders", order, fence, "DEAD", "ERROR", "card service answered 500")
        for number in range(4):
            run("ORDER.SCHEDULE", "idem", f"job-{number}", "PX", 900_000)
        run("ORDER.PAUSE", "idem", "REASON", "moving house")
        for order in HOSTILE:
            run(
                "ORDER.SCHEDULE",
                "<b>evil</b>",
                order,
                "PX",
                0,
                "STATUS",
                "<i>status</i>",
                "PAYLOAD",
                "<img src=x onerror=alert(1)>",
            )
        for row in run("ORDER.CLAIM", "<b>evil</b>", "<u>owner</u>", "COUNT", 100, "PX", 60_000):
            run("ORDER.NACK", "<b>evil</b>", row[0], row[1], "DEAD", "ERROR", "<script>alert(1)</script>")


# --- who may ask -----------------------------------------------------------------------


def test_only_who_has_the_token_is_answered(server, console):
    page = console(server)
    name = f"orderwheel-console-{page.port}"
    for cookie in ("", f"{name}=", f"{name}={page.token[:-1]}x", f"{name}=é", f"orderwheel-console={page.token}"):
        for path in ("/", "/api/queues", "/app.js", "/lit/lit-html.js"):
            assert page.ask(path, cookie=cookie.encode().decode("latin-1"))[0] == 403, (path, cookie)
    for wrong in ("wrong", "", "%C3%A9", "%FF", page.token + "x"):
        status, headers, _ = page.ask(f"/?token={wrong}", cookie="")
        assert status == 403 and "Set-Cookie" not in headers, wrong
    status, headers, _ = page.ask(f"/?token={page.token}", cookie="")
    assert status == 303 and headers["Location"] == "/", "the token leaves the address"
    assert headers["Referrer-Policy"] == "no-referrer", "and is told to nobody"
    assert headers["Set-Cookie"].startswith(f"{name}={page.token};")
    assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"]
    page.logged("refused from 127.0.0.1: no token, or a wrong one")
    assert page.token not in "".join(page.log)


def test_a_name_of_another_site_that_leads_here_is_refused(server, console):
    page = console(server)
    assert page.ask("/api/queues", Host=f"localhost:{page.port}")[0] == 200
    for host in (
        "attacker.example",
        f"attacker.example:{page.port}",
        f"127.0.0.1.attacker.example:{page.port}",
        "",
        "127.0.0.1:1",
        f"[::1]:{page.port}",
        f"127.0.0.1:{page.port}@attacker.example",
    ):
        assert page.ask("/api/queues", Host=host)[0] in (400, 403), host
        assert page.ask(f"/?token={page.token}", cookie="", Host=host)[0] in (400, 403), host


def test_every_answer_has_the_same_headers(server, console):
    """Also those that say that something failed."""
    fill(server)
    proxy = Proxy(server)
    page = console(None, "-p", proxy.port, "--operate")
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    key = page.key("orders")
    # An answer of the server that is none: what the console does not expect.
    proxy.rule = lambda sent: b"+odd\r\n" if b"ORDER.GET" in sent else None
    asked = {
        200: ("/",),
        303: (f"/?token={page.token}",),
        400: ("/api/queue/!!",),
        403: ("/", "GET", None, ""),
        404: (f"/{'x' * 3000}.js",),
        500: (f"/api/order/{key}/bGF0ZS0w",),
    }
    for status, words in asked.items():
        got, headers, text = page.ask(*words)
        assert got == status, (words, got, text)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self';" in policy, status
        assert "require-trusted-types-for 'script'; trusted-types lit-html" in policy, status
        assert "frame-ancestors 'none'" in policy and "form-action 'none'" in policy and "base-uri 'none'" in policy
        assert (
            headers["X-Content-Type-Options"],
            headers["Referrer-Policy"],
            headers["Cache-Control"],
            headers["X-Frame-Options"],
        ) == ("nosniff", "no-referrer", "no-store", "DENY"), status
        assert "Traceback" not in text
    page.logged("AttributeError")
    for path in (
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/server.py",
        "/lit/../../package.json",
        "/lit/package.json",
        "/.",
        "/..",
        "//etc/passwd",
        "/static",
        "/%00",
    ):
        assert page.ask(path)[0] in (400, 403, 404), path
    proxy.close()


def test_two_consoles_on_one_host_do_not_log_each_other_out(server, console, browser):
    first, second = console(server), console(server)
    context = browser.new_context()
    for one in (first, second):
        context.new_page().goto(one.address)
    for one in (first, second, first):
        page = context.new_page()
        assert page.goto(f"http://127.0.0.1:{one.port}/").status == 200
    context.close()


def test_a_port_that_somebody_has_is_not_named(server, console):
    """The token goes to nobody else: the address is printed once the port is ours."""
    taken = console(server).port
    done = subprocess.run(
        [CONSOLE, "-s", server.socket, "--listen", str(taken)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"console\.sh: can not listen on port {taken}: .*\n", done.stderr), done.stderr


def test_it_listens_on_loopback_alone(server, console):
    page = console(server)
    listening = [
        line.split() for table in ("tcp", "tcp6") for line in open(f"/proc/net/{table}").read().splitlines()[1:]
    ]
    mine = [
        words[1].split(":")[0]
        for words in listening
        if int(words[1].split(":")[1], 16) == page.port and words[3] == "0A"
    ]
    assert mine == ["0100007F"]


# --- what may be done ------------------------------------------------------------------


def stats(server, queue):
    return dict(zip(*[iter(server.run("ORDER.STATS", queue))] * 2))


def test_a_console_that_may_not_operate_refuses_and_says_so_in_its_log(server, console):
    fill(server)
    page = console(server)
    until(lambda: len(page.names()) == 3, 20, "it has seen the queues")
    status, _, text = page.operate(act="pause", queue=page.key("orders"))
    assert status == 403 and "read-only" in text
    assert stats(server, "orders")["paused_ms"] == -2
    page.logged("refused from 127.0.0.1: pause orders: read-only")


def test_what_is_operated_is_done_and_logged(server, console):
    fill(server)
    page = console(server, "--operate")
    until(lambda: len(page.names()) == 3, 20, "it has seen the queues")
    key = page.key("orders")
    figures = lambda: stats(server, "orders")
    assert page.operate(act="pause", queue=key)[0] == 200 and figures()["paused_ms"] == -1
    assert page.operate(act="resume", queue=key)[0] == 200 and figures()["paused_ms"] == -2
    assert figures()["dead"] == 1
    status, _, text = page.operate(act="requeue", queue=key)
    assert (status, json.loads(text)) == (200, {"answer": "moved 1, left 0"}) and figures()["dead"] == 0
    held = server.run("ORDER.SCAN", "orders", 0, "STATE", "leased", "COUNT", 1000)[1][0][0]
    order = next(one["key"] for one in page.get(f"/api/queue/{key}?state=leased")["orders"] if one["id"] == held)
    assert page.operate(act="break", queue=key, order=order, owner="closer-7")[0] == 200
    page.logged("ORDER.PAUSE orders REASON console from 127.0.0.1: OK")
    page.logged("ORDER.REQUEUE orders from 127.0.0.1: moved 1, left 0")
    page.logged(f"ORDER.BREAK orders {held} ")
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line) for line in page.log)


def test_another_site_can_not_operate(server, console):
    """It can send the cookie along, but not this header, and its browser says where it comes from."""
    fill(server)
    page = console(server, "--operate")
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    wanted = {"act": "pause", "queue": page.key("orders")}
    for headers in (
        {},
        {"Content_Type": "text/plain"},
        {"X_Orderwheel_Console": "0"},
        {"X_Orderwheel_Console": "1", "Origin": "http://attacker.example"},
        {"X_Orderwheel_Console": "1", "Origin": "null"},
        {"X_Orderwheel_Console": "1", "Origin": "http://127.0.0.1:1"},
    ):
        assert page.ask("/api/operate", "POST", wanted, **headers)[0] == 403, headers
    assert page.ask("/api/operate", "POST", wanted, cookie="", X_Orderwheel_Console="1")[0] == 403
    assert page.ask(f"/api/operate?act=pause&queue={wanted['queue']}")[0] == 404
    assert stats(server, "orders")["paused_ms"] == -2
    page.logged("refused from 127.0.0.1: pause orders: not from the page")
    assert (
        page.ask("/api/operate", "POST", wanted, X_Orderwheel_Console="1", Origin=f"http://127.0.0.1:{page.port}")[0]
        == 200
    )


def test_what_is_not_understood_is_refused_and_logged(server, console):
    fill(server)
    page = console(server, "--operate")
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    key = page.key("orders")
    for wrong in (
        {"act": "flushall", "queue": key},
        {"act": "break", "queue": key},
        {"act": "pause", "queue": "bm9uZQ"},
        {"act": "pause"},
        {"act": [], "queue": key},
        {"act": {}, "queue": key},
        {"act": "pause", "queue": 5},
        {"act": "pause", "queue": "é"},
        {"act": "break", "queue": key, "order": ["x"]},
        [],
        "pause",
        7,
        None,
        b"{",
        b"\xff\xfe",
        b"",
    ):
        assert page.ask("/api/operate", "POST", wrong, X_Orderwheel_Console="1")[0] == 400, wrong
    assert page.ask("/api/operate", "POST", b"x" * 70_000, X_Orderwheel_Console="1")[0] == 413
    page.logged("refused from 127.0.0.1: flushall orders: not understood")
    # What was sent can not write lines of its own into the log.
    page.operate(act="x\n2026-12-01 00:00:00 ORDER.PAUSE orders from 127.0.0.1: OK\x1b[2J", queue=key)
    page.logged("x\\x0a2026-12-01 00:00:00 ORDER.PAUSE")
    assert all(
        re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} refused", line) and "\x1b" not in line for line in page.log
    ), page.log


def test_a_body_of_any_kind_is_refused_in_one_line(server, console):
    """Whoever sends it, with a token or without: the answer has the headers of all others, the log one line."""
    page = console(server, "--operate")
    own = {"X_Orderwheel_Console": "1"}
    for body, headers, status in (
        (b"[" * 60_000, own, 400),
        (b"[" * 60_000, {"cookie": ""}, 403),
        (b"{}", {**own, "Content_Type": "application/json; charset=none"}, 400),
        (b"no gzip", {**own, "Content_Encoding": "gzip"}, 400),
        (b"no gzip", {"cookie": "", "Content_Encoding": "gzip"}, 403),
    ):
        before = len(page.log)
        got, answered, text = page.ask("/api/operate", "POST", body, **headers)
        assert got == status and "Content-Security-Policy" in answered, (body[:9], headers, got, text)
        until(lambda: any("refused" in line and text in line for line in page.log[before:]), 20, "it is logged")
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as other:
        other.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert b" 400 " in other.recv(100)
    # No traceback, and nothing of several lines.
    assert all(re.match(r"\d{4}-\d\d-\d\d \S+ refused", line) for line in page.log), page.log


def test_a_body_that_does_not_come_is_not_waited_for(server, console):
    page = console(server, "--operate")
    head = f"POST /api/operate HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nContent-Length: 9\r\n"
    cookie = f"Cookie: orderwheel-console-{page.port}={page.token}\r\nX-Orderwheel-Console: 1\r\n"
    slow = []
    for more in ("", cookie):
        slow.append(socket.create_connection(("127.0.0.1", page.port), timeout=30))
        slow[-1].sendall(f"{head}{more}\r\n[".encode())
    for connection, status in zip(slow, (b"403", b"408")):
        assert connection.recv(20).split()[1] == status
        connection.close()


def test_hundreds_of_connections_that_ask_nothing_keep_nobody_out(server, console):
    page = console(server)
    silent = []
    try:
        for _ in range(800):
            silent.append(socket.create_connection(("127.0.0.1", page.port), timeout=20))
            silent[-1].sendall(b"GET / HTTP/1.1\r\n")
        assert page.ask("/api/queues")[0] == 200
        descriptors = len(list(Path(f"/proc/{page.process.pid}/fd").iterdir()))
        assert descriptors < 300, "a limit of 1024 is not near"
    finally:
        for connection in silent:
            connection.close()
    assert page.ask("/api/queues")[0] == 200 and not page.log, page.log[:3]


def test_packages_that_could_not_be_had_are_asked_for_again(tmp_path):
    """Else the page would be served without what it draws with."""
    (tmp_path / "npm").write_text("#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    (tmp_path / "npm").chmod(0o755)
    script = f'root={ROOT} target={tmp_path} && . "$root/scripts/console/lib.sh" && set -e && console_node'
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-c", script],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1 and "no network" in done.stderr, done


def test_what_a_server_that_hangs_does_later_is_said(server, console):
    fill(server)
    page = console(server, "--operate")
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    key = page.key("orders")
    assert page.operate(act="resume", queue=key)[0] == 200, "it is connected"
    os.kill(server.pid, signal.SIGSTOP)
    try:
        status, _, text = page.operate(act="pause", queue=key)
        assert status == 503 and "it may be done yet" in text, text
        page.logged("it may be done yet")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    reason = lambda: dict(zip(*[iter(server.run("ORDER.STATS", "orders"))] * 2))["pause_reason"]  # noqa: E731
    until(lambda: reason() == "console", 20, "it is done when the server goes on")


def test_only_the_lease_that_was_seen_is_broken(server, console):
    server.run("ORDER.SCHEDULE", "orders", "1", "PX", 0)
    server.run("ORDER.CLAIM", "orders", "closer-8", "PX", 60_000)
    page = console(server, "--operate")
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    status, _, text = page.operate(act="break", queue=page.key("orders"), order="MQ", owner="closer-7")
    assert (status, text) == (409, "closer-8 holds it now") and stats(server, "orders")["live_claims"] == 1
    page.logged("ORDER.BREAK orders 1 from 127.0.0.1: closer-8 holds it now")
    assert page.operate(act="break", queue=page.key("orders"), order="MQ", owner="closer-8")[0] == 200
    status, _, text = page.operate(act="break", queue=page.key("orders"), order="MQ", owner="closer-8")
    assert (status, text) == (409, "nobody holds it")


# --- what goes wrong with the reading ----------------------------------------------------


def test_a_key_that_is_no_queue_any_more_does_not_stop_the_others(server, console):
    fill(server)
    page = console(server)
    until(lambda: len(page.names()) == 3, 20, "it has seen the queues")
    key = page.key("idem")
    server.run("SET", "idem", "a text")
    until(lambda: "idem" not in page.names(), 20, "its old figures are gone")
    server.run("ORDER.SCHEDULE", "orders", "one-more", "PX", 900_000)
    until(lambda: page.row("orders")["orders"] == 69, 20, "the others are read on")
    got = page.queues()
    assert got["problem"] is None
    row = next(alarm for alarm in got["alarms"] if alarm["kind"] == "not read")
    assert (
        row["name"] == "idem" and row["text"].startswith("WRONGTYPE") and time.time() - 30 < row["since"] <= time.time()
    )
    status, _, text = page.ask(f"/api/queue/{key}")
    assert status == 404 and "WRONGTYPE" in text
    page.logged("idem: WRONGTYPE")
    assert "".join(page.log).count("WRONGTYPE") == 1, "it is logged once"
    server.run("DEL", "idem")
    until(lambda: not any(alarm["kind"] == "not read" for alarm in page.queues()["alarms"]), 20, "gone is gone")
    server.run("ORDER.SCHEDULE", "idem", "1", "PX", 900_000)
    until(lambda: page.row("idem"), 20, "it is a queue again")


def test_the_reader_of_the_page_on_operations_sees_what_it_may(server, console):
    """The rule of docs/operations.md with what docs/console.md adds: other keys are said to be not read."""
    page = (ROOT / "docs/operations.md").read_text()
    words = re.search(r"^ACL SETUSER reader .*order\.stats$", page, re.M)[0].split()[1:]
    added = re.search(r"`(\+scan[^`]*)`", (ROOT / "docs/console.md").read_text())[1].split()
    if server.cli("ACL", "SETUSER", "probe", "+role") != "OK":
        added.remove("+role")
    server.run("ACL", *words, *added)
    fill(server)
    one = console(server, "--user", "reader", "-a", "secret")
    until(
        lambda: (
            one.names() == {"orders"}
            and len([1 for alarm in one.queues()["alarms"] if alarm["kind"] == "not read"]) == 2
        ),
        20,
        "what it may read, and what not",
    )
    got = one.queues()
    assert got["problem"] is None
    assert {alarm["name"] for alarm in got["alarms"] if "NOPERM" in alarm["text"]} == {"<b>evil</b>", "idem"}
    server.run("ORDER.SCHEDULE", "orders", "one-more", "PX", 900_000)
    until(lambda: one.row("orders")["orders"] == 69, 20, "it reads on")


def test_an_answer_that_nobody_expects_is_said_logged_and_survived(server, console):
    fill(server)
    proxy = Proxy(server)
    page = console(None, "-p", proxy.port)
    until(lambda: len(page.names()) == 3, 20, "it has seen the queues")
    proxy.rule = lambda sent: b":1\r\n" if b"\r\nSCAN\r\n" in sent else None
    said = until(lambda: page.queues()["problem"], 20, "it is said")
    assert re.fullmatch(r"reading fails for \d+ s: TypeError: .*", said), said
    until(lambda: int(page.queues()["problem"].split()[3]) >= 1, 20, "since when")
    assert len(page.names()) == 3, "what was known is still shown"
    page.logged("Traceback")
    proxy.rule = lambda _sent: None
    until(lambda: page.queues()["problem"] is None, 20, "it has gone on")
    server.run("ORDER.SCHEDULE", "orders", "one-more", "PX", 900_000)
    until(lambda: page.row("orders")["orders"] == 69, 20, "and reads")
    # Figures that lack a field are one queue's fault.
    proxy.rule = lambda sent: (
        b"%1\r\n$6\r\norders\r\n:1\r\n" if b"ORDER.STATS" in sent and sent.count(b"ORDER.STATS") == 1 else None
    )
    server.run("DEL", "<b>evil</b>", "idem")
    until(
        lambda: any("not understood" in alarm["text"] for alarm in page.queues()["alarms"]),
        20,
        "it is said of the queue",
    )
    assert page.queues()["problem"] is None
    proxy.close()


def test_a_server_without_the_module_is_told_from_one_without_queues(serve, server, console):
    without, empty = console(serve(module=None)), console(server)
    said = until(lambda: without.queues()["problem"], 20, "it is said")
    assert re.fullmatch(r"reading fails for \d+ s: this server has no orderwheel", said), said
    got = until(lambda: (got := empty.queues())["walked"] and got, 20, "it has looked")
    assert got["problem"] is None and got["known"] == 0


def test_the_queues_may_change_while_they_are_asked_for(server, console):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1500):
            pipe.execute_command("ORDER.SCHEDULE", f"a queue whose name takes a while, {number}", "1", "PX", 600_000)
        pipe.execute()
    page = console(server, "--every", "0.01")
    until(lambda: page.queues()["read"] == 1500, 30, "it has read all")
    wrong, end = [], time.monotonic() + 3

    def ask():
        while time.monotonic() < end:
            status, _, text = page.ask("/api/queues")
            if status != 200:
                wrong.append((status, text))

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    with server.client() as client:
        while time.monotonic() < end:
            with client.pipeline(transaction=False) as pipe:
                for start in range(0, 1500, 100):
                    for number in range(start, start + 100):
                        pipe.delete(f"a queue whose name takes a while, {number}")
                        pipe.execute_command(
                            "ORDER.SCHEDULE", f"other {number} {time.monotonic()}", "1", "PX", 600_000, "STATUS", "x"
                        )
                    pipe.execute()
                    time.sleep(0.05)
                for number in range(1500):
                    pipe.execute_command(
                        "ORDER.SCHEDULE", f"a queue whose name takes a while, {number}", "1", "PX", 600_000
                    )
                pipe.execute()
    for asker in askers:
        asker.join()
    assert wrong == []


def test_texts_that_look_like_numbers_stay_texts(server, console):
    for queue, words in (("one", "nan"), ("two", "1e999"), ("three", "007")):
        server.run("ORDER.SCHEDULE", queue, words, "PX", 0)
        fence = server.run("ORDER.CLAIM", queue, "closer")[0][1]
        server.run("ORDER.NACK", queue, words, fence, "DEAD", "ERROR", words)
        server.run("ORDER.PAUSE", queue, "REASON", words)
    page = console(server)
    until(lambda: len(page.names()) == 3, 20, "it has seen the queues")
    alarms = page.queues()["alarms"]
    for words in ("nan", "1e999", "007"):
        assert {alarm["kind"] for alarm in alarms if alarm["text"] == words} == {"dead", "paused"}
        assert next(alarm["order"] for alarm in alarms if alarm["text"] == words and alarm["kind"] == "dead") == words
    figures = page.get(f"/api/queue/{page.key('one')}")["figures"]
    assert (figures["newest_dead"], figures["newest_dead_error"], figures["pause_reason"]) == ("nan", "nan", "nan")


# --- bounds ------------------------------------------------------------------------------


def test_a_lookup_does_not_wait_for_the_reading(server, console):
    fill(server)
    proxy = Proxy(server)
    page = console(None, "-p", proxy.port)
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    key, reading = page.key("orders"), threading.Event()

    def slowly(sent):
        if b"ORDER.STATS" in sent:
            reading.set()
            time.sleep(4)

    proxy.rule = slowly
    assert reading.wait(20)
    started = time.monotonic()
    assert page.get(f"/api/order/{key}/bGF0ZS0w")["id"] == "late-0"
    assert page.get("/api/find?id=late-0")["found"][0]["name"] == "orders"
    assert time.monotonic() - started < 3, "it did not wait for the slow answers"
    proxy.rule = lambda _sent: None
    proxy.close()


def test_a_thousand_queues_are_bounded(server, console, browser):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.execute_command("ORDER.SCHEDULE", f"queue-{number:04}", "1", "PX", 0 if number % 50 == 0 else 600_000)
        pipe.execute()
    proxy = Proxy(server)
    one = console(None, "-p", proxy.port, "--every", 1)
    until(lambda: one.queues()["read"] == 1000, 60, "it has read all", every=0.2)
    # A pipeline has 20 at most, and a look 250: a look is 13 round trips, not a thousand.
    asked = [sent.count(b"ORDER.STATS") for sent in proxy.sent if b"ORDER.STATS" in sent]
    assert sum(asked) >= 1000 and max(asked) == 20 and len(asked) <= sum(asked) / 20 + 40
    server.run("CONFIG", "RESETSTAT")
    before = time.monotonic()
    time.sleep(2.5)
    text = server.cli("INFO", "commandstats")
    looks = (time.monotonic() - before) / 1 + 1
    calls = {
        line.split(":")[0]: int(re.search(r"calls=(\d+)", line)[1]) for line in text.splitlines() if "calls=" in line
    }
    assert 0 < calls["cmdstat_order.stats"] <= 250 * looks and set(calls) <= {
        "cmdstat_order.stats",
        "cmdstat_scan",
        "cmdstat_role",
        "cmdstat_config|resetstat",
        "cmdstat_info",
        "cmdstat_hello",
    }
    got = one.queues()
    assert (
        len(got["queues"]) == 100
        and got["matched"] == 1000
        and got["totals"]["orders"] == 1000
        and got["totals"]["overdue"] == 20
    )
    assert all(row["overdue"] == 1 for row in got["queues"][:20]), "the worst first"
    # One that goes wrong now is seen soon, however many there are.
    server.run("ORDER.SCHEDULE", "queue-0777", "2", "PX", 0)
    until(lambda: one.queues("?match=queue-0777")["queues"][0]["overdue"] == 1, 20, "it is seen")
    page = Page(browser, one, 1280, "light")
    page.page.wait_for_selector("text=100 of 1,000 queues")
    page.page.locator("#filter").fill("queue-077")
    page.page.wait_for_selector("text=10 queues")
    assert page.page.locator("tbody tr").count() == 10 and page.page.evaluate("document.activeElement.id") == "filter"
    page.page.locator("#filter").fill("nothing like it")
    page.page.wait_for_selector("text=No queue has this in its name.")
    page.page.locator("#filter").fill("")
    page.check("thousand-light-1280")
    page.page.locator("button", has_text="Show more").click()
    page.page.wait_for_selector("text=500 of 1,000 queues")
    page.close()
    proxy.close()


def test_orders_of_a_state_are_found_bit_by_bit(server, console):
    """A dead order among many others: a look does not go through all of them, and nothing wrong is said meanwhile."""
    server.run("ORDER.SCHEDULE", "orders", "needle", "PX", 0)
    fence = server.run("ORDER.CLAIM", "orders", "closer")[0][1]
    server.run("ORDER.NACK", "orders", "needle", fence, "DEAD", "ERROR", "why")
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(400):
            ids = [word for order in range(1000) for word in (f"{number}-{order}", 900_000)]
            pipe.execute_command("ORDER.MSCHEDULE", "orders", "PX", 1000, *ids)
        pipe.execute()
    page = console(server)
    until(lambda: page.row("orders"), 20, "it has seen the queue")
    key = page.key("orders")
    server.run("CONFIG", "RESETSTAT")
    first = page.get(f"/api/queue/{key}?state=dead")
    calls = re.search(r"cmdstat_order.scan:calls=(\d+)", server.cli("INFO", "commandstats"))[1]
    assert int(calls) <= 30
    assert (first["orders"], first["whole"]) == ([], False) and 0 < first["looked"] <= 300_000
    assert first["figures"]["newest_dead"] == "needle", "the last one is known without looking"
    found = until(lambda: (got := page.get(f"/api/queue/{key}?state=dead"))["whole"] and got, 20, "all were looked at")
    assert [(order["id"], order["error"]) for order in found["orders"]] == [("needle", "why")]
    again = page.get(f"/api/queue/{key}?state=dead")
    assert [order["id"] for order in again["orders"]] == ["needle"], "it stays while the next pass is under way"
    server.run("CONFIG", "RESETSTAT")
    none = page.get(f"/api/queue/{key}?state=retrying")
    assert (none["orders"], none["whole"]) == ([], True) and "order.scan" not in server.cli("INFO", "commandstats"), (
        "none is known without looking"
    )


# --- where the servers are ---------------------------------------------------------------


def test_a_restart_of_the_server_is_said_and_survived(serve, console, browser):
    server = serve("appendonly yes")
    fill(server)
    one = console(server)
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "light")
    page.page.wait_for_selector("tbody tr")
    server.kill()
    page.until("/^not connected for \\d+ s$/.test(document.getElementById('connection').textContent)")
    said = page.page.locator(".banner.lost").inner_text()
    assert re.fullmatch(
        r"not connected for \d+ s: Error .* The figures below are of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", said
    ), said
    assert page.page.locator("tbody tr").count() == 3, "what was known is still shown"
    page.check("lost-light-1280")
    server.start()
    page.until("/^3 queues, read at \\d\\d:\\d\\d:\\d\\d UTC$/.test(document.getElementById('connection').textContent)")
    assert until(lambda: one.row("orders"), 20)["orders"] == 68
    page.close()


def test_a_failover_is_seen(serve, console):
    """A console of a replica says so, and goes on when its server is promoted and the old primary is gone."""
    primary = serve(port=True)
    fill(primary)
    replica = serve(f"replicaof 127.0.0.1 {primary.port}", "repl-diskless-sync-delay 0", port=True)
    page = console(replica)
    until(lambda: len(page.names()) == 3 and page.queues()["problem"] is None, 30, "it reads the replica")
    assert page.queues()["replica_of"] == f"127.0.0.1:{primary.port}"
    primary.kill()
    replica.run("REPLICAOF", "NO", "ONE")
    until(lambda: page.queues()["replica_of"] is None, 20, "it is seen")
    replica.run("ORDER.SCHEDULE", "orders", "one-more", "PX", 900_000)
    until(lambda: page.row("orders")["orders"] == 69, 20, "and read")
    assert page.queues()["problem"] is None


def move_one_queue(nodes, page):
    """A slot moves: its key is read on its way (ASK), and at its new node (MOVED)."""
    source, target = nodes[1:3]
    queue = min(source.run("KEYS", "*"))
    slot, ids = source.run("CLUSTER", "KEYSLOT", queue), [node.run("CLUSTER", "MYID") for node in (source, target)]
    target.run("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    source.run("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    source.run("MIGRATE", "127.0.0.1", target.port, queue, 0, 5000)
    assert source.cli("ORDER.STATS", queue).startswith("ASK")
    order = lambda: page.get(f"/api/order/{page.key(queue)}/MQ")["id"]
    read_at = lambda: page.get(f"/api/queue/{page.key(queue)}")["figures"]["at"]
    before = read_at()
    until(lambda: read_at() > before, 20, "it is read on its way")
    assert order() == "1"
    for node in (target, source, nodes[0]):
        node.run("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert source.cli("ORDER.STATS", queue).startswith("MOVED")
    before = read_at()
    until(lambda: read_at() > before, 20, "it is read at its new node")
    assert order() == "1" and page.queues()["problem"] is None
    assert not [alarm for alarm in page.queues()["alarms"] if alarm["kind"] == "not read"]


@pytest.mark.timeout(120)
def test_a_cluster_is_read_without_its_seed_and_through_a_failover(serve, console):
    nodes = make_cluster(serve, 3, 1, "cluster-require-full-coverage no")
    client = cluster_client(nodes)
    for part in range(16):
        client.execute_command("ORDER.SCHEDULE", f"orders:{{{part}}}", "1", "PX", 0)
    page = console(None, "-p", nodes[0].port, "-c", "--operate")
    until(lambda: len(page.names()) == 16, 30, "it has seen the queues")
    assert page.queues()["nodes"] == 3
    move_one_queue(nodes, page)
    lost = set(client.execute_command("KEYS", "*", target_nodes=client.get_node("127.0.0.1", nodes[0].port)))
    assert 0 < len(lost) < 16
    nodes[0].kill()
    said = until(lambda: page.queues()["problem"], 20, "the dead node is said")
    assert re.match(rf"1 of 3 nodes: not connected for \d+ s: 127\.0\.0\.1:{nodes[0].port}: ", said), said
    left = min(set(page.names()) - lost)
    other = next(node for node in nodes[1:] if not node.cli("ORDER.STATS", left).startswith("MOVED"))
    other.run("ORDER.SCHEDULE", left, "2", "PX", 900_000)
    until(lambda: page.row(left)["orders"] == 2, 20, "the living nodes are read meanwhile")
    until(lambda: page.queues()["problem"] is None, 40, "its replica has taken over")
    survivors = cluster_client(nodes)
    queue = min(lost)
    survivors.execute_command("ORDER.SCHEDULE", queue, "2", "PX", 900_000)
    until(lambda: page.row(queue)["orders"] == 2, 20, "the promoted one is read")
    assert page.get(f"/api/order/{page.key(queue)}/Mg")["id"] == "2"
    assert page.operate(act="pause", queue=page.key(queue))[0] == 200
    assert page.get("/api/find?id=1")["asked"] == 16 and len(page.get("/api/find?id=1")["found"]) == 16
    client.close()
    survivors.close()


def test_tls_a_database_and_a_password_from_the_environment(serve, console, certificate, monkeypatch):
    server = serve(f"tls-port {(port := free_port())}", *certificate.lines, "tls-auth-clients yes")
    server.run("CONFIG", "SET", "requirepass", "secret")
    with server.client(password="secret", db=3) as client:
        client.execute_command("ORDER.SCHEDULE", "third", "1", "PX", 0)
    own = [
        "-p",
        port,
        "--tls",
        "--cacert",
        certificate.authority,
        "--cert",
        certificate.certificate,
        "--key",
        certificate.key,
    ]
    monkeypatch.setenv("REDISCLI_AUTH", "secret")
    page = console(None, *own, "-n", 3)
    until(lambda: page.names() == {"third"}, 20, "it reads the database")
    assert page.queues()["db"] == 3
    first = console(None, *own)
    got = until(lambda: (got := first.queues())["walked"] and got, 20, "it has looked")
    assert (got["matched"], got["problem"]) == (0, None), "the database that -n does not name"
    # A certificate that nobody vouches for is not taken.
    stranger = console(None, "-p", port, "--tls", "--cert", certificate.certificate, "--key", certificate.key)
    assert "CERTIFICATE_VERIFY_FAILED" in until(lambda: stranger.queues()["problem"], 20)
    monkeypatch.setenv("REDISCLI_AUTH", "wrong")
    unknown = console(None, *own)
    assert "invalid username-password pair" in until(lambda: unknown.queues()["problem"], 20)


# --- the search --------------------------------------------------------------------------


def test_an_order_is_found_in_all_queues(server, console):
    fill(server)
    server.run("ORDER.SCHEDULE", "idem", "late-0", "PX", 900_000)
    server.run("ORDER.SCHEDULE", "idem", "a\\x00b", "PX", 900_000)
    server.run("ORDER.SCHEDULE", "idem", "a\x00b", "PX", 900_000)
    page = console(server)
    until(lambda: len(page.names()) == 3, 20, "it has seen the queues")
    got = page.get("/api/find?id=late-0")
    assert {(one["name"], one["state"], one["error"]) for one in got["found"]} == {
        ("orders", "dead", "card service answered 500"),
        ("idem", "scheduled", None),
    }
    assert (got["asked"], got["known"], got["unread"]) == (3, 3, 0)
    assert page.get("/api/find?id=none")["found"] == []
    # As it is shown, and as it is: the two are told apart.
    shown = {one["id"] for one in page.get("/api/find?id=a%5Cx00b")["found"]}
    assert shown == {"a\\\\x00b", "a\\x00b"}
    assert {one["id"] for one in page.get("/api/find?id=a%00b")["found"]} == {"a\\x00b"}
    for wrong in ("", "x" * 256):
        assert page.ask(f"/api/find?id={wrong}")[0] == 400


# --- what is seen ------------------------------------------------------------------------


class Page:
    """A page in the browser, with all that it complains of."""

    def __init__(self, browser, console, width, scheme):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-US", timezone_id="Asia/Shanghai"
        )
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on(
            "console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text)
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(console.address)
        self.page.wait_for_selector("body[data-ready]")

    def open(self, hash_, wait):
        self.page.evaluate(f"location.hash = {json.dumps(hash_)}")
        self.page.wait_for_selector(wait)

    def refreshes(self, count):
        """Waits until the page has drawn itself so often again."""
        turn = int(self.page.evaluate("document.body.dataset.ready"))
        self.until(f"Number(document.body.dataset.ready) >= {turn + count}")

    def until(self, expression):
        """Waits until an expression is true. It is asked from outside: the page's policy lets nothing be evaluated."""
        until(lambda: self.page.evaluate(expression), 30, expression, every=0.05)

    def check(self, name):
        """No sideways scrolling, nothing complained of; a picture."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
        assert wide <= 0, f"{name}: {wide} pixels too wide"
        assert self.complaints == [], name

    def close(self):
        self.context.close()


@pytest.mark.timeout(170)
def test_every_view_in_both_themes_and_both_widths(server, console, browser):
    fill(server)
    one = console(server, "--operate")
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    # Some life, for the charts.
    for number in range(12):
        rows = server.run("ORDER.CLAIM", "orders", "closer-1", "COUNT", 1, "PX", 60_000)
        for row in rows:
            server.run("ORDER.ACK", "orders", row[0], row[1], "STATUS", "closed")
        server.run("ORDER.SCHEDULE", "orders", f"more-{number}", "PX", 0, "STATUS", "unpaid")
        time.sleep(0.15)
    key = one.key("orders")
    grounds = {}
    for scheme in ("light", "dark"):
        for width in (1280, 400):
            page = Page(browser, one, width, scheme)
            page.page.wait_for_selector("text=orders")
            assert page.page.locator("tbody tr").count() == 3
            needs = page.page.locator(".alarms").inner_text()
            assert "card service answered 500" in needs and "late-0" in needs and "moving house" in needs
            page.check(f"queues-{scheme}-{width}")
            grounds[scheme] = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.open(f"#/q/{key}", ".uplot")
            assert page.page.locator(".uplot").count() == 2
            assert "card service answered 500" in page.page.locator("table").last.inner_text()
            page.check(f"queue-{scheme}-{width}")
            page.page.locator(".tabs button", has_text="scheduled").click()
            page.page.wait_for_selector("text=2026-12-0000")
            page.page.locator("#id").fill("late-0")
            page.page.locator("#find button").click()
            page.page.wait_for_selector("text=Asked 3 of 3 queues")
            page.check(f"find-{scheme}-{width}")
            page.page.locator("td a", has_text="late-0").click()
            page.page.wait_for_selector("dl")
            words = page.page.locator("dl").inner_text()
            for word in ("state", "dead", "card service answered 500", "attempt"):
                assert word in words
            assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC", words), "dates are ISO, hours are 24"
            page.check(f"order-{scheme}-{width}")
            page.close()
    assert grounds["light"] != grounds["dark"]


def test_charts_have_units_24_hours_and_colours_by_meaning(server, console, browser):
    fill(server)
    one = console(server)
    until(lambda: one.row("orders") and len(one.row("orders")["spark"]) > 3, 20, "there are points")
    page = Page(browser, one, 1280, "light")
    assert page.page.locator("svg.spark").count() == 3, "they start with what the console knows"
    page.open(f"#/q/{one.key('orders')}", ".uplot")
    theme = lambda name: page.page.evaluate(
        f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"
    )
    strokes = page.page.evaluate("""[...document.querySelectorAll('.u-legend')].map((legend) =>
        [...legend.querySelectorAll('.u-series')].map((one) => [one.querySelector('.u-label').textContent,
          one.querySelector('.u-marker').style.borderTopColor, one.querySelector('.u-value').textContent]))""")
    colours = lambda name: tuple(int(theme(name)[at : at + 2], 16) for at in (1, 3, 5))
    given = {
        label: tuple(map(int, re.findall(r"\d+", colour)[:3]))
        for legend in strokes
        for label, colour, _ in legend
        if colour
    }
    assert given["closed"] == given["claim to close"] == colours("accent")
    assert given["due"] == given["late"] == colours("warn") and given["claimed"] == colours("blue")
    assert colours("bad") not in given.values()
    values = {label: value for legend in strokes for label, _, value in legend}
    assert (
        re.fullmatch(r"\d\d:\d\d:\d\d", values["at"])
        and values["closed"] == "0/s"
        and re.search(r"ms$|^0$", values["late"])
    )
    utc = datetime.now(timezone.utc)
    said = datetime.strptime(values["at"], "%H:%M:%S").replace(
        year=utc.year, month=utc.month, day=utc.day, tzinfo=timezone.utc
    )
    assert min(abs((utc - said).total_seconds()), abs(86_400 - abs((utc - said).total_seconds()))) < 120, (
        "it is UTC, as the dates are"
    )
    page.close()


def test_a_new_queue_says_that_it_collects(server, console, browser):
    one = console(server, "--every", 2)
    server.run("ORDER.SCHEDULE", "orders", "1", "PX", 900_000)
    page = Page(browser, one, 1280, "light")
    page.page.wait_for_selector("td:has-text('collecting')", timeout=15_000)
    page.close()


def test_a_refresh_keeps_selection_scrolling_and_charts(server, console, browser):
    fill(server)
    one = console(server)
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "light")
    page.open(f"#/q/{one.key('orders')}/s/scheduled", "text=2026-12-0000")
    page.page.wait_for_selector(".uplot")
    page.page.evaluate("""() => {
        const link = [...document.querySelectorAll('td a')].find((one) => one.textContent === '2026-12-0030');
        link.scrollIntoView();
        getSelection().selectAllChildren(link);
        window.before = { link, plot: document.querySelector('.uplot'), scroll: scrollY };
    }""")
    server.run("ORDER.SCHEDULE", "orders", "one-more", "PX", 900_000)
    page.refreshes(3)
    page.page.wait_for_selector("text=one-more")
    got = page.page.evaluate("""() => ({ selected: String(getSelection()), scroll: scrollY - before.scroll,
        there: before.link.isConnected,
        plot: document.querySelector('.uplot') === before.plot })""")
    assert before_is_kept(got), got
    page.close()


def before_is_kept(got):
    return got["selected"] == "2026-12-0030" and got["there"] and got["plot"] and abs(got["scroll"]) <= 60


def test_queues_are_sorted_as_asked(server, console, browser):
    fill(server)
    one = console(server)
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "light")
    first = lambda: page.page.locator("tbody tr td:first-child").all_inner_texts()
    worst = ["orders", "<b>evil</b>", "idem"]
    until(lambda: first() == worst, 20, "the worst first")
    heading = lambda name: page.page.locator("th button", has_text=name).first
    heading("queue").click()
    page.page.wait_for_selector("th[aria-sort=ascending]")
    assert first() == ["<b>evil</b>", "idem", "orders"]
    heading("queue").click()
    page.page.wait_for_selector("th[aria-sort=descending]")
    assert first() == ["orders", "idem", "<b>evil</b>"]
    heading("dead").click()
    page.until("document.querySelector('tbody td').textContent.trim() === '<b>evil</b>'")
    page.refreshes(2)
    assert first() == ["<b>evil</b>", "orders", "idem"]
    page.page.locator("button", has_text="Worst first").click()
    until(lambda: first() == worst, 20, "the worst first")
    assert one.ask("/api/queues?sort=secret")[0] == 400 and one.ask("/api/queues?limit=x")[0] == 400
    page.close()


def test_the_toggle_turns_the_theme(server, console, browser):
    one = console(server)
    page = Page(browser, one, 1280, "light")
    ground = lambda: page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    before = ground()
    page.page.locator("#theme").click()
    assert ground() != before
    page.page.reload()
    page.page.wait_for_selector("body[data-ready]")
    assert ground() != before, "it is kept"
    page.close()


def test_hostile_names_are_shown_harmlessly(server, console, browser):
    fill(server)
    one = console(server)
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 400, "light")
    page.page.wait_for_selector("text=<b>evil</b>")
    page.open(f"#/q/{one.key('<b>evil</b>')}", ".tabs")
    said = page.page.locator("main").inner_text()
    for word in (
        "<script>document.title='broken'</script>",
        "onerror=alert(1)",
        "nul\\x00and\\x1b[31m",
        "🦀",
        "<i>status</i>",
        "<script>alert(1)</script>",
        "\\xe2\\x80\\xaeright to left",
    ):
        assert word in said, word
    for tag in ("script", "img", "i", "u"):
        assert page.page.locator(f"main {tag}").count() == 0, tag
    assert page.page.locator("main b").count() == page.page.locator("main .tile b").count() == 12
    page.check("hostile-light-400")
    # An order with such an id, found by a click, and by what is shown of it.
    page.page.locator("td a", has_text="<script>document").click()
    page.page.wait_for_selector("dl")
    assert "<img src=x onerror=alert(1)>" in page.page.locator("dl").inner_text()
    assert "broken" not in page.page.title()
    page.check("hostile-order-light-400")
    page.page.locator("#id").fill("nul\\x00and\\x1b[31m")
    page.page.locator("#id").press("Enter")
    page.page.wait_for_selector("td a:has-text('nul')")
    page.page.locator("#id").fill("<img src=x onerror=alert(1)>")
    page.page.locator("#id").press("Enter")
    page.page.wait_for_selector("h1:has-text('<img src=x')")
    page.check("hostile-find-light-400")
    page.close()


def test_a_click_asks_before_it_does(server, console, browser):
    fill(server)
    one = console(server, "--operate")
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "dark")
    page.open(f"#/q/{one.key('orders')}", ".uplot")
    paused = lambda: stats(server, "orders")["paused_ms"]
    page.page.locator("button", has_text="Pause").click()
    page.page.locator("#no").click()
    page.refreshes(1)
    assert paused() == -2
    page.page.locator("button", has_text="Pause").click()
    page.check("ask-dark-1280")
    page.page.locator("#yes").click()
    until(lambda: paused() == -1, 20, "it is paused")
    page.page.wait_for_selector("button:has-text('Resume')")
    page.page.wait_for_selector("#notice:has-text('pause: OK')")
    # One order, from its own page.
    page.open(f"#/q/{one.key('orders')}/o/bGF0ZS0w", "dl")
    page.page.locator("button", has_text="Requeue").click()
    page.page.locator("#yes").click()
    page.page.wait_for_selector("#notice:has-text('requeue: moved 1, left 0')")
    assert stats(server, "orders")["dead"] == 0
    page.close()


def test_addresses_that_mean_nothing_are_answered_on_the_page(server, console, browser):
    fill(server)
    one = console(server)
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "light")
    connected = lambda: page.page.locator("#connection").inner_text()
    for hash_ in (
        "#/find/!!!",
        "#/find",
        "#/q/bm9uZQ",
        "#/q/!!",
        "#/q",
        "#/q/../../operate",
        f"#/q/{one.key('orders')}/o/bm9uZQ",
        f"#/q/{one.key('orders')}/s/nothing",
        "#/q/%00/o/%00",
    ):
        page.open(hash_, ".banner.lost")
        page.refreshes(1)
        assert connected().startswith("3 queues, read at"), hash_
        page.open("#/", "tbody tr")
    page.complaints = [words for words in page.complaints if "Failed to load resource" not in words]
    page.check("nothing-light-1280")
    page.close()


def test_names_that_are_too_long_are_counted(server, console, browser):
    server.run("ORDER.SCHEDULE", "x" * 2048, "1", "PX", 900_000)
    server.run("ORDER.SCHEDULE", "y" * 2049, "1", "PX", 900_000)
    one = console(server)
    until(lambda: one.names() == {"x" * 2048} and one.queues()["too_long"] == 1, 20, "one is read, one is counted")
    page = Page(browser, one, 400, "light")
    page.page.wait_for_selector("text=1 with names that are too long")
    page.page.locator("td a").click()
    page.page.wait_for_selector(".tabs")
    page.check("long-light-400")
    page.close()


def test_a_console_that_ends_is_said_on_its_page(server, console, browser):
    fill(server)
    one = console(server)
    until(lambda: len(one.names()) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "light")
    page.page.wait_for_selector("tbody tr")
    one.end()
    page.until(
        "/^this page has no answer from console.sh for \\d+ s$/.test(document.getElementById('connection').textContent)"
    )
    assert page.page.locator("tbody tr").count() == 3, "what was known is still shown"
    page.close()
