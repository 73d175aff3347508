-- Queues tickets. KEYS: waiting, ready. ARGV: the most tickets kept, then a start and a ticket
-- each. Answers how many were not queued yet.
local room = tonumber(ARGV[1]) - redis.call('ZCARD', KEYS[1])
local ready = redis.call('ZCARD', KEYS[2])
local new = {}
for i = 2, #ARGV, 2 do
    local ticket = ARGV[i + 1]
    local known = ready > 0 and redis.call('ZRANGEBYLEX', KEYS[2], '[' .. ticket,
        '(' .. ticket .. '\255', 'LIMIT', 0, 1)[1]
    if not known and #new / 2 < room - ready then
        new[#new + 1] = ARGV[i]
        new[#new + 1] = ticket
    end
end
if #new == 0 then return 0 end
return redis.call('ZADD', KEYS[1], 'NX', unpack(new))
