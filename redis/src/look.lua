#!lua flags=allow-oom
-- Answers with the store's clock, in microseconds, then each name and what is left of its wait.
-- KEYS[1]: the fleet's waits · ARGV: the longest wait · the most names · the longest name
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local longest, most, letters = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0

local answer = {now}
local waits = redis.call('ZREVRANGEBYSCORE', KEYS[1], now + 2 * longest, now, 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #waits, 2 do
    if #waits[i] <= letters then
        answer[#answer + 1] = waits[i]
        answer[#answer + 1] = math.floor(waits[i + 1] - now)
    end
end
return answer
