#!/usr/bin/env bash
# mutants.sh [SHARD/SHARDS] [FILE...]
#
# Do the tests bite? cargo-mutants changes the pure core in one place at a time and
# looks whether the core's tests notice. FILE... are those to change (default: all of
# src but the shell). SHARD/SHARDS takes a part: of 0/32, 1/32 to 31/32 each takes
# some twenty minutes on one core.
#
# A mutant that the quick tests let live meets all of them in a second pass. What still
# lives is printed and lies in target/mutants; scripts/mutants/mutants.toml names those
# that no test can kill, each with the reason. Installs cargo-mutants if it is lacking,
# and says so. Ends with status 1 if fewer than 97 of 100 viable mutants were caught.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

options=()
part=all
case ${1:-} in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  [0-9]*/[0-9]*) part=${1%/*}-of-${1#*/}; options+=(--shard "$1" --sharding round-robin); shift ;;
esac
for file; do options+=(--file "$file"); done

export PATH=$PATH:$target/tools/bin
if ! command -v cargo-mutants >/dev/null; then
  say "mutants: installing cargo-mutants into $target/tools"
  cargo install --quiet --locked --root "$target/tools" --target-dir "$target/tools/build" cargo-mutants
fi
cd "$root"
folder=$target/mutants
results=$folder/$part
rm -rf "$results"
mkdir -p "$results" "$folder/tree"
# A copy that is changed in place: what is built stays for the next mutant, and the next run.
# Its files are new each time, for one that was left changed must not seem to be built.
git ls-files -z | xargs -0 cp --parents --target-directory "$folder/tree"
cd "$folder/tree"
export CARGO_TARGET_DIR=$folder/build
# Building is most of the work: no debug information, little optimisation, many pieces.
export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_TEST_CODEGEN_UNITS=64
# run NAME WORD...: one pass; its lists lie in $results/NAME/mutants.out.
run() {
  local name=$1
  shift
  mkdir -p "$results/$name"
  cargo mutants --config scripts/mutants/mutants.toml --in-place --output "$results/$name" --colors never \
    "$@" >"$results/$name/log" 2>&1 || case $? in
    2 | 3) ;; # Some live, some went on for ever.
    *) tail -n 40 "$results/$name/log" >&2; fail "cargo-mutants broke off" ;;
  esac
}
# shellcheck disable=SC2086 # a pattern
lines() { cat "$results"/$1/mutants.out/"$2".txt 2>/dev/null | wc -l; }
# Those that take longer than a fifth of a second.
slow=(
  compaction_changes_no_answer a_queue_that_has_shrunk_takes scan_returns_what_is_there_all_the_time
  overdue_agrees_with_every_order each_second_of_hungry_claimers looking_ahead_changes_nothing
  no_effect_however_absurd it_costs_24_bytes random_lives_end memory_of_bindings
  after_a_clock_step_or_a_reload a_pattern_makes_looks_dearer no_dead_order_is_dropped
  a_full_arena_refuses_bytes any_changed_byte_gives scan_returns_whatever_is_there
  a_queue_that_breathes a_second_brings_the_rate
)
ORDER_TEST_STEPS=4000 run quick "${options[@]}" --timeout 30 -- --lib -- "${slow[@]/#/--skip=}"
missed=$results/quick/mutants.out/missed.txt
if [ -s "$missed" ]; then
  # Each by its whole name, as a pattern.
  run whole --re "^($(sed 's/[][\\.^$*+?(){}|]/\\&/g' "$missed" | paste -sd '|'))\$" \
    --baseline skip --timeout 240 -- --lib
  missed=$results/whole/mutants.out/missed.txt
fi
cat "$missed"
live=$(wc -l <"$missed")
late=$(lines '*' timeout)
caught=$(($(lines '*' caught) + late))
viable=$((caught + live))
say "mutants: $caught of $viable viable ones caught ($late went on for ever), $live live, $(lines '*' unviable) do not compile"
[ $((100 * caught)) -ge $((97 * viable)) ]
