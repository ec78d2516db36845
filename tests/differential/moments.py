"""Random expressions of dates, times, timestamps and intervals: Forebay gives what DuckDB gives, value by value."""

import random

import computed
from computed import Query
from literals import text

DATES = [
    "2020-02-29", "2019-02-28", "2000-12-31", "2001-01-01", "1999-12-27", "2021-01-03", "1970-01-01", "1969-12-31", "1900-03-01",
    "0001-01-01", "0044-03-15 (BC)", "0001-12-31 (BC)", "9999-12-31", "2024-06-15", "1582-10-15", "2015-12-28",
]
TIMESTAMPS = [
    "2020-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "1970-01-01 00:00:00", "2000-01-01 12:34:56.789", "0044-03-15 (BC) 10:00:00",
    "9999-12-31 00:00:00.000001", "2021-01-03 00:00:00", "2019-12-30 06:07:08", "1582-10-04 13:00:00", "2016-02-29 11:59:59",
]
TIMES = ["00:00:00", "23:59:59.999999", "12:34:56.789", "06:00:00", "00:00:00.000001", "24:00:00"]
INTERVALS = [
    "1 month", "30 days", "1 year 2 months 3 days 04:05:06.789", "-1 day", "24 hours", "00:00:00", "-5 months 40 days", "90 minutes",
    "1 day 1 us", "-00:00:00.5", "720 hours", "13 months", "3 weeks", "1.5 days", "-2 years",
]
# What texts may look like; some of them are no dates, times or intervals.
DATE_TEXTS = DATES + ["2020-1-3", "2020/01/03", " 2020-01-03 ", "44-03-15", "-44-03-15", "2020-02-30", "2020-13-01", "2021-02-29", "20200103", "", "x", "2020-01", "2020-01-03 10:00:00", "epoch", "infinity", "2020 01 03", "0-1-1", "5881580-07-10", "5881580-07-11"]
TIMESTAMP_TEXTS = TIMESTAMPS + [
    "2020-01-03", "2020-01-03T10:00:00Z", "2020-1-3 4:5", "2020-01-03 10:00:00.123456789", "2020-01-03 24:00:00", "2020-01-03 25:00:00",
    "2020-01-03 10:00:00+02", "2020-01-03 10:00:00-02:30", "2020-01-03 10", "infinity", "-infinity", "epoch", "2020-01-03 10:00:60", "x",
    "294247-01-10 04:00:54.775806", "294247-01-10 04:00:54.775807", "2020-01-03 10:00:00 UTC",
]
TIME_TEXTS = TIMES + ["1:2:3", "10:00", "10", "25:00:00", "23:59:60", "10:00:00.1234567", "2020-01-01 10:00:00", "", "-1:00", "24:00:01", "10:00:00+02"]
INTERVAL_TEXTS = INTERVALS + ["100", "1 day ago", "1.5 months", "x", "", "1 foo", "1d2h", "@ 1 day", "10:60", "1 day 2", "3 decades", "1.55 months", "0.1 days", "1.1234567 s", "P1D"]
PARTS = [
    "year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "week", "quarter", "decade", "century", "millennium",
    "dow", "isodow", "doy", "isoyear", "yearweek", "epoch", "era", "julian",
]
TRUNCATIONS = ["year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "week", "quarter", "decade", "century", "millennium", "isoyear"]
TIME_PARTS = ["hour", "minute", "second", "millisecond", "microsecond", "epoch"]
INTERVAL_PARTS = ["year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "quarter", "decade", "century", "millennium", "epoch"]
UNITS = ["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "QUARTER", "DECADE"]
MAKERS = ["to_years", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds", "to_milliseconds", "to_microseconds", "to_quarters", "to_decades", "to_centuries"]
FORMATS = ["%Y-%m-%d %H:%M:%S", "%d.%m.%y", "%a %A %b %B %j", "%I:%M %p", "%-d/%-m/%Y %H:%M:%S.%f", "%G-W%V-%u", "%U %W %w", "%c", "%x %X", "%S.%g %%", "%-H:%-M:%-S %-y %-j", "%Y%m%d%H%M%S"]
READ_FORMATS = [("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S"), ("%d.%m.%Y", "%d.%m.%Y"), ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f"), ("%d %B %Y %I:%M %p", "%d %B %Y %I:%M %p"), ("%j %Y", "%j %Y"), ("%a %b %d %Y", "%a %b %d %Y"), ("%x", "%c")]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
COLUMNS = {"date": "d", "ts": "ts", "time": "t", "interval": "i", "int": "n", "double": "x", "bool": "b"}
SQL_TYPES = {"date": "DATE", "ts": "TIMESTAMP", "time": "TIME", "interval": "INTERVAL"}


def statements():
    """The table that is asked: every value beside others, and NULLs."""
    rows = []
    shuffled = random.Random("moments")
    for number in range(48):
        values = [(DATES, "DATE"), (TIMESTAMPS, "TIMESTAMP"), (TIMES, "TIME"), (INTERVALS, "INTERVAL")]
        cells = ["NULL" if shuffled.random() < 0.1 else f"CAST({text(all[number % len(all)])} AS {kind})" for all, kind in values]
        rows.append(
            f"({number}, {', '.join(cells)}, "
            f"{shuffled.choice(['NULL', *range(-3, 30)])}, {shuffled.choice(['NULL', '0.5', '-1.25', '3', '1e3'])}, {shuffled.choice(['true', 'false', 'NULL'])})"
        )
    return [
        "CREATE TABLE m (id INTEGER, d DATE, ts TIMESTAMP, t TIME, i INTERVAL, n INTEGER, x DOUBLE, b BOOLEAN)",
        f"INSERT INTO m VALUES {', '.join(rows)}",
        "CREATE TABLE none AS SELECT * FROM m WHERE false",
    ]


class Generator:
    """Makes query `number` of a seed; the same every time."""

    def __init__(self, seed):
        self.seed = seed

    def query(self, number):
        self.random = random.Random(f"moments:{self.seed}:{number}")
        self.has_columns = self.chance(0.6)
        self.is_tested = False
        shape = self.random.choices([self.values, self.groups, self.distinct, self.series, self.joined], weights=[70, 14, 6, 5, 5])[0]
        return shape()

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(items)

    # Shapes

    def values(self):
        """Single values, or those of rows."""
        outputs = [self.of(self.pick(["date", "ts", "time", "interval", "int", "double", "bool", "text"])) for _ in range(self.pick([1, 1, 2, 3]))]
        if not self.has_columns:
            return Query(outputs)
        condition = f" WHERE {self.condition()}" if self.chance(0.5) else ""
        table = "none" if self.chance(0.02) else "m"
        return Query(outputs, f" FROM {table}{condition} ORDER BY id", parts=[condition])

    def groups(self):
        self.has_columns = True
        kind = self.pick(["date", "ts", "time", "interval", "int", "text"])
        key, condition = self.of(kind, 1), f" WHERE {self.condition()}" if self.chance(0.4) else ""
        other = self.pick(["date", "ts", "time", "interval"])
        column = self.of(other, 1)
        # Equally long intervals are one, whichever is shown.
        outputs = ["count(*)", f"count({column})", "min(id)"]
        if other != "interval":
            outputs += [f"min({column})", f"max({column})", f"count(DISTINCT {column})"]
        else:
            outputs.append(f"count(DISTINCT {column})")
        if kind != "interval":
            outputs.append(f"({key})")
        return Query(outputs, f" FROM m{condition} GROUP BY {key} ORDER BY min(id)", parts=[condition])

    def distinct(self):
        self.has_columns = True
        kind = self.pick(["date", "ts", "time", "interval"])
        if kind == "interval":
            return Query(["count(*)"], f" FROM (SELECT DISTINCT {self.of(kind, 1)} FROM m)")
        return Query([f"({self.of(kind, 1)})"], " FROM m", head="SELECT DISTINCT ", is_ordered=False)

    def series(self):
        self.has_columns = False
        kind = self.pick(["DATE", "TIMESTAMP"])
        first = self.pick(["2020-01-31", "2019-12-30", "1969-12-30"])
        last = self.pick(["2020-03-01", "2020-02-29", "1970-01-05", "2020-01-31"])
        step = self.pick(["1 month", "7 days", "1 day", "36 hours", "-1 month", "1 month 1 day", "-12 hours"])
        name = self.pick(["range", "generate_series"])
        source = f"{name}({kind} '{first}', {kind} '{last}', INTERVAL '{step}')"
        condition = " WHERE g > TIMESTAMP '2020-01-05'" if self.chance(0.3) else ""
        if self.chance(0.5):
            return Query(["count(*)", "min(g)", "max(g)"], f" FROM {source} AS s(g){condition}", parts=[condition])
        return Query(["g"], f" FROM {source} AS s(g){condition} ORDER BY g", parts=[condition])

    def joined(self):
        self.has_columns = True
        kind = self.pick(["d", "ts", "t", "i"])
        left, right = f"a.{kind}", f"b.{kind}"
        if kind in ("d", "ts") and self.chance(0.4):
            left, right = self.pick([("a.d", "b.ts"), ("a.ts", "b.d"), ("a.d + INTERVAL 1 DAY", "b.d"), ("CAST(a.ts AS DATE)", "b.d")])
        return Query(["count(*)", "sum(a.id * b.id)"], f" FROM m a {self.pick(['JOIN', 'LEFT JOIN'])} m b ON {left} = {right}")

    # Expressions

    def condition(self):
        return self.pick([self.of("bool", 1), f"id % {self.pick([2, 3, 5])} = {self.pick([0, 1])}", f"id = {self.random.randrange(48)}"])

    def of(self, kind, depth=2):
        """An expression of this kind."""
        if depth <= 0 or self.chance(0.15):
            return self.leaf(kind)
        if self.chance(0.06) and kind not in ("bool", "text", "double"):
            other = self.leaf(kind)
            return self.pick([f"coalesce({self.of(kind, depth - 1)}, {other})", f"CASE WHEN {self.of('bool', 0)} THEN {self.of(kind, depth - 1)} ELSE {other} END"])
        return getattr(self, kind)(depth - 1)

    def leaf(self, kind):
        if kind == "text":
            return f"CAST({self.leaf(self.pick(['date', 'ts', 'time', 'interval']))} AS VARCHAR)"
        if self.has_columns and self.chance(0.7):
            return COLUMNS[kind]
        match kind:
            case "date":
                return f"DATE '{self.pick(DATES)}'"
            case "ts":
                return f"TIMESTAMP '{self.pick(TIMESTAMPS)}'"
            case "time":
                return f"TIME '{self.pick(TIMES)}'"
            case "interval":
                return self.interval_literal()
            case "int":
                return f"CAST({self.pick([-13, -1, 0, 1, 2, 7, 31, 100])} AS INTEGER)"
            case "double":
                return f"CAST({self.pick(['0.5', '-1.5', '2.25', '1e3', '0'])} AS DOUBLE)"
        return self.pick(["true", "false"])

    def interval_literal(self):
        number = self.pick([-2, 1, 3, 30])
        return self.pick([
            f"INTERVAL '{self.pick(INTERVALS)}'",
            f"INTERVAL '{self.pick(INTERVALS)}'",
            f"INTERVAL '{number}' {self.pick(UNITS)}",
            f"INTERVAL {abs(number)} {self.pick(UNITS)}S",
            f"INTERVAL ({number}) {self.pick(UNITS)}",
            f"{self.pick(MAKERS)}({number})",
        ])

    def date(self, depth):
        return self.pick([
            lambda: f"({self.of('date', depth)} {self.pick('+-')} {self.of('int', 0)})",
            lambda: f"last_day({self.of(self.pick(['date', 'ts']), depth)})",
            lambda: f"CAST({self.of('ts', depth)} AS DATE)",
            lambda: f"{self.caster()}({text(self.pick(DATE_TEXTS))} AS DATE)",
            lambda: f"make_date({self.pick([2020, 1, 1999, -44])}, {self.pick([1, 2, 12])}, {self.pick([1, 28, 29, 30])})",
            lambda: f"time_bucket({self.bucket()}, {self.of('date', depth)})",
            lambda: f"{self.pick(['greatest', 'least'])}({self.of('date', depth)}, {self.of('date', 0)})",
        ])()

    def bucket(self):
        return f"INTERVAL '{self.pick(['1 month', '3 months', '1 year', '1 week', '10 days', '7 hours', '15 minutes'])}'"

    def ts(self, depth):
        def moment():
            return self.of(self.pick(["date", "ts"]), depth)

        origins = ["", "", ", TIMESTAMP '2001-02-03 04:05:06'", ", INTERVAL '2 days'"]
        return self.pick([
            lambda: f"({moment()} {self.pick('+-')} {self.of('interval', depth)})",
            lambda: f"({moment()} {self.pick('+-')} {self.of('interval', depth)})",
            lambda: f"({self.of('interval', 0)} + {self.of('ts', depth)})",
            lambda: self.pick([f"({self.of('date', depth)} + {self.of('time', 0)})", f"({self.of('time', 0)} + {self.of('date', depth)})"]),
            lambda: f"date_trunc('{self.pick(TRUNCATIONS)}', {moment()})",
            lambda: f"CAST({self.of('date', depth)} AS TIMESTAMP)",
            lambda: f"{self.caster()}({text(self.pick(TIMESTAMP_TEXTS))} AS TIMESTAMP)",
            lambda: f"make_timestamp({self.pick([2020, 1, 1999])}, {self.pick([1, 2, 12])}, {self.pick([1, 28, 29])}, {self.pick([0, 23])}, {self.pick([0, 59])}, {self.pick([0, 12.5, 59.999999])})",
            lambda: f"epoch_ms(CAST({self.of('int', 0)} AS BIGINT) * 86400000)",
            lambda: f"time_bucket({self.bucket()}, {self.of('ts', depth)}{self.pick(origins)})",
            lambda: f"CAST(CAST({self.of('ts', depth)} AS {self.pick(['TIMESTAMP_S', 'TIMESTAMP_MS'])}) AS TIMESTAMP)",
            lambda: self.read_back(depth),
            lambda: f"{self.pick(['greatest', 'least'])}({self.of('ts', depth)}, {self.of('ts', 0)})",
        ])()

    def read_back(self, depth):
        written, read = self.pick(READ_FORMATS)
        function = "try_strptime" if self.is_tested else self.pick(["try_strptime", "strptime"])
        return f"{function}(strftime({self.of('ts', depth)}, '{written}'), '{read}')"

    def time(self, depth):
        return self.pick([
            lambda: f"CAST({self.of('ts', depth)} AS TIME)",
            lambda: f"({self.of('time', depth)} {self.pick('+-')} {self.of('interval', depth)})",
            lambda: f"{self.caster()}({text(self.pick(TIME_TEXTS))} AS TIME)",
            lambda: f"make_time({self.pick([0, 10, 23])}, {self.pick([0, 59])}, {self.pick([0, 1.5, 59.999999])})",
        ])()

    def interval(self, depth):
        return self.pick([
            lambda: f"({self.of('interval', depth)} {self.pick('+-')} {self.of('interval', 0)})",
            lambda: f"({self.of('interval', depth)} * {self.of('int', 0)})",
            lambda: f"({self.of('int', 0)} * {self.of('interval', depth)})",
            lambda: f"({self.of('interval', depth)} {self.pick(['*', '/'])} {self.pick(['2', '0.5', '3', '1.5', '-7'])})",
            lambda: f"({self.of('ts', depth)} - {self.of(self.pick(['ts', 'ts', 'date']), depth)})",
            lambda: f"(-{self.of('interval', 0)})",
            lambda: f"{self.pick(MAKERS)}({self.of('int', depth)})",
            lambda: f"INTERVAL ({self.of('int', depth)}) {self.pick(UNITS)}",
            lambda: f"age({self.of('ts', depth)}, {self.of('ts', 0)})",
            lambda: f"date_trunc('{self.pick(TRUNCATIONS)}', {self.of('interval', depth)})",
            lambda: f"normalized_interval({self.of('interval', depth)})",
            lambda: f"{self.caster()}({text(self.pick(INTERVAL_TEXTS))} AS INTERVAL)",
        ])()

    def int(self, depth):
        part = self.pick([part for part in PARTS if part not in ("epoch", "julian")])
        whole_interval_part = self.pick([part for part in INTERVAL_PARTS if part != "epoch"])
        time_part = self.pick(TIME_PARTS[:-1])

        def moment():
            return self.of(self.pick(["date", "ts"]), depth)

        def spelled(part, value):
            return self.pick([f"extract({part} FROM {value})", f"date_part('{part}', {value})"])

        names = ["year", "month", "day", "quarter", "week", "weekday", "dayofyear", "isodow", "hour", "minute", "second", "yearweek", "century"]
        whole = self.pick([
            lambda: f"({self.of('date', depth)} - {self.of('date', depth)})",
            lambda: spelled(part, moment()),
            lambda: spelled(part, moment()),
            lambda: spelled(whole_interval_part, self.of("interval", depth)),
            lambda: spelled(time_part, self.of("time", depth)),
            lambda: f"{self.pick(names)}({moment()})",
            lambda: f"{self.pick(['date_diff', 'date_sub', 'datediff'])}('{self.pick(TRUNCATIONS[:-1])}', {moment()}, {moment()})",
            lambda: f"{self.pick(['date_diff', 'date_sub'])}('{self.pick(TIME_PARTS[:-1])}', {self.of('time', depth)}, {self.of('time', 0)})",
            lambda: f"days_in_month({moment()})",
        ])()
        return f"CAST({whole} % 1000000 AS INTEGER)"

    def double(self, depth):
        return self.pick([
            lambda: f"epoch({self.of(self.pick(['date', 'ts', 'time', 'interval']), depth)})",
            lambda: f"extract(epoch FROM {self.of(self.pick(['date', 'ts', 'time', 'interval']), depth)})",
            lambda: f"julian({self.of('ts', depth)})",
        ])()

    def caster(self):
        """A condition may be decided before all of its parts are looked at: none of them fails."""
        return "TRY_CAST" if self.is_tested else self.pick(["CAST", "TRY_CAST"])

    def bool(self, depth):
        was_tested, self.is_tested = self.is_tested, True
        condition = self.tested(depth)
        self.is_tested = was_tested
        return condition

    def tested(self, depth):
        kind = self.pick(["date", "ts", "time", "interval", "interval", "date"])
        left, right = self.of(kind, depth), self.of(kind, depth)
        if kind == "date" and self.chance(0.3):
            right = self.of("ts", depth)
        return self.pick([
            lambda: f"({left} {self.pick(COMPARISONS)} {right})",
            lambda: f"({left} {self.pick(COMPARISONS)} {right})",
            lambda: f"({left} BETWEEN {right} AND {self.of(kind, 0)})",
            lambda: f"({left} IN ({right}, {self.of(kind, 0)}))",
            lambda: f"({left} IS {self.pick(['', 'NOT '])}DISTINCT FROM {right})",
            lambda: f"({left} IS {self.pick(['', 'NOT '])}NULL)",
            lambda: f"isfinite({self.of(self.pick(['date', 'ts']), depth)})",
        ])()

    def text(self, depth):
        return self.pick([
            lambda: f"CAST({self.of(self.pick(['date', 'ts', 'time', 'interval']), depth)} AS VARCHAR)",
            lambda: f"strftime({self.of(self.pick(['date', 'ts']), depth)}, '{self.pick(FORMATS)}')",
            lambda: f"{self.pick(['dayname', 'monthname'])}({self.of(self.pick(['date', 'ts']), depth)})",
        ])()


# As docs/execution.md says, *Differences from DuckDB*.
DOCUMENTED = [
    (r"strptime\(.*'-inf", r"expected '1900"),
    (r"5881580|294247", r"got an error:\nError: (the date \S+ is out of the range of timestamps|failed to create naive time|cannot convert arrow_array)"),
    (r"days_in_month.*5881580", r"DuckDB says Conversion Error: Date out of range"),
    (r"294247.*TIMESTAMP_MS", r"DuckDB says Conversion Error: Type INT64 with value 294247"),
    (r"date_(sub|diff).*294247", r"DuckDB says Out of Range Error: Overflow in subtraction"),
    (r"BETWEEN", r"DuckDB says (Conversion|Out of Range) Error[^\n]*\ngot (\[\]|\[\[(true|false|null)\])"),
    (r"infinity", r"got an error:\nError: (cannot convert|failed to create|cannot cast)"),
]


def run(options, report):
    """`options`: binary, directory, seed, computed (how many queries), query (one number, or None)."""
    computed.run(options, report, "moments", options.computed, statements(), Generator(options.seed), DOCUMENTED)
