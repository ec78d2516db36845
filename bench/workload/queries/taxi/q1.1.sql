SELECT vendor_id, extract(year FROM pickup_at) AS year, extract(month FROM pickup_at) AS month, count(*) AS trips,
       sum(trip_distance) AS miles, avg(total_amount) AS amount
FROM trips
WHERE trip_distance > 1
GROUP BY vendor_id, year, month
ORDER BY vendor_id, year, month;
