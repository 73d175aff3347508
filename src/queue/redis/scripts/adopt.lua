-- Gives a due index another epoch. KEYS: marker. ARGV: epoch, the marker's lifetime in ms.
-- Returns 1; 0 if there is no index, or it belongs to a newer leader.
local epoch = redis.call('GET', KEYS[1])
if not epoch or tonumber(epoch) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
