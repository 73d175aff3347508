-- Returns a page of what is due, and the score that follows it; nothing if the epoch is not the
-- index's. The entries are grouped: for each group its score, the length of a member, and the
-- members in one string. Many schedules are due at one instant, and one string costs the reader
-- far less than thousands. KEYS: marker, index. ARGV: epoch, the marker's lifetime in ms, the
-- lowest score, the score from which entries are not due, the number of entries to pass over, the
-- maximum number of entries.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
-- The number of entries that are read with their scores at once.
local FEW = 64
local index = KEYS[2]
local function count_up_to(score) return redis.call('ZCOUNT', index, '-inf', score) end
local rank = tonumber(ARGV[5])
if ARGV[3] ~= '-inf' then rank = rank + count_up_to('(' .. ARGV[3]) end
local last = math.min(count_up_to('(' .. ARGV[4]), rank + ARGV[6])
local groups, members, score, length = {}, {}, nil, nil
local function close()
    if score then groups[#groups + 1] = { score, length, table.concat(members) } end
end
local function add(member, of)
    if of ~= score or #member ~= length then
        close()
        members, score, length = {}, of, #member
    end
    members[#members + 1] = member
end
local function all_have(size, list)
    for i = 1, #list do
        if #list[i] ~= size then return false end
    end
    return true
end
while rank < last do
    -- Printing the scores takes the server as long as all the rest. So a few entries are read with
    -- them, and then the other members of the last of these scores without.
    local entries = redis.call('ZRANGE', index, rank, math.min(rank + FEW, last) - 1, 'WITHSCORES')
    local same = entries[#entries]
    for i = 1, #entries, 2 do add(entries[i], entries[i + 1]) end
    rank = rank + #entries / 2
    local stop = math.min(count_up_to(same), last)
    if rank < stop then
        local list = redis.call('ZRANGE', index, rank, stop - 1)
        if all_have(length, list) then
            -- Adding them one by one takes the server a third longer.
            close()
            members = list
        else
            for i = 1, #list do add(list[i], same) end
        end
        rank = stop
    end
end
close()
local after = redis.call('ZRANGE', index, last, last, 'WITHSCORES')
return { groups, after[2] or '' }
