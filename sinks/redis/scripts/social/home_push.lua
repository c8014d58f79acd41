-- Posts into homes: each is there once, whatever is repeated, and no home holds more than it may.
-- KEYS: homes. ARGV: how many posts one holds, then score and id of each post.
-- A home without the marker of this very server is left alone: its reader builds it from Postgres, these posts too.
-- A server that came back with an older copy has another run_id, so its homes have no marker.
-- Nothing of a home goes into the server's log or to replicas: it is of no other life, and the log was half of the work.
redis.set_repl(redis.REPL_NONE)
local call = redis.call
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
local marker = '~' .. run
local posts = {unpack(ARGV, 2)}
local surplus = -(tonumber(ARGV[1]) + 2) -- the marker is one more
local reached = 0
for _, home in ipairs(KEYS) do
    if call('ZSCORE', home, marker) then
        reached = reached + 1
        if call('ZADD', home, 'NX', unpack(posts)) > 0 then
            call('ZREMRANGEBYRANK', home, 0, surplus)
        end
    end
end
return reached
