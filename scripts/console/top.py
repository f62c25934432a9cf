"""A live view of all queues in the terminal: see top.sh."""

import argparse
import curses
import logging
import os
import select
import sys
import threading
import time

import redis
from wcwidth import wcswidth, wcwidth

from reading import NAME_MAX, Reader, add_options, said, shown

#: Columns: heading, field, width. What does not fit is left out from the right.
COLUMNS = [
    ("ORDERS", "orders", 9),
    ("OVERDUE", "overdue", 9),
    ("OLDEST", "oldest_overdue_ms", 8),
    ("DEAD", "dead", 7),
    ("LEASED", "live_claims", 8),
    ("RETRY", "retrying", 7),
    ("WAIT", "claim_waiters", 6),
    ("DUE/S", "due_per_s", 8),
    ("CLAIM/S", "claimed_per_s", 8),
    ("CLOSE/S", "closed_per_s", 8),
    ("LATE99", "lateness_ms_p99_1m", 9),
    ("CLOSE99", "close_ms_p99_1m", 9),
    ("BRAKE", "claim_limit_wait_ms", 7),
    ("PAUSED", "paused_ms", 8),
    ("BYTES", "bytes", 9),
]
#: Columns of --once: fields of ORDER.STATS. New ones are only added at the end.
ONCE = (
    "orders",
    "overdue",
    "oldest_overdue_ms",
    "dead",
    "scheduled",
    "expired",
    "leased",
    "retrying",
    "finished",
    "reserved",
    "live_claims",
    "claim_waiters",
    "lock_waiters",
    "paused_ms",
    "pause_reason",
    "scheduled_total",
    "finished_total",
    "claimed_total",
    "acked_total",
    "nacked_total",
    "lapsed_total",
    "dead_total",
    "lateness_ms_p99_1m",
    "claim_wait_ms_p99_1m",
    "close_ms_p99_1m",
    "overdue_close_ms_p99_1m",
    "claims_held_back_total",
    "claim_limit_wait_ms",
    "oldest_expired_ms",
    "next_deadline",
    "bytes",
    "newest_dead",
    "newest_dead_error",
)
#: Width of a name: at least, and at most.
NAME = (12, 40)
#: Keys that sort by a column.
SORTS = {"o": None, "O": "orders", "d": "dead", "l": "live_claims", "r": "retrying", "c": "closed_per_s", "b": "bytes"}
HELP = "q quit  o worst  O orders  d dead  l leased  r retrying  c closed  b bytes  arrows and Enter open  Esc back"


def span(ms):
    """Milliseconds in at most seven characters."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:.1f}{unit}"
    return f"{ms:.1f}ms" if ms and ms < 10 else f"{ms:.0f}ms"


def amount(value):
    """A number in at most six characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{value:.4g}"


def cell(name, value):
    if name == "paused_ms":
        return {-2: "-", -1: "yes"}.get(value) or span(value)
    if "_ms" in name:
        return span(value) if value else "-"
    return amount(value) if value else "-"


def clipped(text, width):
    """As much of a text as fits into so many columns of a terminal; wide characters take two."""
    taken = 0
    for at, char in enumerate(text):
        taken += max(0, wcwidth(char))
        if taken > width:
            return text[:at]
    return text


def fitted(text, width):
    """A text in exactly so many columns; one that is cut says so."""
    if wcswidth(text) > width:
        text = clipped(text, width - 2) + "…" if width > 2 else clipped(text, width)
    return text + " " * (width - wcswidth(text))


def ordered(view, by):
    """The queues: the worst first, or those with most of something."""
    return view.rows if by is None else sorted(view.rows, key=lambda row: row[1].get(by, 0), reverse=True)


def table(view, by, width):
    """The lines of the overview: the heading, a line per queue, and what could not be read."""
    names = [shown(key) for key, _ in view.rows]
    size = max(NAME[0], min(NAME[1], max(map(wcswidth, names), default=0) + 1, width - 20))
    columns, left = [], width - size
    for column in COLUMNS:
        if left < column[2]:
            break
        left -= column[2]
        columns.append(column)
    yield fitted("QUEUE", size) + "".join(head.rjust(room) for head, _, room in columns)
    for key, figures in ordered(view, by):
        yield fitted(shown(key), size) + "".join(
            cell(name, figures.get(name, 0)).rjust(room) for _, name, room in columns
        )
    for _, trouble in view.unread:
        age = span((time.time() - trouble.since) * 1000)
        yield f"{fitted(trouble.where, size)} not read for {age}: {trouble.error}"


def details(view, key, found):
    """What a queue holds, the worst of it first."""
    figures = view.figures.get(key)
    if figures is None:
        trouble = dict(view.unread).get(key)
        yield f"not read: {trouble.error}" if trouble else "gone"
        return
    yield "  ".join(
        f"{name} {amount(figures[name])}"
        for name in ("orders", "overdue", "scheduled", "expired", "leased", "retrying", "dead", "finished", "reserved")
    )
    yield "  ".join(f"{name[:-7]} {span(figures[name])}" for name in figures if name.endswith("_p99_1m"))
    if figures["paused_ms"] != -2:
        yield f"paused: {figures.get('pause_reason') or 'no reason given'}"
    if figures["dead"] and figures.get("newest_dead"):
        yield f"died last: {figures['newest_dead']}  {figures.get('newest_dead_error') or 'no error was given'}"
    if isinstance(found, str):
        yield found
        return
    now = time.time() * 1000
    for state, walk, rows in found or ():
        yield ""
        yield (
            state.upper()
            if walk.whole
            else f"{state.upper()}  looking, {amount(walk.looked)} of {amount(figures['orders'])} orders so far"
        )
        for order, _, status, deadline, owner, attempt, error in rows:
            late = f"overdue {span(max(0, now - deadline))}" if deadline > 0 else ""
            yield (
                f"  {fitted(shown(order), 24)} {fitted(shown(status), 10)} {late:15} attempt {attempt:<3} "
                + " ".join(shown(part) for part in (owner, error) if part)
            )


def head(view, where):
    """The first line: what is wrong with the reading comes first, else when it was read."""
    overdue = sum(figures["overdue"] for _, figures in view.rows)
    dead = sum(figures["dead"] for _, figures in view.rows)
    wrong, error = view.status or (None, None)
    words = [
        wrong or (time.strftime("%H:%M:%S", time.localtime(view.read_at)) if view.read_at else "--:--:--"),
        f"{len(view.rows)} queues",
        f"{amount(overdue)} overdue",
        f"{amount(dead)} dead",
        f"{len(view.unread) + view.too_long} not read" if view.unread or view.too_long else None,
        None if view.walked or wrong else "still looking for queues",
        error,
        f"replica of {shown(view.replica_of)}" if view.replica_of else None,
        where,
    ]
    return "  ".join(word for word in words if word)


class Watcher(threading.Thread):
    """Looks again and again, so that keys are answered while a server is slow."""

    def __init__(self, reader, every_s):
        super().__init__(daemon=True)
        self.reader, self.every_s = reader, every_s
        self.wake, self.key, self.found = threading.Event(), None, None

    def open(self, key):
        """What is looked at, or None."""
        self.key, self.found = key, None
        self.wake.set()

    def run(self):
        walks, of = (), None
        while True:
            self.wake.clear()
            self.reader.refresh()
            key = self.key
            if key is not None:
                self.reader.open(key)
                if key != of:
                    walks, of = (
                        [self.reader.walk(key, state, 10) for state in ("dead", "expired", "retrying", "leased")],
                        key,
                    )
                try:
                    figures = self.reader.view.figures.get(key, {})
                    found = [(walk.state, walk, walk.step()) for walk in walks if figures.get(walk.state)]
                except (redis.RedisError, OSError) as error:
                    found = f"not to be had: {said(error)}"
                if key == self.key:
                    self.found = found
            view = self.reader.view
            self.wake.wait(0.05 if not view.troubles and not self.reader.complete() else self.every_s)


def put(screen, row, text, style=curses.A_NORMAL):
    """A line of the screen, cut to its width. Where there is no room nothing is written."""
    height, width = screen.getmaxyx()
    if 0 <= row < height and width > 1:
        try:
            screen.addstr(row, 0, clipped(text, width - 1), style)
        except curses.error:
            # The terminal was made smaller in between.
            pass


def resized(screen):
    """Follows the size of the terminal, also where no signal tells of it. What is on the screen then, nobody knows."""
    try:
        width, height = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return
    if (height, width) != screen.getmaxyx() and height and width:
        curses.resizeterm(height, width)
        screen.clearok(True)


def live(screen, reader, where, every_s):
    try:
        curses.use_default_colors()
        curses.curs_set(0)
    except curses.error:
        # A terminal that can not hide its cursor.
        pass
    screen.timeout(200)
    by, at, opened, top = None, 0, None, 0
    hung_up = select.poll()
    hung_up.register(sys.stdin, 0)
    watcher = Watcher(reader, every_s)
    watcher.start()
    while True:
        view = reader.view
        resized(screen)
        height, width = screen.getmaxyx()
        keys = [key for key, _ in ordered(view, by)]
        lines = list(details(view, opened, watcher.found) if opened is not None else table(view, by, width - 1))
        room = max(0, height - 2)
        screen.erase()
        put(screen, 0, head(view, where) if opened is None else f"{shown(opened)}  {head(view, where)}", curses.A_BOLD)
        if opened is None:
            at = max(0, min(at, len(lines) - 2))
            # The heading stays, and the marked line is on the screen.
            top = max(at - max(0, room - 2), min(top, at))
            put(screen, 1, lines[0] if room else "", curses.A_DIM)
            for number, line in enumerate(lines[1 + top : max(0, top + room)]):
                put(screen, number + 2, line, curses.A_REVERSE if number + top == at else curses.A_NORMAL)
        else:
            top = max(0, min(top, len(lines) - room))
            for number, line in enumerate(lines[top : top + room]):
                put(screen, number + 1, line)
        if height > 2:
            put(screen, height - 1, HELP, curses.A_DIM)
        screen.refresh()
        pressed = screen.getch()
        step = {
            curses.KEY_DOWN: 1,
            curses.KEY_UP: -1,
            curses.KEY_NPAGE: max(1, room - 1),
            curses.KEY_PPAGE: -max(1, room - 1),
        }.get(pressed, 0)
        # A terminal that is gone answers at once, for ever.
        if pressed == ord("q") or hung_up.poll(0):
            return
        if pressed in (27, curses.KEY_LEFT, curses.KEY_BACKSPACE):
            opened, top = None, 0
            watcher.open(None)
        elif step and opened is None:
            at += step
        elif step:
            top += step
        elif pressed in (10, 13, curses.KEY_ENTER, curses.KEY_RIGHT) and opened is None and at < len(keys):
            opened, top = keys[at], 0
            watcher.open(opened)
        elif 0 < pressed < 256 and chr(pressed) in SORTS:
            by, at, top = SORTS[chr(pressed)], 0, 0


def exact(value):
    """A figure as --once prints it: whole numbers without a point, texts as `shown` made them."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def once(reader):
    """Prints all queues as tab-separated values. The status: 0, or 3 if something could not be read."""
    while True:
        problem = reader.refresh()
        if problem and (not reader.view.rows or len(reader.view.troubles) >= reader.view.nodes):
            sys.exit(f"top.sh: {problem}")
        if problem or reader.complete():
            break
    # The form is fixed, whatever the locale is.
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        print("\t".join(("queue", *ONCE)))
        for key, figures in reader.view.rows:
            print("\t".join((shown(key), *(exact(figures.get(name, "")) for name in ONCE))))
        sys.stdout.flush()
    except BrokenPipeError:
        # As with `| head`: nobody reads on. What is left goes nowhere, else Python complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for _, trouble in reader.view.unread:
        print(f"top.sh: not read: {trouble.where}: {trouble.error}", file=sys.stderr)
    if reader.view.too_long:
        print(f"top.sh: not read: {reader.view.too_long} with names above {NAME_MAX} bytes", file=sys.stderr)
    if problem:
        print(f"top.sh: {problem}", file=sys.stderr)
    return 3 if problem or reader.view.unread or reader.view.too_long else 0


def main():
    parser = argparse.ArgumentParser(prog="top.sh", add_help=False)
    add_options(parser)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--help", action="help")
    options = parser.parse_args()
    # What is wrong stands on the screen, or in the last lines of --once.
    logging.getLogger("console").addHandler(logging.NullHandler())
    logging.getLogger("console").propagate = False
    reader = Reader(options)
    if options.once:
        sys.exit(once(reader))
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        sys.exit("top.sh: this is no terminal; --once prints the figures")
    try:
        curses.setupterm()
    except curses.error as error:
        sys.exit(f"top.sh: TERM is {os.environ.get('TERM')!r}: {error}")
    try:
        where = options.socket or f"{options.host}:{options.port}"
        curses.wrapper(live, reader, f"{where}, database {options.db}" if options.db else where, options.every)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
