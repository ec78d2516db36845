SELECT adv_engine_id, count(*) AS views
FROM hits
WHERE adv_engine_id <> 0
GROUP BY adv_engine_id
ORDER BY views DESC, adv_engine_id;
