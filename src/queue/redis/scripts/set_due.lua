-- Sets the next ticks of schedules. KEYS: marker, index. ARGV: epoch, the marker's lifetime in ms,
-- then for each entry a score, which is empty to remove the entry, and a member. Returns 1; 0 if
-- the epoch is not the index's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- Writes first: a script that has written may go on to write when the memory is used up. Ticks must
-- move on even then.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local kept, gone = {}, {}
for i = 3, #ARGV, 2 do
    if ARGV[i] == '' then
        gone[#gone + 1] = ARGV[i + 1]
    else
        kept[#kept + 1] = ARGV[i]
        kept[#kept + 1] = ARGV[i + 1]
    end
end
-- Adds first: while a slot moves to another node, an index that has just become empty takes
-- nothing.
if #kept > 0 then redis.call('ZADD', KEYS[2], unpack(kept)) end
if #gone > 0 then redis.call('ZREM', KEYS[2], unpack(gone)) end
return 1
