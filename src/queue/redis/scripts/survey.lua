-- Looks at the tickets of some shards. KEYS: waiting and ready tickets of each shard. ARGV: now in
-- ms. Returns for each shard that has tickets: its place from 0, the number of ready tickets, the
-- number of waiting tickets that may start by now, and the time at which the next ticket may start,
-- or an empty text.
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
