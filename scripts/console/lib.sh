# Shared by top.sh and console.sh; sourced, never run.
# shellcheck shell=bash

# Where their packages are.
console=$target/console

# A venv with what requirements.txt names.
console_python() {
  local wanted=$root/scripts/console/requirements.txt
  cmp -s "$wanted" "$console/requirements.txt" && return 0
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "python3-venv is lacking: apt-get install python3-venv"
  printf '%s\n' "installing what scripts/console/requirements.txt names into $console" >&2
  python3 -m venv "$console"
  "$console/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
  cp "$wanted" "$console/requirements.txt"
}

# What the page draws with.
console_node() {
  local wanted=$root/scripts/console/package-lock.json
  cmp -s "$wanted" "$console/node/package-lock.json" && return 0
  command -v npm >/dev/null || fail "npm is lacking: apt-get install npm"
  printf '%s\n' "installing what scripts/console/package-lock.json names into $console/node" >&2
  mkdir -p "$console/node"
  cp "$root/scripts/console/package.json" "$console/node/"
  cp "$wanted" "$console/node/"
  npm ci --prefix "$console/node" --silent --no-fund --no-audit --ignore-scripts
}
