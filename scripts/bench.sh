#!/usr/bin/env bash
# bench.sh [--rows LIST] [--sizes LIST] [--full] [--rounds N] [--quick] [--json FILE]
#
# Measures the module beside what it takes the place of, on servers of its own
# that run the same redis-server program, the sides taking turns. Prints the
# machine, the versions and for each row a table with medians, then every figure
# aimed at and whether it is reached; writes all of it, each round's figures too,
# to bench.json.
#
#   row        what is measured                                           of orders
#   schedule   SCHEDULE and FINISH: server cpu an order, against ZADD and    1 M
#              ZREM, SET PXAT and DEL
#   batches    MSCHEDULE 100 and MFINISH 100, against ZADD and ZREM of 100,  1 M
#              SET PXAT pipelined and DEL of 100, one and 8 in flight
#   claim      CLAIM 100 and MACK 100, against the Lua pattern, with and     1 M
#              without payload
#   memory     bytes an order, against ZSET, SET PXAT, ZSET and HASH         1 M, 10 M
#   usage      MEMORY USAGE against used_memory in every kind of queue,      1 M
#              bytes of a queue of one order
#   lateness   how late a waiting claimer, pollers and expired events are    1 M
#   burst      all due in one millisecond: claimable after, GETs elsewhere   1 M
#              with none and ten subscribers; all closed after, against
#              Lua and expired events
#   waiters    1000 claimers wait on one queue: what waking one costs, p50   -
#              and p99, against BZPOPMIN
#   brake      all overdue, 8 closers, claims-per-s-max 1000: the least and     1 M
#              the most that go in a full second, blocking and polling
#   queues     queues of ten orders against one: bytes an order, lateness    1 M
#   session    killed closers with SESSION and without: until the next has   100 k
#              the order; 1000 connections that close together, and GETs
#              meanwhile; cpu of connections that come and go
#   worst      the slowest single SCHEDULE, FINISH, ACK, CLAIM, DEL and      10 M
#              timer run, MSCHEDULE and MFINISH of 1000, growth of p99 from 10 k, against ZADD, ZREM, Lua,
#              and how much of it is the machine's
#   persist    RDB and AOF, saved and loaded: seconds and bytes, against     1 M, 10 M
#              a ZSET
#   delete     DEL, UNLINK, FLUSHALL, overwriting, expiry of a whole queue:  10 M
#              the command, and what others wait, against a ZSET
#   idle       cpu of a server with all far ahead and 100 claimers waiting   10 M
#   announce   (only when asked for) what announce-per-s-max it bears        1 M
#   ways       (only when asked for) how late six ways close an order, and   100 k
#              their memory; needs npm; draws docs/six-ways.svg; 12 minutes
#
#   --rows LIST   only these, with commas
#   --sizes LIST  rows where it matters run for each of these numbers of orders,
#                 such as 100k,1m,10m, instead of those above
#   --full        the same as --sizes 100k,1m,10m
#   --rounds N    how often each side runs (default 5, above 2 M orders 2; medians
#                 are shown; memory and usage, the same each time, once)
#   --quick       100k orders, one round, short windows: a look, no figures
#   --json FILE   where the figures go (default bench.json beside README.md)
#
# Takes about an hour, three with --full, four minutes with --quick; 10 M orders
# need 8 GiB of memory and 4 of disk. Let nothing else run meanwhile: server and
# clients have a core each where there are two.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
if ! command -v "$server_program" >/dev/null || ! command -v python3 >/dev/null; then
  "$root/scripts/setup.sh" --tests
fi
# BENCH_MODULE, BENCH_CLOSER: the library and tests/closer, built elsewhere.
if [ -z "${BENCH_MODULE:-}" ] || [ -z "${BENCH_CLOSER:-}" ]; then
  "$root/scripts/setup.sh"
  (cd "$root" && cargo build --release --quiet --lib --example closer)
fi
exec python3 -B "$root/scripts/bench" --server "$server_program" --module "${BENCH_MODULE:-$module}" \
  --closer "${BENCH_CLOSER:-$target/release/examples/closer}" --json "$root/bench.json" "$@"
