SELECT counter_id, avg(length(url)) AS url_length, count(*) AS views
FROM hits
WHERE url <> ''
GROUP BY counter_id
HAVING count(*) > 1000
ORDER BY url_length DESC, counter_id
LIMIT 25;
