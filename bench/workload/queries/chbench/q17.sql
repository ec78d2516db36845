-- What lines with less than the usual quantity of some items bring in a year.
SELECT sum(ol_amount) / 2.0 AS avg_yearly
FROM order_line,
    (SELECT i_id, avg(ol_quantity) AS usual
    FROM item, order_line
    WHERE i_data LIKE '%b' AND ol_i_id = i_id
    GROUP BY i_id) AS usual_quantity
WHERE ol_i_id = i_id AND ol_quantity < usual;
