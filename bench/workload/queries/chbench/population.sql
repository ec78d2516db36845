-- What the CH-benCHmark adds to TPC-C: regions, nations and 10,000 suppliers. A nation's key is the code of the first letter of its
-- customers' states. States begin with hexadecimal digits, so there are 16 nations instead of 62.
INSERT INTO region
SELECT r - 1, ['Africa', 'America', 'Asia', 'Europe', 'Middle East'][r], left(sha256('r comment ' || r), 40)
FROM range(1, 6) AS regions (r);

INSERT INTO nation
SELECT ascii(substr('0123456789ABCDEF', n, 1)),
    ['Algeria', 'Kenya', 'Morocco', 'Argentina', 'Brazil', 'Canada', 'Cambodia', 'China', 'India', 'Japan', 'France', 'Germany', 'Poland',
        'Spain', 'Egypt', 'Jordan'][n],
    [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4][n], left(sha256('n comment ' || n), 40)
FROM range(1, 17) AS nations (n);

INSERT INTO supplier
SELECT s, 'Supplier#' || lpad(CAST(s AS VARCHAR), 9, '0'), left(sha256('su address ' || s), 25),
    ascii(upper(left(sha256('su nation ' || s), 1))), left(sha256('su phone ' || s), 15),
    CAST(hash('su balance ' || s) % 1100000 AS INTEGER) / 100 - 1000,
    left(sha256('su comment 1 ' || s) || sha256('su comment 2 ' || s), 100)
FROM range(10000) AS suppliers (s);
