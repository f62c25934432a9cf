#!/usr/bin/env bash
# The life of some orders in Lua: story.sh redis://127.0.0.1:6400
# Prints a line per chapter; README.md shows them.
set -euo pipefail

url=${1:-redis://127.0.0.1:6400}
here=$(dirname "$0")
ask() { redis-cli -e -u "$url" "$@"; }
# A list in one line.
list() { ask "$@" | paste -sd ' '; }

ask DEL story story:stock >/dev/null
ask HSET story:stock sku-7 10 >/dev/null
ask -x FUNCTION LOAD REPLACE <"$here/shop.lua" >/dev/null

# Create: stock and order in one step. A message that comes twice takes no stock twice.
soon=$(($(date +%s%3N) + 900000))
first=$(ask FCALL shop_create 2 story story:stock 1001 "$soon" sku-7 3)
again=$(ask FCALL shop_create 2 story story:stock 1001 "$soon" sku-7 3)
none=$(ask FCALL shop_create 2 story story:stock 1009 "$soon" sku-7 8)
printf 'create       1001 %s, again %s, eight of seven %s\n' "$first" "$again" "$none"

printf 'pay          %s; second payment %s\n' \
  "$(list FCALL shop_pay 1 story 1001 pay:9f3c)" "$(list FCALL shop_pay 1 story 1001 pay:77aa)"

# Close: a script does not wait, whatever is due. What has no basket is a dead letter.
idle=$(list FCALL shop_close 2 story story:stock closer-1 10)
ask FCALL shop_create 2 story story:stock 1002 "$(date +%s%3N)" sku-7 2 >/dev/null
ask ORDER.SCHEDULE story 1003 PX 0 STATUS unpaid >/dev/null
held=$(ask HGET story:stock sku-7)
closed=$(list FCALL shop_close 2 story story:stock closer-1 10)
printf 'close        nothing due: "%s"; then %s; stock %s, then %s\n' "$idle" "$closed" "$held" "$(ask HGET story:stock sku-7)"

# Dead letter: mend it, offer it again; this time the plain script closes it.
why=$(ask --no-raw ORDER.GET story 1003 | awk '/"error"/ { getline; print }' | cut -d '"' -f 2)
printf 'dead letter  %s; requeued %s; ' "$why" "$(list ORDER.REQUEUE story ID 1003)"
printf '%s\n' "$(list --eval "$here/close.lua" story , closer-1 10)"

# Error: pcall gives it as a table, call ends the script with it.
printf 'error        %s\n' "$(ask EVAL "return redis.pcall('ORDER.SCHEDULE', KEYS[1], 'x', 'PX', 'soon').err" 1 story)"
