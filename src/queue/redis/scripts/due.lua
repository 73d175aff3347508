-- Returns a page of what is due, and the score that follows it; nothing if the epoch is not the
-- index's. The entries are grouped: for each group its score, the length of a member, and the
-- members in one string. Many schedules are due at one instant, and one string costs the reader
-- far less than thousands. KEYS: marker, index. ARGV: epoch, the marker's lifetime in ms, the
-- lowest score, the score from which entries are not due, the number of entries to pass over, the
-- maximum number of entries.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[3], '(' .. ARGV[4], 'WITHSCORES',
    'LIMIT', ARGV[5], ARGV[6])
local after = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[3], '+inf', 'WITHSCORES',
    'LIMIT', ARGV[5] + #due / 2, 1)
local groups, members, score, length = {}, {}, nil, nil
local function close()
    if score then groups[#groups + 1] = { score, length, table.concat(members) } end
end
for i = 1, #due, 2 do
    if due[i + 1] ~= score or #due[i] ~= length then
        close()
        members, score, length = {}, due[i + 1], #due[i]
    end
    members[#members + 1] = due[i]
end
close()
return { groups, after[2] or '' }
