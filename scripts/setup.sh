#!/usr/bin/env bash
# setup.sh [--tests]
#
# Installs what is lacking on a Debian or Ubuntu machine that has Rust: a
# redis-server with its tools, a C compiler and libclang for the build, and
# with --tests the clients the tests use (PHP with its redis extension and
# Predis, Python with packages in target/venv, Node.js, Go with redigo; in
# target/clients each redis-py by itself, and what the examples take from npm),
# PostgreSQL and MariaDB with their drivers, Prometheus with its exporter, Chromium,
# and what checks and tries the packages. Says what it does; says nothing when there is
# nothing to do. Works as root or through sudo. The system's own services are neither
# started nor enabled.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

tests=no
case ${1:-} in
  '') ;;
  --tests) tests=yes ;;
  *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
esac

command -v cargo >/dev/null || fail "cargo is not here: install Rust first (rustup.rs)"

# --- what is lacking -------------------------------------------------------
has() { command -v "$1" >/dev/null 2>&1; }
# What the build's binding generator looks for: the library and its headers.
has_libclang() {
  [ -n "${LIBCLANG_PATH:-}" ] && return 0
  compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null &&
    compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h' >/dev/null
}

packages=()
# Those of them that Debian would start with the machine.
services=()
if ! has redis-server && [ -z "${REDIS_SERVER:-}" ]; then packages+=(redis-server) services+=(redis-server); fi
has redis-cli || packages+=(redis-tools)
has cc || packages+=(gcc libc6-dev)
has_libclang || packages+=(libclang-dev)
if [ "$tests" = yes ]; then
  has python3 || packages+=(python3)
  # A venv can be made only where ensurepip is; Debian has it in a package of its own.
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || packages+=(python3-venv)
  has php || packages+=(php-cli)
  php -r 'exit(extension_loaded("redis") ? 0 : 1);' 2>/dev/null || packages+=(php-redis)
  [ -e /usr/share/php/Predis/Autoloader.php ] || packages+=(php-predis)
  has node || packages+=(nodejs)
  has npm || packages+=(npm)
  has shellcheck || packages+=(shellcheck)
  has go || packages+=(golang-go)
  # For the example shop: both databases, with their drivers for Go and PHP.
  for driver in gomodule/redigo lib/pq go-sql-driver/mysql mna/redisc; do
    [ -d "/usr/share/gocode/src/github.com/$driver" ] || packages+=("golang-github-${driver//\//-}-dev")
  done
  php -r 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);' 2>/dev/null || packages+=(php-pgsql)
  php -r 'exit(extension_loaded("pdo_mysql") ? 0 : 1);' 2>/dev/null || packages+=(php-mysql)
  has psql && compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || packages+=(postgresql) services+=(postgresql)
  has mariadb && [ -x /usr/sbin/mariadbd ] || packages+=(mariadb-server) services+=(mariadb)
  # For the packages: what builds, checks and tries them.
  has lintian || packages+=(lintian)
  has debootstrap || packages+=(debootstrap)
  # For the page of console.sh, and its connections by TLS.
  has chromium || packages+=(chromium)
  has openssl || packages+=(openssl)
  # promtool comes with it.
  for package in prometheus prometheus-redis-exporter; do
    has "$package" || packages+=("$package") services+=("$package")
  done
fi

# --- system packages -------------------------------------------------------
if [ ${#packages[@]} -gt 0 ]; then
  has apt-get || fail "lacking: ${packages[*]}; install them by your system's own means"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    has sudo || fail "lacking: ${packages[*]}; installing them needs root or sudo"
    as_root=(sudo)
  fi
  say "setup: installing ${packages[*]}"
  # Debian starts a service when its package is installed, unless this file
  # says no. Put one there for as long as the installation takes.
  guard=/usr/sbin/policy-rc.d
  if [ ! -e "$guard" ]; then
    printf '#!/bin/sh\nexit 101\n' | ${as_root[@]+"${as_root[@]}"} tee "$guard" >/dev/null
    ${as_root[@]+"${as_root[@]}"} chmod 755 "$guard"
    # shellcheck disable=SC2064 # the names as they are now
    trap "${as_root[*]-} rm -f '$guard'" EXIT
  fi
  log=$(mktemp)
  apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o Acquire::Retries=3 "$@" >>"$log" 2>&1; }
  if ! { apt update && apt install --yes --no-install-recommends "${packages[@]}"; }; then
    cat "$log" >&2
    rm -f "$log"
    fail "apt-get could not install ${packages[*]}"
  fi
  rm -f "$log"
  if has systemctl; then
    # Not at the next start of the machine either; where systemd does not run
    # there is nothing to switch off.
    for service in ${services[@]+"${services[@]}"}; do
      ${as_root[@]+"${as_root[@]}"} systemctl disable "$service" >/dev/null 2>&1 || true
    done
  fi
fi

# --- packages of Python, in a venv of their own -----------------------------
if [ "$tests" = yes ]; then
  venv=$target/venv
  wanted=$root/tests/e2e/requirements.txt
  # The list that was installed lies beside what was installed from it.
  if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    say "setup: installing what tests/e2e/requirements.txt names into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$venv/requirements.txt"
  fi
fi

# --- clients, each version of redis-py in a folder of its own -----------------
if [ "$tests" = yes ]; then
  for version in 5 6 8; do
    folder=$target/clients/redis-py-$version
    [ ! -e "$folder/complete" ] || continue
    say "setup: installing redis-py $version into $folder"
    rm -rf "$folder"
    "$target/venv/bin/pip" install --quiet --disable-pip-version-check --target "$folder" "redis>=$version,<$((version + 1))"
    touch "$folder/complete"
  done
  folder=$target/clients/node
  if ! cmp -s "$root/examples/node/package-lock.json" "$folder/installed"; then
    say "setup: installing what examples/node/package-lock.json names into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$root"/examples/node/package{,-lock}.json "$folder"
    # Version 6 of both wants a newer Node.js than Debian 12 has; the tests leave it out there.
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
    cp "$folder/package-lock.json" "$folder/installed"
  fi
fi

# --- what must be there now ------------------------------------------------
has "$server_program" || fail "$server_program is not here after the installation"
has redis-cli || fail "redis-cli is not here after the installation"
has_libclang || fail "libclang is not here after the installation"
