-- What the server does when its memory is full, in one word; '' when it does not tell this user.
local told = redis.pcall('INFO', 'memory')
return type(told) == 'string' and string.match(told, 'maxmemory_policy:(%S+)') or ''
