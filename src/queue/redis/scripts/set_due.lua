-- Sets next ticks. KEYS: marker, index. ARGV: epoch, the marker's life in ms, then a score, empty
-- to take the entry out, and a member each.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
-- A script that has written may go on to write when the memory is used up: ticks must move on then.
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
-- Adding comes first: while a slot moves, an index that has just become empty takes nothing.
if #kept > 0 then redis.call('ZADD', KEYS[2], unpack(kept)) end
if #gone > 0 then redis.call('ZREM', KEYS[2], unpack(gone)) end
return 1
