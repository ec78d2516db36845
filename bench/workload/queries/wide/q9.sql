SELECT watch_id, client_ip, count(*) AS views, sum(CAST(is_refresh AS INTEGER)) AS refreshes, avg(resolution_width) AS width
FROM hits
WHERE search_phrase <> ''
GROUP BY watch_id, client_ip
ORDER BY views DESC, watch_id
LIMIT 10;
