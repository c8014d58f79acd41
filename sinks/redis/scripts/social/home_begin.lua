-- A home is being built from here on: what is pushed meanwhile stays in it, so that nothing falls between.
-- KEYS: the home. ARGV: the builder's token (a score below that of a complete home), seconds that it lives, percent of the
-- memory that may be in use where the server evicts nothing.
-- Returns 1; 0 when it is complete already, or past that share of the memory, where no home is begun.
redis.set_repl(redis.REPL_NONE) -- as in home_push.lua
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local marker = '~' .. run
local marked = redis.call('ZSCORE', KEYS[1], marker)
if marked and tonumber(marked) >= 9e15 then
    return 0
end
local memory = redis.call('INFO', 'memory')
local bound = tonumber(string.match(memory, '\nmaxmemory:(%d+)')) -- 0 where there is none
if bound > 0 and string.match(memory, '\nmaxmemory_policy:(%a+)') == 'noeviction'
    and tonumber(string.match(memory, '\nused_memory:(%d+)')) > bound / 100 * ARGV[3] then
    return 0
end
if not marked then
    redis.call('DEL', KEYS[1]) -- of another life of this server
end
redis.call('ZADD', KEYS[1], ARGV[1], marker)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
