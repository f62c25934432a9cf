#!/usr/bin/env bash
# top.sh [OPTIONS] [--once] [--every SECONDS]
#
# A live view of all queues of a server, the worst first: overdue orders and since when,
# dead ones, claims, rates, lateness and close time of the last minute, brake, pause, memory.
# OPTIONS are those of redis-cli: -h HOST -p PORT -s SOCKET -n DB -c (all nodes of a
# cluster) --user USER -a PASSWORD (or REDISCLI_AUTH) --tls --cacert --cert --key --insecure.
#
#   --once    prints tab-separated values once, for scripts: docs/console.md has the form
#   --every   seconds between two looks (default 2)
#   keys      q quits; o O d l r c b sort; arrows and Enter open a queue; Esc goes back
#
# Installs redis-py and wcwidth into target/console if it is lacking, and says so.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/console/lib.sh
. "$root/scripts/console/lib.sh"

case ${1:-} in --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
console_python
exec "$console/bin/python" -B "$root/scripts/console/top.py" "$@"
