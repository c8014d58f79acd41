#!lua name=rl1
-- One call decides over all buckets of a request: all of them are charged, or none. Integers below 2^53 only.
--
-- A bucket is one packed record: what the policy says (algorithm, capacity C, R tokens per P ticks, slots S, version),
-- the last tick seen, the debt or count, the window, what leases have reserved, and the tick at which the next unsettled
-- lease is charged whole. Debt is kept in token-ticks: an integer leak, no division until it is read.
-- Algorithms: 0 token bucket, 1 sliding window, 2 fixed window; 3 concurrency, whose bucket is a sorted set of permits by
-- the tick at which each ends by itself; 4 window of a calendar: R says where one begins, P how long it is, S how long the
-- next one is. The clock is this server's, and never goes back.
-- Everything is checked before the first write: a script that fails half-way is not rolled back.

local RECORD = '<ddddddddddd' -- algorithm C R P S version t d w reserved keep
local RECORD_BYTES = 88
local HEAD = '<dddddd' -- epoch, now_us (0 = this server's clock), cost, identity_ms, clock of the caller, buckets
local BUCKET = '<ddddddddddd' -- algorithm C R P S tick_us version want lease_cap lease_ttl flags (1 strict, 2 shadow, 4 lent)
local STRICT = '!' -- after the slots of a window whose fading one counts whole
local DEBT_MAX = 2 ^ 53 - 1
local OK, DENIED, DUPLICATE, CONFLICT, STALE_EPOCH, WRONG = 1, 0, 2, 3, 4, 5

local function head(V)
  local H = {}
  H.epoch, H.now, H.cost, H.identity_ms, H.caller, H.n = struct.unpack(HEAD, V[1])
  H.lease, H.rid = V[2], V[3]
  return H
end

local function clock_us(H)
  if H.now ~= 0 then return H.now end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function fenced(K, H)
  local epoch = tonumber(redis.call('GET', K[1]) or '0')
  if epoch ~= H.epoch then return {STALE_EPOCH, epoch} end
end

local function terms(packed)
  local A = {}
  A.a, A.C, A.R, A.P, A.S, A.tick, A.pv, A.want, A.lease_cap, A.ttl, A.flags = struct.unpack(BUCKET, packed)
  A.strict, A.shadow, A.lent = A.flags % 2 == 1, math.floor(A.flags / 2) % 2 == 1, A.flags >= 4
  return A
end

local function wrong(H, A)
  return H.cost < 0 or A.C < 0 or A.P < 1 or A.S < 1 or A.tick < 1 or A.a < 0 or A.a > 4 or (A.a == 0 and A.R < 1)
end

-- A record does not say its ticks: the clock that it was written by does, from 1973 to 5138.
local function tick_of(t)
  return t >= 1e14 and 1 or t >= 1e11 and 1000 or 1000000
end

local function is_window(b) return b.a == 2 or b.a == 4 end

local function window_end(b)
  return b.a == 4 and b.w + b.P or (b.w + 1) * b.P
end

-- Of the two windows of a calendar that are asked with, the one that this clock is in: begin, length, length of the next
-- (0 where it is not told). Nothing when it is in neither: the clock or the policies of who asks are wrong.
local function window_asked(A, now)
  if now >= A.R and now < A.R + A.P then return A.R, A.P, A.S end
  if now >= A.R + A.P and now < A.R + A.P + A.S then return A.R + A.P, A.S, 0 end
end

-- how a call about one bucket begins: H and A, or why not. Permits are neither leased nor restored.
local function asked(K, V, counted)
  local H = head(V)
  local f = fenced(K, H)
  if f then return nil, nil, f end
  local A = terms(V[4])
  if wrong(H, A) or (counted and A.a == 3) then return nil, nil, {WRONG, 1} end
  return H, A
end

-- Permits: the bucket has one member for each request that holds some, by the tick at which it ends. Of a request that
-- holds more than one the second key (of leases elsewhere) has the cost, and under '' what they hold beyond one each, with
-- its sign changed, and the newest version that was seen: whatever ends is above both.
local LIGHT, HEAVY = ':1', ':+'
local NEWEST = '^v:(%d+):(%d+):(%d+):(%d+)$' -- version, capacity, ticks that a permit lasts, microseconds of a tick

local function ticks(t) return string.format('%d', t) end

local function cost_of(member) return tonumber(string.match(member, ':(%d+)$')) end

-- The functions before these kept costs where another version of the policy has its leases: they are taken from there.
local function adopt(costs)
  local before = string.gsub(costs, ':p$', ':l')
  if redis.call('EXISTS', costs) == 0 and redis.call('TYPE', before).ok == 'zset' then redis.call('RENAME', before, costs) end
end

-- Permits that ended by themselves are not counted; they are removed by the next writer. The newest version decides for
-- every gateway, by the ticks of the first: those of permits that are held.
local function permits(key, costs, A, now_us)
  local b = {a = 3, C = A.C, P = A.P, pv = A.pv, key = key, costs = costs, lo = 0, lx = 0, tick = A.tick}
  local noted, beyond = redis.call('ZRANGEBYSCORE', costs, '-inf', '(0', 'WITHSCORES'), 0
  for i = 1, #noted, 2 do
    if noted[i] == '' then beyond = -tonumber(noted[i + 1])
    else
      b.known = noted[i]
      local pv, C, P, tick = string.match(b.known, NEWEST)
      b.tick = tonumber(tick)
      b.P = math.ceil(A.P * A.tick / b.tick)
      if tonumber(pv) > A.pv then b.pv, b.C, b.P = tonumber(pv), tonumber(C), tonumber(P) end
    end
  end
  local now = math.floor(now_us / b.tick)
  b.t = now
  if beyond > 0 then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', costs, '(0', ticks(now))) do beyond = beyond - cost_of(member) + 1 end
  end
  b.beyond = beyond
  b.avail = b.C - redis.call('ZCOUNT', key, '(' .. ticks(now), '+inf') - beyond
  return b
end

-- The window of a calendar ended. Whoever knows this version of the policy says which one it is now; of a newer one only
-- the record does. False: nobody knows.
local function next_window(b, A, now)
  local ended, w, P, S = window_end(b), nil, nil, nil
  if A.pv == b.pv then w, P, S = window_asked(A, now)
  elseif now < ended + b.S then w, P, S = ended, b.S, 0 end
  if not w then return false end
  if w < ended then -- the rules of the zone changed: this window goes on, and has no second quota
    b.P = w + P - b.w
  else
    b.w, b.P, b.d, b.lo, b.lx = w, P, 0, 0, 0
  end
  b.S = S
  return true
end

-- Lua's own texts of numbers keep 14 digits
local function slots(c)
  local texts = {}
  for i = 1, #c do texts[i] = string.format('%d', c[i]) end
  return table.concat(texts, ',')
end

-- for how many of its ticks the slot that fades still counts
local function fading(b) return b.strict and b.sl or b.sl - b.off end

-- the slots of a sliding window as they are at a tick: S of them, newest first, and the one that fades
local function slide(b, now)
  local sl = b.P / b.S
  local w, c = math.floor(now / sl), {}
  for n in string.gmatch(b.v, '%d+') do c[#c + 1] = tonumber(n) end
  for _ = 1, math.min(w - b.w, b.S + 1) do table.insert(c, 1, 0); c[b.S + 2] = nil end
  b.w, b.c, b.sl, b.off = w, c, sl, now - w * sl
end

-- what has leaked by a tick, and the window that has ended
local function leak(b, now)
  if b.a == 0 and b.d > 0 and now > b.t then b.d = math.max(0, b.d - b.R * math.min(now - b.t, math.ceil(b.d / b.R)))
  elseif b.a == 1 then slide(b, now)
  elseif b.a == 2 then
    local w = math.floor(now / b.P)
    if w > b.w then b.w, b.d, b.lo, b.lx = w, 0, 0, 0 end -- a lease of a fixed window ends with it
  end
end

-- what a bucket counts, exactly: whole tokens, and a part of one as numerator and divisor
local function usage(b, now)
  if b.a == 0 then return (b.d - b.d % b.P) / b.P, b.d % b.P, b.P end
  if b.a == 4 and now >= window_end(b) then return 0, 0, 1 end
  if is_window(b) then return b.d, 0, 1 end
  local s, left = 0, b.c[b.S + 1] * fading(b)
  for i = 1, b.S do s = s + b.c[i] end
  return s + (left - left % b.sl) / b.sl, left % b.sl, b.sl
end

-- x * y / z rounded up, for x < z, without a product that doubles could not hold
local function part_of(x, y, z)
  local whole, rest, bit = 0, 0, 2 ^ 52
  while bit >= 1 do
    whole, rest = whole * 2, rest * 2
    if y >= bit then y, rest = y - bit, rest + x end
    while rest >= z do whole, rest = whole + 1, rest - z end
    bit = bit / 2
  end
  return rest > 0 and whole + 1 or whole
end

-- Slots of another length: each counts as if all of it had been admitted at the end of it, and ages from there.
local function reslotted(old, b, at, now)
  local c, sl = {}, b.P / b.S
  for i = 1, b.S + 1 do c[i] = 0 end
  for i = 1, old.S + 1 do
    local last = math.min((old.w - i + 2) * old.sl - 1, at)
    local slot = math.floor(now / sl) - math.floor(math.floor(last * old.tick / b.tick) / sl) + 1
    if slot <= b.S + 1 then c[slot] = c[slot] + old.c[i] end
  end
  return c
end

-- The newest version of a policy decides for every gateway, and usage is carried over as it is: what is counted by the
-- same slots, windows or debt goes on, and ages as it would have. nil for a calendar of which no window is known for now.
local function replaced(old, A, now_us)
  local at, now = math.floor(now_us / old.tick), math.floor(now_us / A.tick)
  leak(old, at)
  local b = {a = A.a, C = A.C, R = A.R, P = A.P, S = A.S, pv = A.pv, t = now, tick = A.tick, strict = A.strict, d = 0,
    lo = old.lo, lx = math.ceil(old.lx * old.tick / A.tick)}
  if b.a == 1 then
    b.w = math.floor(now / (b.P / b.S))
    if old.a == 1 then
      b.v = slots(reslotted(old, b, at, now))
      return b
    end
  end
  local whole, rest, divisor = usage(old, at)
  if b.a == 0 then
    b.d = whole >= DEBT_MAX / b.P and DEBT_MAX or math.min(DEBT_MAX, whole * b.P + part_of(rest, b.P, divisor))
    return b
  end
  if rest > 0 then whole = whole + 1 end
  b.d = whole
  if b.a == 1 then b.d, b.v = 0, string.format('%d', whole) .. string.rep(',0', b.S)
  elseif b.a == 2 then b.w = math.floor(now / b.P)
  else
    b.w, b.P, b.S = window_asked(A, now)
    if not b.w then return nil end
  end
  return b
end

-- nil for a calendar of which no window is known for now
local function load(key, leases, A, now_us)
  if A.a == 3 then return permits(key, leases, A, now_us) end
  local raw, b = redis.call('GET', key), {}
  if raw then
    b.a, b.C, b.R, b.P, b.S, b.pv, b.t, b.d, b.w, b.lo, b.lx = struct.unpack(RECORD, raw)
    b.v = string.sub(raw, RECORD_BYTES + 1)
    b.tick = tick_of(b.t) -- another version may be counted in other ticks
    if b.pv == A.pv then b.strict = A.strict else b.strict = string.sub(b.v, -1) == STRICT end
    now_us = math.max(now_us, b.t * b.tick)
    if A.pv > b.pv then b = replaced(b, A, now_us) end
  else
    b = replaced({a = 2, P = 1, tick = A.tick, d = 0, w = 0, lo = 0, lx = 0}, A, now_us)
  end
  if not b then return nil end
  local now = math.floor(now_us / b.tick)
  leak(b, now)
  if b.a == 4 and now >= window_end(b) then
    if not next_window(b, A, now) then return nil end
  elseif b.a == 4 and A.pv == b.pv and A.R == b.w then
    b.S = A.S
  end
  if b.a == 0 then
    b.avail = math.floor((b.C * b.P - b.d) / b.P) - b.lo
  elseif is_window(b) then
    b.avail = b.C - b.d - b.lo
  else
    local s = 0
    for i = 1, b.S do s = s + b.c[i] end
    b.avail = math.floor((b.C * b.sl - s * b.sl - b.c[b.S + 1] * fading(b)) / b.sl) - b.lo
  end
  b.t, b.ttl = now, math.max(1, math.floor(A.ttl * A.tick / b.tick))
  return b
end

-- what ended is gone
local function forget(b)
  redis.call('ZREMRANGEBYSCORE', b.key, '-inf', ticks(b.t))
  redis.call('ZREMRANGEBYSCORE', b.costs, '(0', ticks(b.t))
end

-- what is held beyond one permit a request
local function note(b)
  if b.beyond == 0 then redis.call('ZREM', b.costs, '') else redis.call('ZADD', b.costs, ticks(-b.beyond), '') end
end

-- for as long as a permit that begins now lasts, and never less than before
local function keep_permits(key, b)
  local kept_ms = math.floor(b.P * b.tick / 1000) + 1000
  if kept_ms > redis.call('PTTL', key) then redis.call('PEXPIRE', key, kept_ms) end
end

-- the version that decided
local function note_version(b)
  local newest = string.format('v:%d:%d:%d:%d', b.pv, b.C, b.P, b.tick)
  if newest ~= b.known then
    if b.known then redis.call('ZREM', b.costs, b.known) end
    redis.call('ZADD', b.costs, -1, newest)
  end
  keep_permits(b.costs, b)
end

-- the cost of a request that holds more than one permit, and its member
local function heavy(b, permit, cost)
  local member = permit .. ':' .. ticks(cost)
  if redis.call('ZSCORE', b.costs, member) then return cost, member end
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', b.costs, '(0', '+inf')) do -- it is told with another cost: rare
    if string.match(other, '^(.*):%d+$') == permit then return cost_of(other), other end
  end
  return 1, nil
end

-- gives the number of permits that were held until now
local function release(b, permit, cost)
  forget(b)
  local freed, more = redis.call('ZREM', b.key, permit .. LIGHT), 2
  if redis.call('ZREM', b.key, permit .. HEAVY) == 1 then
    local held, member = heavy(b, permit, cost)
    if member then redis.call('ZREM', b.costs, member) end
    b.beyond, freed = b.beyond - held + 1, freed + held
  end
  -- of the functions before these, which kept a member for each permit
  while more <= cost and redis.call('ZREM', b.key, permit .. ':' .. more) == 1 do more, freed = more + 1, freed + 1 end
  b.avail = b.avail + freed
  note(b)
  return freed
end

-- A request holds permits under the key of its identity, which is of its limit key: one request id on two routes is two
-- requests. One without identity holds them under its lease. The mark is for functions before these: they do not ask who
-- was told before they take back, and find nothing under it; where the request comes again there they hold a permit more.
local OURS = '@'

local function permit(K, H) return K[2] ~= '' and OURS .. K[2] or H.rid end

-- In letters; nothing for a lease of the functions before these. All are as long.
local function gateway_of(H) return string.match(H.lease, '%.(%l+)%.%d+$') end

-- What a request held is free. The functions before these named it without the mark, or by its request id alone: that is
-- theirs, and only of a request that has ended it is free, too.
local function let_go(b, K, H, cost)
  local freed = release(b, permit(K, H), cost)
  if freed > 0 or K[2] == '' or gateway_of(H) then return freed end
  freed = release(b, K[2], cost)
  return freed > 0 and freed or release(b, H.rid, cost)
end

local function is_held(b, permit)
  local ends = redis.call('ZSCORE', b.key, permit .. LIGHT) or redis.call('ZSCORE', b.key, permit .. HEAVY)
  return ends and tonumber(ends) > b.t
end

-- one member, whatever it costs; the same request again holds no more than it did
local function hold(b, n, permit)
  forget(b)
  if n > 0 then
    if redis.call('ZSCORE', b.key, permit .. HEAVY) or redis.call('ZSCORE', b.key, permit .. LIGHT) then
      release(b, permit, n)
    end
    local ends = ticks(b.t + b.P)
    redis.call('ZADD', b.key, ends, permit .. (n == 1 and LIGHT or HEAVY))
    keep_permits(b.key, b)
    if n > 1 then redis.call('ZADD', b.costs, ends, permit .. ':' .. ticks(n)) end
    b.beyond, b.avail = b.beyond + n - 1, b.avail - n
  end
  note(b)
end

-- ticks until the n-th of the permits held now ends by itself; 0 when there are not as many
local function ends(b, n)
  local live = '(' .. ticks(b.t)
  if b.beyond == 0 then
    local held = redis.call('ZRANGEBYSCORE', b.key, live, '+inf', 'WITHSCORES', 'LIMIT', n - 1, 1)
    return #held == 2 and tonumber(held[2]) - b.t or 0
  end
  local costs, at = {}, 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', b.costs, '(0', '+inf')) do
    costs[string.match(member, '^(.*):%d+$')] = cost_of(member)
  end
  while true do -- no further than to the n-th
    local held = redis.call('ZRANGEBYSCORE', b.key, live, '+inf', 'WITHSCORES', 'LIMIT', at, 100)
    for i = 1, #held, 2 do
      n = n - (string.sub(held[i], -2) == HEAVY and costs[string.sub(held[i], 1, -3)] or 1)
      if n <= 0 then return tonumber(held[i + 1]) - b.t end
    end
    if #held < 200 then return 0 end
    at = at + 100
  end
end

local function add(b, n)
  if b.a == 0 then b.d = b.d + n * b.P elseif is_window(b) then b.d = b.d + n else b.c[1] = b.c[1] + n end
  b.avail = b.avail - n
end

local function reset_of(b)
  if b.a == 3 then return ends(b, 1) end
  if b.a == 0 then return math.ceil(b.d / b.R) end
  if is_window(b) then return window_end(b) - b.t end
  for i = 1, b.S + 1 do
    if b.c[i] > 0 then return (b.S + 2 - i) * b.sl - b.off end -- until the newest of what counts has faded
  end
  return 0
end

local function save(key, b)
  if b.a == 3 then return note_version(b) end
  if b.a == 1 then b.v = slots(b.c) .. (b.strict and STRICT or '') end
  -- under a lowered capacity the debt may be more than a bucket: it is kept until it has leaked
  local keep = b.a == 0 and math.max(b.C * b.P, b.d) / b.R or 2 * b.P
  if b.lo > 0 then keep = math.max(keep, 13 * b.ttl, b.lx - b.t + b.ttl) end
  redis.call('SET', key,
    struct.pack(RECORD, b.a, b.C, b.R, b.P, b.S, b.pv, b.t, b.d, b.w or 0, b.lo, b.lx) .. (b.a == 1 and b.v or ''),
    'PX', math.floor(keep * b.tick / 1000) + 1000)
end

-- ticks until a request of this cost would pass if nothing else came and every lease were spent whole
local function wait_at_most(b, cost)
  if b.a == 3 then return ends(b, cost - b.avail) end
  if b.a == 0 then return math.ceil((b.d + (cost + b.lo - b.C) * b.P) / b.R) end
  if is_window(b) then return window_end(b) - b.t end
  for k = 0, b.S do
    local base = b.lo
    for i = 1, b.S - k do base = base + b.c[i] end
    if base + cost <= b.C then
      local old = b.c[b.S + 1 - k]
      local need = 0
      if old > 0 and b.strict and base + old + cost > b.C then need = b.sl
      elseif old > 0 then need = math.max(0, math.ceil(b.sl - (b.C - cost - base) * b.sl / old)) end
      return math.max(1, k * b.sl - b.off + math.max(need, k == 0 and b.off or 0))
    end
  end
  return (b.S + 1) * b.sl - b.off
end

-- ticks until a request of this cost may pass if nothing else comes; -1 when it never will. A lease that would be enough
-- may be given back unspent within its life.
local function retry(b, cost)
  if cost > b.C then return -1 end
  local wait = wait_at_most(b, cost)
  if b.lo > 0 and cost <= b.avail + b.lo then return math.min(wait, b.ttl) end
  return wait
end

-- a lease that was not settled in time is charged whole
local function sweep(b, leases)
  if b.lo == 0 or b.lx > b.t then return end
  local held, next_keep = redis.call('HGETALL', leases), 0
  if #held == 0 then add(b, b.lo); b.avail = b.avail + b.lo; b.lo = 0 end
  for i = 1, #held, 2 do
    local granted, keep, w = string.match(held[i + 1], '(%d+):(%d+):(%d+)')
    granted, keep, w = tonumber(granted), tonumber(keep), tonumber(w)
    keep = math.ceil(keep * tick_of(keep) / b.tick)
    if keep <= b.t then
      if not is_window(b) or w == b.w then
        add(b, granted)
        b.avail = b.avail + granted
        b.lo = math.max(0, b.lo - granted)
      end
      redis.call('HDEL', leases, held[i])
    elseif next_keep == 0 or keep < next_keep then
      next_keep = keep
    end
  end
  b.lx = next_keep
end

-- for as long as the newest lease may be unsettled, and never less than before: others may be longer
local function keep_leases(leases, b)
  local kept_ms = math.ceil(12 * b.ttl * b.tick / 1000) + 1000
  if kept_ms > redis.call('PTTL', leases) then redis.call('PEXPIRE', leases, kept_ms) end
end

-- a reservation out of what is available: capped, and smaller the nearer exhaustion is. What is lent to a proxy is an
-- equal part, down to the last token: it has no other way to spend it. That lease is longer, and charged sooner after it.
local function grant(b, A, leases, lease)
  if A.want <= 0 or b.a == 3 then return 0, 0 end
  local others = redis.call('HLEN', leases)
  local part = A.lent and math.ceil(b.avail / (others + 1)) or math.floor(b.avail / (2 * (others + 1)))
  local size = math.max(0, math.min(A.want, part, A.lease_cap - b.lo))
  if size == 0 then return 0, 0 end
  local life = b.ttl
  if is_window(b) then life = math.min(life, window_end(b) - b.t) end
  local keep = b.t + life + (A.lent and 1 or 10) * b.ttl
  b.lo = b.lo + size
  b.avail = b.avail - size
  if b.lx == 0 or keep < b.lx then b.lx = keep end
  redis.call('HSET', leases, lease, string.format('%d:%d:%d', size, keep, b.w or 0))
  keep_leases(leases, b)
  return size, life
end

local function row(out, b, retry_ticks, size, life)
  out[#out + 1] = math.max(0, b.avail)
  out[#out + 1] = reset_of(b) * b.tick
  out[#out + 1] = retry_ticks < 0 and -1 or retry_ticks * b.tick
  out[#out + 1] = b.pv
  out[#out + 1] = size
  out[#out + 1] = life * b.tick
end

local IDENTITY = '^(%d+):(%d+):(%d+):(.*)$' -- cost, microseconds, refunded, rows of the answer and their buckets
local WAIT = '%d+,%d+,(-?%d+),%d+,0,0' -- of a row: 0 where the bucket was charged
local PLACES = ';(%a+)$' -- after the rows; an identity of the functions before these has none
local TOLD = '^(.*;)([%a,]*)(;%a+)$' -- between them: which gateways were told that the request may run, each with a comma

-- What the buckets of a call are called, in short: in letters, for whoever reads rows takes every number.
local function places(K)
  local named = {}
  for i = 3, #K, 2 do named[#named + 1] = K[i] end
  local digest = string.sub(redis.sha1hex(table.concat(named, ' ')), 1, 16)
  return (string.gsub(digest, '%d', function(n) return string.char(103 + n) end))
end

-- The same request runs at another gateway, too: neither takes back what the other one uses. Of an identity of the
-- functions before these nobody knows who was told.
local function tell(K, H, known)
  local head, told, tail = string.match(known, TOLD)
  local gateway = gateway_of(H)
  if told and gateway and not string.find(told, gateway .. ',', 1, true) then
    redis.call('SET', K[2], head .. told .. gateway .. ',' .. tail, 'KEEPTTL')
  end
end

-- A gateway that refused a request takes it back (the lease says which): true when it runs elsewhere, or may. What was
-- told here last is forgotten then. Whoever names no gateway gives back for all of them.
local function is_used(K, H, known)
  local gateway = gateway_of(H)
  if not gateway then return false end
  local head, told, tail = string.match(known, TOLD)
  if not told then return true end
  local at, to = string.find(told, gateway .. ',', 1, true)
  if not at then return true end
  told = string.sub(told, 1, at - 1) .. string.sub(told, to + 1)
  redis.call('SET', K[2], head .. told .. tail, 'KEEPTTL')
  return told ~= ''
end

-- A request that comes again is charged nothing and told what it was told. Permits of it that ended meanwhile, or were given
-- back, it holds anew like any other, or is refused.
local function again(K, V, H, rows)
  local out, gone, now = {DUPLICATE}, {}, clock_us(H)
  for n in string.gmatch(rows, '-?%d+') do out[#out + 1] = tonumber(n) end
  if H.cost == 0 or string.match(rows, PLACES) ~= places(K) then return out end
  for i = 1, H.n do
    local A = terms(V[3 + i])
    if A.a == 3 and not wrong(H, A) then
      adopt(K[2 + 2 * i])
      local b = load(K[1 + 2 * i], K[2 + 2 * i], A, now)
      if not (is_held(b, permit(K, H)) or is_held(b, K[2]) or is_held(b, H.rid)) then
        gone[i] = b
        if H.cost > b.avail and not A.shadow then out[1] = DENIED end
      end
    end
  end
  for i, b in pairs(gone) do
    local fits = H.cost <= b.avail
    if fits and out[1] ~= DENIED then hold(b, H.cost, permit(K, H)) end
    local told = {}
    row(told, b, fits and 0 or retry(b, H.cost), 0, 0)
    for at = 1, 6 do out[6 * i - 5 + at] = told[at] end
    save(b.key, b)
  end
  return out
end

-- KEYS: epoch, identity, then for each bucket: bucket, leases. ARGV: head, lease id, identity ('' = none), buckets.
-- Answers {code, row...} with six numbers a bucket: available, reset_us, retry_us, version, granted, lease_us.
redis.register_function('rl1_decide', function(K, V)
  local H = head(V)
  local f = fenced(K, H)
  if f then return f end
  if H.rid ~= '' then
    local known = redis.call('GET', K[2])
    if known then
      local cost, _, refunded, rows = string.match(known, IDENTITY)
      if tonumber(cost) ~= H.cost then return {CONFLICT} end
      if refunded == '0' then
        local answer = again(K, V, H, rows)
        if answer[1] == DUPLICATE then tell(K, H, known) end
        return answer
      end
    end
  end
  local now = clock_us(H)
  local A, B, allowed = {}, {}, true
  for i = 1, H.n do
    A[i] = terms(V[3 + i])
    if wrong(H, A[i]) then return {WRONG, i} end
  end
  for i = 1, H.n do
    if A[i].a == 3 then adopt(K[2 + 2 * i]) end
    B[i] = load(K[1 + 2 * i], K[2 + 2 * i], A[i], now)
    if not B[i] then return {WRONG, i} end
  end
  for i = 1, H.n do
    sweep(B[i], K[2 + 2 * i])
    if H.cost > B[i].avail and not A[i].shadow then allowed = false end
  end
  local out = {allowed and OK or DENIED}
  for i = 1, H.n do
    local b, size, life, wait = B[i], 0, 0, 0
    if allowed and H.cost <= b.avail then
      if b.a == 3 then hold(b, H.cost, H.rid ~= '' and permit(K, H) or H.lease) else add(b, H.cost) end
      size, life = grant(b, A[i], K[2 + 2 * i], H.lease)
    elseif H.cost > b.avail then
      wait = retry(b, H.cost)
    end
    row(out, b, wait, size, life)
    save(K[1 + 2 * i], b)
  end
  if allowed and H.rid ~= '' then
    local rows = {}
    for i = 1, H.n do
      local at = 6 * i - 4
      rows[i] = string.format('%d,%d,%d,%d,0,0', out[at], out[at + 1], out[at + 2], out[at + 3])
    end
    local gateway = gateway_of(H)
    local told = gateway and ';' .. gateway .. ',' or ''
    redis.call('SET', K[2], string.format('%d:%d:0:', H.cost, now) .. table.concat(rows, ',') .. told .. ';' .. places(K),
      'PX', H.identity_ms)
  end
  return out
end)

-- What a lease really spent (H.cost): charged now, never credited back. Settling again does nothing.
redis.register_function('rl1_settle', function(K, V)
  local H, A, refused = asked(K, V, true)
  if refused then return refused end
  local record = redis.call('HGET', K[4], H.lease)
  if not record then return {OK, 0, 0} end
  local granted, w = string.match(record, '(%d+):%d+:(%d+)')
  granted, w = tonumber(granted), tonumber(w)
  local b = load(K[3], K[4], A, clock_us(H)) -- none: a window that nobody knows is not the one of the lease
  local spent = math.min(granted, H.cost)
  if b and (not is_window(b) or w == b.w) then
    b.lo = math.max(0, b.lo - granted)
    b.avail = b.avail + granted
    add(b, spent)
  end
  redis.call('HDEL', K[4], H.lease)
  if b then save(K[3], b) end
  return {OK, granted - spent, granted}
end)

-- A new primary learns of a lease that it does not know: reserved again, once, as far as there is room: what is charged
-- and reserved together never passes the capacity. H.cost = all of it, so that its settlement charges what was spent.
redis.register_function('rl1_register', function(K, V)
  local H, A, refused = asked(K, V, true)
  if refused then return refused end
  if redis.call('HEXISTS', K[4], H.lease) == 1 then return {OK, 0} end
  local b = load(K[3], K[4], A, clock_us(H))
  if not b then return {WRONG, 1} end
  sweep(b, K[4])
  local size = math.max(0, math.min(H.cost, b.avail))
  if size == 0 then return {OK, 0} end
  local keep = b.t + 11 * b.ttl
  b.lo = b.lo + size
  b.avail = b.avail - size
  if b.lx == 0 or keep < b.lx then b.lx = keep end
  redis.call('HSET', K[4], H.lease, string.format('%d:%d:%d', size, keep, b.w or 0))
  keep_leases(K[4], b)
  save(K[3], b)
  return {OK, size}
end)

-- What an old primary may have charged and not passed on (H.cost) is charged once for each mark (the identity), as far as
-- there is room.
redis.register_function('rl1_owe', function(K, V)
  local H, A, refused = asked(K, V, true)
  if refused then return refused end
  if redis.call('EXISTS', K[2]) == 1 then return {OK, 0} end
  local b = load(K[3], K[4], A, clock_us(H))
  if not b then return {WRONG, 1} end
  local owed = math.max(0, math.min(H.cost, b.avail))
  add(b, owed)
  save(K[3], b)
  redis.call('SET', K[2], '1', 'PX', H.identity_ms)
  return {OK, owed}
end)

-- Usage that the stream knows of (H.cost) is there at least: restoring twice changes nothing.
redis.register_function('rl1_restore', function(K, V)
  local H, A, refused = asked(K, V, true)
  if refused then return refused end
  local b = load(K[3], K[4], A, clock_us(H))
  if not b then return {WRONG, 1} end
  local used = b.C - b.lo - b.avail
  if b.a == 1 then -- a slot that fades counts whole: nobody knows which part of it the stream tells of
    used = 0
    for i = 1, b.S + 1 do used = used + b.c[i] end
  end
  local missing = math.min(H.cost, b.C) - used
  if missing > 0 then add(b, missing) end
  save(K[3], b)
  return {OK, math.max(0, missing)}
end)

-- A request is taken back once, from the buckets that it was decided on; by a gateway only what no other one uses. What
-- has leaked or faded meanwhile is back already and is not credited again, and a shadow bucket that had to be waited for
-- was not charged.
redis.register_function('rl1_refund', function(K, V)
  local H = head(V)
  local f = fenced(K, H)
  if f then return f end
  local known = redis.call('GET', K[2])
  if not known then return {OK, 0} end
  local cost, at, refunded, rows = string.match(known, IDENTITY)
  cost, at = tonumber(cost), tonumber(at)
  if refunded == '1' then return {DUPLICATE, cost} end
  local waits = {}
  for wait in string.gmatch(rows, WAIT) do waits[#waits + 1] = wait end
  if #waits ~= H.n or (string.match(rows, PLACES) or places(K)) ~= places(K) then return {WRONG, 0} end
  for i = 1, H.n do
    if wrong(H, terms(V[3 + i])) then return {WRONG, i} end
  end
  local now, B = clock_us(H), {}
  for i = 1, H.n do
    local A = terms(V[3 + i])
    if A.a == 3 then adopt(K[2 + 2 * i]) end
    B[i] = load(K[1 + 2 * i], K[2 + 2 * i], A, now)
    if not B[i] then return {WRONG, i} end
  end
  if is_used(K, H, known) then return {OK, 0} end
  for i = 1, H.n do
    local b = B[i]
    local then_tick = math.floor(at / b.tick)
    if waits[i] ~= '0' then
      -- nothing to give back
    elseif b.a == 3 then
      let_go(b, K, H, cost)
    elseif b.a == 0 then
      local left = math.max(0, cost * b.P - b.R * (b.t - then_tick))
      b.d = math.max(0, b.d - left)
    elseif is_window(b) then
      if then_tick >= window_end(b) - b.P then b.d = math.max(0, b.d - cost) end
    else
      local slot = b.w - math.floor(then_tick / b.sl) + 1
      if slot >= 1 and slot <= b.S + 1 then b.c[slot] = math.max(0, b.c[slot] - cost) end
    end
    save(K[1 + 2 * i], b)
  end
  redis.call('SET', K[2], string.format('%d:%d:1:', cost, at) .. rows, 'KEEPTTL')
  return {OK, cost}
end)

-- What was done under an identity has ended: its permits in every such bucket are free again (H.cost of them, and whatever
-- else it holds), and what it took elsewhere stays charged. Again, it does nothing. A gateway that only refused it frees
-- what no other one uses.
redis.register_function('rl1_release', function(K, V)
  local H = head(V)
  local f = fenced(K, H)
  if f then return f end
  local known = K[2] ~= '' and redis.call('GET', K[2])
  if known and is_used(K, H, known) then return {OK, 0} end
  local freed, now = 0, clock_us(H)
  for i = 1, H.n do
    local A = terms(V[3 + i])
    if wrong(H, A) then return {WRONG, i} end
    if A.a == 3 then
      adopt(K[2 + 2 * i])
      freed = freed + let_go(load(K[1 + 2 * i], K[2 + 2 * i], A, now), K, H, H.cost)
    end
  end
  return {OK, freed}
end)

-- What a settled lease was charged for an identity (H.cost) that had been charged before is taken back, once for each mark
-- (the identity). It was charged when the lease was settled, so not before its decision (H.caller): what has leaked or faded
-- since then is back already. One that nobody settled in time is charged whole first, as with the next decision. -1: the
-- lease is not settled, and its settlement would charge it again.
redis.register_function('rl1_credit', function(K, V)
  local H, A, refused = asked(K, V, true)
  if refused then return refused end
  local before = redis.call('GET', K[2])
  if before then return {OK, tonumber(before)} end
  local b, given = load(K[3], K[4], A, clock_us(H)), 0 -- none: a window that nobody knows is over
  local reserved = b and b.lo
  if b then sweep(b, K[4]) end
  if b and b.lo ~= reserved then save(K[3], b) end
  if redis.call('HEXISTS', K[4], H.lease) == 1 then return {OK, -1} end
  if b then
    local at = math.min(b.t, math.floor(H.caller / b.tick))
    if b.a == 0 then
      local debt = math.max(0, math.min(b.d, H.cost * b.P - b.R * math.min(b.t - at, math.ceil(H.cost * b.P / b.R))))
      b.d = b.d - debt
      given = math.ceil(debt / b.P)
    elseif is_window(b) then
      if at >= window_end(b) - b.P then given = math.min(b.d, H.cost) end
      b.d = b.d - given
    else -- it is in the slot of the decision, or in a newer one, which counts for longer
      for slot = b.w - math.floor(at / b.sl) + 1, 1, -1 do
        if slot <= b.S + 1 then
          local part = math.min(b.c[slot], H.cost - given)
          b.c[slot] = b.c[slot] - part
          given = given + part
        else break end
      end
    end
    if given > 0 then save(K[3], b) end
  end
  redis.call('SET', K[2], string.format('%d', given), 'PX', H.identity_ms)
  return {OK, given}
end)

-- What a bucket holds, without touching it: {code, used, reserved, available, reset_us, version}.
redis.register_function{function_name = 'rl1_peek', flags = {'no-writes'}, callback = function(K, V)
  local H, A, refused = asked(K, V, false)
  if refused then return refused end
  local b = load(K[3], K[4], A, clock_us(H))
  if not b then return {WRONG, 1} end
  return {OK, b.C - b.lo - b.avail, b.lo, math.max(0, b.avail), reset_of(b) * b.tick, b.pv}
end}
