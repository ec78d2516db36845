SELECT date_trunc('minute', event_time) AS minute, count(*) AS views
FROM hits
WHERE event_date BETWEEN DATE '2013-07-10' AND DATE '2013-07-20' AND NOT is_refresh AND dont_count = 0
GROUP BY date_trunc('minute', event_time)
ORDER BY minute
LIMIT 10 OFFSET 1000;
