-- Counts a request in all windows, or in none if one is full. KEYS: a counter for each window.
-- ARGV: now in ms, then the limit and the length in ms of each window. Returns 1 if the request was
-- counted, else 0; then for each window its count and the time in ms at which it begins anew.
local now, used, resets, has_capacity = tonumber(ARGV[1]), {}, {}, true
for i, key in ipairs(KEYS) do
    local limit, span = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
    local count, reset = (redis.call('GET', key) or ''):match('^(%d+):(%d+)$')
    if reset and tonumber(reset) > now then
        used[i], resets[i] = tonumber(count), tonumber(reset)
    else
        used[i], resets[i] = 0, now + span
    end
    has_capacity = has_capacity and used[i] < limit
end
local answer = { has_capacity and 1 or 0 }
for i, key in ipairs(KEYS) do
    if has_capacity then
        used[i] = used[i] + 1
        redis.call('SET', key, string.format('%.0f:%.0f', used[i], resets[i]),
            'PX', string.format('%.0f', resets[i] - now))
    end
    answer[#answer + 1] = used[i]
    answer[#answer + 1] = resets[i]
end
return answer
