-- Queues tickets. KEYS: waiting, ready, admitted. ARGV: now in ms, the maximum number of tickets, the
-- share of an account above that maximum, the lifetime of the admitted numbers in ms, then a start
-- and a ticket each. Returns how many tickets were not queued yet, and how many were dropped.
--
-- The backlog of one account may fill the shard. The few tickets of another account are queued all
-- the same, up to twice the maximum. Those that may start already go straight to the ready tickets,
-- because those of one account can be counted with one command. Those that start later, such as
-- retries, fill at most half of the space above the maximum. They are sorted by their start, so a
-- hash counts how many of them each account has added. It expires after a while, because a take does
-- not know which tickets it counted: each account may then add its share again.
local now, most, share = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local any_ready = redis.call('ZCARD', KEYS[2])
local count = redis.call('ZCARD', KEYS[1]) + any_ready
local waiting, ready, dropped = {}, {}, 0
-- Of each account: the ready tickets, the admitted ones, and how many of these are new.
local ready_of, admitted_of, new_of = {}, {}, {}

local function is_within_share(account, may_start)
    if not ready_of[account] then
        -- Greater than any host, job and start: these never begin with so many of these bytes.
        local last = '(' .. account .. string.rep('\255', 9)
        ready_of[account] = redis.call('ZLEXCOUNT', KEYS[2], '[' .. account, last)
    end
    if may_start then return ready_of[account] < share end
    admitted_of[account] = admitted_of[account] or tonumber(redis.call('HGET', KEYS[3], account) or 0)
    return ready_of[account] + admitted_of[account] < share
end

for i = 5, #ARGV, 2 do
    local start, ticket, account = ARGV[i], ARGV[i + 1], ARGV[i + 1]:sub(1, 16)
    local may_start = tonumber(start) <= now
    local above = may_start and 2 * most or 1.5 * most
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
    elseif count >= above or not is_within_share(account, may_start) then
        dropped = dropped + 1
    elseif may_start then
        ready[#ready + 1] = 0
        ready[#ready + 1] = ticket .. string.format('%015.0f', tonumber(start))
        ready_of[account] = ready_of[account] + 1
        count = count + 1
    else
        waiting[#waiting + 1] = start
        waiting[#waiting + 1] = ticket
        admitted_of[account] = admitted_of[account] + 1
        new_of[account] = (new_of[account] or 0) + 1
        count = count + 1
    end
end
local new = 0
if #waiting > 0 then new = redis.call('ZADD', KEYS[1], 'NX', unpack(waiting)) end
if #ready > 0 then new = new + redis.call('ZADD', KEYS[2], unpack(ready)) end
for account, tickets in pairs(new_of) do redis.call('HINCRBY', KEYS[3], account, tickets) end
if next(new_of) and redis.call('PTTL', KEYS[3]) < 0 then redis.call('PEXPIRE', KEYS[3], ARGV[4]) end
return { new, dropped }
