SELECT count(*) AS views
FROM hits
WHERE adv_engine_id <> 0 AND age IS NOT NULL;
