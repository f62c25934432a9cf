#!/usr/bin/env bash
# The shop's story through redis-cli and server-side Lua: story.sh SOCKET
set -euo pipefail

socket=$1
passed=0
failed=0
ask() { redis-cli -s "$socket" "$@"; }

# check NAME WANT GOT: one test.
check() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'not ok - %s: wanted %q, got %q\n' "$1" "$2" "$3"
  fi
}
# The first field of an order reply.
outcome() { ask "$@" | sed -n 1p; }

check "schedule" OK "$(outcome ORDER.SCHEDULE orders 1001 PX 60000 STATUS unpaid PAYLOAD '{"sku":7}')"
check "schedule again" EXISTS "$(outcome ORDER.SCHEDULE orders 1001 PX 5)"
check "pay" OK "$(outcome ORDER.FINISH orders 1001 FROM unpaid STATUS paid RESULT pay:9f3c)"
check "pay again: the result tells a duplicate from a second payment" pay:9f3c "$(ask ORDER.FINISH orders 1001 STATUS paid RESULT pay:0000 | tail -n 1)"
check "type" ordrwheel "$(ask TYPE orders)"

# A closer in Lua: claims without waiting, closes each, in one script.
closer='
local out = {}
for _, row in ipairs(redis.call("ORDER.CLAIM", KEYS[1], "lua", "COUNT", 10, "BLOCK", 100000)) do
  local reply = redis.call("ORDER.ACK", KEYS[1], row[1], string.format("%.0f", row[2]), "FROM", "unpaid", "STATUS", "closed")
  table.insert(out, row[1] .. "=" .. reply[1])
end
return out'
check "nothing is due: a script does not wait" "" "$(ask EVAL "$closer" 1 orders)"
check "schedule one due now" OK "$(outcome ORDER.SCHEDULE orders 1002 PX 0 STATUS unpaid)"
check "a fence is exact in Lua" 1002=OK "$(ask EVAL "$closer" 1 orders)"
check "closed" closed "$(ask --no-raw ORDER.GET orders 1002 | grep -A 1 '"status"' | sed -n '2s/.*"\(.*\)"/\1/p')"

# The same as a function library.
ask FUNCTION LOAD "#!lua name=shop
redis.register_function('pay', function(keys, args)
  return redis.call('ORDER.FINISH', keys[1], args[1], 'FROM', 'unpaid', 'STATUS', 'paid')
end)" >/dev/null
check "schedule for a function" OK "$(outcome ORDER.SCHEDULE orders 1003 PX 60000 STATUS unpaid)"
check "pay in a function" OK "$(ask FCALL pay 1 orders 1003 | sed -n 1p)"

# In a transaction, and errors in it.
check "transaction" "OK QUEUED QUEUED OK finished" "$(printf 'MULTI\nORDER.SCHEDULE tx 1 PX 9000\nORDER.FINISH tx 1\nEXEC\n' |
  ask | awk 'NR <= 4 || $0 == "finished"' | tr '\n' ' ' | sed 's/ $//')"
check "an error is said in a script too" yes \
  "$(ask EVAL 'local r = redis.pcall("ORDER.SCHEDULE", KEYS[1], "x", "PX", "soon"); return r.err and "yes" or "no"' 1 orders)"

printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
