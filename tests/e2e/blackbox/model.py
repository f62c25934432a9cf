"""What docs/commands.md says of orders, in plain dicts and linear scans.

The model is told of each command and of what the server answered. It decides by itself, and returns what it would
have answered. Only what depends on chance or on the clock is taken over from the server: numbers of revs and fences,
which must grow per order, and which of several claimable orders a CLAIM takes.
"""

import copy
import fnmatch
import os
import time
from collections import Counter

#: Below this all numbers stay.
LIMIT = 2**52
#: What a lease may differ from the asked one: the time between asking and reading, on a busy machine.
SLACK_MS = 120_000
DEFAULTS = {b"max-attempts": 250, b"max-leased": 0, b"transitions": b""}
#: Rules that the model can get wrong, to see that the comparison bites, and the one that it does.
WRONG_RULES = ("move-keeps-attempt", "untried-counts", "exists-after-leased", "late-fence-is-stale", "copy-keeps-session",
               "release-refunds-try", "newest-first")
WRONG = os.environ.get("ORDERWHEEL_BLACKBOX_WRONG", "")


class Differs(Exception):
    """The server's answer is not the model's."""


def now():
    """Unix milliseconds."""
    return int(time.time() * 1000)


def same(what, expected, got):
    """They must be equal."""
    if expected != got:
        raise Differs(f"{what}: expected {expected!r}, got {got!r}")


def fields(what, expected, got):
    """The map must have these fields with these values."""
    if not isinstance(got, dict):
        raise Differs(f"{what}: expected {expected!r}, got {got!r}")
    wrong = {name: (value, got.get(name, "no such field")) for name, value in expected.items()
             if name not in got or got[name] != value}
    if wrong:
        raise Differs(f"{what}: {', '.join(f'{name.decode()}: expected {a!r}, got {b!r}' for name, (a, b) in wrong.items())} in {got!r}")


class Grant:
    """The last lease of an order."""

    def __init__(self, owner, kind, lease, last=False, fp=None, session=0):
        self.owner, self.kind, self.last, self.fp, self.session = owner, kind, last, fp, session
        self.fence, self.live, self.holds = None, True, 1
        self.end = now() + lease
        self.cap = float("inf")


class Order:
    """One record."""

    clock = 0
    #: The command that is being decided, for the report.
    doing = ""

    def __init__(self):
        self.deadline, self.status, self.payload = None, b"", None
        self.rev, self.floor, self.attempt = None, 0, 0
        self.grant, self.dead, self.retry_at, self.error = None, False, None, None
        self.finished, self.result, self.owner, self.finished_deadline, self.fp = False, None, None, -1, None
        self.due()

    def due(self):
        """From now on it may be claimed, after all that might be before."""
        Order.clock += 1
        self.place = Order.clock
        self.why = Order.doing

    def live(self):
        """Whether somebody holds it."""
        return self.grant is not None and self.grant.live

    def state(self):
        """The first line of docs/states.md that fits."""
        if self.finished:
            return b"finished"
        if self.live():
            return b"reserved" if self.deadline is None else b"leased"
        if self.dead or (self.grant and self.grant.last):
            return b"dead"
        if self.retry_at:
            return b"retrying"
        return b"scheduled" if self.deadline > now() else b"expired"

    def forget_grant(self):
        """Somebody else wrote: what the lapse of the last try made stays."""
        if self.grant and self.grant.last and not self.grant.live:
            self.dead = True
        self.grant = None

    def written(self, surely=True):
        """A write: the rev grows, or may grow."""
        if self.rev is not None:
            self.floor = self.rev if surely else self.rev - 1
        self.rev = None

    def shown_error(self):
        """What GET shows."""
        if self.grant and self.grant.last and not self.grant.live:
            return b"lease of " + self.grant.owner + b" ended without a word"
        return self.error


class Queue:
    """One key."""

    def __init__(self):
        self.orders, self.settings, self.paused, self.reason = {}, {}, False, b""

    def get(self, name):
        """A setting."""
        return self.settings.get(name, DEFAULTS[name])

    def allows(self, old, new):
        """Whether the status may change so."""
        rules = self.get(b"transitions")
        return old == new or not rules or old + b">" + new in rules.split(b" ")


class Model:
    """All keys of a server: dbs[number][key]."""

    def __init__(self, outcomes=None):
        self.dbs = [{}, {}]
        self.outcomes = Counter() if outcomes is None else outcomes

    # What is there.

    def queue(self, key, make=False):
        """The queue; an empty one if there is none."""
        queue = self.dbs[0].get(key)
        if queue is None:
            queue = Queue()
            if make:
                self.dbs[0][key] = queue
        return queue

    def sweep(self):
        """Empty queues are gone."""
        for db in self.dbs:
            for key in [key for key, queue in db.items() if not queue.orders and not queue.settings
                        and not queue.paused]:
                del db[key]

    def lapse(self, queue, id_):
        """A live lease ends as if its time had come."""
        order = queue.orders[id_]
        order.grant.live, order.grant.session = False, 0
        order.due()
        if order.deadline is None:
            del queue.orders[id_]

    def lapse_session(self, client):
        """A connection has closed; the (key, id) whose leases end."""
        found = []
        for number, db in enumerate(self.dbs):
            for key, queue in db.items():
                for id_, order in list(queue.orders.items()):
                    if order.live() and order.grant.session == client:
                        self.lapse(queue, id_)
                        # Which of several comes first is the server's business.
                        order.place = None
                        found += [(key, id_)] if number == 0 else []
        self.sweep()
        return found

    def restarted(self):
        """Leases outlive the process; sessions do not."""
        for db in self.dbs:
            for queue in db.values():
                if isinstance(queue, Queue):
                    self.loaded(queue)

    # Comparison.

    def number(self, what, order, got):
        """The rev: known, or adopted if it has grown."""
        if order.rev is None:
            if not (isinstance(got, int) and order.floor < got < LIMIT):
                raise Differs(f"{what}: rev {got!r} must be above {order.floor}")
            order.rev = got
        else:
            same(f"{what}: rev", order.rev, got)

    def lease(self, what, order, got):
        """What is left of a lease."""
        if order is None or not order.live():
            same(f"{what}: lease_ms", -2, got)
        elif not (got > 0 and abs(order.grant.end - now() - got) < SLACK_MS):
            raise Differs(f"{what}: lease_ms {got}, expected about {order.grant.end - now()}")

    def order_reply(self, got, outcome, order, was):
        """The order reply."""
        want = {b"outcome": outcome, b"state": order.state() if order else b"missing", b"status": order.status if order else None,
                b"deadline": -1 if order is None or order.finished or order.deadline is None else order.deadline, b"was": was,
                b"result": order.result if order else None}
        fields("order reply", want, got)
        if order is None:
            same("rev", 0, got[b"rev"])
        else:
            self.number("order reply", order, got[b"rev"])
        self.lease("order reply", order, got[b"lease_ms"])
        same("fields", 8, len(got))

    def lease_reply(self, got, outcome, order, state=None):
        """The lease reply."""
        grant = order.grant if order else None
        want = {b"outcome": outcome, b"holds": grant.holds if grant and grant.live else 0,
                b"state": state or (order.state() if order else b"missing"),
                b"status": order.status if order else None, b"result": order.result if order else None}
        fields("lease reply", want, got)
        if grant and grant.fence is None:
            self.fence(order, got[b"fence"])
        same("fence", grant.fence if grant else 0, got[b"fence"])
        self.lease("lease reply", order, got[b"lease_ms"])

    def fence(self, order, got):
        """A new grant: its fence has grown."""
        if not (isinstance(got, int) and order.floor < got < LIMIT):
            raise Differs(f"fence {got!r} must be above {order.floor}")
        order.grant.fence = got
        order.floor = max(order.floor, got - 1)

    # Commands. Each gets its queue's key, its options as a dict, and the server's answer.

    def decide_schedule(self, queue, o):
        """The outcome, and the order after it."""
        order = queue.orders.get(o["id"])
        flag = o.get("flag")
        if not flag and (o.get("from") or "ifrev" in o or "fence" in o or o.get("cmp")):
            flag = "XX"
        if order is None:
            if flag == "XX":
                return b"MISSING", None
            order = queue.orders[o["id"]] = Order()
            order.status = o.get("status", b"")
            order.payload = o.get("payload")
            order.deadline = o["at"]
            return b"OK", order
        fence_holds = "fence" in o and order.grant is not None and order.grant.fence == o["fence"]
        reserved = order.state() == b"reserved"
        if order.finished:
            if flag not in ("XX", "UPSERT") or not o.get("from") or order.status not in o["from"]:
                return b"FINISHED", order
        elif not reserved and flag in (None, "NX"):
            return b"LEASED" if WRONG == "exists-after-leased" and order.live() else b"EXISTS", order
        if "fence" in o and not fence_holds:
            return b"STALE", order
        if order.live() and "fence" not in o:
            return b"LEASED", order
        if reserved and flag == "XX":
            return b"MISSING", order
        if "ifrev" in o and o["ifrev"] != order.rev:
            return b"STALE", order
        if o.get("from") and order.status not in o["from"]:
            return b"STATE", order
        if not queue.allows(order.status, o.get("status", order.status)):
            return b"STATE", order
        if order.deadline is not None and not order.finished:
            if o.get("cmp") == "GT" and o["at"] <= order.deadline or o.get("cmp") == "LT" and o["at"] >= order.deadline:
                return b"UNCHANGED", order
        if order.finished:
            order.finished, order.result, order.owner, order.finished_deadline, order.fp = False, None, None, -1, None
        tries = order.attempt
        order.deadline, order.attempt, order.dead, order.retry_at, order.error = o["at"], 0, False, None, None
        order.status = o.get("status", order.status)
        order.payload = o.get("payload", order.payload)
        if WRONG == "move-keeps-attempt":
            order.attempt = tries
        order.due()
        if not (fence_holds and order.grant.kind == b"lock" and order.grant.live):
            order.grant = None
        order.written()
        return b"OK", order

    def do_schedule(self, key, o, got):
        """ORDER.SCHEDULE."""
        queue = self.queue(key, True)
        was = self.state(queue, o["id"])
        outcome, order = self.decide_schedule(queue, o)
        self.order_reply(got, outcome, order, was)

    def state(self, queue, id_):
        """The state of an order, also of none."""
        order = queue.orders.get(id_)
        return order.state() if order else b"missing"

    def finish(self, queue, o, order, owner):
        """It is finished."""
        order.finished_deadline = -1 if order.deadline is None else order.deadline
        order.fp = order.grant.fp if order.grant else None
        order.finished, order.result, order.owner = True, o.get("result"), owner
        order.status = o.get("status", order.status)
        order.grant, order.dead, order.retry_at, order.error, order.payload, order.deadline = None, False, None, None, None, None
        order.written()
        if o.get("keep") == 0:
            del queue.orders[o["id"]]

    def decide_finish(self, queue, o):
        """The outcome, and the order after it."""
        order = queue.orders.get(o["id"])
        if order is None:
            if not o.get("create"):
                return b"MISSING", None
            order = queue.orders[o["id"]] = Order()
            self.finish(queue, o, order, None)
            return b"OK", order
        if order.finished:
            return b"FINISHED", order
        if "fence" in o and (order.grant is None or order.grant.fence != o["fence"]):
            return b"STALE", order
        if order.live() and "fence" not in o:
            return b"LEASED", order
        if "ifrev" in o and o["ifrev"] != order.rev:
            return b"STALE", order
        if not self.may(queue, order, o):
            return b"STATE", order
        if o.get("strict") and order.deadline is not None and order.deadline <= now():
            return b"EXPIRED", order
        self.finish(queue, o, order, order.grant.owner if "fence" in o else None)
        return b"OK", order

    def may(self, queue, order, o):
        """FROM and transitions."""
        if o.get("from") and order.status not in o["from"]:
            return False
        return queue.allows(order.status, o.get("status", order.status))

    def do_finish(self, key, o, got):
        """ORDER.FINISH."""
        queue = self.queue(key, True)
        was = self.state(queue, o["id"])
        outcome, order = self.decide_finish(queue, o)
        self.after_finish(got, outcome, order, was, queue, o["id"])

    def after_finish(self, got, outcome, order, was, queue, id_):
        """The reply of FINISH and ACK; with KEEP 0 the order is gone."""
        self.order_reply(got, outcome, order if id_ in queue.orders else None, was)

    def do_status(self, key, o, got):
        """ORDER.STATUS."""
        queue = self.queue(key)
        order = queue.orders.get(o["id"])
        was = self.state(queue, o["id"])
        self.order_reply(got, self.decide_status(queue, order, o), order, was)

    def decide_status(self, queue, order, o):
        """The outcome."""
        if order is None:
            return b"MISSING"
        if "fence" in o and (order.grant is None or order.grant.fence != o["fence"]):
            return b"STALE"
        if order.live() and "fence" not in o:
            return b"LEASED"
        if "ifrev" in o and o["ifrev"] != order.rev:
            return b"STALE"
        if order.finished and "payload" in o or not self.may(queue, order, o):
            return b"STATE"
        order.status = o["status"]
        order.payload = o.get("payload", order.payload)
        if "fence" not in o:
            order.forget_grant()
        order.written()
        return b"OK"

    def do_claim(self, key, o, got):
        """ORDER.CLAIM: which of the claimable ones is the server's choice, how many is not."""
        queue = self.queue(key)
        can = [id_ for id_, order in queue.orders.items() if order.state() == b"expired"]
        if "only" in o:
            can = [id_ for id_ in can if id_ == o["only"]]
        room = len(can)
        if queue.get(b"max-leased"):
            live = sum(order.live() and order.grant.kind == b"claim" for order in queue.orders.values())
            room = max(0, queue.get(b"max-leased") - live)
        count = 0 if queue.paused else min(len(can), room, o.get("count", 1))
        if not isinstance(got, list):
            raise Differs(f"expected {count} rows of {can}, got {got!r}")
        same("rows", count, len(got))
        first = sorted(place for id_ in can if (place := queue.orders[id_].place))
        if WRONG == "newest-first":
            first.reverse()
        taken = [place for row in got if row[0] in can and (place := queue.orders[row[0]].place)]
        same(f"CLAIM: in the order in which they became claimable "
             f"{[(id_, queue.orders[id_].place, queue.orders[id_].why) for id_ in can]}", first[:len(taken)], taken)
        for row in got:
            if row[0] not in can:
                raise Differs(f"{row[0]!r} is not claimable; those are {can}")
            can.remove(row[0])
            order = queue.orders[row[0]]
            order.attempt += 1
            most = queue.get(b"max-attempts")
            order.written()
            order.grant = Grant(o["owner"], b"claim", o.get("lease", 3_600_000), bool(most) and order.attempt >= most,
                                session=o.get("session", 0))
            self.fence(order, row[1])
            same("row", [order.deadline, order.attempt, order.status, order.payload], [row[2], row[3], row[5], row[6]])
            self.lease("row", order, row[4])

    def decide_ack(self, queue, o):
        """The outcome, and the order after it."""
        order = queue.orders.get(o["id"])
        if order is None:
            return b"MISSING", None
        if order.finished:
            return b"FINISHED", order
        if order.grant is None or order.grant.fence != o["fence"] or WRONG == "late-fence-is-stale" and not order.live():
            return b"STALE", order
        if not self.may(queue, order, o):
            return b"STATE", order
        self.finish(queue, o, order, order.grant.owner)
        return b"OK", order

    def do_ack(self, key, o, got):
        """ORDER.ACK."""
        queue = self.queue(key)
        was = self.state(queue, o["id"])
        outcome, order = self.decide_ack(queue, o)
        self.after_finish(got, outcome, order, was, queue, o["id"])

    def decide_nack(self, queue, o):
        """The outcome, and the order after it."""
        order = queue.orders.get(o["id"])
        if order is None:
            return b"MISSING", None
        if order.finished:
            return b"FINISHED", order
        if order.grant is None or order.grant.fence != o["fence"]:
            return b"STALE", order
        if order.grant.kind == b"lock":
            return b"STATE", order
        last = order.grant.last
        order.grant = None
        order.due()
        if o.get("untried") and WRONG != "untried-counts":
            order.attempt -= 1
        order.dead = bool(o.get("dead") or last and not o.get("untried"))
        order.retry_at = None
        if not order.dead and o.get("delay") != 0:
            order.retry_at = now() + o.get("delay", 3_600_000)
        if "error" in o:
            order.error = o["error"]
        order.written()
        return b"OK", order

    def do_nack(self, key, o, got):
        """ORDER.NACK."""
        queue = self.queue(key)
        was = self.state(queue, o["id"])
        outcome, order = self.decide_nack(queue, o)
        self.order_reply(got, outcome, order, was)

    def do_lock(self, key, o, got):
        """ORDER.LOCK."""
        queue = self.queue(key, True)
        outcome, order = self.decide_lock(queue, o)
        self.lease_reply(got, outcome, order if outcome != b"MISSING" or order is None or order.deadline else order)

    def decide_lock(self, queue, o):
        """The outcome, and the order after it."""
        order = queue.orders.get(o["id"])
        new = Grant(o["owner"], b"lock", o["lease"], fp=o.get("fp"), session=o.get("session", 0))
        if "max" in o:
            new.cap = now() + o["max"]
            new.end = min(new.end, new.cap)
        if order is None or o.get("xx") and order.state() == b"reserved":
            if o.get("xx"):
                return b"MISSING", order
            order = queue.orders[o["id"]] = Order()
            order.grant = new
            return b"OK", order
        has = order.fp if order.finished else order.grant.fp if order.grant else None
        if has and o.get("fp") and has != o["fp"]:
            return b"MISMATCH", order
        if order.finished:
            return b"FINISHED", order
        grant = order.grant
        if order.live():
            if grant.kind == b"claim" or grant.owner != o["owner"]:
                return b"BUSY", order
            if o.get("reentrant"):
                grant.holds += 1
            grant.end = max(grant.end, min(now() + o["lease"], grant.cap))
            if o.get("session"):
                grant.session = o["session"]
            order.written(False)
            return b"HELD", order
        if order.deadline <= now():
            return b"EXPIRED", order
        order.written()
        order.grant = new
        return b"OK", order

    def decide_held(self, order, o):
        """RENEW, UNLOCK and BREAK: whether the lease is live and the caller's."""
        if order is None:
            return b"MISSING"
        if order.grant is None:
            return b"GONE"
        if "fence" in o and order.grant.fence != o["fence"]:
            return b"STALE"
        return b"OK" if order.grant.live else b"GONE"

    def do_renew(self, key, o, got):
        """ORDER.RENEW."""
        order = self.queue(key).orders.get(o["id"])
        outcome = self.decide_renew(order, o)
        self.lease_reply(got, outcome, order)

    def decide_renew(self, order, o):
        """The outcome."""
        outcome = self.decide_held(order, o)
        if outcome == b"OK":
            new = min(now() + o["lease"], order.grant.cap)
            order.grant.end = min(order.grant.end, new) if o.get("lt") else max(order.grant.end, new)
            if o.get("session"):
                order.grant.session = o["session"]
            order.written(False)
        return outcome

    def do_unlock(self, key, o, got):
        """ORDER.UNLOCK."""
        queue = self.queue(key)
        order = queue.orders.get(o["id"])
        outcome = self.decide_held(order, o)
        if outcome == b"OK":
            order.written(False)
            if order.grant.kind == b"lock" and order.grant.holds > 1:
                order.grant.holds -= 1
                outcome = b"HELD"
            else:
                order = self.give_back(queue, o["id"], untried=True)
        self.lease_reply(got, outcome, order)

    def give_back(self, queue, id_, untried):
        """The end of a lease by UNLOCK or BREAK; the order after it."""
        order = queue.orders[id_]
        if order.deadline is None:
            del queue.orders[id_]
            return None
        if order.grant.kind == b"claim":
            if untried:
                order.attempt -= 1
            elif order.grant.last:
                order.dead = True
        order.grant = None
        order.due()
        return order

    def do_break(self, key, o, got):
        """ORDER.BREAK."""
        queue = self.queue(key)
        order = queue.orders.get(o["id"])
        outcome = self.decide_held(order, o)
        if outcome == b"OK":
            order.written(False)
            order = self.give_back(queue, o["id"], untried=False)
        self.lease_reply(got, outcome, order)

    def do_release(self, key, o, got):
        """ORDER.RELEASE of all leases of an owner."""
        queue = self.queue(key)
        ids = [id_ for id_, order in queue.orders.items() if order.live() and order.grant.owner == o["owner"]]
        same("release", [len(ids), 0], got)
        for id_ in ids:
            if WRONG == "release-refunds-try":
                queue.orders[id_].attempt -= 1
            self.lapse(queue, id_)
            order = queue.orders.get(id_)
            if order:
                # Among themselves by the ends of their leases, and after what falls due in the same millisecond.
                order.place = None

    # Batches.

    def batch(self, got, outcomes):
        """An array of outcome words."""
        same("batch", outcomes, got)

    def do_mschedule(self, key, o, got):
        """ORDER.MSCHEDULE."""
        queue = self.queue(key, True)
        self.batch(got, [self.decide_schedule(queue, o | row)[0] for row in o["rows"]])

    def do_mfinish(self, key, o, got):
        """ORDER.MFINISH."""
        queue = self.queue(key, True)
        self.batch(got, [self.decide_finish(queue, o | row)[0] for row in o["rows"]])

    def do_mack(self, key, o, got):
        """ORDER.MACK."""
        queue = self.queue(key)
        self.batch(got, [self.decide_ack(queue, o | row)[0] for row in o["rows"]])

    def do_mnack(self, key, o, got):
        """ORDER.MNACK."""
        queue = self.queue(key)
        self.batch(got, [self.decide_nack(queue, o | row)[0] for row in o["rows"]])

    def do_mrenew(self, key, o, got):
        """ORDER.MRENEW."""
        queue = self.queue(key)
        self.batch(got, [self.decide_renew(queue.orders.get(row["id"]), o | row) for row in o["rows"]])

    # Reading.

    def do_get(self, key, o, got):
        """ORDER.GET, field by field."""
        order = self.queue(key).orders.get(o["id"])
        if order is None:
            same("get", None, got)
            return
        if not isinstance(got, dict):
            raise Differs(f"GET {o['id']!r}: expected state {order.state()!r}, got {got!r}")
        grant, live = order.grant, order.live()
        want = {
            b"id": o["id"], b"state": order.state(), b"status": order.status,
            b"deadline": -1 if order.deadline is None else order.deadline, b"attempt": order.attempt,
            b"owner": order.owner if order.finished else grant.owner if grant else None,
            b"kind": grant.kind if grant else None, b"holds": grant.holds if live else 0, b"payload": order.payload,
            b"result": order.result, b"error": order.shown_error(),
            b"finished_deadline": order.finished_deadline if order.finished else -1,
        }
        if not o.get("other"):
            want[b"session"] = grant.session if live else 0
        fields("GET", want, got)
        self.number("GET", order, got[b"rev"])
        if grant and grant.fence is None:
            self.fence(order, got[b"fence"])
        same("GET: fence", grant.fence if grant else 0, got[b"fence"])
        self.lease("GET", order, got[b"lease_ms"])
        if order.state() == b"retrying":
            if not order.retry_at * 0.5 < got[b"retry_at"] and got[b"retry_at"] > now():
                raise Differs(f"retry_at {got[b'retry_at']}")
        else:
            same("GET: retry_at", -1, got[b"retry_at"])
        same("GET: finished_at", order.finished, got[b"finished_at"] > 0)
        same("GET: keep_end", order.finished, got[b"keep_end"] > 0)

    def do_pttl(self, key, o, got):
        """ORDER.PTTL."""
        order = self.queue(key).orders.get(o["id"])
        if order is None or order.deadline is None:
            same("PTTL", -2 if order is None else -1, got)
        elif order.deadline <= now():
            same("PTTL", 0, got)
        elif not abs(order.deadline - now() - got) < SLACK_MS:
            raise Differs(f"PTTL {got}, expected about {order.deadline - now()}")

    def do_next(self, key, o, got):
        """ORDER.NEXT; ties in any order."""
        rows = sorted(([id_, order.deadline] for id_, order in self.queue(key).orders.items() if order.state() == b"scheduled"),
                      key=lambda row: row[1])[:o.get("count", 1)]
        same("NEXT: deadlines", [row[1] for row in rows], [row[1] for row in got])
        for id_, deadline in got:
            order = self.queue(key).orders.get(id_)
            same(f"NEXT: {id_!r}", [b"scheduled", deadline], [order and order.state(), order and order.deadline])
        same("NEXT: each once", len(got), len({row[0] for row in got}))

    def matches(self, id_, o):
        """MATCH, in the part of its rules that Python shares."""
        return "match" not in o or fnmatch.fnmatchcase(id_.decode("latin1"), o["match"].decode("latin1"))

    def scan_rows(self, key, o):
        """What a whole iteration of SCAN finds."""
        rows = []
        for id_, order in self.queue(key).orders.items():
            owner = order.grant.owner if order.live() else None
            if not self.matches(id_, o):
                continue
            if o.get("state", order.state()) == order.state() and o.get("status", order.status) == order.status \
                    and ("owner" not in o or o["owner"] == owner):
                rows.append([id_, order.state(), order.status, -1 if order.deadline is None else order.deadline, owner,
                             order.attempt, order.shown_error()])
        return sorted(rows, key=lambda row: row[0])

    def do_stats(self, key, _, got):
        """The counts of ORDER.STATS."""
        queue = self.queue(key)
        names = [b"scheduled", b"expired", b"leased", b"retrying", b"dead", b"finished", b"reserved"]
        want = {name: sum(order.state() == name for order in queue.orders.values()) for name in names}
        want[b"orders"] = len(queue.orders)
        want[b"live_claims"] = sum(order.live() and order.grant.kind == b"claim" for order in queue.orders.values())
        want[b"overdue"] = sum(order.deadline is not None and order.deadline <= now() for order in queue.orders.values())
        want[b"behind_ms"] = 0
        want[b"next_deadline"] = min((order.deadline for order in queue.orders.values() if order.state() == b"scheduled"), default=-1)
        want[b"session_leases"] = sum(bool(order.live() and order.grant.session) for order in queue.orders.values())
        want[b"paused_ms"] = -1 if queue.paused else -2
        want[b"pause_reason"] = queue.reason
        fields("STATS", want, got)

    # Operating.

    def do_pause(self, key, o, got):
        """ORDER.PAUSE."""
        same("PAUSE", b"OK" if key in self.dbs[0] else b"MISSING", got)
        if key in self.dbs[0]:
            self.dbs[0][key].paused, self.dbs[0][key].reason = True, o.get("reason", b"")

    def do_resume(self, key, _, got):
        """ORDER.RESUME."""
        same("RESUME", b"OK" if key in self.dbs[0] else b"MISSING", got)
        self.queue(key).paused, self.queue(key).reason = False, b""

    def do_config(self, key, o, got):
        """ORDER.CONFIG SET and RESET."""
        if o.get("get"):
            want = DEFAULTS | self.queue(key).settings
            fields("CONFIG GET", {name: str(value).encode() if isinstance(value, int) else value for name, value in want.items()}, got)
            return
        same("CONFIG", b"OK", got)
        if "set" in o:
            self.queue(key, True).settings.update(o["set"])
        elif "reset" in o:
            self.queue(key).settings.pop(o["reset"], None)
        else:
            self.queue(key).settings.clear()

    def do_requeue(self, key, o, got):
        """ORDER.REQUEUE without COUNT, or ID."""
        queue = self.queue(key)
        if "ids" in o:
            states, ids = (b"dead", b"retrying"), o["ids"]
        else:
            states = (o.get("state", b"dead"),)
            ids = [id_ for id_, order in queue.orders.items()
                   if o.get("status", order.status) == order.status and self.matches(id_, o)]
        moved = 0
        for id_ in ids:
            order = queue.orders.get(id_)
            if order is not None and order.state() in states:
                moved += 1
                if order.state() == b"dead":
                    order.attempt = 0
                order.grant, order.dead, order.retry_at = None, False, None
                order.due()
                if "ids" not in o:
                    # The order among those that one command brings back goes by times that the model does not know.
                    order.place = None
                order.written()
        left = len(ids) - moved if "ids" in o else sum(order.state() in states for order in queue.orders.values())
        same("REQUEUE", [moved, left], got)

    def do_purge(self, key, o, got):
        """ORDER.PURGE without COUNT."""
        queue = self.queue(key)
        ids = [id_ for id_, order in queue.orders.items() if order.state() == o["state"] and not order.live()
               and o.get("status", order.status) == order.status and self.matches(id_, o)]
        for id_ in ids:
            del queue.orders[id_]
        same("PURGE", [len(ids), sum(order.state() == o["state"] for order in queue.orders.values())], got)

    # Keys.

    def do_del(self, key, _, got):
        """DEL."""
        same("DEL", int(key in self.dbs[0]), got)
        self.dbs[0].pop(key, None)

    def copied(self, queue):
        """COPY and RESTORE: the same queue, bound to no connection."""
        new = copy.deepcopy(queue)
        self.loaded(new)
        return new

    def loaded(self, queue):
        """Came from a file: bound to no connection, and to be claimed in the order of times that the model does not know."""
        for order in queue.orders.values():
            order.place = None
            if order.grant and WRONG != "copy-keeps-session":
                order.grant.session = 0

    def do_copy(self, key, o, got):
        """COPY, with or without REPLACE."""
        done = key in self.dbs[0] and key != o["to"] and (o.get("replace") or o["to"] not in self.dbs[0])
        same("COPY", int(done), got)
        if done:
            self.dbs[0][o["to"]] = self.copied(self.dbs[0][key])

    def do_rename(self, key, o, got):
        """RENAME of a key that is there."""
        if key not in self.dbs[0]:
            if not isinstance(got, Exception):
                raise Differs(f"RENAME: expected an error, got {got!r}")
            return
        same("RENAME", b"OK", got)
        self.dbs[0][o["to"]] = self.dbs[0].pop(key)

    def do_move(self, key, _, got):
        """MOVE to database 1."""
        done = key in self.dbs[0] and key not in self.dbs[1]
        same("MOVE", int(done), got)
        if done:
            self.dbs[1][key] = self.dbs[0].pop(key)

    def do_swapdb(self, _, __, got):
        """SWAPDB 0 1."""
        same("SWAPDB", b"OK", got)
        self.dbs.reverse()

    def do_exists(self, key, _, got):
        """EXISTS."""
        same("EXISTS", int(key in self.dbs[0]), got)

    def do_error(self, _, o, got):
        """A command that must be refused."""
        if not isinstance(got, Exception):
            raise Differs(f"expected an error, got {got!r}")
        if o.get("says") and o["says"] not in str(got):
            raise Differs(f"expected an error with {o['says']!r}, got {got!r}")

    def run(self, command, got):
        """One command and its answer; raises Differs."""
        if isinstance(got, Exception) and command.name not in ("error", "rename"):
            raise Differs(f"expected an answer, got the error {got!r}")
        Order.doing = f"{now()}: {b' '.join(command.argv)[:160]!r}"
        outcomes = [got] if isinstance(got, (bytes, dict)) else got if isinstance(got, list) else []
        for outcome in outcomes:
            outcome = outcome.get(b"outcome") if isinstance(outcome, dict) else outcome
            if isinstance(outcome, bytes) and outcome.isupper() and len(outcome) < 10:
                self.outcomes[f"{command.name} {outcome.decode()}"] += 1
        getattr(self, "do_" + command.name)(command.key, command.options, got)
        self.sweep()

    def unknown(self):
        """(key, id) of orders of whose last write the numbers are not known yet."""
        return [(key, id_) for key, queue in self.dbs[0].items() for id_, order in queue.orders.items()
                if order.rev is None or order.grant and order.grant.fence is None]
