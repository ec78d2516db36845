SELECT count(*) AS views
FROM hits
WHERE url LIKE '%google%';
