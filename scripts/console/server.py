"""The page of console.sh: see there. Serves one page and its figures on loopback."""

import argparse
import asyncio
import base64
import hmac
import json
import logging
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis
from aiohttp import web

from reading import Reader, add_options, shown

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
COOKIE = "orderwheel-console"
#: A page of a POST: what another site can not send along.
HEADER = "X-Orderwheel-Console"
STATES = ("dead", "expired", "retrying", "leased", "scheduled", "finished", "reserved")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
                               "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
log = logging.getLogger("console")


def encoded(data):
    """Bytes as they travel in addresses."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text):
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise web.HTTPBadRequest(text="not a name") from None


class Console:
    """The server. All that asks Redis runs on one thread, one after the other."""

    def __init__(self, options, token):
        self.options, self.token = options, token
        self.reader = Reader(options)
        self.worker = ThreadPoolExecutor(1)
        self.seen_at = None

    async def ask(self, call, *arguments):
        """Runs something on the thread of the reader. What the server says is told as it is."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.worker, call, *arguments)
        except redis.ResponseError as error:
            raise web.HTTPConflict(text=shown(str(error))) from None
        except (redis.RedisError, OSError) as error:
            self.reader.source.lost()
            raise web.HTTPServiceUnavailable(text=shown(str(error))) from None

    async def watch(self, _app):
        """Looks again and again."""
        async def loop():
            while True:
                if await asyncio.get_running_loop().run_in_executor(self.worker, self.reader.refresh) is None:
                    self.seen_at = time.time()
                await asyncio.sleep(self.options.every)

        task = asyncio.create_task(loop())
        yield
        task.cancel()

    @web.middleware
    async def guard(self, request, handler):
        """Who may ask: on this machine, with the token, and from this page."""
        try:
            response = await self._guarded(request, handler)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=error.text, headers=getattr(error, "headers", None) and {
                name: value for name, value in error.headers.items() if name.lower() in ("location", "set-cookie")})
        response.headers.update(HEADERS)
        return response

    async def _guarded(self, request, handler):
        # A name of another site that leads here is not ours.
        if request.host not in (f"127.0.0.1:{self.options.listen}", f"localhost:{self.options.listen}"):
            raise web.HTTPForbidden(text="wrong host")
        same = lambda given: hmac.compare_digest(given.encode(), self.token.encode())
        if request.path == "/" and "token" in request.query:
            if not same(request.query["token"]):
                raise web.HTTPForbidden(text="wrong token")
            response = web.Response(status=303, headers={"Location": "/"})
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="Strict", path="/")
            return response
        if not same(request.cookies.get(COOKIE, "")):
            raise web.HTTPForbidden(text="the address that console.sh printed has the token")
        if request.method == "POST" and request.headers.get(HEADER) != "1":
            raise web.HTTPForbidden(text="not from the page")
        return await handler(request)

    # --- what is served ---------------------------------------------------------------

    async def static(self, request):
        name = request.match_info.get("name") or "index.html"
        path = STATIC / name
        if name in ("uPlot.iife.min.js", "uPlot.min.css"):
            path = Path(self.options.node) / "node_modules/uplot/dist" / name
        if path.suffix not in TYPES or not path.is_file():
            raise web.HTTPNotFound(text="no such page")
        return web.Response(body=path.read_bytes(), content_type=TYPES[path.suffix], charset="utf-8")

    async def queues(self, _request):
        """Every queue with its figures, the worst first."""
        reader = self.reader
        rows = [{"key": encoded(key), "name": shown(key), **{
            name: value for name, value in figures.items() if not name.startswith("transitions")}}
            for key, figures in reader.worst_first()[:1000]]
        return web.json_response({
            "queues": rows, "known": reader.known, "operate": self.options.operate, "error": reader.error,
            "lost_at": reader.lost_at, "seen_at": self.seen_at, "now": time.time()})

    async def queue(self, request):
        """One queue: figures, history, and some orders in each state that is worth a look."""
        key = decoded(request.match_info["key"])
        if key not in self.reader.queues:
            raise web.HTTPNotFound(text="no such queue")
        state = request.query.get("state", "dead")
        if state not in STATES:
            raise web.HTTPBadRequest(text="no such state")
        rows = await self.ask(self.reader.orders, key, state)
        return web.json_response({
            "name": shown(key), "figures": self.reader.queues[key], "history": list(self.reader.history.get(key, [])),
            "now": time.time(), "orders": [
                {"key": encoded(order), "id": shown(order), "state": shown(state), "status": shown(status), "deadline": deadline,
                 "owner": owner and shown(owner), "attempt": attempt, "error": error and shown(error)}
                for order, state, status, deadline, owner, attempt, error in rows]})

    async def order(self, request):
        """All that is known of an order."""
        key, order = decoded(request.match_info["key"]), decoded(request.match_info["order"])
        if len(order) > 255:
            raise web.HTTPBadRequest(text="an id has at most 255 bytes")
        record = await self.ask(self.reader.order, key, order)
        if record is None:
            raise web.HTTPNotFound(text="no such order")
        return web.json_response({"id": shown(order), "fields": [
            [name, value if isinstance(value, (int, float)) or value is None else shown(value)[:4096]]
            for name, value in record.items()]})

    async def operate(self, request):
        """Requeue, pause, resume, break: only with --operate, and each is logged."""
        if not self.options.operate:
            raise web.HTTPForbidden(text="read-only: start it with --operate")
        try:
            wanted = await request.json()
            act, key = wanted["act"], decoded(wanted["queue"])
            order = decoded(wanted["order"]) if wanted.get("order") else None
        except (ValueError, KeyError, TypeError):
            raise web.HTTPBadRequest(text="not understood") from None
        commands = {
            "requeue": ("ORDER.REQUEUE", key, "ID", order) if order else ("ORDER.REQUEUE", key),
            "requeue-retrying": ("ORDER.REQUEUE", key, "STATE", "retrying"),
            "pause": ("ORDER.PAUSE", key, "REASON", "console"),
            "resume": ("ORDER.RESUME", key),
            "break": ("ORDER.BREAK", key, order),
        }
        command = commands.get(act)
        if command is None or None in command or key not in self.reader.queues:
            raise web.HTTPBadRequest(text="not understood")
        said = lambda answer: " ".join(said(one) for one in answer) if isinstance(answer, list) else shown(answer)
        words = " ".join(shown(word) for word in command)
        try:
            answer = await self.ask(lambda: self.reader.source.of(key).execute_command(*command))
        except web.HTTPException as error:
            log.warning("%s from %s: %s", words, request.remote, error.text)
            raise
        log.warning("%s from %s: %s", words, request.remote, said(answer))
        return web.json_response({"answer": said(answer)})

    def app(self):
        app = web.Application(middlewares=[self.guard], client_max_size=65_536)
        app.cleanup_ctx.append(self.watch)
        app.router.add_get("/", self.static)
        app.router.add_get("/api/queues", self.queues)
        app.router.add_get("/api/queue/{key}", self.queue)
        app.router.add_get("/api/order/{key}/{order}", self.order)
        app.router.add_post("/api/operate", self.operate)
        app.router.add_get("/{name}", self.static)
        return app


def main():
    parser = argparse.ArgumentParser(prog="console.sh", add_help=False)
    add_options(parser)
    parser.add_argument("--listen", type=int, default=6480)
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--operate", action="store_true")
    parser.add_argument("--node", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--help", action="help")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    token = secrets.token_urlsafe(24)
    console = Console(options, token)
    print(f"http://127.0.0.1:{options.listen}/?token={token}", flush=True)
    print(json.dumps({"operate": options.operate, "server": options.socket or f"{options.host}:{options.port}"}), flush=True)
    web.run_app(console.app(), host="127.0.0.1", port=options.listen, print=None, access_log=None)


if __name__ == "__main__":
    main()
