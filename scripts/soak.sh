#!/usr/bin/env bash
# soak.sh [MINUTES [SEED]]
#
# Everything at once for MINUTES (default 10): two shops with a replica each take orders,
# pay, lock, close, requeue and purge, while servers are killed, stopped, paused, reloaded,
# change their parts, rewrite their files, and lose their clients. The first shop's servers
# are killed too; those of the second live from beginning to end, for memory that grows.
#
# Once a minute all work rests and is accounted for, to the order: accepted = paid +
# closed + purged + still there, each order in one state, primary and replica alike. One
# line a minute, and a verdict. Status 1 if anything was lost, doubled, early, or left
# behind, or a server died by itself. Needs what scripts/setup.sh --tests installs, and
# the module built.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
[ -x "$target/venv/bin/python" ] || "$root/scripts/setup.sh" --tests
export ORDERWHEEL_MODULE=${ORDERWHEEL_MODULE:-$module}
exec "$target/venv/bin/python" "$root/scripts/soak/soak.py" "$@"
