-- The initial population (TPC-C, clause 4.3.3) of $warehouses warehouses. Random numbers are hashes of a row's key and a place, so
-- that the same data are made everywhere. Random texts have hexadecimal digits.
CREATE TEMP MACRO number_of(key, low, high) AS CAST(low + hash(key) % (high - low + 1) AS INTEGER);
CREATE TEMP MACRO text_of(key, low, high) AS
    substr(sha256(key || ' 1') || sha256(key || ' 2'), 1, number_of(key || ' n', low, high));
CREATE TEMP MACRO long_text_of(key, low, high) AS
    substr(sha256(key || ' 1') || sha256(key || ' 2') || sha256(key || ' 3') || sha256(key || ' 4') || sha256(key || ' 5')
        || sha256(key || ' 6') || sha256(key || ' 7') || sha256(key || ' 8'), 1, number_of(key || ' n', low, high));
-- In one of ten texts the word ORIGINAL lies somewhere.
CREATE TEMP MACRO marked(word, key) AS
    CASE WHEN number_of(key || ' o', 1, 10) > 1 THEN word
        ELSE left(word, number_of(key || ' p', 0, length(word) - 8)) || 'ORIGINAL'
            || substr(word, number_of(key || ' p', 0, length(word) - 8) + 9) END;
CREATE TEMP MACRO zip_of(key) AS lpad(CAST(number_of(key, 0, 9999) AS VARCHAR), 4, '0') || '11111';
CREATE TEMP MACRO state_of(key) AS upper(left(sha256(key), 2));
CREATE TEMP MACRO syllable(place) AS
    ['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'][place + 1];
CREATE TEMP MACRO last_name(value) AS
    syllable(value // 100) || syllable(value // 10 % 10) || syllable(value % 10);

INSERT INTO item
SELECT i, number_of('i im ' || i, 1, 10000), text_of('i name ' || i, 14, 24), number_of('i price ' || i, 100, 10000) / 100,
    marked(text_of('i data ' || i, 26, 50), 'i data ' || i)
FROM range(1, 100001) AS items (i);

INSERT INTO warehouse
SELECT w, text_of('w name ' || w, 6, 10), text_of('w s1 ' || w, 10, 20), text_of('w s2 ' || w, 10, 20),
    text_of('w city ' || w, 10, 20), state_of('w state ' || w), zip_of('w zip ' || w),
    number_of('w tax ' || w, 0, 2000) / 10000, 300000
FROM range(1, $warehouses + 1) AS warehouses (w);

INSERT INTO district
SELECT d, w, text_of('d name ' || k, 6, 10), text_of('d s1 ' || k, 10, 20), text_of('d s2 ' || k, 10, 20),
    text_of('d city ' || k, 10, 20), state_of('d state ' || k), zip_of('d zip ' || k),
    number_of('d tax ' || k, 0, 2000) / 10000, 30000, 3001
FROM (SELECT w, d, w || ' ' || d AS k FROM range(1, $warehouses + 1) AS warehouses (w), range(1, 11) AS districts (d));

INSERT INTO stock
SELECT i, w, number_of('s quantity ' || k, 10, 100),
    substr(h1, 1, 24), substr(h1, 25, 24), substr(h2, 1, 24), substr(h2, 25, 24), substr(h3, 1, 24), substr(h3, 25, 24),
    substr(h4, 1, 24), substr(h4, 25, 24), substr(h5, 1, 24), substr(h5, 25, 24),
    0, 0, 0, marked(text_of('s data ' || k, 26, 50), 's data ' || k)
FROM (SELECT w, i, k, sha256('s 1 ' || k) AS h1, sha256('s 2 ' || k) AS h2, sha256('s 3 ' || k) AS h3,
        sha256('s 4 ' || k) AS h4, sha256('s 5 ' || k) AS h5
    FROM (SELECT w, i, w || ' ' || i AS k
        FROM range(1, $warehouses + 1) AS warehouses (w), range(1, 100001) AS items (i)));

INSERT INTO customer
SELECT c, d, w, text_of('c first ' || k, 8, 16), 'OE',
    last_name(CASE WHEN c <= 1000 THEN c - 1
        ELSE ((number_of('c last a ' || k, 0, 255) | number_of('c last b ' || k, 0, 999)) + $c_last) % 1000 END),
    text_of('c s1 ' || k, 10, 20), text_of('c s2 ' || k, 10, 20), text_of('c city ' || k, 10, 20),
    state_of('c state ' || k), zip_of('c zip ' || k),
    lpad(CAST(hash('c phone ' || k) % 10000000000000000 AS VARCHAR), 16, '0'), TIMESTAMP '2026-01-01 00:00:00',
    CASE WHEN number_of('c credit ' || k, 1, 10) = 1 THEN 'BC' ELSE 'GC' END, 50000,
    number_of('c discount ' || k, 0, 5000) / 10000, -10, 10, 1, 0, long_text_of('c data ' || k, 300, 500)
FROM (SELECT w, d, c, w || ' ' || d || ' ' || c AS k
    FROM range(1, $warehouses + 1) AS warehouses (w), range(1, 11) AS districts (d), range(1, 3001) AS customers (c));

INSERT INTO history
SELECT c_id, c_d_id, c_w_id, c_d_id, c_w_id, TIMESTAMP '2026-01-01 00:00:00', 10,
    text_of('h data ' || c_w_id || ' ' || c_d_id || ' ' || c_id, 12, 24)
FROM customer;

-- The customers of a district's orders are a permutation of its customers.
INSERT INTO orders
SELECT CAST(o AS INTEGER), d, w, c, TIMESTAMP '2026-01-01 00:00:00',
    CASE WHEN o < 2101 THEN number_of('o carrier ' || w || ' ' || d || ' ' || o, 1, 10) END,
    number_of('o lines ' || w || ' ' || d || ' ' || o, 5, 15), 1
FROM (SELECT c_w_id AS w, c_d_id AS d, c_id AS c, row_number() OVER
        (PARTITION BY c_w_id, c_d_id ORDER BY hash('o c ' || c_w_id || ' ' || c_d_id || ' ' || c_id), c_id) AS o
    FROM customer)
ORDER BY w, d, o;

INSERT INTO new_order SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_id >= 2101 ORDER BY o_w_id, o_d_id, o_id;

INSERT INTO order_line
SELECT o_id, o_d_id, o_w_id, n, number_of('ol item ' || k, 1, 100000), o_w_id,
    CASE WHEN o_id < 2101 THEN o_entry_d END, 5,
    CASE WHEN o_id < 2101 THEN 0 ELSE number_of('ol amount ' || k, 1, 999999) / 100 END, left(sha256('ol dist ' || k), 24)
FROM (SELECT o_id, o_d_id, o_w_id, o_entry_d, n, o_w_id || ' ' || o_d_id || ' ' || o_id || ' ' || n AS k
    FROM orders, range(1, 16) AS lines (n) WHERE n <= o_ol_cnt)
ORDER BY o_w_id, o_d_id, o_id, n;
