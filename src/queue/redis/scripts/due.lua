-- Returns a page of what is due, and the score that follows it; nothing if the epoch is not the
-- index's. KEYS: marker, index. ARGV: epoch, the marker's lifetime in ms, the lowest score, the
-- score from which entries are not due, the number of entries to pass over, the maximum number of
-- entries.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[3], '(' .. ARGV[4], 'WITHSCORES',
    'LIMIT', ARGV[5], ARGV[6])
local after = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[3], '+inf', 'WITHSCORES',
    'LIMIT', ARGV[5] + #due / 2, 1)
return { due, after[2] or '' }
