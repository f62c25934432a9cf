#!/usr/bin/env bash
# test.sh
#
# Everything CI runs, in this order: formatting, lints, code docs, the release build, the
# tests of the pure core, the tests of the module in a real server, the demo,
# and the tests end to end with real clients (PHP, Go, Python, JavaScript, bash, Lua). Stops
# at the first failure. The last line counts the single tests of all runners.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"
export ORDERWHEEL_MODULE=$module

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

heading "the module in a server"
counted cargo test --quiet --test '*'

heading "fuzzers, a short run"
counted scripts/fuzz.sh --smoke

heading "run.sh"
single scripts/run.sh --check

heading "demo"
single scripts/demo.sh

heading "end to end"
counted "$target/venv/bin/python" -m pytest -c tests/e2e/pytest.ini --numprocesses 2 --dist loadfile tests/e2e
