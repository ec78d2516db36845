SELECT user_id, count(*) AS views
FROM hits
GROUP BY user_id
ORDER BY views DESC, user_id
LIMIT 10;
