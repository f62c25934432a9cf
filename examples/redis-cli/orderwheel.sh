# orderwheel over redis-cli; sourced, with `url` set. Each call is a connection of its own:
# never claim with SESSION here, the lease would end with the call.
# shellcheck shell=bash
url=${url:-redis://127.0.0.1:6400}

# One command. Null is an empty line, a list is a line per item. An error goes to stderr and
# fails: with 2 if no second try mends it, a mistake in the program or a right that it lacks.
call() {
  local reply
  # -e turns an error into a status. Without a reply in seven seconds the server is away.
  if ! reply=$(timeout 7 redis-cli -e -u "$url" "$@" 2>&1); then
    printf '%s\n' "${reply:-no answer}" >&2
    [[ ! $reply =~ ^(ERR|WRONGTYPE|NOPERM|NOAUTH)\  ]] || return 2
    return 1
  fi
  printf '%s\n' "$reply"
}

# Line $1 of the text $2, and field $1 of the reply of a command.
line() { sed -n "$1p" <<<"$2"; }
field() {
  local reply
  reply=$(call "${@:2}") || return
  line "$1" "$reply"
}

# The same, and again while the server is away: for what may be repeated.
insist() {
  local wait
  for wait in 0.1 0.2 0.5 1 2 5 5 5 0; do
    if field "$@"; then return; else [ $? -ne 2 ] || return 2; fi
    sleep "$wait"
  done
  return 1
}

# One field of an order by name: get QUEUE ID FIELD. Names and values are lines in turn.
get() {
  local reply
  reply=$(call ORDER.GET "$1" "$2") || return
  awk -v name="$3" 'NR % 2 == 1 { found = $0 == name } NR % 2 == 0 && found { print; exit }' <<<"$reply"
}
