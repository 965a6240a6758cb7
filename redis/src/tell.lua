#!lua flags=allow-oom
-- Notes a wait and says so, if it is news. Answers with the store's clock, in microseconds.
-- KEYS[1]: the fleet's waits, and its channel
-- ARGV: name · what was left of the wait · when, by this clock · the longest wait · the most names
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local name, left, asof, longest, most = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0

-- What nobody can have told would keep out what somebody tells.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 2 * longest, '+inf')

-- A store that was paused runs old commands when it wakes.
left = math.min(left - math.max(now - asof, 0), longest)
local known = redis.call('ZSCORE', KEYS[1], name)
known = known and known - now or 0
if left > known * 1.125 then
    redis.call('ZADD', KEYS[1], now + left, name)
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - most)
    redis.call('PEXPIRE', KEYS[1], math.ceil(2 * longest / 1000))
    redis.call('PUBLISH', KEYS[1], '')
end
return now
