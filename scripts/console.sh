#!/usr/bin/env bash
# console.sh [OPTIONS] [--listen PORT] [--operate]
#
# A page that shows all queues of a server live: what is overdue and since when, rates,
# lateness and close time of the last minutes, dead orders with their last error, and any
# order by its id. It prints an address with a token; open that in a browser on this machine.
# OPTIONS are those of redis-cli: -h HOST -p PORT -s SOCKET -n DB -c (a cluster) --user USER
# -a PASSWORD (or REDISCLI_AUTH) --tls --cacert --cert --key --insecure.
#
#   --listen PORT   where the page is, on 127.0.0.1 alone (default 6480)
#   --operate       the page may also requeue, pause, resume and break; each asks first
#                   and is logged here
#
# Installs what it needs from PyPI and npm into target/console, and says so.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/console/lib.sh
. "$root/scripts/console/lib.sh"

case ${1:-} in --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
console_python
console_node
exec "$console/bin/python" -B "$root/scripts/console/server.py" --node "$console/node" "$@"
