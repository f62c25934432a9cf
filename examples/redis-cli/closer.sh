#!/usr/bin/env bash
# A closer in a shell, for an operator's hands or a cron job:
#   closer.sh redis://127.0.0.1:6400 orders closer-1 [WORK_MS]
# SIGTERM ends it after the order in hand: what is left goes back at once. If it is killed,
# its orders wait for the end of the lease.
# shellcheck disable=SC2034 # outcomes and why are for who sources it
set -euo pipefail
declare -A outcomes
stop=no why=

# One batch, by close_order ID FENCE STATUS ATTEMPT: it sets `status`, or fails and sets `why`.
step() {
  local reply rows id fence attempt at left=()
  outcomes=()
  # Seven lines per order; the last may lack an empty status and payload. No payload may have line ends.
  reply=$(call ORDER.CLAIM "$1" "$2" COUNT 10 PX 30000 BLOCK 2000) || return
  mapfile -t rows <<<"$reply"
  for ((at = 0; at + 4 < ${#rows[@]}; at += 7)); do
    id=${rows[at]} fence=${rows[at + 1]} attempt=${rows[at + 3]}
    if [ "$stop" = yes ]; then
      left+=("$id" "$fence")
    elif close_order "$id" "$fence" "${rows[at + 5]-}" "$attempt"; then
      # Each as it is done: a call takes longer than a batch would save.
      outcomes[$id]=$(insist 1 ORDER.ACK "$1" "$id" "$fence" STATUS "$status") || return
    else
      insist 1 ORDER.NACK "$1" "$id" "$fence" ERROR "$why" >/dev/null || return
    fi
  done
  [ ${#left[@]} -eq 0 ] || insist 1 ORDER.MNACK "$1" $((${#left[@]} / 2)) "${left[@]}" UNTRIED DELAY 0 >/dev/null
}

# Until SIGTERM. Each failure waits longer, up to five seconds.
run() {
  local wait=1
  while [ "$stop" = no ]; do
    if step "$@"; then
      wait=1
    else
      [ $? -ne 2 ] || return 2
      printf 'again in %s s\n' "$wait" >&2
      sleep "$wait"
      wait=$((wait * 2 > 5 ? 5 : wait * 2))
    fi
  done
}

if [ "$0" = "${BASH_SOURCE[0]}" ]; then
  # shellcheck source=examples/redis-cli/orderwheel.sh
  . "$(dirname "$0")/orderwheel.sh"
  url=$1 work_ms=${4:-0}
  close_order() {
    # Yours: UPDATE orders SET status = 'closed', fence = $2 WHERE id = $1 AND status = 'unpaid' AND fence < $2
    sleep "$((work_ms / 1000)).$(printf %03d $((work_ms % 1000)))"
    printf 'closed %s %s\n' "$1" "$2"
    status=closed
  }
  trap 'stop=yes' TERM INT
  run "${2:-orders}" "${3:-closer-1}"
fi
