SELECT search_phrase, min(url) AS url, min(title) AS title, count(*) AS views, count(DISTINCT user_id) AS users
FROM hits
WHERE title LIKE '%Google%' AND url NOT LIKE '%.google.%' AND search_phrase <> ''
GROUP BY search_phrase
ORDER BY views DESC, search_phrase
LIMIT 10;
