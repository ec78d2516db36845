SELECT search_phrase
FROM hits
WHERE search_phrase <> ''
ORDER BY event_time, search_phrase
LIMIT 10;
