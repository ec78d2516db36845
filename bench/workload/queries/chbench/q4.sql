-- Orders of which a line was delivered, by their number of lines.
SELECT o_ol_cnt, count(*) AS order_count
FROM orders
WHERE o_entry_d >= TIMESTAMP '2025-01-02 00:00:00' AND o_entry_d < TIMESTAMP '2099-01-02 00:00:00'
    AND EXISTS (SELECT * FROM order_line
        WHERE o_id = ol_o_id AND o_w_id = ol_w_id AND o_d_id = ol_d_id AND ol_delivery_d >= o_entry_d)
GROUP BY o_ol_cnt
ORDER BY o_ol_cnt;
