#!/usr/bin/env python3
"""Figures for bench.sh, which says what the options mean. Standard library only."""

import argparse
import gc
import json
import multiprocessing
import os
import platform
import signal
import sys
import time

import costs
import session
import sizes
import times
import ways
from tools import ALL_CORES, CLIENT_CORES, SERVER_CORES, Report, Server, aims, options, show, size_name, stalls

K, M = 1_000, 1_000_000
# The rows of the report: what makes each, and of how many orders unless the command
# line says otherwise.
ROWS = {
    "schedule": (costs.row_schedule, [M]),
    "batches": (costs.row_batches, [M]),
    "claim": (costs.row_claim, [M]),
    "memory": (costs.row_memory, [M, 10 * M]),
    "usage": (costs.row_usage, [M]),
    "lateness": (times.row_lateness, [M]),
    "burst": (times.row_burst, [M]),
    "waiters": (times.row_waiters, [0]),
    "brake": (times.row_brake, [M]),
    "queues": (times.row_queues, [M]),
    "session": (session.row_session, [100 * K]),
    "worst": (sizes.row_worst, [10 * M]),
    "persist": (sizes.row_persist, [M, 10 * M]),
    "delete": (sizes.row_delete, [10 * M]),
    "idle": (sizes.row_idle, [10 * M]),
}
# Those that are only made when asked for.
EXTRA_ROWS = {"announce": (times.row_announce, [M]), "ways": (ways.row_ways, [100 * K])}
FULL_SIZES = [100 * K, M, 10 * M]
# Rounds; fewer where one takes minutes.
ROUNDS, ROUNDS_OF_MANY, MANY = 5, 2, 2 * M


def machine():
    model = "unknown"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as file:
        memory_kb = int(file.readline().split()[1])
    with Server() as server:
        version = server.info("server", "redis_version")
        allocator = server.info("memory", "mem_allocator")
        ours = server.info("orderwheel", "orderwheel_version")
    return {"processor": model, "cores": len(ALL_CORES), "memory_gib": round(memory_kb / 2**20, 1),
            "system": f"{platform.system()} {platform.release()}", "python": platform.python_version(),
            "server": f"redis-server {version}, {allocator}", "module": f"orderwheel {ours}",
            "begun": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "load_before": round(os.getloadavg()[0], 2), **stalls(),
            "server_cores": SERVER_CORES, "client_cores": CLIENT_CORES}


def size(text):
    """A number of orders: 100k, 1m, 250000."""
    unit = {"k": K, "m": M}.get(text[-1:].lower(), 1)
    return int(text if unit == 1 else text[:-1]) * unit


def arguments():
    parser = argparse.ArgumentParser(prog="bench.sh")
    parser.add_argument("--server", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--module", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--closer", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--sizes", "--orders", default="")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--quick", action="store_true")
    got = parser.parse_args()
    got.rows = got.rows.replace(",", " ").split()
    for row in got.rows:
        if row not in ROWS and row not in EXTRA_ROWS:
            parser.error(f"no row {row}; there are {' '.join([*ROWS, *EXTRA_ROWS])}")
    try:
        got.sizes = [size(text) for text in got.sizes.replace(",", " ").split()]
    except ValueError:
        parser.error("--sizes takes numbers such as 100k,1m,10m")
    if not got.sizes and (got.full or got.quick):
        got.sizes = FULL_SIZES if got.full else [100 * K]
    got.asked_rounds = got.rounds or (1 if got.quick else None)
    got.window_s = 4 if got.quick else 10
    got.announce_s = 1.0 if got.quick else 3.0
    got.module, got.closer = os.path.abspath(got.module), os.path.abspath(got.closer)
    return got


def shown(value):
    return "-" if value is None else f"{value:g}"


def show_aims():
    """The figures that were aimed at, and which of them are reached."""
    lines = []
    for a in aims:
        bound = f"{'>=' if a['at'] == 'least' else '<='} {a['aim']:g} {a['unit']}"
        if a["goal"]:
            bound += f" (goal {a['goal']:g})"
        row = f"{a['row']} {size_name(a['orders'])}" if a["orders"] else a["row"]
        lines.append((f"{row}: {a['what']}", f"{shown(a['measured'])} {a['unit']}", bound,
                      "yes" if a["reached"] else "NO"))
    options.rounds = 0
    show("aims", ("figure", "measured", "aim", "reached"), lines)
    print(f"\n{sum(a['reached'] for a in aims)} of {len(aims)} aims are reached")


def write(report):
    """After each row, so that a run that is broken off has figures too."""
    report["aims"] = aims
    with open(options.json, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


def main():
    vars(options).update(vars(arguments()))
    multiprocessing.set_start_method("fork")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    os.sched_setaffinity(0, CLIENT_CORES)
    gc.disable()
    report = {"machine": machine(), "rows": []}
    for name, value in report["machine"].items():
        print(f"{name.replace('_', ' ')}: {value}")
    if report["machine"]["load_before"] > 0.5:
        print("Something else is running on this machine: take ratios, not figures.")
    begun = time.monotonic()
    for row in options.rows:
        run, usual = {**ROWS, **EXTRA_ROWS}[row]
        for orders in usual if usual == [0] else options.sizes or usual:
            start, found = time.monotonic(), Report()
            options.row, options.orders = row, orders
            options.rounds = options.asked_rounds or (ROUNDS_OF_MANY if orders > MANY else ROUNDS)
            run(found)
            gc.collect()
            took = time.monotonic() - start
            print(f"  ({took:.0f} s)")
            report["rows"].append({"row": row, "orders": orders, "rounds": options.rounds, "seconds": round(took, 1),
                                   **found.whole()})
            if options.json:
                write(report)
    report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    report["seconds"] = round(time.monotonic() - begun)
    if aims:
        show_aims()
    if options.json:
        write(report)
        print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
