#!/usr/bin/env bash
# demo.sh
#
# Tells the story of one shop live against a server of its own: orders are
# created, paid in time, paid under a lock, paid too late, moved, closed, handed back
# and taken over from closers that died. Prints what happens when, with the
# lateness of every announcement and hand-over in milliseconds. Ends by itself
# in a few seconds; exits 0 only if every order ended as it should.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v "$server_program" >/dev/null || ! command -v python3 >/dev/null || [ ! -r "$module" ]; then
  "$root/scripts/setup.sh" --tests
  (cd "$root" && cargo build --release --quiet)
fi
trap stop_throwaway EXIT
start_throwaway "notify-keyspace-events KEd"
python3 "$root/scripts/demo.py" "$server_socket"
