"""The page of console.sh: see there. Serves one page and its figures on loopback."""

import argparse
import asyncio
import base64
import collections
import functools
import hmac
import json
import logging
import secrets
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis
from aiohttp import web

from reading import NOT_CONNECTED, Reader, add_options, meant, said, shown

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
#: What is served of the packages.
PACKAGES = {
    "uPlot.iife.min.js": "uplot/dist/uPlot.iife.min.js",
    "uPlot.min.css": "uplot/dist/uPlot.min.css",
    **{
        f"lit/{name}": f"lit-html/{name}"
        for name in (
            "lit-html.js",
            "directive.js",
            "directive-helpers.js",
            "directives/repeat.js",
            "directives/live.js",
        )
    },
}
#: What a page of another site can not send along.
HEADER = "X-Orderwheel-Console"
STATES = ("dead", "expired", "retrying", "leased", "scheduled", "finished", "reserved")
#: What the overview shows of a queue, and may sort by.
COLUMNS = (
    "orders",
    "overdue",
    "oldest_overdue_ms",
    "dead",
    "live_claims",
    "retrying",
    "claim_waiters",
    "due_per_s",
    "closed_per_s",
    "close_ms_p99_1m",
    "lateness_ms_p99_1m",
    "bytes",
)
TOTALS = ("orders", "overdue", "dead", "live_claims", "retrying", "claim_waiters", "bytes", "due_per_s", "closed_per_s")
#: Rows of the overview at once, rows of what needs a look, and points of a small chart.
ROWS, ALARMS, SPARK = 500, 20, 60
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: As much of a payload or result is shown.
VALUE_MAX = 4096
#: Seconds that a body may take.
BODY_S = 5
#: Connections at once; each page has a few.
CONNECTIONS_MAX = 200
log = logging.getLogger("console")
answer_json = functools.partial(web.json_response, dumps=functools.partial(json.dumps, allow_nan=False))


def encoded(data):
    """Bytes as they travel in addresses."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text):
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, TypeError):
        raise web.HTTPBadRequest(text="not a name") from None


def value(given):
    """A field of an order for the page."""
    if given is None or isinstance(given, (int, float)):
        return given
    text = shown(given)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}… ({len(given)} bytes)"


class Console:
    """The server. One thread reads again and again; what the page asks for besides does not wait for it."""

    def __init__(self, options, token):
        self.options, self.token = options, token
        self.cookie = f"orderwheel-console-{options.listen}"
        self.hosts = {f"{name}:{options.listen}" for name in ("127.0.0.1", "localhost")}
        self.reader = Reader(options)
        self.worker = ThreadPoolExecutor(1, "reader")
        self.lookups = ThreadPoolExecutor(4, "lookup")
        self.walks = collections.OrderedDict()
        self.stopped = None
        self.told = {}
        # Those who had the token last are the last of them.
        self.connections = collections.OrderedDict()

    async def ask(self, call, *arguments):
        """Runs something on a thread of the lookups. What the server says is told as it is."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.lookups, call, *arguments)
        except NOT_CONNECTED as error:
            raise web.HTTPServiceUnavailable(text=f"not connected: {said(error)}") from None
        except redis.RedisError as error:
            raise web.HTTPConflict(text=said(error)) from None

    async def watch(self, _app):
        """Looks again and again. Nothing but the end of the program ends it."""

        async def loop():
            while True:
                try:
                    await asyncio.get_running_loop().run_in_executor(self.worker, self.reader.refresh)
                    self.stopped = None
                except Exception as error:  # noqa: BLE001: whatever it is, the next look comes
                    words = f"{type(error).__name__}: {shown(str(error))}"
                    if self.stopped is None:
                        log.exception("reading failed")
                    self.stopped = (self.stopped or (time.time(),))[0], words
                # The first time all queues are read without a break.
                going_on = not self.stopped and not self.reader.view.troubles and not self.reader.complete()
                await asyncio.sleep(0.05 if going_on else self.options.every)

        task = asyncio.create_task(loop())
        yield
        task.cancel()

    # --- who may ask ------------------------------------------------------------------

    @web.middleware
    async def guard(self, request, handler):
        """Who may ask: on this machine, with the token, and from this page. Every answer has the same headers."""
        try:
            response = await self._guarded(request, handler)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=error.text)
        except Exception:  # noqa: BLE001: an answer of the server's own would lack the headers
            log.exception("%s %s failed", request.method, shown(request.path))
            response = web.Response(status=500, text="the console failed; its log says why")
        if request.method == "POST" and response.status >= 400 and response.status not in (409, 503):
            try:
                wanted = await self._wanted(request)
            except Exception as error:  # noqa: BLE001: as above; a body may be anything, also too deep to be read
                wanted = f"a body that was not read: {type(error).__name__}"
            log.warning("refused from %s: %s: %s", request.remote, wanted, shown(response.text))
        response.headers.update(HEADERS)
        return response

    async def _wanted(self, request):
        """What an operation asked for, in words for the log."""
        data = await self._body(request)
        try:
            wanted = json.loads(data)
            return " ".join(
                [
                    shown(wanted["act"])[:100],
                    *(shown(decoded(wanted[name]))[:300] for name in ("queue", "order") if wanted.get(name)),
                ]
            )
        except (web.HTTPException, ValueError, KeyError, TypeError, AttributeError):
            return shown(data[:300])

    @staticmethod
    async def _body(request):
        """The body of a request. Whoever sends it in drops has so long for all of it."""
        return await asyncio.wait_for(request.read(), BODY_S)

    async def _guarded(self, request, handler):
        # A name of another site that leads here is not ours.
        if request.host not in self.hosts:
            raise web.HTTPForbidden(text="wrong host")
        if request.path == "/" and "token" in request.query:
            if not self._same(request.query["token"]):
                self._refused(request)
                raise web.HTTPForbidden(text="wrong token: each start of console.sh has a new one")
            response = web.Response(status=303, headers={"Location": "/"})
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="Strict", path="/")
            return response
        if not self._same(request.cookies.get(self.cookie, "")):
            self._refused(request)
            raise web.HTTPForbidden(text="open the address that console.sh printed: it has the token")
        if request.transport in self.connections:
            self.connections.move_to_end(request.transport)
        if request.method == "POST":
            origin = request.headers.get("Origin")
            if request.headers.get(HEADER) != "1" or (
                origin is not None and origin not in {f"http://{host}" for host in self.hosts}
            ):
                raise web.HTTPForbidden(text="not from the page")
        return await handler(request)

    def _same(self, given):
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def _refused(self, request):
        """The log has a wrong or lacking token once a minute: a forgotten page asks every two seconds."""
        if time.monotonic() - self.told.get(request.remote, -60) >= 60:
            self.told = {request.remote: time.monotonic()}
            log.warning("refused from %s: no token, or a wrong one", request.remote)

    # --- what is served ---------------------------------------------------------------

    async def static(self, request):
        name = request.match_info.get("name") or "index.html"
        path = Path(self.options.node) / "node_modules" / PACKAGES[name] if name in PACKAGES else STATIC / name
        # No file of ours has such a long name, and the system refuses to look for one.
        if "/" in name and name not in PACKAGES or path.suffix not in TYPES or len(name) > 100 or not path.is_file():
            raise web.HTTPNotFound(text="no such page")
        return web.Response(body=path.read_bytes(), content_type=TYPES[path.suffix], charset="utf-8")

    def state(self):
        """How the reading goes: what every view shows."""
        view, now = self.reader.view, time.time()
        status = view.status
        if self.stopped is not None:
            status = f"reading fails for {int(now - self.stopped[0])} s", self.stopped[1]
        return {
            "server": self.options.socket or f"{self.options.host}:{self.options.port}",
            "db": self.options.db,
            "nodes": view.nodes,
            "replica_of": view.replica_of and shown(view.replica_of),
            "operate": self.options.operate,
            "status": status and status[0],
            "problem": status and ": ".join(status),
            # Nothing is read: what is shown is what was known.
            "old": self.stopped is not None or len(view.troubles) >= view.nodes,
            "read_at": view.read_at,
            "now": now,
            "look_ms": view.look_ms,
            "every_ms": max(200, int(self.options.every * 1000)),
            "known": len(view.names),
            "read": len(view.rows),
            "walked": view.walked,
            "full": view.full,
            "too_long": view.too_long,
        }

    async def queues(self, request):
        """The queues, the worst first or as asked for, sums over all of them, and what needs a look."""
        view, query = self.reader.view, request.query
        match, sort = query.get("match", "").lower(), query.get("sort", "")
        try:
            limit = min(ROWS, max(0, int(query.get("limit", 100))))
        except ValueError:
            raise web.HTTPBadRequest(text="limit is not a number") from None
        rows = [(shown(key), key, figures) for key, figures in view.rows] if limit else []
        if match:
            rows = [row for row in rows if match in row[0].lower()]
        by = sort.lstrip("-")
        if by == "name":
            rows.sort(key=lambda row: row[0], reverse=sort.startswith("-"))
        elif by in COLUMNS:
            rows.sort(key=lambda row: row[2].get(by, 0), reverse=sort.startswith("-"))
        elif by:
            raise web.HTTPBadRequest(text="no such column")
        alarms = self.alarms(view)
        return answer_json(
            {
                **self.state(),
                "matched": len(rows),
                "alarms": alarms[:ALARMS],
                "more_alarms": max(0, len(alarms) - ALARMS),
                "totals": {
                    **{name: round(sum(figures.get(name, 0) for _, figures in view.rows), 2) for name in TOTALS},
                    "oldest_overdue_ms": max((figures["oldest_overdue_ms"] for _, figures in view.rows), default=0),
                },
                "oldest_read_s": round(
                    time.time() - min((figures["at"] for _, figures in view.rows), default=time.time()), 1
                ),
                "queues": [
                    {
                        "key": encoded(key),
                        "name": name,
                        **{column: figures.get(column, 0) for column in COLUMNS},
                        "paused_ms": figures["paused_ms"],
                        "brake_ms": figures.get("claim_limit_wait_ms", 0),
                        "spark": [point[3] for point in view.history.get(key, ())[-SPARK:]],
                    }
                    for name, key, figures in rows[:limit]
                ],
            }
        )

    def alarms(self, view):
        """What an operator should look at: dead orders with the last error, what is not read, pauses, the brake."""
        rows = []
        for key, figures in view.rows:
            one = {"key": encoded(key), "name": shown(key)}
            if figures["dead"]:
                rows.append(
                    {
                        **one,
                        "kind": "dead",
                        "count": figures["dead"],
                        "order": figures.get("newest_dead") or None,
                        "text": figures.get("newest_dead_error") or "no error was given",
                    }
                )
        rows.extend(
            {
                "key": None,
                "name": trouble.where,
                "kind": "not read",
                "count": 1,
                "order": None,
                "since": trouble.since,
                "text": trouble.error,
            }
            for _, trouble in view.unread
        )
        for key, figures in view.rows:
            one = {"key": encoded(key), "name": shown(key), "order": None}
            if figures["paused_ms"] != -2:
                rows.append(
                    {**one, "kind": "paused", "count": 1, "text": figures.get("pause_reason") or "no reason given"}
                )
            if figures.get("claim_limit_wait_ms") and figures.get("expired"):
                limit = figures.get("claims-per-s-max")
                text = f"claims-per-s-max {limit} holds {figures['expired']} orders back"
                rows.append({**one, "kind": "brake", "count": 1, "text": text})
        return rows

    async def queue(self, request):
        """One queue: figures, history, and some orders in a state."""
        key, view = decoded(request.match_info["key"]), self.reader.view
        figures = view.figures.get(key)
        if figures is None:
            trouble = dict(view.unread).get(key)
            raise web.HTTPNotFound(text=f"not read: {trouble.error}" if trouble else "no such queue")
        state = request.query.get("state", "dead")
        if state not in STATES:
            raise web.HTTPBadRequest(text="no such state")
        self.reader.open(key)
        walk = self.walks.setdefault((key, state), self.reader.walk(key, state))
        self.walks.move_to_end((key, state))
        while len(self.walks) > 20:
            self.walks.popitem(last=False)
        # Where there is none, nobody needs to look.
        rows = await self.ask(walk.step) if figures.get(state, 1) else []
        return answer_json(
            {
                "key": encoded(key),
                "name": shown(key),
                "figures": figures,
                "history": view.history.get(key, ()),
                "now": time.time(),
                "whole": walk.whole or not figures.get(state, 1),
                "more": walk.more,
                "looked": walk.looked,
                "newest_dead_key": encoded(meant(figures["newest_dead"])) if figures.get("newest_dead") else None,
                "orders": [
                    {
                        "key": encoded(order),
                        "id": shown(order),
                        "state": shown(state),
                        "status": value(status),
                        "deadline": deadline,
                        "owner": value(owner),
                        "attempt": attempt,
                        "error": value(error),
                    }
                    for order, state, status, deadline, owner, attempt, error in rows
                ],
            }
        )

    async def order(self, request):
        """All that is known of an order."""
        key, order = decoded(request.match_info["key"]), decoded(request.match_info["order"])
        if not 1 <= len(order) <= 255:
            raise web.HTTPBadRequest(text="an id has 1 to 255 bytes")
        record = await self.ask(self.reader.order, key, order)
        if record is None:
            raise web.HTTPNotFound(text=f"{shown(key)} has no order {shown(order)}")
        return answer_json(
            {
                "key": encoded(order),
                "id": shown(order),
                "queue": shown(key),
                "now": time.time(),
                "state": value(record["state"]),
                "held": record["lease_ms"] != -2,
                "fields": [[name, value(given)] for name, given in record.items()],
            }
        )

    async def find(self, request):
        """The queues that have an order of this id: as it was typed, or as it is shown."""
        typed, only = request.query.get("id", ""), request.query.get("queue")
        ids = [
            one
            for one in dict.fromkeys((typed.encode("utf-8", "surrogateescape"), meant(typed)))
            if 1 <= len(one) <= 255
        ]
        if not ids:
            raise web.HTTPBadRequest(text="an id has 1 to 255 bytes")
        found, asked, known, unread = [], 0, 0, 0
        for order in ids:
            if only is not None:
                record = await self.ask(self.reader.order, decoded(only), order)
                hits, asked, known, unread = [(decoded(only), record)] if record else [], 1, 1, 0
            else:
                hits, asked, known, unread = await self.ask(self.reader.find, order)
            found += [
                {
                    "queue": encoded(key),
                    "name": shown(key),
                    "order": encoded(order),
                    "id": shown(order),
                    "state": value(record["state"]),
                    "status": value(record["status"]),
                    "deadline": record["deadline"],
                    "error": value(record["error"]),
                }
                for key, record in hits
            ]
        return answer_json({"found": found[:100], "asked": asked, "known": known, "unread": unread, "now": time.time()})

    async def operate(self, request):
        """Requeue, pause, resume, break: only with --operate, and each is logged, also if it is refused."""
        if not self.options.operate:
            raise web.HTTPForbidden(text="read-only: start it with --operate")
        try:
            wanted = json.loads(await self._body(request))
            if not isinstance(wanted, dict) or not all(isinstance(one, str) for one in wanted.values()):
                raise ValueError
            act, key = wanted["act"], decoded(wanted["queue"])
            order = decoded(wanted["order"]) if wanted.get("order") else None
        except asyncio.TimeoutError:
            raise web.HTTPRequestTimeout(text="the body did not come") from None
        except (ValueError, KeyError, RecursionError, web.RequestPayloadError):
            raise web.HTTPBadRequest(text="not understood") from None
        commands = {
            "requeue": ("ORDER.REQUEUE", key, "ID", order) if order else ("ORDER.REQUEUE", key),
            "requeue-retrying": ("ORDER.REQUEUE", key, "STATE", "retrying"),
            "pause": ("ORDER.PAUSE", key, "REASON", "console"),
            "resume": ("ORDER.RESUME", key),
            "break": ("ORDER.BREAK", key, order),
        }
        command = commands.get(act)
        if command is None or None in command or key not in self.reader.view.figures:
            raise web.HTTPBadRequest(text="not understood")
        try:
            if act == "break":
                command += (await self._fence(key, order, wanted.get("owner")),)
            words = " ".join(shown(word) for word in command)
            answer = self._said(
                act, await self.ask(functools.partial(self.reader.source.execute, key, *command, tries=1))
            )
        except web.HTTPServiceUnavailable as error:
            # It may be on its way: a server that hangs does it when it goes on.
            words = f"{error.text}; unless the server is gone it may be done yet: look before you do it again"
            log.warning("%s from %s: %s", " ".join(shown(word) for word in command), request.remote, words)
            raise web.HTTPServiceUnavailable(text=words) from None
        except web.HTTPException as error:
            log.warning("%s from %s: %s", " ".join(shown(word) for word in command), request.remote, error.text)
            raise
        log.warning("%s from %s: %s", words, request.remote, answer)
        for walk in [walk for walk in self.walks if walk[0] == key]:
            del self.walks[walk]
        return answer_json({"answer": answer})

    async def _fence(self, key, order, owner):
        """The fence of the lease that the operator saw: one that somebody else got meanwhile is not broken."""
        record = await self.ask(self.reader.order, key, order)
        if record is None or record["lease_ms"] == -2:
            raise web.HTTPConflict(text="nobody holds it")
        if owner is not None and value(record["owner"]) != owner:
            raise web.HTTPConflict(text=f"{value(record['owner'])} holds it now")
        return record["fence"]

    @staticmethod
    def _said(act, answer):
        """An answer in words."""
        if act.startswith("requeue"):
            return f"moved {answer[0]}, left {answer[1]}"
        if isinstance(answer, dict):
            answer = answer[b"outcome"]
        return shown(answer)

    async def serve(self, listener):
        """Serves until the program is told to end. Accepts by itself: anybody on this machine can open connections
        without an end, and the page is to be answered all the same."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=2)
        await runner.setup()
        accepting = asyncio.create_task(self._accept(runner.server, listener))
        await stop.wait()
        accepting.cancel()
        await runner.cleanup()

    async def _accept(self, server, listener):
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
                transport, _ = await loop.connect_accepted_socket(server, connection)
            except OSError as error:
                log.warning("a connection was not accepted: %s", error)
                await asyncio.sleep(1)
                continue
            if len(self.connections) >= CONNECTIONS_MAX:
                self.connections = collections.OrderedDict.fromkeys(
                    one for one in self.connections if not one.is_closing()
                )
            if len(self.connections) >= CONNECTIONS_MAX:
                # Who has had no answer for the longest time, the page least of all.
                self.connections.popitem(last=False)[0].abort()
            self.connections[transport] = None

    def app(self):
        app = web.Application(middlewares=[self.guard], client_max_size=65_536)
        app.cleanup_ctx.append(self.watch)
        app.router.add_get("/", self.static)
        app.router.add_get("/api/queues", self.queues)
        app.router.add_get("/api/queue/{key}", self.queue)
        app.router.add_get("/api/order/{key}/{order}", self.order)
        app.router.add_get("/api/find", self.find)
        app.router.add_post("/api/operate", self.operate)
        app.router.add_get("/{name:.+}", self.static)
        return app


def main():
    parser = argparse.ArgumentParser(prog="console.sh", add_help=False)
    add_options(parser)
    parser.add_argument("--listen", type=int, default=6480)
    parser.add_argument("--operate", action="store_true")
    parser.add_argument("--node", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--help", action="help")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    # What is no HTTP, or ends in the middle, is no fault of ours: anybody on this machine could fill the log with it.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    try:
        # Before the address is said: a port that somebody else has is not ours to name.
        listener = socket.create_server(("127.0.0.1", options.listen))
    except (OSError, OverflowError) as error:
        sys.exit(f"console.sh: can not listen on port {options.listen}: {error}")
    options.listen = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    console = Console(options, token)
    print(f"http://127.0.0.1:{options.listen}/?token={token}", flush=True)
    print(
        json.dumps({"operate": options.operate, "server": options.socket or f"{options.host}:{options.port}"}),
        flush=True,
    )
    asyncio.run(console.serve(listener))


if __name__ == "__main__":
    main()
