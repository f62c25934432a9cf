#!/usr/bin/env bash
# bench.sh [--rows LIST] [--orders N] [--rounds N] [--quick] [--json FILE]
#
# Measures the module beside what it takes the place of, on servers of its own
# that run the same redis-server program, the sides taking turns. Prints the
# machine, the versions and a table with medians, ratios and whether the figure
# aimed at is reached, and writes them to bench.json.
#
#   --rows LIST   which, with commas: schedule memory claim lateness burst
#                 (default: all of these), and announce, which measures what
#                 setting of announce-per-s-max the server bears
#   --orders N    how many orders (default 1000000)
#   --rounds N    how often each side runs (default 5; medians are shown)
#   --quick       100000 orders, one round, short windows: a look, no figures
#   --json FILE   where the figures go (default bench.json beside README.md)
#
# Takes about a quarter of an hour, a minute with --quick. Let nothing else run
# meanwhile: server and clients have a core each where there are two.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
if ! command -v "$server_program" >/dev/null || ! command -v python3 >/dev/null; then
  "$root/scripts/setup.sh" --tests
fi
# BENCH_MODULE: a library that was built elsewhere.
if [ -n "${BENCH_MODULE:-}" ]; then
  module=$BENCH_MODULE
else
  "$root/scripts/setup.sh"
  (cd "$root" && cargo build --release --quiet)
fi
exec python3 "$root/scripts/bench.py" --server "$server_program" --module "$module" --json "$root/bench.json" "$@"
