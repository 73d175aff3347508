-- What is due. KEYS: marker, index. ARGV: epoch, the marker's life in ms, the first score, the
-- first one that is not due, how many entries to pass over, the most entries.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[3], '(' .. ARGV[4], 'WITHSCORES',
    'LIMIT', ARGV[5], ARGV[6])
local after = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[3], '+inf', 'WITHSCORES',
    'LIMIT', ARGV[5] + #due / 2, 1)
return { due, after[2] or '' }
