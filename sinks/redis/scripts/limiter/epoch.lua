-- The epoch of this store is at least ARGV[1] afterwards, and never goes back. Answers the one that holds.
local held = tonumber(redis.call('GET', KEYS[1]) or '0')
if tonumber(ARGV[1]) <= held then return held end
redis.call('SET', KEYS[1], ARGV[1])
return tonumber(ARGV[1])
