-- The epoch of the counters is at least ARGV[1] afterwards. Of a later one than the first, or than what was held, nothing
-- is known of before now; the first of all has lost nothing.
local held = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
local epoch = tonumber(ARGV[1])
if epoch > held then
    local time = redis.call('TIME')
    local since_ms = epoch == 1 and 0 or time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('HSET', KEYS[1], 'epoch', epoch, 'since_ms', string.format('%.0f', since_ms))
    return epoch
end
return held
