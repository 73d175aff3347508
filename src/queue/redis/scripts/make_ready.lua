-- Moves tickets that may start by now to the ready tickets, oldest first. KEYS: waiting, ready.
-- ARGV: now in ms, the maximum number of tickets. A ready ticket ends with the 15 digits of its
-- start.
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
if #due == 0 then return 0 end
local ready = {}
for i = 1, #due, 2 do
    ready[#ready + 1] = 0
    ready[#ready + 1] = due[i] .. string.format('%015.0f', tonumber(due[i + 1]))
end
-- Removes first: a script that has written may go on to add when the memory is used up.
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due / 2 - 1)
redis.call('ZADD', KEYS[2], unpack(ready))
return #due / 2
