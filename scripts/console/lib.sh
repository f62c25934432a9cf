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
  # Not bin/pip: in a tree that was copied or moved it names the python of the old place.
  "$console/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted"
  cp "$wanted" "$console/requirements.txt"
}

# What the page draws with.
console_node() {
  local wanted=$root/scripts/console/package-lock.json
  cmp -s "$wanted" "$console/node/installed" && return 0
  command -v npm >/dev/null || fail "npm is lacking: apt-get install npm"
  printf '%s\n' "installing what scripts/console/package-lock.json names into $console/node" >&2
  mkdir -p "$console/node"
  cp "$root/scripts/console/package.json" "$console/node/"
  cp "$wanted" "$console/node/"
  npm ci --prefix "$console/node" --silent --no-fund --no-audit --ignore-scripts
  # Last, so that an installation that failed is tried again.
  cp "$wanted" "$console/node/installed"
}
