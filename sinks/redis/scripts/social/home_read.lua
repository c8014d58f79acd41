-- A part of one home, newest first: at or below which time Postgres has more (0: nowhere), then ids and scores, with spaces
-- between them; false when it has to be built.
-- One text, not a list: a client in Python takes 6 us for each element of a list, and a page has a hundred.
-- KEYS: the home. ARGV: the highest score, how many, seconds that a home lives when nobody reads it.
-- The highest score is included: of several posts at one time, the reader drops those that it has had.
redis.set_repl(redis.REPL_NONE) -- as in home_push.lua
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local marked = tonumber(redis.call('ZSCORE', KEYS[1], '~' .. run) or 0)
if marked < 9e15 then
    return false
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
local floor = string.format('%d', marked - 9e15)
local found = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[1], '(' .. floor, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
return floor .. ' ' .. table.concat(found, ' ')
