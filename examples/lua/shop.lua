#!lua name=shop
-- A shop whose stock is in Redis: order and stock change together or not at all.
--   redis-cli -x FUNCTION LOAD REPLACE < shop.lua
-- In a cluster, queue and stock need the same hash tag: orders:{0}, stock:{0}.

-- A number as decimal digits: tostring shows 14 of them, a fence has 16.
local function digits(number)
  return string.format('%.0f', number)
end

-- FCALL shop_create 2 <queue> <stock> <order> <deadline ms> <article> <pieces>
redis.register_function('shop_create', function(keys, args)
  local article, pieces = args[3], tonumber(args[4])
  if tonumber(redis.call('HGET', keys[2], article) or 0) < pieces then
    return 'SOLD OUT'
  end
  local reply = redis.call('ORDER.SCHEDULE', keys[1], args[1], 'PXAT', args[2], 'STATUS', 'unpaid',
    'PAYLOAD', cjson.encode({ article = article, pieces = pieces }))
  -- EXISTS and FINISHED: this message came before. The stock was taken then.
  if reply[1] == 'OK' then
    redis.call('HINCRBY', keys[2], article, -pieces)
  end
  return reply[1]
end)

-- FCALL shop_pay 1 <queue> <order> <payment>
redis.register_function('shop_pay', function(keys, args)
  local reply = redis.call('ORDER.FINISH', keys[1], args[1], 'FROM', 'unpaid', 'STATUS', 'paid', 'RESULT', args[2])
  return { reply[1], reply[8] }
end)

-- FCALL shop_close 2 <queue> <stock> <closer> <count>: closes what is due; never waits.
redis.register_function('shop_close', function(keys, args)
  local outcomes = {}
  for _, row in ipairs(redis.call('ORDER.CLAIM', keys[1], args[1], 'COUNT', args[2])) do
    local id, fence = row[1], digits(row[2])
    -- A null is false in Lua.
    local readable, bought = pcall(cjson.decode, row[7] or '')
    if readable and type(bought) == 'table' and bought.article then
      redis.call('HINCRBY', keys[2], bought.article, bought.pieces)
      local reply = redis.call('ORDER.ACK', keys[1], id, fence, 'STATUS', 'closed')
      outcomes[#outcomes + 1] = id .. ' ' .. reply[1]
    else
      redis.call('ORDER.NACK', keys[1], id, fence, 'DEAD', 'ERROR', 'no basket in it')
      outcomes[#outcomes + 1] = id .. ' dead'
    end
  end
  return outcomes
end)
