"""A live view of all queues in the terminal: see top.sh."""

import argparse
import curses
import sys
import time

import redis

from reading import Reader, add_options, shown

#: Columns: heading, field, width. What does not fit is left out from the right.
COLUMNS = [
    ("ORDERS", "orders", 10), ("OVERDUE", "overdue", 9), ("OLDEST", "oldest_overdue_ms", 8), ("DEAD", "dead", 7),
    ("LEASED", "live_claims", 8), ("RETRY", "retrying", 7), ("WAIT", "claim_waiters", 6), ("DUE/S", "due_per_s", 8),
    ("CLAIM/S", "claimed_per_s", 8), ("CLOSE/S", "closed_per_s", 8), ("LATE99", "lateness_ms_p99_1m", 9),
    ("CLOSE99", "close_ms_p99_1m", 9), ("BRAKE", "claim_limit_wait_ms", 7), ("PAUSED", "paused_ms", 8), ("BYTES", "bytes", 9),
]
NAME = 24
#: Keys that sort by a column.
SORTS = {"o": None, "O": "orders", "d": "dead", "l": "live_claims", "r": "retrying", "c": "closed_per_s", "b": "bytes"}
HELP = "q quit  o worst  O orders  d dead  l leased  r retrying  c closed  b bytes  arrows and Enter open  Esc back"


def span(ms):
    """Milliseconds in at most seven characters."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:.1f}{unit}"
    return f"{ms:.1f}" if ms and ms < 10 else f"{ms:.0f}ms"


def amount(value):
    """A number in at most six characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{value:g}"


def cell(field, value):
    if field == "paused_ms":
        return {-2: "-", -1: "yes"}.get(value) or span(value)
    if "_ms" in field:
        return span(value) if value else "-"
    return amount(value) if value else "-"


def table(reader, by, width):
    """The lines of the overview, each no wider than the terminal."""
    columns, left = [], width - NAME
    for column in COLUMNS:
        if left < column[2]:
            break
        left -= column[2]
        columns.append(column)
    yield "QUEUE".ljust(NAME) + "".join(head.rjust(size) for head, _, size in columns)
    for key, figures in reader.worst_first(by):
        name = shown(key)
        name = name if len(name) < NAME else name[:NAME - 2] + "…"
        yield name.ljust(NAME) + "".join(cell(field, figures.get(field, 0)).rjust(size) for _, field, size in columns)


def details(reader, key):
    """What a queue holds, the worst of it first."""
    figures = reader.queues.get(key)
    if not figures or "at" not in figures:
        yield "gone"
        return
    yield "  ".join(f"{name} {amount(figures[name])}" for name in
                    ("scheduled", "expired", "leased", "retrying", "dead", "finished", "reserved"))
    yield "  ".join(f"{name[:-7]} {span(figures[name])}" for name in figures if name.endswith("_p99_1m"))
    if figures["paused_ms"] != -2:
        yield f"paused: {figures['pause_reason'] or 'no reason given'}"
    for state in ("dead", "expired", "retrying", "leased"):
        rows = reader.orders(key, state, 10, 3)
        if rows:
            yield ""
            yield state.upper()
        now = time.time() * 1000
        for order, _, status, deadline, owner, attempt, error in rows:
            late = f"overdue {span(max(0, now - deadline))}" if deadline > 0 else ""
            yield f"  {shown(order)[:24]:24} {shown(status)[:10]:10} {late:15} attempt {attempt:<3} " + " ".join(
                shown(part)[:60] for part in (owner, error) if part)


def head(reader, where):
    lost = f"not connected since {int(time.time() - reader.lost_at)} s: {reader.error}" if reader.error else time.strftime("%H:%M:%S")
    overdue = sum(figures.get("overdue", 0) for figures in reader.queues.values())
    dead = sum(figures.get("dead", 0) for figures in reader.queues.values())
    return f"{len(reader.queues)} queues  {amount(overdue)} overdue  {amount(dead)} dead  {lost}  {where}"


def live(screen, reader, where, every_s):
    curses.use_default_colors()
    curses.curs_set(0)
    screen.timeout(200)
    by, at, opened, next_look = None, 0, None, 0.0
    lines = []
    while True:
        if time.monotonic() >= next_look:
            reader.refresh()
            next_look = time.monotonic() + every_s
        height, width = screen.getmaxyx()
        keys = [key for key, _ in reader.worst_first(by)]
        try:
            lines = list(details(reader, opened) if opened else table(reader, by, width - 1))
        except (redis.RedisError, OSError) as error:
            lines = [f"not to be had: {shown(str(error))}"]
            reader.source.lost()
        at = max(0, min(at, len(keys) - 1))
        screen.erase()
        top = max(0, at - (height - 5))
        screen.addnstr(0, 0, head(reader, where) if not opened else f"{shown(opened)}  {head(reader, where)}", width - 1, curses.A_BOLD)
        body = lines if opened else lines[:1] + lines[1 + top:]
        for number, line in enumerate(body[: height - 3]):
            marked = not opened and number == at - top + 1
            screen.addnstr(number + 1, 0, line, width - 1, curses.A_REVERSE if marked else curses.A_NORMAL)
        screen.addnstr(height - 1, 0, HELP, width - 1, curses.A_DIM)
        screen.refresh()
        pressed = screen.getch()
        if pressed == ord("q"):
            return
        if pressed in (27, curses.KEY_LEFT, curses.KEY_BACKSPACE):
            opened = None
        elif pressed == curses.KEY_DOWN:
            at += 1
        elif pressed == curses.KEY_UP:
            at -= 1
        elif pressed in (10, 13, curses.KEY_ENTER, curses.KEY_RIGHT) and keys and not opened:
            opened = keys[at]
        elif 0 < pressed < 256 and chr(pressed) in SORTS:
            by, at = SORTS[chr(pressed)], 0


def main():
    parser = argparse.ArgumentParser(prog="top.sh", add_help=False)
    add_options(parser)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--help", action="help")
    options = parser.parse_args()
    reader = Reader(options)
    where = options.socket or f"{options.host}:{options.port}"
    if options.once:
        if reader.refresh():
            sys.exit(f"top.sh: {reader.error}")
        while any(reader.cursors.values()) or any("at" not in figures for figures in reader.queues.values()):
            if reader.refresh():
                sys.exit(f"top.sh: {reader.error}")
        print("\n".join(table(reader, None, 10_000)))
        return
    try:
        curses.wrapper(live, reader, where, options.every)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
