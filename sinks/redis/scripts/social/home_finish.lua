-- What was read from Postgres after the building began: with it the home is complete.
-- KEYS: the home. ARGV: the builder's token, seconds that it lives, at or below which time Postgres has more (0: nowhere),
-- score and id of each post.
-- Returns 0, and changes nothing, when another builder began later, or the home was dropped: what was read is old then.
redis.set_repl(redis.REPL_NONE) -- as in home_push.lua
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local marker = '~' .. run
local marked = redis.call('ZSCORE', KEYS[1], marker)
if not marked or tonumber(marked) ~= tonumber(ARGV[1]) then
    return 0
end
for at = 4, #ARGV, 2 do
    redis.call('ZADD', KEYS[1], 'NX', ARGV[at], ARGV[at + 1])
end
redis.call('ZADD', KEYS[1], 9e15 + (ARGV[3] + ARGV[3] % 2), marker)
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[1], ARGV[1], '#' .. run) -- of this building for as long as it lives (home_building)
return 1
