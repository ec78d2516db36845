SELECT trafic_source_id, search_engine_id, adv_engine_id,
       CASE WHEN search_engine_id = 0 AND adv_engine_id = 0 THEN referer ELSE '' END AS source, url, count(*) AS views
FROM hits
WHERE counter_id IN (3, 17, 62, 101) AND event_date >= DATE '2013-07-05' AND event_date <= DATE '2013-07-25'
  AND NOT is_refresh AND render_timing IS NULL
GROUP BY trafic_source_id, search_engine_id, adv_engine_id, source, url
ORDER BY views DESC, trafic_source_id, search_engine_id, adv_engine_id, source, url
LIMIT 10 OFFSET 100;
