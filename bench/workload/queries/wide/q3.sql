SELECT count(DISTINCT user_id) AS users
FROM hits;
