#!/usr/bin/env bash
# Prints what falls due: subscriber.sh redis://127.0.0.1:6400
# Events are hints. What happened while nobody listened is in the queue, not here.
# The server needs notify-keyspace-events with E and d.
set -euo pipefail

while :; do
  # Three lines per message: message, channel, <queue>:<order>. redis-cli ends with its connection.
  redis-cli -u "$1" SUBSCRIBE __keyevent@0__:order.expired 2>&1 |
    awk '$0 == "message" { at = NR } at && NR == at + 2 {
      colon = match($0, /:[^:]*$/); print "due", substr($0, 1, colon - 1), substr($0, colon + 1); fflush() }' ||
    # Ended by its own reader: nobody listens any more.
    [ "${PIPESTATUS[1]}" -eq 0 ] || exit 1
  sleep 0.5
done
