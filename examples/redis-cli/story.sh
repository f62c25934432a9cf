#!/usr/bin/env bash
# The life of some orders in a shell: story.sh redis://127.0.0.1:6400
# Prints a line per chapter; examples/README.md shows them.
set -euo pipefail
url=${1:-redis://127.0.0.1:6400}
# shellcheck source=examples/redis-cli/orderwheel.sh
. "$(dirname "$0")/orderwheel.sh"
# shellcheck source=examples/redis-cli/closer.sh
. "$(dirname "$0")/closer.sh"

queue=story
jobs=story:once
call DEL "$queue" "$jobs" >/dev/null
call ORDER.CONFIG "$queue" SET max-attempts 2 backoff-ms 50 >/dev/null

# Create: commit the order in the database, then schedule it. Safe to repeat.
create=(ORDER.SCHEDULE "$queue" 1001 PXAT "$(($(date +%s%3N) + 900000))" STATUS unpaid PAYLOAD '{"sku":7}')
printf 'create       1001 %s, again %s\n' "$(field 1 "${create[@]}")" "$(field 1 "${create[@]}")"

# Read: a missing order is an empty line, an error is a status of its own.
whole=broken missing=there
[ "$(get "$queue" 1001 payload)" != '{"sku":7}' ] || whole=whole
[ -n "$(call ORDER.GET "$queue" 1999)" ] || missing=null
printf 'read         1001 %s, payload %s; 1999 %s\n' "$(get "$queue" 1001 status)" "$whole" "$missing"

# Pay: lock, take the money, write it into the database, then finish with the fence.
lock=$(call ORDER.LOCK "$queue" 1001 pay:9f3c PX 60000)
other=$(field 1 ORDER.LOCK "$queue" 1001 pay:77aa PX 60000)
paid=$(field 1 ORDER.FINISH "$queue" 1001 FENCE "$(line 2 "$lock")" STATUS paid RESULT pay:9f3c)
twice=$(call ORDER.FINISH "$queue" 1001 STATUS paid RESULT pay:77aa)
printf "pay          lock %s, another's %s, paid %s, second payment %s by %s\n" \
  "$(line 1 "$lock")" "$other" "$paid" "$(line 1 "$twice")" "$(line 8 "$twice")"

# Close: a closer's batch. What it prints is the status, or why the order failed.
mended=no
close_order() {
  case $1/$4 in
    1003/*) status=paid ;; # the database knows better
    1004/1) why='mail is down'; return 1 ;;
    1005/*) status=closed why='no such stock'; [ "$mended" = yes ] ;;
    1008/*) status=closed stop=yes ;; # as on SIGTERM
    *) status=closed ;;
  esac
}
until_state() {
  until [ "$(get "$queue" "$1" state)" = "$2" ]; do step "$queue" closer-1; done
}
call ORDER.MSCHEDULE "$queue" PX 2 1002 0 1003 0 STATUS unpaid >/dev/null
step "$queue" closer-1
printf 'close        1002 %s %s, 1003 %s %s\n' \
  "$(get "$queue" 1002 status)" "${outcomes[1002]}" "$(get "$queue" 1003 status)" "${outcomes[1003]}"

# Retry: NACK with the reason; it is offered again after a wait that grows.
call ORDER.SCHEDULE "$queue" 1004 PX 0 STATUS unpaid >/dev/null
step "$queue" closer-1
failed="$(get "$queue" 1004 attempt): $(get "$queue" 1004 error)"
until_state 1004 finished
printf 'retry        1004 try %s; closed at try %s\n' "$failed" "$(get "$queue" 1004 attempt)"

# Dead letter: the last try failed. Mend what was wrong, offer it again.
call ORDER.SCHEDULE "$queue" 1005 PX 0 STATUS unpaid >/dev/null
until_state 1005 dead
dead="$(get "$queue" 1005 state) after $(get "$queue" 1005 attempt): $(get "$queue" 1005 error)"
mended=yes
moved=$(call ORDER.REQUEUE "$queue" ID 1005)
until_state 1005 finished
printf 'dead letter  1005 %s; requeued %s, left %s, then %s\n' \
  "$dead" "$(line 1 "$moved")" "$(line 2 "$moved")" "$(get "$queue" 1005 status)"

# Hint: an event names what fell due; ask the queue for it.
call ORDER.SCHEDULE "$queue" 1006 PX 2000 STATUS unpaid >/dev/null
exec 3< <(exec timeout 20 "$(dirname "$0")/subscriber.sh" "$url")
read -r _ from id <&3
kill "$!" && exec 3<&-
fence=$(field 2 ORDER.CLAIM "$from" story ID "$id")
printf 'hint         %s fell due, %s %s\n' "$id" closed "$(field 1 ORDER.ACK "$from" "$id" "$fence" STATUS closed)"

# Run once: the result of the first run is kept for whoever asks again.
once=(ORDER.LOCK "$jobs" 1001:mail)
first=$(call "${once[@]}" attempt-1 PX 30000 FP hash-a)
call ORDER.ACK "$jobs" 1001:mail "$(line 2 "$first")" STATUS 'done' RESULT 42 >/dev/null
again=$(call "${once[@]}" attempt-2 PX 30000 FP hash-a)
wrong=$(field 1 "${once[@]}" attempt-3 PX 30000 FP hash-b)
printf 'run once     %s, again %s with %s, another request %s\n' \
  "$(line 1 "$first")" "$(line 1 "$again")" "$(line 7 "$again")" "$wrong"

# Transaction: both or neither. CLAIM does not wait in it.
both=$(printf '%s\n' MULTI "ORDER.SCHEDULE $queue 1007 PX 0 STATUS unpaid" "ORDER.CLAIM $queue story BLOCK 100000" EXEC | call)
# OK, QUEUED, QUEUED, eight fields, then the row.
bought=$(line 12 "$both") fence=$(line 13 "$both")
printf 'transaction  %s claimed, another fence %s, its own %s\n' "$bought" \
  "$(field 1 ORDER.ACK "$queue" 1007 "$((fence + 1))" STATUS closed)" "$(field 1 ORDER.ACK "$queue" 1007 "$fence" STATUS closed)"

# Stop: the order in hand is finished, the rest goes back untried.
call ORDER.MSCHEDULE "$queue" PX 3 1008 0 1009 0 1010 0 STATUS unpaid >/dev/null
step "$queue" closer-1
printf 'stop         1008 closed %s; 1009 %s with %s tries, 1010 %s with %s tries\n' "${outcomes[1008]}" \
  "$(get "$queue" 1009 state)" "$(get "$queue" 1009 attempt)" "$(get "$queue" 1010 state)" "$(get "$queue" 1010 attempt)"

# Error: call fails, and says which argument it was.
call ORDER.SCHEDULE "$queue" 1011 PX soon 2>&1 | sed 's/^/error        /' || true
