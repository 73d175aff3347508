-- Looks at the tickets of some shards. KEYS: waiting and ready of each. ARGV: now in ms. Answers for
-- each that has any: its place from 0, how many are ready, how many may start by now, and when the
-- next one may, or an empty text.
local seen = {}
for i = 1, #KEYS, 2 do
    local ready = redis.call('ZCARD', KEYS[i + 1])
    local due, next = 0, redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')[2]
    if next and tonumber(next) <= tonumber(ARGV[1]) then
        due = redis.call('ZCOUNT', KEYS[i], '-inf', ARGV[1])
        next = redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    end
    if ready > 0 or due > 0 or next then
        seen[#seen + 1] = { (i - 1) / 2, ready, due, next or '' }
    end
end
return seen
