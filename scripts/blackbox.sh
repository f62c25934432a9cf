#!/usr/bin/env bash
# blackbox.sh [MINUTES [SEED]]
#
# Sends random commands, valid and invalid, to a real server for MINUTES (default 2): plainly,
# in MULTI, by Lua, while clients are lost, files reloaded, queues copied, swapped, dumped and
# restored whole and damaged. A naive model in Python, which knows what docs/commands.md says
# and nothing else, says what each answer must be. Every 200 steps all orders are compared
# field by field, and the replica too.
#
# Prints the seed; the same seed sends much the same. Status 1 at the first difference: it
# prints seed, step, the last 30 commands as redis-cli lines, what was expected and what came,
# and keeps the servers' folder. Needs what scripts/setup.sh --tests installs, and the module
# built.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;; esac
[ -x "$target/venv/bin/python" ] || "$root/scripts/setup.sh" --tests
export ORDERWHEEL_MODULE=${ORDERWHEEL_MODULE:-$module}
cd "$root/tests/e2e"
exec "$target/venv/bin/python" -m blackbox.run "$@"
