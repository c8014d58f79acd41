-- Posts into homes: each is there once, whatever is repeated, and no home holds more than it may.
-- KEYS: homes. ARGV: how many posts one holds, percent of the memory that may be in use, then score and id of each post.
-- A home without the marker of this very server is left alone: its reader builds it from Postgres, these posts too.
-- Past that share a home ends rather than grow: unlike the counters beside it, it can be built anew; without these posts, it
-- would be served as complete for ever. Returns how many ended.
-- A server that came back with an older copy has another run_id, so its homes have no marker.
-- Nothing of a home goes into the server's log or to replicas: it is of no other life, and the log was half of the work.
redis.set_repl(redis.REPL_NONE)
local call = redis.call
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
local marker = '~' .. run
local posts = {unpack(ARGV, 3)}
local surplus = -(tonumber(ARGV[1]) + 2) -- the marker is one more
local ended = 0
local is_full -- looked at for a home that is there, and costs as much as five deliveries
for _, home in ipairs(KEYS) do
    if call('ZSCORE', home, marker) then
        if is_full == nil then
            local memory = call('INFO', 'memory')
            local most = tonumber(string.match(memory, '\nmaxmemory:(%d+)')) -- 0 where there is no bound
            is_full = most > 0 and tonumber(string.match(memory, '\nused_memory:(%d+)')) > most / 100 * ARGV[2]
        end
        if is_full then
            ended = ended + call('UNLINK', home)
        elseif call('ZADD', home, 'NX', unpack(posts)) > 0 then
            call('ZREMRANGEBYRANK', home, 0, surplus)
        end
    end
end
return ended
