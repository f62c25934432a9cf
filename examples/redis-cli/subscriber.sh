#!/usr/bin/env bash
# Prints what falls due: subscriber.sh redis://127.0.0.1:6400
# Events are hints. What happened while nobody listened is in the queue, not here.
# The server needs notify-keyspace-events with E and d.
set -uo pipefail

while :; do
  # Three lines per message: message, channel, <queue>:<order>. redis-cli ends with its connection.
  redis-cli -u "$1" SUBSCRIBE __keyevent@0__:order.expired |
    while read -r kind && read -r _ && read -r event; do
      # Nobody reads what this prints any more: the end.
      [ "$kind" != message ] || printf 'due %s %s\n' "${event%:*}" "${event##*:}" || exit 3
    done
  [ "${PIPESTATUS[1]}" -ne 3 ] || exit 0
  sleep 0.5
done
