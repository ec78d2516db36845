-- The consistency conditions of TPC-C, clauses 3.3.2.1 to 3.3.2.12, in their order: each query gives the rows that break one.
SELECT w_id, w_ytd, d_ytd
FROM warehouse, (SELECT d_w_id, sum(d_ytd) AS d_ytd FROM district GROUP BY d_w_id)
WHERE w_id = d_w_id AND w_ytd <> d_ytd;

SELECT d_w_id, d_id, d_next_o_id, last_order, last_new_order
FROM district
LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last_order FROM orders GROUP BY o_w_id, o_d_id)
    ON o_w_id = d_w_id AND o_d_id = d_id
LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last_new_order FROM new_order GROUP BY no_w_id, no_d_id)
    ON no_w_id = d_w_id AND no_d_id = d_id
WHERE d_next_o_id - 1 IS DISTINCT FROM last_order OR d_next_o_id - 1 <> last_new_order;

SELECT no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1 AS expected, count(*) AS found
FROM new_order
GROUP BY no_w_id, no_d_id
HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*);

SELECT o_w_id, o_d_id, expected, found
FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS expected FROM orders GROUP BY o_w_id, o_d_id)
JOIN (SELECT ol_w_id, ol_d_id, count(*) AS found FROM order_line GROUP BY ol_w_id, ol_d_id)
    ON o_w_id = ol_w_id AND o_d_id = ol_d_id
WHERE expected <> found;

SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id
FROM orders
LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL);

SELECT o_w_id, o_d_id, o_id, o_ol_cnt, found
FROM orders
LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS found FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id)
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE o_ol_cnt IS DISTINCT FROM found;

SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id
FROM order_line
JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL);

SELECT w_id, w_ytd, h_amount
FROM warehouse, (SELECT h_w_id, sum(h_amount) AS h_amount FROM history GROUP BY h_w_id)
WHERE w_id = h_w_id AND w_ytd <> h_amount;

SELECT d_w_id, d_id, d_ytd, h_amount
FROM district, (SELECT h_w_id, h_d_id, sum(h_amount) AS h_amount FROM history GROUP BY h_w_id, h_d_id)
WHERE d_w_id = h_w_id AND d_id = h_d_id AND d_ytd <> h_amount;

SELECT c_w_id, c_d_id, c_id, c_balance, delivered, paid
FROM customer
LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered
    FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id)
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id)
    ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
WHERE c_balance <> coalesce(delivered, 0) - coalesce(paid, 0);

-- As the population leaves it the difference is 2,100. Each delivery adds one, and counts for its customer.
SELECT d_w_id, d_id, order_count, new_order_count, deliveries
FROM district
JOIN (SELECT o_w_id, o_d_id, count(*) AS order_count FROM orders GROUP BY o_w_id, o_d_id)
    ON o_w_id = d_w_id AND o_d_id = d_id
LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS new_order_count FROM new_order GROUP BY no_w_id, no_d_id)
    ON no_w_id = d_w_id AND no_d_id = d_id
JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS deliveries FROM customer GROUP BY c_w_id, c_d_id)
    ON c_w_id = d_w_id AND c_d_id = d_id
WHERE order_count - coalesce(new_order_count, 0) <> 2100 + deliveries;

SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered
FROM customer
LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered
    FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id)
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0);
