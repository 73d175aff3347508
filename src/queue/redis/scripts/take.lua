-- Hands out ready tickets within the capacity, and goes round the accounts. KEYS: ready, turn, the
-- taker's last answer. ARGV: the request's id, the lifetime of its answer in ms, a host to begin
-- with, the capacity in all, per account and per host, the number of accounts that follow with their
-- own capacity, these accounts, and then hosts with their own capacity. Returns the tickets in one
-- string, and 1 if there may be more tickets, else 0.
--
-- A ready ticket is 16 bytes of account, 8 of host, 16 of job and 15 digits of start. All have the
-- score 0, so they are sorted by their bytes: one command finds the next account, or the next host
-- of an account, however many tickets are in between.
local ready, turn, kept = KEYS[1], KEYS[2], KEYS[3]
local answered = redis.call('GET', kept)
if answered and answered:sub(1, #ARGV[1]) == ARGV[1] then
    return { answered:sub(#ARGV[1] + 1), 1 }
end

local count = redis.call('ZCARD', ready)
if count == 0 then return { '', 0 } end

local first_host, left = ARGV[3], tonumber(ARGV[4])
local per_account, per_host = tonumber(ARGV[5]), tonumber(ARGV[6])
local account_capacity, host_capacity = {}, {}
local hosts_from = 8 + 2 * tonumber(ARGV[7])
for i = 8, hosts_from - 2, 2 do account_capacity[ARGV[i]] = tonumber(ARGV[i + 1]) end
for i = hosts_from, #ARGV, 2 do host_capacity[ARGV[i]] = tonumber(ARGV[i + 1]) end

-- Greater than any job, or host and job: these never begin with so many of these bytes.
local AFTER_HOST, AFTER_ACCOUNT = '\255', string.rep('\255', 9)
local looks = 2000 -- bounds how long this runs; the next take goes on where it ends
local taken, hosts = {}, {}
local function look(from, to)
    looks = looks - 1
    -- While a slot moves to another node, a key that has just become empty must not be read: the
    -- server would end the script, after its removals and before its answer.
    if #taken == count then return nil end
    return redis.call('ZRANGEBYLEX', ready, from, to, 'LIMIT', 0, 1)[1]
end

local place = redis.call('GET', turn)
local seen, wrapped = {}, not place
local function next_account()
    local ticket = look(place and '(' .. place .. AFTER_ACCOUNT or '-', '+')
    if not ticket and not wrapped then
        wrapped = true
        ticket = look('-', '+')
    end
    local account = ticket and ticket:sub(1, 16)
    if not account or seen[account] then return nil end
    seen[account], place = true, account
    return account
end

-- Takes up to `most` tickets of an account, host by host; fewer only if there are no more, or the
-- looks are used up.
local function take(account, most)
    local at, got = hosts[account], 0
    if not at then
        at = { from = '[' .. account .. first_host, to = '(' .. account .. AFTER_ACCOUNT }
        hosts[account] = at
    end
    while got < most and looks > 0 do
        local ticket = look(at.from, at.to)
        if ticket then
            local host = ticket:sub(17, 24)
            local capacity = host_capacity[host] or per_host
            local ask, found = math.min(most - got, capacity), {}
            local after = '(' .. account .. host .. AFTER_HOST
            if ask > 0 then
                found = redis.call('ZRANGEBYLEX', ready, '[' .. ticket, after, 'LIMIT', 0, ask)
                redis.call('ZREM', ready, unpack(found))
                for _, one in ipairs(found) do taken[#taken + 1] = one end
            end
            got = got + #found
            host_capacity[host] = capacity - #found
            if #found < ask or capacity == #found then at.from = after end
        elseif at.last then
            break
        else
            at.from, at.to, at.last = '[' .. account, '(' .. account .. first_host, true
        end
    end
    account_capacity[account] = (account_capacity[account] or per_account) - got
    left = left - got
    return got
end

while left > 0 and looks > 0 do
    local round = {}
    while #round < left and looks > 0 do
        local account = next_account()
        if not account then break end
        if (account_capacity[account] or per_account) > 0 then round[#round + 1] = account end
    end
    if #round == 0 then break end
    while left > 0 and #round > 0 and looks > 0 do
        local quota, again = math.max(1, math.floor(left / #round)), {}
        for _, account in ipairs(round) do
            local most = math.min(quota, left, account_capacity[account] or per_account)
            if most > 0 and take(account, most) == most then again[#again + 1] = account end
        end
        round = again
    end
end

local answer = table.concat(taken)
-- The server may refuse either write when its memory is used up. The tickets are worth more.
if place then redis.pcall('SET', turn, place, 'EX', 86400) end
if #taken > 0 then redis.pcall('SET', kept, ARGV[1] .. answer, 'PX', ARGV[2]) end
return { answer, #taken < count and 1 or 0 }
