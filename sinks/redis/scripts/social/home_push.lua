-- Posts into homes: each is there once, whatever is repeated, and no home holds more than it may.
-- KEYS: homes. ARGV: how many posts one holds, then score and id of each post.
-- A home without the marker of this very server is left alone: its reader builds it from Postgres, these posts too.
-- A server that came back with an older copy has another run_id, so its homes have no marker.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local marker = '~' .. run
local reached = 0
for _, home in ipairs(KEYS) do
    if redis.call('ZSCORE', home, marker) then
        reached = reached + 1
        for at = 2, #ARGV, 2 do
            redis.call('ZADD', home, 'NX', ARGV[at], ARGV[at + 1])
        end
        redis.call('ZREMRANGEBYRANK', home, 0, -(tonumber(ARGV[1]) + 2)) -- the marker is one more
    end
end
return reached
