-- Counts one confirm in every counter of its subjects, once, and says how much each holds within its window.
-- KEYS[1]  stands for the confirm: while it exists, the same confirm was counted already
-- KEYS[n]  a counter: a hash of buckets of time, each of a thirtieth of the window
-- ARGV     how long a confirm is remembered (s), buckets of a window; then window (s) and increment of each counter
-- One clock for every process: the server's. A count looks back by the window and at most one bucket more.
local SATURATED = 9e15 -- a bucket beyond it grows no more, long before a 64-bit integer would overflow
local fresh = redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1])
local buckets = tonumber(ARGV[2])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local totals = {}
for n = 2, #KEYS do
    local window_ms = tonumber(ARGV[2 * n - 1]) * 1000
    local bucket = math.floor(now_ms * buckets / window_ms)
    if fresh then
        local held = tonumber(redis.call('HGET', KEYS[n], bucket) or '0')
        if held < SATURATED then
            redis.call('HINCRBY', KEYS[n], bucket, ARGV[2 * n])
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
    totals[n - 1] = string.format('%.0f', total)
end
return totals
