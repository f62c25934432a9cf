"""Random commands: what the model understands, and the words that are sent."""

from dataclasses import dataclass, field

from .model import now

HOUR = 3_600_000
KEYS = [b"q0", b"q1", b"q2"]
IDS = [b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"order:9", b"x" * 255, b"a\0b\r\n", b"\xff\xfe\x80", b"*?[a]", b" "]
STATUSES = [b"", b"unpaid", b"paid", b"closed", b"\xc3\x28\0", b"s" * 32]
OWNERS = [b"w1", b"w2", b"pay:9", b"o" * 128, b"\0\xff"]
BYTES = [b"", b"{}", b"\0\1\2\xff" * 9, b"p" * 3000]
STATES = [b"scheduled", b"expired", b"leased", b"retrying", b"dead", b"finished", b"reserved"]
MATCHES = [b"*", b"[1-4]", b"?", b"*9", b"x*x", b"nobody"]
TRANSITIONS = [b"unpaid>paid unpaid>closed paid>closed", b"paid>unpaid"]


@dataclass
class Command:
    """A command: `name` and `options` for the model, `argv` for the server."""

    name: str
    key: bytes
    argv: list
    options: dict = field(default_factory=dict)
    #: Not in MULTI and not in Lua: the server must be asked by itself.
    plain: bool = False
    #: Needs a connection of its own: not in Lua.
    session: bool = False


class Words:
    """Makes commands for a model."""

    def __init__(self, random, model):
        self.random, self.model = random, model

    def chance(self, part):
        """True in `part` of all cases."""
        return self.random.random() < part

    def pick(self, items):
        """One of them."""
        return self.random.choice(items)

    def number(self, value):
        """Decimal digits."""
        return str(value).encode()

    def case(self, word):
        """A word in any case."""
        return word.lower() if self.chance(0.2) else word

    def shuffled(self, groups):
        """Options in any order."""
        self.random.shuffle(groups)
        return [self.case(part) if place == 0 else part for group in groups for place, part in enumerate(group)]

    def order(self, key):
        """An id, rather one that is there."""
        there = list(self.model.queue(key).orders)
        return self.pick(there) if there and self.chance(0.6) else self.pick(IDS)

    def fence(self, key, id_):
        """Mostly the last grant's; else another one's, or one that was never given."""
        orders = self.model.queue(key).orders
        if id_ in orders and orders[id_].grant and orders[id_].grant.fence and self.chance(0.8):
            return orders[id_].grant.fence
        others = [order.grant.fence for order in orders.values() if order.grant and order.grant.fence]
        return self.pick([*others, 0, 1, 2**52, 2**53])

    def rev(self, key, id_):
        """Mostly the order's."""
        order = self.model.queue(key).orders.get(id_)
        if order and order.rev and self.chance(0.7):
            return order.rev
        return self.pick([0, 5, 2**53])

    def moment(self, groups, o, unit=None):
        """A deadline long past, or an hour or more ahead."""
        past = self.chance(0.55)
        seconds = now() // 1000 - self.random.randint(10, 10**6) if past else now() // 1000 + 3600 * self.random.randint(2, 5)
        if unit is None:
            unit = self.pick([b"PXAT", b"EXAT"])
        o["at"] = seconds * 1000
        value = self.number(seconds if unit == b"EXAT" else seconds * 1000)
        if groups is not None:
            groups.append([unit, value])
        return value

    def lease(self, groups, o):
        """An hour or more."""
        hours = self.random.randint(1, 4)
        o["lease"] = hours * HOUR
        groups.append([b"EX", self.number(hours * 3600)] if self.chance(0.5) else [b"PX", self.number(hours * HOUR)])

    def guard(self, groups, o, key, rev=True, fence=True):
        """FROM, IFREV, FENCE."""
        if self.chance(0.35):
            o["from"] = self.random.sample(STATUSES, self.random.randint(1, 3))
            groups += [[b"FROM", status] for status in o["from"]]
        if rev and self.chance(0.12):
            o["ifrev"] = self.rev(key, o["id"])
            groups.append([b"IFREV", self.number(o["ifrev"])])
        order = self.model.queue(key).orders.get(o["id"])
        if fence and self.chance(0.6 if order and order.live() else 0.12):
            o["fence"] = self.fence(key, o["id"])
            groups.append([b"FENCE", self.number(o["fence"])])

    def value(self, groups, o, word, values, part):
        """An option with one of these values."""
        if self.chance(part):
            o[word.decode().lower()] = self.pick(values)
            groups.append([word, o[word.decode().lower()]])

    def flag(self, groups, o, word, part):
        """An option without a value."""
        if self.chance(part):
            o[word.decode().lower()] = True
            groups.append([word])

    def keep(self, groups, o):
        """KEEP of no time, or of hours."""
        if self.chance(0.2):
            o["keep"] = self.pick([0, 2 * HOUR, 10 * HOUR])
            groups.append([b"KEEP", self.number(o["keep"])])

    # One function per command.

    def make_schedule(self, key):
        """ORDER.SCHEDULE."""
        o, groups = {"id": self.order(key)}, []
        self.moment(groups, o)
        self.schedule_options(groups, o, key, True)
        self.value(groups, o, b"PAYLOAD", BYTES, 0.3)
        return Command("schedule", key, [b"ORDER.SCHEDULE", key, o["id"], *self.shuffled(groups)], o)

    def schedule_options(self, groups, o, key, single):
        """Those that SCHEDULE and MSCHEDULE share."""
        flag = self.pick([None, None, "NX", "XX", "XX", "UPSERT"])
        if flag != "NX":
            if single:
                self.guard(groups, o, key)
            elif self.chance(0.3):
                o["from"] = self.random.sample(STATUSES, 2)
                groups += [[b"FROM", status] for status in o["from"]]
            if self.chance(0.2):
                o["cmp"] = self.pick(["GT", "LT"])
                groups.append([o["cmp"].encode()])
        if flag:
            o["flag"] = flag
            groups.append([flag.encode()])
        self.value(groups, o, b"STATUS", STATUSES, 0.5)

    def make_mschedule(self, key):
        """ORDER.MSCHEDULE."""
        o, groups, rows, words = {}, [], [], []
        unit = self.pick([b"PXAT", b"EXAT"])
        payloads = self.chance(0.5)
        for _ in range(self.random.randint(1, 6)):
            row = {"id": self.order(key)}
            words += [row["id"], self.moment(None, row, unit)]
            if payloads:
                row["payload"] = self.pick(BYTES)
                words.append(row["payload"])
            rows.append(row)
        self.schedule_options(groups, o, key, False)
        o["rows"] = rows
        return Command("mschedule", key, [b"ORDER.MSCHEDULE", key, unit, *([b"PAYLOADS"] if payloads else []),
                                          self.number(len(rows)), *words, *self.shuffled(groups)], o)

    def make_finish(self, key):
        """ORDER.FINISH."""
        o, groups = {"id": self.order(key)}, []
        self.flag(groups, o, b"STRICT", 0.15)
        self.flag(groups, o, b"CREATE", 0.3)
        self.guard(groups, o, key, not o.get("create"), not o.get("create"))
        self.finish_options(groups, o)
        self.value(groups, o, b"RESULT", BYTES, 0.3)
        return Command("finish", key, [b"ORDER.FINISH", key, o["id"], *self.shuffled(groups)], o)

    def finish_options(self, groups, o):
        """STATUS and KEEP."""
        self.value(groups, o, b"STATUS", STATUSES, 0.5)
        self.keep(groups, o)

    def make_mfinish(self, key):
        """ORDER.MFINISH."""
        o, groups = {"id": b""}, []
        o["rows"] = [{"id": self.order(key)} for _ in range(self.random.randint(1, 4))]
        self.flag(groups, o, b"STRICT", 0.15)
        self.flag(groups, o, b"CREATE", 0.3)
        self.guard(groups, o, key, False, False)
        self.finish_options(groups, o)
        return Command("mfinish", key, [b"ORDER.MFINISH", key, self.number(len(o["rows"])), *[row["id"] for row in o["rows"]],
                                        *self.shuffled(groups)], o)

    def make_status(self, key):
        """ORDER.STATUS."""
        o, groups = {"id": self.order(key), "status": self.pick(STATUSES)}, []
        self.guard(groups, o, key)
        self.value(groups, o, b"PAYLOAD", BYTES, 0.3)
        return Command("status", key, [b"ORDER.STATUS", key, o["id"], o["status"], *self.shuffled(groups)], o)

    def session(self, groups, o):
        """SESSION: the runner fills in whose."""
        if self.chance(0.15):
            o["session"] = True
            groups.append([b"SESSION"])
        return "session" in o

    def make_claim(self, key):
        """ORDER.CLAIM."""
        o, groups = {"owner": self.pick(OWNERS)}, []
        if self.chance(0.6):
            self.lease(groups, o)
        if self.chance(0.3):
            o["only"] = self.order(key)
            groups.append([b"ID", o["only"]])
        elif self.chance(0.5):
            o["count"] = self.pick([1, 2, 3, 1000])
            groups.append([b"COUNT", self.number(o["count"])])
        session = self.session(groups, o)
        return Command("claim", key, [b"ORDER.CLAIM", key, o["owner"], *self.shuffled(groups)], o, session=session)

    def holder(self, key):
        """An id, rather one with a grant, and a fence."""
        held = [id_ for id_, order in self.model.queue(key).orders.items() if order.grant]
        id_ = self.pick(held) if held and self.chance(0.8) else self.order(key)
        return {"id": id_, "fence": self.fence(key, id_)}

    def make_ack(self, key):
        """ORDER.ACK."""
        o, groups = self.holder(key), []
        self.guard(groups, o, key, False, False)
        self.finish_options(groups, o)
        self.value(groups, o, b"RESULT", BYTES, 0.3)
        return Command("ack", key, [b"ORDER.ACK", key, o["id"], self.number(o["fence"]), *self.shuffled(groups)], o)

    def pairs(self, key):
        """Ids with fences, for a batch."""
        rows = [self.holder(key) for _ in range(self.random.randint(1, 4))]
        return rows, [self.number(len(rows)), *[word for row in rows for word in (row["id"], self.number(row["fence"]))]]

    def make_mack(self, key):
        """ORDER.MACK."""
        o, groups = {"id": b""}, []
        rows, words = self.pairs(key)
        self.guard(groups, o, key, False, False)
        start = [b"ORDER.MACK", key]
        if self.chance(0.4):
            for row in rows:
                row["status"] = self.pick(STATUSES)
            words = [words[0], *[word for row in rows for word in (row["id"], self.number(row["fence"]), row["status"])]]
            start.append(b"STATUSES")
            self.keep(groups, o)
        else:
            self.finish_options(groups, o)
        o["rows"] = rows
        return Command("mack", key, [*start, *words, *self.shuffled(groups)], o)

    def nack_options(self):
        """DELAY, DEAD, UNTRIED, ERROR."""
        o, groups = {}, []
        how = self.pick([None, "delay", "delay", "dead"])
        if how == "delay":
            o["delay"] = self.pick([0, HOUR, 5 * HOUR])
            groups.append([b"DELAY", self.number(o["delay"])])
        if how == "dead":
            o["dead"] = True
            groups.append([b"DEAD"])
        else:
            self.flag(groups, o, b"UNTRIED", 0.3)
        self.value(groups, o, b"ERROR", [b"", b"no stock", b"e" * 256, b"\0\xff"], 0.4)
        return o, groups

    def make_nack(self, key):
        """ORDER.NACK."""
        o, groups = self.nack_options()
        o |= self.holder(key)
        return Command("nack", key, [b"ORDER.NACK", key, o["id"], self.number(o["fence"]), *self.shuffled(groups)], o)

    def make_mnack(self, key):
        """ORDER.MNACK."""
        o, groups = self.nack_options()
        o["rows"], words = self.pairs(key)
        return Command("mnack", key, [b"ORDER.MNACK", key, *words, *self.shuffled(groups)], o)

    def make_lock(self, key):
        """ORDER.LOCK."""
        o, groups = {"id": self.order(key), "owner": self.pick(OWNERS[:3])}, []
        self.lease(groups, o)
        self.flag(groups, o, b"REENTRANT", 0.3)
        self.flag(groups, o, b"XX", 0.2)
        if self.chance(0.2):
            o["max"] = self.pick([HOUR, 2 * HOUR])
            groups.append([b"MAX", self.number(o["max"])])
        self.value(groups, o, b"FP", [b"f1", b"f" * 64], 0.3)
        session = self.session(groups, o)
        return Command("lock", key, [b"ORDER.LOCK", key, o["id"], o["owner"], *self.shuffled(groups)], o, session=session)

    def make_renew(self, key):
        """ORDER.RENEW."""
        o, groups = self.holder(key), []
        self.lease(groups, o)
        self.flag(groups, o, b"LT", 0.3)
        session = self.session(groups, o)
        return Command("renew", key, [b"ORDER.RENEW", key, o["id"], self.number(o["fence"]), *self.shuffled(groups)], o,
                       session=session)

    def make_mrenew(self, key):
        """ORDER.MRENEW."""
        o, groups = {}, []
        o["rows"], words = self.pairs(key)
        self.lease(groups, o)
        self.flag(groups, o, b"LT", 0.3)
        session = self.session(groups, o)
        return Command("mrenew", key, [b"ORDER.MRENEW", key, *words, *self.shuffled(groups)], o, session=session)

    def make_unlock(self, key):
        """ORDER.UNLOCK."""
        o = self.holder(key)
        return Command("unlock", key, [b"ORDER.UNLOCK", key, o["id"], self.number(o["fence"])], o)

    def make_break(self, key):
        """ORDER.BREAK."""
        o = self.holder(key)
        if self.chance(0.5):
            del o["fence"]
        return Command("break", key, [b"ORDER.BREAK", key, o["id"], *([self.number(o["fence"])] if "fence" in o else [])], o)

    def make_release(self, key):
        """ORDER.RELEASE."""
        o = {"owner": self.pick(OWNERS)}
        return Command("release", key, [b"ORDER.RELEASE", key, o["owner"], *self.pick([[], [b"COUNT", b"1000"]])], o)

    def make_get(self, key):
        """ORDER.GET."""
        o = {"id": self.order(key)}
        return Command("get", key, [b"ORDER.GET", key, o["id"]], o)

    def make_pttl(self, key):
        """ORDER.PTTL."""
        o = {"id": self.order(key)}
        return Command("pttl", key, [b"ORDER.PTTL", key, o["id"]], o)

    def make_next(self, key):
        """ORDER.NEXT."""
        count = self.pick([1, 2, 1000])
        return Command("next", key, [b"ORDER.NEXT", key, b"COUNT", self.number(count)], {"count": count})

    def make_stats(self, key):
        """ORDER.STATS."""
        return Command("stats", key, [b"ORDER.STATS", key])

    def make_pause(self, key):
        """ORDER.PAUSE."""
        o, groups = {}, []
        self.value(groups, o, b"REASON", [b"", b"a move", b"r" * 256], 0.5)
        return Command("pause", key, [b"ORDER.PAUSE", key, *self.shuffled(groups)], o)

    def make_resume(self, key):
        """ORDER.RESUME."""
        return Command("resume", key, [b"ORDER.RESUME", key])

    def make_config(self, key):
        """ORDER.CONFIG GET, SET and RESET."""
        if self.chance(0.2):
            return Command("config", key, [b"ORDER.CONFIG", key, b"GET"], {"get": True})
        if self.chance(0.5):
            if self.chance(0.5):
                return Command("config", key, [b"ORDER.CONFIG", key, b"RESET"])
            name = self.pick([b"max-attempts", b"max-leased", b"transitions"])
            return Command("config", key, [b"ORDER.CONFIG", key, b"RESET", name], {"reset": name})
        some = {b"max-attempts": self.pick([0, 1, 2, 3]), b"max-leased": self.pick([0, 3, 5]), b"transitions": self.pick(TRANSITIONS)}
        some = dict(self.random.sample(list(some.items()), self.random.randint(1, 3)))
        words = [word if isinstance(word, bytes) else self.number(word) for pair in some.items() for word in pair]
        return Command("config", key, [b"ORDER.CONFIG", key, b"SET", *words], {"set": some})

    def make_requeue(self, key):
        """ORDER.REQUEUE."""
        if self.chance(0.4):
            ids = [self.order(key) for _ in range(self.random.randint(1, 4))]
            return Command("requeue", key, [b"ORDER.REQUEUE", key, b"ID", *ids], {"ids": ids})
        o, groups = {}, []
        self.value(groups, o, b"STATE", [b"dead", b"retrying"], 0.6)
        self.value(groups, o, b"STATUS", STATUSES, 0.3)
        self.value(groups, o, b"MATCH", MATCHES, 0.3)
        return Command("requeue", key, [b"ORDER.REQUEUE", key, *self.shuffled(groups)], o)

    def make_purge(self, key):
        """ORDER.PURGE."""
        o, groups = {"state": self.pick(STATES)}, []
        groups.append([b"STATE", o["state"]])
        self.value(groups, o, b"STATUS", STATUSES, 0.6)
        self.value(groups, o, b"MATCH", MATCHES, 0.4)
        return Command("purge", key, [b"ORDER.PURGE", key, *self.shuffled(groups)], o)

    def make_exists(self, key):
        """EXISTS."""
        return Command("exists", key, [b"EXISTS", key])

    def make_del(self, key):
        """DEL."""
        return Command("del", key, [b"DEL", key])

    def make_copy(self, key):
        """COPY."""
        o = {"to": self.pick([other for other in KEYS if other != key]), "replace": self.chance(0.5)}
        return Command("copy", key, [b"COPY", key, o["to"], *([b"REPLACE"] if o["replace"] else [])], o)

    def make_rename(self, key):
        """RENAME."""
        o = {"to": self.pick([other for other in KEYS if other != key])}
        return Command("rename", key, [b"RENAME", key, o["to"]], o)

    def make_move(self, key):
        """MOVE."""
        return Command("move", key, [b"MOVE", key, b"1"])

    def make_swapdb(self, key):
        """SWAPDB."""
        return Command("swapdb", key, [b"SWAPDB", b"0", b"1"])

    #: Command and weight. What is not here is not sent.
    WEIGHTS = {
        "schedule": 22, "mschedule": 6, "finish": 7, "mfinish": 2, "status": 6, "claim": 14, "ack": 5, "mack": 2, "nack": 9,
        "mnack": 3, "lock": 12, "renew": 4, "mrenew": 2, "unlock": 5, "break": 3, "release": 2, "get": 5, "pttl": 2, "next": 2,
        "stats": 3, "pause": 1, "resume": 2, "config": 2, "requeue": 4, "purge": 1, "exists": 1, "del": 0.3, "copy": 0.7,
        "rename": 0.7, "move": 0.5, "swapdb": 0.5, "bad": 8,
    }

    def make(self):
        """One command."""
        name = self.random.choices(list(self.WEIGHTS), list(self.WEIGHTS.values()))[0]
        return getattr(self, "make_" + name)(self.pick(KEYS))

    def make_bad(self, key):
        """One that must be refused, whatever is there."""
        id_ = self.order(key)
        kind = self.random.randrange(9)
        far = self.number(now() + HOUR)
        if kind == 0:
            bad = self.pick([b"", b"x" * 256, b"\0" * 1000])
            argv = self.pick([[b"ORDER.SCHEDULE", key, bad, b"PXAT", far], [b"ORDER.FINISH", key, bad], [b"ORDER.GET", key, bad],
                              [b"ORDER.STATUS", key, bad, b"s"], [b"ORDER.ACK", key, bad, b"5"], [b"ORDER.BREAK", key, bad],
                              [b"ORDER.MFINISH", key, b"2", id_, bad, b"CREATE"], [b"ORDER.REQUEUE", key, b"ID", id_, bad],
                              [b"ORDER.MSCHEDULE", key, b"PXAT", b"2", id_, far, bad, far, b"UPSERT"],
                              [b"ORDER.LOCK", key, bad, b"w", b"PX", b"5"], [b"ORDER.PTTL", key, bad]])
            return Command("error", key, argv, {"says": "length of"})
        if kind == 1:
            argv = self.pick([[b"ORDER.SCHEDULE", key], [b"ORDER.GET", key], [b"ORDER.GET", key, id_, b"x"], [b"ORDER.ACK", key, id_],
                              [b"ORDER.CLAIM", key], [b"ORDER.STATS"], [b"ORDER.LOCK", key, id_], [b"ORDER.UNLOCK", key, id_]])
            return Command("error", key, argv, {"says": "wrong number of arguments"}, plain=True)
        if kind == 2:
            number = self.pick([b"-1", b"+5", b"", b"1.5", b"0x5", b" 1", b"18446744073709551616", b"1e3", b"9" * 400, b"\xff"])
            argv = self.pick([[b"ORDER.SCHEDULE", key, id_, b"PXAT", number], [b"ORDER.SCHEDULE", key, id_, b"EX", number, b"UPSERT"],
                              [b"ORDER.CLAIM", key, b"w", b"COUNT", number], [b"ORDER.ACK", key, id_, number],
                              [b"ORDER.LOCK", key, id_, b"w", b"PX", number], [b"ORDER.NACK", key, id_, b"5", b"DELAY", number],
                              [b"ORDER.FINISH", key, id_, b"KEEP", number], [b"ORDER.MFINISH", key, number, id_],
                              [b"ORDER.STATUS", key, id_, b"s", b"IFREV", number], [b"ORDER.SCAN", key, b"0", b"COUNT", number],
                              [b"ORDER.PAUSE", key, b"PX", number]])
            return Command("error", key, argv)
        if kind == 3:
            argv = self.pick([[b"ORDER.SCHEDULE", key, id_, b"PXAT", b"99999999999"], [b"ORDER.SCHEDULE", key, id_, b"PXAT", b"253402300800000"],
                              [b"ORDER.CLAIM", key, b"w", b"PX", b"0"], [b"ORDER.CLAIM", key, b"w", b"PX", b"86400001"],
                              [b"ORDER.CLAIM", key, b"w", b"COUNT", b"0"], [b"ORDER.CLAIM", key, b"w", b"COUNT", b"1001"],
                              [b"ORDER.ACK", key, id_, self.number(2**53 + 1)], [b"ORDER.FINISH", key, id_, b"KEEP", b"253402300800000"],
                              [b"ORDER.LOCK", key, id_, b"w", b"EX", b"86401"], [b"ORDER.MFINISH", key, b"0"],
                              [b"ORDER.SCHEDULE", key, id_, b"EX", b"253402300799"]])
            return Command("error", key, argv)
        if kind == 4:
            word = self.pick([b"SOON", b"", b"\0", b"STATU", b"NXX", b"x" * 5000])
            argv = self.pick([[b"ORDER.SCHEDULE", key, id_, b"PXAT", far, word], [b"ORDER.FINISH", key, id_, word],
                              [b"ORDER.CLAIM", key, b"w", word], [b"ORDER.LOCK", key, id_, b"w", b"PX", b"5", word],
                              [b"ORDER.PURGE", key, b"STATE", b"dead", word], [b"ORDER.MFINISH", key, b"1", id_, word]])
            return Command("error", key, argv, {"says": "syntax error"})
        if kind == 5:
            argv = self.pick([[b"ORDER.SCHEDULE", key, id_, b"PXAT", far, b"NX", b"NX"],
                              [b"ORDER.SCHEDULE", key, id_, b"PXAT", far, b"NX", b"FROM", b"a"],
                              [b"ORDER.SCHEDULE", key, id_, b"PXAT", far, b"GT", b"LT"],
                              [b"ORDER.SCHEDULE", key, id_, b"PXAT", far, b"EX", b"5"], [b"ORDER.SCHEDULE", key, id_, b"STATUS", b"a"],
                              [b"ORDER.FINISH", key, id_, b"CREATE", b"FENCE", b"5"], [b"ORDER.FINISH", key, id_, b"CREATE", b"IFREV", b"5"],
                              [b"ORDER.NACK", key, id_, b"5", b"DEAD", b"UNTRIED"], [b"ORDER.NACK", key, id_, b"5", b"DEAD", b"DELAY", b"5"],
                              [b"ORDER.MACK", key, b"STATUSES", b"1", id_, b"5", b"a", b"STATUS", b"b"],
                              [b"ORDER.MACK", key, b"2", id_, b"5"], [b"ORDER.SCAN", key, b"0", b"STATE", b"lost"],
                              [b"ORDER.FINISH", key, id_, b"STATUS"], [b"ORDER.LOCK", key, id_, b"w"]])
            return Command("error", key, argv)
        if kind == 6:
            argv = self.pick([[b"ORDER.SCHEDULE", key, id_, b"PXAT", far, b"STATUS", b"s" * 33], [b"ORDER.STATUS", key, id_, b"s" * 33],
                              [b"ORDER.CLAIM", key, b""], [b"ORDER.CLAIM", key, b"o" * 129], [b"ORDER.FINISH", key, id_, b"FROM", b"s" * 33],
                              [b"ORDER.LOCK", key, id_, b"w", b"PX", b"5", b"FP", b""], [b"ORDER.LOCK", key, id_, b"w", b"PX", b"5", b"FP", b"f" * 65],
                              [b"ORDER.NACK", key, id_, b"5", b"ERROR", b"e" * 257], [b"ORDER.PAUSE", key, b"REASON", b"r" * 257],
                              [b"ORDER.SCHEDULE", key, id_, b"PXAT", far, b"PAYLOAD", b"p" * 65537], [b"ORDER.SCAN", key, b"0", b"MATCH", b"m" * 256]])
            return Command("error", key, argv, {"says": "length of"})
        if kind == 7:
            argv = self.pick([[b"ORDER.CONFIG", key, b"SET", b"colour", b"red"], [b"ORDER.CONFIG", key, b"SET", b"max-attempts", b"5", b"keep-ms", b"forever"],
                              [b"ORDER.CONFIG", key, b"SET", b"transitions", b"unpaid-paid"], [b"ORDER.APPLY", key, b"1", b"\0\0\1"],
                              [b"ORDER.CONFIG", key, b"RESET", b"colour"], [b"ORDER.CONFIG", key, b"PUT"]])
            return Command("error", key, argv)
        argv = self.pick([[b"ORDER.SCHEDULE", b"text", id_, b"PXAT", far], [b"ORDER.GET", b"text", id_], [b"ORDER.CLAIM", b"text", b"w"],
                          [b"ORDER.STATS", b"text"], [b"ORDER.FINISH", b"text", id_, b"CREATE"], [b"ORDER.MACK", b"text", b"1", id_, b"5"],
                          [b"ORDER.CONFIG", b"text", b"RESET"], [b"ORDER.LOCK", b"text", id_, b"w", b"PX", b"5"], [b"LPUSH", b"text", b"1"],
                          [b"ORDER.RELEASE", b"text", b"w"], [b"ORDER.PURGE", b"text", b"STATE", b"dead"], [b"ORDER.SCAN", b"text", b"0"]])
        return Command("error", key, argv, {"says": "WRONGTYPE"})
