-- Posts into homes: each is there once, whatever is repeated, and no home holds more than it may.
-- KEYS: homes. ARGV: how many posts one keeps, how many it holds before it is shortened to these, percent of the memory that
-- may be in use, the building that the posts are for (home_building; -1 is any), how many seconds a home lives at most that is
-- left for later (its reader sets them at every read; 0: none is left), then score and id of each post.
-- A home without the marker of this very server is left alone: its reader builds it from Postgres, these posts too.
-- The marker of a complete home says by its score (9e15 and a time) at or below which time Postgres is asked: of what is
-- above it nothing was ever taken away but what nobody may see. It is even: scores above 2^53 are.
-- Past that share a home ends rather than grow: unlike the counters beside it, it can be built anew; without these posts, it
-- would be served as complete for ever. Returns how many ended, how many entries of homes are
-- there now of those asked for, then the numbers of the keys that were left for later. Where the server
-- itself evicts, no counters are beside it.
-- A server that came back with an older copy has another run_id, so its homes have no marker.
-- Nothing of a home goes into the server's log or to replicas: it is of no other life, and the log was half of the work.
redis.set_repl(redis.REPL_NONE)
local call = redis.call
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
local marker = '~' .. run
local kept, most, building = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local later = tonumber(ARGV[5])
local posts = {unpack(ARGV, 6)}
local told = {0, 0}
local is_full -- looked at for a home that is there, and costs as much as five deliveries

local function shorten(home, marked, surplus)
    if marked < 9e15 then -- its builder has read Postgres, and knows nothing of what would be taken away
        call('UNLINK', home)
        return
    end
    local time = tonumber(call('ZRANGE', home, surplus - 1, surplus - 1, 'WITHSCORES')[2])
    call('ZREMRANGEBYRANK', home, 0, surplus - 1)
    call('ZADD', home, math.max(marked, 9e15 + (time + time % 2)), marker)
end

local function building_of(home, marked) -- as in home_building.lua
    return tonumber(call('ZSCORE', home, '#' .. run) or (tonumber(marked) < 9e15 and marked) or 0)
end

for n, home in ipairs(KEYS) do
    local marked = call('ZSCORE', home, marker)
    if marked and (building == -1 or building_of(home, marked) == building) then
        if is_full == nil then
            local memory = call('INFO', 'memory')
            local bound = tonumber(string.match(memory, '\nmaxmemory:(%d+)')) -- 0 where there is none
            is_full = bound > 0 and string.match(memory, '\nmaxmemory_policy:(%a+)') == 'noeviction'
                and tonumber(string.match(memory, '\nused_memory:(%d+)')) > bound / 100 * ARGV[3]
        end
        if is_full then
            told[1] = told[1] + call('UNLINK', home)
        elseif later > 0 and call('TTL', home) <= later then
            told[#told + 1] = n
        else
            told[2] = told[2] + #posts / 2
            if call('ZADD', home, 'NX', unpack(posts)) > 0 then
                local size = call('ZCARD', home) - (tonumber(marked) < 9e15 and 1 or 2) -- the marker, and once complete its building
                if size > most then
                    shorten(home, tonumber(marked), size - kept)
                end
            end
        end
    end
end
return told
