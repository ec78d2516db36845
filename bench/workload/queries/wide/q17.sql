SELECT sum(resolution_width + 0) AS s0, sum(resolution_width + 1) AS s1, sum(resolution_width + 2) AS s2,
       sum(resolution_width + 3) AS s3, sum(resolution_width + 4) AS s4, sum(resolution_width + 5) AS s5,
       sum(resolution_width + 6) AS s6, sum(resolution_width + 7) AS s7, sum(resolution_width + 8) AS s8,
       sum(resolution_width + 9) AS s9, sum(resolution_width + 10) AS s10, sum(resolution_width + 11) AS s11,
       sum(resolution_width + 12) AS s12, sum(resolution_width + 13) AS s13, sum(resolution_width + 14) AS s14,
       sum(resolution_width + 15) AS s15, sum(resolution_width + 16) AS s16, sum(resolution_width + 17) AS s17,
       sum(resolution_width + 18) AS s18, sum(resolution_width + 19) AS s19, sum(resolution_width + 20) AS s20,
       sum(resolution_width + 21) AS s21, sum(resolution_width + 22) AS s22, sum(resolution_width + 23) AS s23,
       sum(resolution_width + 24) AS s24, sum(resolution_width + 25) AS s25, sum(resolution_width + 26) AS s26,
       sum(resolution_width + 27) AS s27, sum(resolution_width + 28) AS s28, sum(resolution_width + 29) AS s29
FROM hits;
