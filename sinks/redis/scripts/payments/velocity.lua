-- Counts one confirm in every counter of its subjects, once, and says how much each holds within its window.
-- KEYS[1]  the epoch of all counters, and since when they hold everything: a store without it, or of another one, has lost
--          what it held, or is not the one that was meant; nothing is counted, and the answer is 'stale' and its epoch
-- KEYS[2]  stands for the confirm: while it exists, the same confirm was counted already
-- KEYS[n]  a counter: a hash of buckets of time, each of a thirtieth of the window
-- ARGV     the epoch, how long a confirm is remembered (s), buckets of a window; then window (s) and increment of each
--          counter
-- Of a window that began before the counters held everything the answer is '': it is counted, and not known.
-- One clock for every process: the server's. A count looks back by the window and at most one bucket more.
local SATURATED = 9e15 -- a bucket beyond it grows no more, long before a 64-bit integer would overflow
local held = redis.call('HMGET', KEYS[1], 'epoch', 'since_ms')
if not held[1] or tonumber(held[1]) ~= tonumber(ARGV[1]) then
    return {'stale', held[1] or '0'}
end
local since_ms = tonumber(held[2])
local fresh = redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[2])
local buckets = tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local totals = {}
for n = 3, #KEYS do
    local window_ms = tonumber(ARGV[2 * n - 2]) * 1000
    local bucket = math.floor(now_ms * buckets / window_ms)
    if fresh then
        local held = tonumber(redis.call('HGET', KEYS[n], bucket) or '0')
        if held < SATURATED then
            redis.call('HINCRBY', KEYS[n], bucket, ARGV[2 * n - 1])
        end
        redis.call('PEXPIRE', KEYS[n], window_ms * 2)
    end
    local total = 0
    local fields = redis.call('HGETALL', KEYS[n])
    for i = 1, #fields, 2 do
        if tonumber(fields[i]) < bucket - buckets then
            redis.call('HDEL', KEYS[n], fields[i])
        else
            total = total + tonumber(fields[i + 1])
        end
    end
    totals[n - 2] = now_ms - window_ms < since_ms and '' or string.format('%.0f', total)
end
return totals
