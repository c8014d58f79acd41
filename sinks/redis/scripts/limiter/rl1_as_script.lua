-- rl1.lua for a server without functions: the same text between these lines, called by EVALSHA with the function's name
-- as the last argument.
local redis, functions = {call = redis.call, sha1hex = redis.sha1hex}, {}
function redis.register_function(name, callback)
  if type(name) == 'table' then name, callback = name.function_name, name.callback end
  functions[name] = callback
end

-- rl1.lua is here

return functions[ARGV[#ARGV]](KEYS, ARGV)
