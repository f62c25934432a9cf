-- The same closer as a script, without stock: redis-cli --eval close.lua orders , closer-1 10
local outcomes = {}
for _, row in ipairs(redis.call('ORDER.CLAIM', KEYS[1], ARGV[1], 'COUNT', ARGV[2])) do
  -- "%.0f" keeps all 16 digits of a fence.
  local reply = redis.call('ORDER.ACK', KEYS[1], row[1], string.format('%.0f', row[2]), 'FROM', 'unpaid', 'STATUS', 'closed')
  outcomes[#outcomes + 1] = row[1] .. ' ' .. reply[1]
end
return outcomes
