SELECT date_trunc('day', pickup_at) AS day,
       avg(trip_distance / (extract(epoch FROM dropoff_at) - extract(epoch FROM pickup_at))) * 3600 AS miles_per_hour
FROM trips
WHERE fare_amount > 80 AND trip_distance > 0 AND dropoff_at > pickup_at
GROUP BY day
ORDER BY day;
