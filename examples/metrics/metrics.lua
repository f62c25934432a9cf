#!lua flags=no-writes,allow-stale,allow-cross-slot-keys
-- For prometheus-redis-exporter's option -script: what INFO orderwheel says of the server,
-- and what ORDER.STATS says of its queues, as pairs of a key and a number. docs/metrics.md
-- lists them all. It writes nothing, and the work of a call is bounded by these settings.

-- The queues to report, by name. Empty: those that SCAN finds.
local QUEUES = {}
-- How many are reported at most; each takes the server about 0.08 ms.
local QUEUES_MAX = 16
-- SCAN looks at so many keys at most: this many calls of 1000, each up to 0.25 ms. Where a
-- server holds many other keys, name the queues.
local SCAN_CALLS = 4
-- What is reported of each queue: fields of ORDER.STATS that are numbers.
local FIELDS = {
  'scheduled', 'expired', 'leased', 'retrying', 'dead', 'finished', 'reserved', 'orders',
  'overdue', 'oldest_expired_ms', 'oldest_overdue_ms', 'live_claims', 'claim_waiters',
  'lock_waiters', 'paused_ms', 'claim_limit_wait_ms', 'bytes', 'scheduled_total',
  'finished_total', 'claimed_total', 'acked_total', 'nacked_total', 'lapsed_total',
  'dead_total', 'dead_dropped_total', 'stale_total', 'lock_attempt_total',
  'lock_acquired_total', 'lock_busy_total', 'claims_held_back_total',
  'overdue_close_ms_p50_1m', 'overdue_close_ms_p99_1m', 'overdue_close_ms_max_1m',
}

-- Key and number in turn.
local said = {}

-- A series: `name`, or `name;label=value`.
local function put(name, value, label)
  if label then name = name .. ';' .. label end
  -- The exporter takes nothing but strings.
  if type(value) == 'number' then value = string.format('%.0f', value) end
  said[#said + 1] = name
  said[#said + 1] = value
end

-- A name as a label: other bytes than printable ones and well-formed UTF-8 as %XX.
local function label_of(name)
  local rest = name:gsub('[%z\1-\127]', ' '):gsub('[\194-\223][\128-\191]', ' ')
    :gsub('\224[\160-\191][\128-\191]', ' '):gsub('[\225-\236\238\239][\128-\191][\128-\191]', ' ')
    :gsub('\237[\128-\159][\128-\191]', ' '):gsub('\240[\144-\191][\128-\191][\128-\191]', ' ')
    :gsub('[\241-\243][\128-\191][\128-\191][\128-\191]', ' ')
    :gsub('\244[\128-\143][\128-\191][\128-\191]', ' ')
  local escape = rest:find('[\128-\255]') and '[%z\1-\31%%\127-\255]' or '[%z\1-\31%%\127]'
  local label = name:gsub(escape, function(byte) return string.format('%%%02X', byte:byte()) end)
  -- An empty label is none.
  return label == '' and '%' or label
end

-- The names of the queues to report.
local function queues()
  if #QUEUES > 0 then return QUEUES end
  local found, seen, cursor = {}, {}, '0'
  for _ = 1, SCAN_CALLS do
    local reply = redis.pcall('SCAN', cursor, 'COUNT', 1000, 'TYPE', 'ordrwheel')
    -- A replica that lost its primary may refuse.
    if reply.err then break end
    cursor = reply[1]
    for _, name in ipairs(reply[2]) do
      if not seen[name] and #found < QUEUES_MAX then
        seen[name] = true
        found[#found + 1] = name
      end
    end
    if cursor == '0' or #found >= QUEUES_MAX then break end
  end
  return found
end

local info = redis.call('INFO', 'orderwheel')
if not info:find('orderwheel_version') then
  -- The module is not loaded.
  return said
end
for name, value in info:gmatch('(orderwheel_[%w_]+):([^\r\n]*)') do
  if name == 'orderwheel_version' then
    put('orderwheel_build_info', 1, 'version=' .. value)
  elseif value:find('=') then
    for bound, count in value:gmatch('([%w_.]+)=([%d.]+)') do
      if bound == 'sum' then
        put(name .. '_sum', count)
      elseif bound == 'le_inf' then
        put(name .. '_bucket', count, 'le=+Inf')
        put(name .. '_count', count)
      else
        put(name .. '_bucket', count, 'le=' .. bound:sub(4))
      end
    end
  else
    put(name, value)
  end
end
put('orderwheel_primary', redis.call('INFO', 'replication'):find('role:master') and 1 or 0)

local reported = 0
for _, name in ipairs(queues()) do
  -- It fails for a key of another type.
  local stats = redis.pcall('ORDER.STATS', name)
  if not stats.err and reported < QUEUES_MAX then
    reported = reported + 1
    local values, label = {}, 'queue=' .. label_of(name)
    for at = 1, #stats, 2 do values[stats[at]] = stats[at + 1] end
    for _, field in ipairs(FIELDS) do
      -- An older module lacks some.
      if values[field] then put('orderwheel_queue_' .. field, values[field], label) end
    end
  end
end
put('orderwheel_queues_reported', reported)
return said
