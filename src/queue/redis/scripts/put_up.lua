-- Replaces the due index by a new one. KEYS: marker, index, new index. ARGV: epoch, the marker's
-- lifetime in ms, the number of entries in the new index. Returns 1; 0 if the index belongs to a
-- newer leader; -1 if entries of the new index were lost meanwhile.
local epoch = redis.call('GET', KEYS[1])
if epoch and tonumber(epoch) > tonumber(ARGV[1]) then
    redis.call('UNLINK', KEYS[3])
    return 0
end
if redis.call('ZCARD', KEYS[3]) ~= tonumber(ARGV[3]) then
    redis.call('UNLINK', KEYS[3])
    return -1
end
redis.call('UNLINK', KEYS[2])
if tonumber(ARGV[3]) > 0 then
    redis.call('RENAME', KEYS[3], KEYS[2])
    redis.call('PERSIST', KEYS[2])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
