-- What is due. KEYS: marker, index. ARGV: epoch, the marker's life in ms, the first score that is
-- not due, the most entries.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[3], 'WITHSCORES',
    'LIMIT', 0, ARGV[4])
local after = redis.call('ZRANGE', KEYS[2], #due / 2, #due / 2, 'WITHSCORES')
return { due, after[2] or '' }
