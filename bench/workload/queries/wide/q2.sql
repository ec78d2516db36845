SELECT sum(adv_engine_id) AS engines, count(*) AS views, avg(resolution_width) AS width, avg(user_id) AS user_id,
       min(event_date) AS first_day, max(event_date) AS last_day, count(cart_value) AS carts, sum(cart_value) AS cart_value
FROM hits;
