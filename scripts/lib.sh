# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash

# The repository, and where cargo puts what it builds.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac
# The one library everything loads: tests, demo, run.
module=$target/release/liborderwheel.so
server_program=${REDIS_SERVER:-redis-server}

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Waits until the process $1 answers PING at `redis-cli $2...`, for 30 seconds
# at most; fails at once when the process ends.
wait_for_server() {
  local pid=$1 tries=0
  shift
  until [ "$(redis-cli "$@" PING 2>/dev/null)" = PONG ]; do
    kill -0 "$pid" 2>/dev/null || return 1
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || return 1
    sleep 0.05
  done
}

# A throwaway server with the module on a socket file, with nothing on disk
# outside its own folder: sets server_dir, server_socket, server_pid. Extra
# lines of configuration are arguments. `stop_throwaway` ends it.
start_throwaway() {
  [ -r "$module" ] || fail "no module at $module: run cargo build --release first"
  server_dir=$(mktemp -d "${TMPDIR:-/tmp}/orderwheel.XXXXXX")
  server_socket=$server_dir/socket
  {
    say "dir $server_dir"
    say "port 0"
    say "unixsocket $server_socket"
    say "save \"\""
    say "appendonly no"
    say "loadmodule $module"
    local line
    for line; do say "$line"; done
  } >"$server_dir/redis.conf"
  "$server_program" "$server_dir/redis.conf" >"$server_dir/log" 2>&1 </dev/null &
  server_pid=$!
  if ! wait_for_server "$server_pid" -s "$server_socket"; then
    tail -n 30 "$server_dir/log" >&2
    stop_throwaway
    fail "the server does not start"
  fi
}

stop_throwaway() {
  [ -n "${server_pid:-}" ] || return 0
  kill "$server_pid" 2>/dev/null || true
  # The shell reaps it here; its status says that it was told to end.
  wait "$server_pid" 2>/dev/null || true
  server_pid=
  rm -rf "$server_dir"
}
