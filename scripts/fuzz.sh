#!/usr/bin/env bash
# fuzz.sh [MINUTES] [TARGET...]
#
# Fuzzes the pure core with cargo-fuzz, each target for MINUTES (default 10):
#
#   requests   the grammar: any words for any command
#   orders     a primary and a replica: chosen commands, effects, times
#   saved      damaged and forged files: loaded, worked with, saved, loaded again
#   glob       patterns, against a matcher that is too simple to be wrong
#
# `fuzz.sh --smoke` runs each for 15 seconds: what scripts/test.sh does. New inputs
# go to target/fuzz/corpus; what breaks something goes to target/fuzz/artifacts,
# and the script ends with status 1. It starts from the inputs in fuzz/seeds.
#
# The sanitizers belong to nightly Rust; a stable one is told to let them be used.
# Installs cargo-fuzz if it is lacking, and says so. Prints "N passed, M failed".
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=600
case ${1:-} in
  --smoke) seconds=15; shift ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  [0-9]*) seconds=$((${1} * 60)); shift ;;
esac
targets=("$@")
[ $# -gt 0 ] || targets=(requests orders saved glob)

export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target/fuzz
export PATH=$PATH:$target/tools/bin
if ! command -v cargo-fuzz >/dev/null; then
  say "fuzz: installing cargo-fuzz into $target/tools"
  env -u CARGO_TARGET_DIR cargo install --quiet --locked --root "$target/tools" --target-dir "$target/tools/build" cargo-fuzz
fi
cd "$root/fuzz"
say "fuzz: building"
cargo fuzz build 2>"$target/fuzz.log" || { cat "$target/fuzz.log" >&2; fail "the fuzzers cannot be built"; }

passed=0
failed=0
mkdir -p "$target/fuzz/artifacts"
programs=$(dirname "$(find "$target/fuzz" -path '*/release/requests' -type f | head -n 1)")
for name in "${targets[@]}"; do
  [ -x "$programs/$name" ] || fail "no target $name"
  mkdir -p "$target/fuzz/corpus/$name"
  options=(-max_total_time="$seconds" -max_len=4096 -artifact_prefix="$target/fuzz/artifacts/$name-" -print_final_stats=1)
  [ "$name" != requests ] || options+=(-dict=words.dict)
  if "$programs/$name" "$target/fuzz/corpus/$name" "seeds/$name" "${options[@]}" >"$target/fuzz/$name.log" 2>&1; then
    say "fuzz: $name: $(awk '/number_of_executed_units/ { print $2 }' "$target/fuzz/$name.log") inputs, nothing found"
    passed=$((passed + 1))
  else
    tail -n 40 "$target/fuzz/$name.log" >&2
    say "fuzz: $name: an input that breaks it lies in $target/fuzz/artifacts"
    failed=$((failed + 1))
  fi
done
say "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
