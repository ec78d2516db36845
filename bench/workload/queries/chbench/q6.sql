-- What was delivered in some quantity within some years.
SELECT sum(ol_amount) AS revenue
FROM order_line
WHERE ol_delivery_d >= TIMESTAMP '2025-01-01 00:00:00' AND ol_delivery_d < TIMESTAMP '2099-01-01 00:00:00'
    AND ol_quantity BETWEEN 1 AND 100000;
