-- Which building a home is of, begun or complete: what is read from Postgres after this is written into no later one.
-- KEYS: the home. Returns its builder's token; 0 where a process of a release before completed it; false where there is no home
-- of this life of the server.
redis.set_repl(redis.REPL_NONE) -- as in home_push.lua
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local marked = redis.call('ZSCORE', KEYS[1], '~' .. run)
if not marked then
    return false
end
return tonumber(redis.call('ZSCORE', KEYS[1], '#' .. run) or (tonumber(marked) < 9e15 and marked) or 0)
