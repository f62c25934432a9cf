#!/usr/bin/env bash
# run.sh [--check] [DIR]
#
# Installs what is lacking, builds the module and starts a redis-server with it
# in the foreground, with an append-only file in DIR (default: target/run).
# Ctrl-C stops it; the orders are there again at the next start. Listens on this
# machine only, on PORT or else on the first free port from 6400 up.
#
# --check: starts it in a folder of its own, asks it for one order, stops it,
# and exits 0 if all went well.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

check=no
dir=
for word; do
  case $word in
    --check) check=yes ;;
    -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
    *) dir=$word ;;
  esac
done

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=${PORT:-}
if [ -z "$port" ]; then
  port=6400
  until port_is_free "$port"; do port=$((port + 1)); done
fi

"$root/scripts/setup.sh"
(cd "$root" && cargo build --release --quiet)

if [ "$check" = yes ]; then
  start_throwaway "port $port" "bind 127.0.0.1" "appendonly yes"
  trap stop_throwaway EXIT
  ask() { redis-cli -p "$port" "$@"; }
  expect() {
    local want=$1 got
    shift
    got=$(ask "$@")
    [ "${got%%$'\n'*}" = "$want" ] || fail "$* answered: $got"
  }
  expect PONG PING
  expect OK ORDER.SCHEDULE check 1001 PX 60000 STATUS unpaid
  grep -qx scheduled <<<"$(ask ORDER.GET check 1001)" || fail "ORDER.GET does not show the order"
  expect OK ORDER.FINISH check 1001 STATUS paid
  say "run.sh: a server with the module started, answered and stopped"
  exit 0
fi

dir=${dir:-$target/run}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cat >"$dir/redis.conf" <<C
dir $dir
bind 127.0.0.1
port $port
appendonly yes
loadmodule $module
# So that order.expired and the others can be subscribed to.
notify-keyspace-events KEd
C
say "orderwheel runs on port $port, with its data in $dir; Ctrl-C stops it. To try it:"
say "  redis-cli -p $port ORDER.SCHEDULE orders 1001 PX 5000 STATUS unpaid"
say "  redis-cli -p $port ORDER.CLAIM orders closer-1 BLOCK 10000"
say "  redis-cli -p $port SUBSCRIBE __keyevent@0__:order.expired"
exec "$server_program" "$dir/redis.conf"
