-- Queues tickets. KEYS: waiting, ready. ARGV: now in ms, the maximum number of tickets, the number
-- of ready tickets from which an account gets no further ones above that maximum, then a start and
-- a ticket each. Returns how many tickets were not queued yet, and how many were dropped.
--
-- The backlog of one account may fill the shard. The few tickets of another account are queued all
-- the same, up to twice the maximum, if they may start already. They go straight to the ready
-- tickets, because those of one account can be counted with one command.
local now, most, share = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local any_ready = redis.call('ZCARD', KEYS[2])
local count = redis.call('ZCARD', KEYS[1]) + any_ready
local waiting, ready, ready_of, dropped = {}, {}, {}, 0

local function is_within_share(account)
    -- Greater than any host, job and start: these never begin with so many of these bytes.
    ready_of[account] = ready_of[account] or redis.call('ZLEXCOUNT', KEYS[2], '[' .. account,
        '(' .. account .. string.rep('\255', 9))
    return ready_of[account] < share
end

for i = 4, #ARGV, 2 do
    local start, ticket, account = ARGV[i], ARGV[i + 1], ARGV[i + 1]:sub(1, 16)
    local is_ready = any_ready > 0 and redis.call('ZRANGEBYLEX', KEYS[2], '[' .. ticket,
        '(' .. ticket .. '\255', 'LIMIT', 0, 1)[1]
    if is_ready then
        -- The ticket is queued already, and ready.
    elseif count < most then
        waiting[#waiting + 1] = start
        waiting[#waiting + 1] = ticket
        count = count + 1
    elseif redis.call('ZSCORE', KEYS[1], ticket) then
        -- The ticket is queued already, and waits for its start.
    elseif count < 2 * most and tonumber(start) <= now and is_within_share(account) then
        ready[#ready + 1] = 0
        ready[#ready + 1] = ticket .. string.format('%015.0f', tonumber(start))
        ready_of[account] = ready_of[account] + 1
        count = count + 1
    else
        dropped = dropped + 1
    end
end
local new = 0
if #waiting > 0 then new = redis.call('ZADD', KEYS[1], 'NX', unpack(waiting)) end
if #ready > 0 then new = new + redis.call('ZADD', KEYS[2], unpack(ready)) end
return { new, dropped }
