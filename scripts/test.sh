#!/usr/bin/env bash
# test.sh [--all-servers]
#
# Everything CI runs, in this order: formatting, lints, code docs, the release build, the
# tests of the pure core, the tests of the module in the machine's redis-server, in the
# newest Valkey and, with debug assertions and overflow checks, in the newest Redis that
# scripts/servers.sh gets, the demo, and the tests end to end with real clients (PHP, Go,
# Python, JavaScript, bash, Lua). Stops at the first failure. The last line counts the
# single tests of all runners.
#
# With --all-servers the module is tested in every server of scripts/servers.sh, and so
# are clusters, sentinels, clocks and refused writes. That takes an hour on two cores.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"
export ORDERWHEEL_MODULE=$module

# The servers beside the machine's own, and which tests end to end run there too.
servers=(valkey-9)
checked=redis-8.2
declare -A further=([valkey-9]="test_cluster.py")
case ${1:-} in
  '') ;;
  --all-servers)
    servers=(redis-8.0 redis-8.2 redis-sid valkey-8.0 valkey-8.1 valkey-9 valkey-sid)
    for name in "${servers[@]}"; do
      further[$name]="test_clock_lies.py test_cluster.py test_refused_writes.py test_runbooks_servers.py"
    done
    ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
esac

passed=0
failed=0
output=$(mktemp)
at_exit() {
  local status=$?
  rm -f "$output"
  # A step that broke before it could count still counts as one failure.
  if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
  printf '\n%s passed, %s failed\n' "$passed" "$failed"
  exit "$status"
}
trap at_exit EXIT
trap 'exit 130' INT TERM

heading() { printf '\n== %s\n' "$*"; }

# Runs a step that counts its tests itself, as cargo test does ("N passed; N
# failed") or as the tests end to end do ("N passed, N failed"), and adds them up. A
# step without a single test is a mistake.
counted() {
  local status=0 ours theirs
  "$@" 2>&1 | tee "$output" || status=$?
  read -r ours theirs < <(sed -nE 's/^.*\b([0-9]+) passed[;,] ([0-9]+) failed.*$/\1 \2/p' "$output" |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
  passed=$((passed + ours))
  failed=$((failed + theirs))
  [ "$status" -eq 0 ] || exit "$status"
  [ "$theirs" -eq 0 ] || exit 1
  [ "$ours" -gt 0 ] || { say "no test was run: $*"; exit 1; }
}

# Runs a step that either works or not: one test.
single() {
  "$@"
  passed=$((passed + 1))
}

# The server tests in the machine's own server. Four at a time: mostly they wait.
server_tests() { cargo test --quiet --test server -- --test-threads 4 "$@"; }

# The server tests in a server of scripts/servers.sh, but for what it can not do.
elsewhere() {
  local name=$1 program=$target/servers/$1/server left_out=() server test reason
  heading "the module in $name"
  if ! [ -x "$program" ]; then
    say "skipped: $name could not be had"
    return 0
  fi
  while IFS=$'\t' read -r server test reason; do
    [ "$server" = "$name" ] || continue
    say "left out: $test: $reason"
    left_out+=("--skip=$test")
  done <tests/server/limits.tsv
  REDIS_SERVER=$program counted server_tests --exact "${left_out[@]}"
  local files=()
  for test in ${further[$name]:-}; do files+=("tests/e2e/$test"); done
  [ ${#files[@]} -eq 0 ] || REDIS_SERVER=$program counted end_to_end "${files[@]}"
}

end_to_end() {
  "$target/venv/bin/python" -m pytest -c tests/e2e/pytest.ini --numprocesses 2 --dist loadfile "$@"
}

heading "what the tests need"
"$root/scripts/setup.sh" --tests

heading "formatting"
single cargo fmt --check

heading "lints"
single cargo clippy --quiet --all-targets -- -D warnings

heading "documentation of the code"
# Private items are documented too, so links to them lead somewhere.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" single cargo doc --quiet --no-deps --document-private-items

heading "release build: the module, and a second module that meddles"
single cargo build --release --quiet --lib --examples

heading "the core"
counted cargo test --quiet --lib

heading "the repository"
counted cargo test --quiet --test tidy --test docs

heading "the module in a server"
counted server_tests

heading "other servers"
scripts/servers.sh "$target/servers" "${servers[@]}" "$checked" || say "not every server could be had: see above"
for name in "${servers[@]}"; do elsewhere "$name"; done
single cargo build --profile checked --quiet --lib
ORDERWHEEL_MODULE=$target/checked/liborderwheel.so elsewhere "$checked"

heading "fuzzers, a short run"
counted scripts/fuzz.sh --smoke

heading "run.sh"
single scripts/run.sh --check

heading "demo"
single scripts/demo.sh

heading "end to end"
counted end_to_end tests/e2e
