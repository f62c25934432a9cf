"""scripts/console.sh: the page in a browser, and who may ask it what."""

import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import sync_playwright

from support.pages import ROOT
from support.server import TARGET, free_port
from support.wait import until

CONSOLE = ROOT / "scripts/console.sh"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
SCREENSHOTS = TARGET / "screenshots"
HOSTILE = ["<script>document.title='broken'</script>", "\"><img src=x onerror=alert(1)>", "nul\x00and\x1b[31m", "🦀" * 63,
           "' OR 1=1 --", "{{7*7}}", "‮right to left"]


class Console:
    """A console of a server."""

    def __init__(self, server, *more):
        self.port = free_port()
        self.process = subprocess.Popen(
            [CONSOLE, "-s", server.socket, "--listen", str(self.port), "--every", "0.3", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # It installs its packages first.
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.process.stderr.read()
        self.token = self.address.split("token=")[1]
        self.log = []
        threading.Thread(target=lambda: self.log.extend(iter(self.process.stderr.readline, "")), daemon=True).start()
        until(lambda: self.ask("/api/queues")[0] == 200, 30, "the page is served")

    def ask(self, path, method="GET", body=None, cookie=None, **headers):
        """Status, headers and text of an answer."""
        cookie = f"orderwheel-console={self.token}" if cookie is None else cookie
        headers = {"Cookie": cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, headers=headers,
                                         data=body and json.dumps(body).encode())
        opener = urllib.request.build_opener(NoRedirect)
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()
        except urllib.error.URLError:
            return 0, {}, ""

    def queues(self):
        return json.loads(self.ask("/api/queues")[2])

    def key(self, name):
        return next(queue["key"] for queue in self.queues()["queues"] if queue["name"] == name)

    def operate(self, **wanted):
        return self.ask("/api/operate", "POST", wanted, X_Orderwheel_Console="1", Content_Type="application/json")

    def end(self):
        self.process.terminate()
        self.process.wait(20)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


@pytest.fixture
def console(request):
    consoles = []

    def start(server, *more):
        consoles.append(Console(server, *more))
        return consoles[-1]

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
            run("ORDER.SCHEDULE", "<b>evil</b>", order, "PX", 0, "STATUS", "<i>status</i>", "PAYLOAD", "<img src=x onerror=alert(1)>")
        for row in run("ORDER.CLAIM", "<b>evil</b>", "<u>owner</u>", "COUNT", 100, "PX", 60_000):
            run("ORDER.NACK", "<b>evil</b>", row[0], row[1], "DEAD", "ERROR", "<script>alert(1)</script>")


# --- who may ask -----------------------------------------------------------------------


def test_only_who_has_the_token_is_answered(server, console):
    page = console(server)
    for cookie in ("", "orderwheel-console=", f"orderwheel-console={page.token[:-1]}x"):
        for path in ("/", "/api/queues", "/app.js"):
            assert page.ask(path, cookie=cookie)[0] == 403, (path, cookie)
    assert page.ask("/?token=wrong", cookie="")[0] == 403
    status, headers, _ = page.ask(f"/?token={page.token}", cookie="")
    assert status == 303 and headers["Location"] == "/", "the token leaves the address"
    assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"]
    assert page.ask("/api/queues", Host="attacker.example")[0] == 403, "a name of another site that leads here"
    assert page.ask("/../server.py")[0] in (403, 404) and page.ask("/server.py")[0] == 404
    _, headers, _ = page.ask("/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self';" in policy
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"], headers["Cache-Control"]) == (
        "nosniff", "no-referrer", "no-store")


def test_it_listens_on_loopback_alone(server, console):
    page = console(server)
    listening = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
    mine = [words[1].split(":")[0] for words in listening if int(words[1].split(":")[1], 16) == page.port and words[3] == "0A"]
    assert mine == ["0100007F"]


def test_a_console_that_may_not_operate_refuses(server, console):
    fill(server)
    page = console(server)
    until(lambda: len(page.queues()["queues"]) == 3, 20, "it has seen the queues")
    status, _, text = page.operate(act="pause", queue=page.key("orders"))
    assert status == 403 and "read-only" in text
    flat = server.run("ORDER.STATS", "orders")
    assert dict(zip(flat[::2], flat[1::2]))["paused_ms"] == -2


def test_what_is_operated_is_done_and_logged(server, console):
    fill(server)
    page = console(server, "--operate")
    until(lambda: len(page.queues()["queues"]) == 3, 20, "it has seen the queues")
    key = page.key("orders")
    figures = lambda: (lambda flat: dict(zip(flat[::2], flat[1::2])))(server.run("ORDER.STATS", "orders"))
    # Another site can send a request along, and not this header.
    assert page.ask("/api/operate", "POST", {"act": "pause", "queue": key})[0] == 403
    assert figures()["paused_ms"] == -2
    assert page.operate(act="pause", queue=key)[0] == 200 and figures()["paused_ms"] == -1
    assert page.operate(act="resume", queue=key)[0] == 200 and figures()["paused_ms"] == -2
    assert figures()["dead"] == 1
    assert page.operate(act="requeue", queue=key)[0] == 200 and figures()["dead"] == 0
    held = server.run("ORDER.SCAN", "orders", 0, "STATE", "leased", "COUNT", 1000)[1][0][0]
    order = page.ask(f"/api/queue/{key}?state=leased")[2]
    order = next(one["key"] for one in json.loads(order)["orders"] if one["id"] == held)
    assert page.operate(act="break", queue=key, order=order)[0] == 200
    for wrong in ({"act": "flushall", "queue": key}, {"act": "break", "queue": key}, {"act": "pause", "queue": "bm9uZQ"}, {"act": "pause"}):
        assert page.operate(**wrong)[0] == 400, wrong
    until(lambda: len(page.log) >= 4, 10, "it is logged")
    log = "".join(page.log)
    for words in ("ORDER.PAUSE orders REASON console from 127.0.0.1: OK", "ORDER.REQUEUE orders from", f"ORDER.BREAK orders {held} from"):
        assert words in log, log
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", page.log[0])


# --- what is seen ------------------------------------------------------------------------


class Page:
    """A page in the browser, with all that it complains of."""

    def __init__(self, browser, console, width, scheme):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(console.address)
        self.page.wait_for_selector("body[data-ready]")

    def open(self, hash_, wait):
        self.page.evaluate(f"location.hash = {json.dumps(hash_)}")
        self.page.wait_for_selector(wait)

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
    until(lambda: len(one.queues()["queues"]) == 3, 20, "it has seen the queues")
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
            page.check(f"queues-{scheme}-{width}")
            grounds[scheme] = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.open(f"#/q/{key}", ".uplot")
            assert page.page.locator(".uplot").count() == 2
            assert "card service answered 500" in page.page.locator("main").inner_text()
            page.check(f"queue-{scheme}-{width}")
            page.page.locator(".tabs button", has_text="scheduled").click()
            page.page.wait_for_selector("text=2026-12-0000")
            page.page.locator("input").fill("late-0")
            page.page.locator("button", has_text="Find").click()
            page.page.wait_for_selector("dl")
            words = page.page.locator("dl").inner_text()
            for word in ("state", "dead", "card service answered 500", "UTC", "attempt"):
                assert word in words
            page.check(f"order-{scheme}-{width}")
            page.close()
    assert grounds["light"] != grounds["dark"]


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
    until(lambda: len(one.queues()["queues"]) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 400, "light")
    page.page.wait_for_selector("text=<b>evil</b>")
    page.open(f"#/q/{one.key('<b>evil</b>')}", ".uplot")
    said = page.page.locator("main").inner_text()
    for word in ("<script>document.title='broken'</script>", "onerror=alert(1)", "nul\\x00and\\x1b[31m", "🦀", "<i>status</i>",
                 "<script>alert(1)</script>"):
        assert word in said, word
    for tag in ("script", "img", "b", "i", "u"):
        assert page.page.locator(f"main {tag}").count() == (12 if tag == "b" else 0), tag
    page.check("hostile-light-400")
    # An order with such an id, found by a click.
    page.page.locator("td a", has_text="<script>document").click()
    page.page.wait_for_selector("dl")
    assert "<img src=x onerror=alert(1)>" in page.page.locator("dl").inner_text()
    assert page.page.title() == "orderwheel"
    page.check("hostile-order-light-400")
    page.close()


def test_a_click_asks_before_it_does(server, console, browser):
    fill(server)
    one = console(server, "--operate")
    until(lambda: len(one.queues()["queues"]) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "dark")
    page.open(f"#/q/{one.key('orders')}", ".uplot")
    paused = lambda: (lambda flat: dict(zip(flat[::2], flat[1::2])))(server.run("ORDER.STATS", "orders"))["paused_ms"]
    page.page.locator("button", has_text="Pause").click()
    page.page.locator("#no").click()
    assert paused() == -2
    page.page.locator("button", has_text="Pause").click()
    page.check("ask-dark-1280")
    page.page.locator("#yes").click()
    until(lambda: paused() == -1, 20, "it is paused")
    page.page.wait_for_selector("button:has-text('Resume')")
    page.close()


def test_a_restart_of_the_server_is_said_and_survived(serve, console, browser):
    server = serve("appendonly yes")
    fill(server)
    one = console(server)
    until(lambda: len(one.queues()["queues"]) == 3, 20, "it has seen the queues")
    page = Page(browser, one, 1280, "light")
    server.kill()
    page.page.wait_for_selector("text=not connected since", timeout=20_000)
    assert page.page.locator("tbody tr").count() == 3, "what was known is still shown"
    server.start()
    page.page.wait_for_selector("text=3 of 3 queues", timeout=30_000)
    page.close()


def test_a_thousand_queues_are_bounded(server, console, browser):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.execute_command("ORDER.SCHEDULE", f"queue-{number:04}", "1", "PX", 0 if number % 50 == 0 else 600_000)
        pipe.execute()
    one = console(server)
    until(lambda: len(one.queues()["queues"]) == 1000, 60, "it has read all", every=0.2)
    server.run("CONFIG", "RESETSTAT")
    time.sleep(2)
    calls = {line.split(":")[0]: int(re.search(r"calls=(\d+)", line).group(1)) for line in
             server.cli("INFO", "commandstats").splitlines() if "calls=" in line}
    assert calls.get("cmdstat_order.stats", 0) <= 8 * 1000 and "cmdstat_keys" not in calls
    page = Page(browser, one, 1280, "light")
    page.page.wait_for_selector("text=queue-0000")
    assert page.page.locator("tbody tr").first.inner_text().startswith("queue-0"), "the worst first"
    page.close()
