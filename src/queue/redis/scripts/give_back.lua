-- Takes back a counted request, in those windows that have not begun anew since. KEYS: a counter
-- for each window. ARGV: now in ms.
local now = tonumber(ARGV[1])
for _, key in ipairs(KEYS) do
    local count, reset = (redis.call('GET', key) or ''):match('^(%d+):(%d+)$')
    if reset and tonumber(reset) > now and tonumber(count) > 0 then
        redis.call('SET', key, string.format('%.0f:%s', count - 1, reset),
            'PX', string.format('%.0f', reset - now))
    end
end
return 0
