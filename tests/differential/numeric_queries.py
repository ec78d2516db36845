"""Random queries over numbers of every type: integers of 8 to 128 bits, signed and unsigned, decimals of every width of storage,
FLOAT and DOUBLE; arithmetic, casts, rounding, bits, comparisons, types in common, aggregates. Values lie at the ends of types, so
that results leave them: then both engines have an error, or Forebay has the number.

Left out on purpose: sums of floats, whose last digits depend on the order of rows, and literals of integers without a type but
beside another integer.
"""

import random
import re

from join_queries import COMPARISONS, Source
from parts import Outer, Part

INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(10**36), 10**36),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
}
DECIMALS = [(4, 1), (4, 4), (9, 0), (9, 2), (10, 3), (18, 0), (18, 4), (18, 18), (19, 1), (28, 10), (38, 2), (38, 10)]
FLOATS = ["FLOAT", "DOUBLE"]
ROWS = 90


def decimal_name(precision, scale):
    return f"DECIMAL({precision},{scale})"


# name of a column: (type, family)
COLUMNS = {
    **{name.lower(): (name, "int") for name in INTEGERS},
    **{f"d{p}_{s}": (decimal_name(p, s), "decimal") for p, s in DECIMALS},
    "single": ("FLOAT", "float"),
    "real": ("DOUBLE", "float"),
}
TYPES = [kind for kind, _ in COLUMNS.values()]
WIDE = {decimal_name(p, s) for p, s in DECIMALS if p > 18 or s > 10} | {"HUGEINT", "UBIGINT"}


def decimal_text(digits, scale):
    sign, digits = ("-" if digits < 0 else ""), str(abs(digits)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


class Values:
    """Random values of types, as texts."""

    def __init__(self, chance):
        self.random = chance

    def of(self, kind):
        if kind in INTEGERS:
            return str(self.integer(*INTEGERS[kind]))
        if kind in FLOATS:
            return self.random.choice(["0", "1", "-1", "0.5", "-2.5", "1e10", "-1e-5", "3.25", "1234567.75", "1e30", "nan", "inf", "-inf", "0.1", "99.995", "2.5"])
        precision, scale = (int(part) for part in kind[8:-1].split(","))
        most = 10**precision - 1
        return decimal_text(self.integer(-most, most), scale)

    def integer(self, low, high):
        kind = self.random.choices(["small", "end", "power", "any", "tie"], weights=[52, 10, 14, 14, 10])[0]
        match kind:
            case "small":
                value = self.random.randint(-12, 120)
            case "end":
                value = self.random.choice([low, high, low + 1, high - 1, 0])
            case "power":
                value = self.random.choice([-1, 1]) * (self.random.choice([2, 10]) ** self.random.randint(0, 38) + self.random.choice([-1, 0, 0, 1]))
            case "tie":
                value = self.random.choice([-1, 1]) * 5 * 10 ** self.random.randint(0, 12)
            case _:
                value = self.random.randint(low // 10 ** self.random.randint(0, 12), high // 10 ** self.random.randint(0, 12))
        return min(max(value, low), high)


def create_sql():
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    return f"CREATE TABLE n (id INTEGER, g INTEGER, {columns})"


def insert_sql(seed):
    """The rows of the table, with a type for each value."""
    chance = random.Random(f"numeric:{seed}")
    values = Values(chance)
    rows = []
    for index in range(ROWS):
        cells = ["NULL" if chance.random() < 0.12 else f"CAST('{values.of(kind)}' AS {kind})" for kind, _ in COLUMNS.values()]
        rows.append(f"({index}, {index % 5 if index % 11 else 'NULL'}, {', '.join(cells)})")
    return f"INSERT INTO n VALUES {', '.join(rows)}"


class NumericGenerator:
    """Makes query `number` of a seed; the same every time."""

    def __init__(self, connection, tables, seed):
        self.seed = seed

    def query(self, number):
        self.random = random.Random(f"numeric:{self.seed}:{number}")
        self.values = Values(self.random)
        shapes = {self.rows: 46, self.constants: 16, self.groups: 16, self.filtered: 14, self.unified: 8}
        return self.random.choices(list(shapes), weights=shapes.values())[0]()

    def pick(self, items):
        return self.random.choice(items)

    def chance(self, share):
        return self.random.random() < share

    # Expressions: `(part, family)`, where families are int, decimal and float.

    def leaf(self, families=("int", "int", "decimal", "decimal", "float")):
        family = self.pick(families)
        if self.has_rows and self.chance(0.72):
            name = self.pick([name for name, (_, own) in COLUMNS.items() if own == family])
            is_signed = not COLUMNS[name][0].startswith("U") and family != "float"
            return Part(f"(- {name})" if is_signed and self.chance(0.08) else name), family
        return self.constant(self.pick([kind for kind, own in COLUMNS.values() if own == family])), family

    def constant(self, kind):
        value = f"'{self.values.of(kind)}'"
        if kind.startswith("DECIMAL") and self.chance(0.3) and "." in value and not value.startswith("'-"):
            return Part(value.strip("'"))
        return Part(f"CAST({value} AS {kind})")

    def number(self, depth=0, families=("int", "int", "decimal", "decimal", "float")):
        if depth >= 3 or self.chance(0.25 + 0.2 * depth):
            return self.leaf(families)
        made = self.random.choices(
            [self.arithmetic, self.cast, self.rounded, self.unary, self.bits, self.chosen, self.divided], weights=[34, 18, 14, 8, 9, 9, 8]
        )[0]
        return made(depth, families)

    def both(self, depth, families):
        return self.number(depth + 1, families), self.number(depth + 1, families)

    def arithmetic(self, depth, families):
        (left, a), (right, b) = self.both(depth, families)
        if a == "int" and self.chance(0.15):
            # As it is written, which has the type of the integer beside it.
            right, b = Part(str(self.pick([0, 1, 2, 3, 7, 10, 100, 255, 1000, 70000]))), "int"
        family = "float" if "float" in (a, b) else "decimal" if "decimal" in (a, b) else "int"
        # The remainder of a float depends on its last digit, and that of decimals is a float where digits are many.
        operator = self.pick(["+", "-", "*"] + ["%"] * (family == "int"))
        return self.of_two(left, operator, right), family

    @staticmethod
    def of_two(left, operator, right):
        simpler = [left, right]
        simpler += [f"({less} {operator} {right})" for less in left.simpler] + [f"({left} {operator} {less})" for less in right.simpler]
        return Part(f"({left} {operator} {right})", [Part(less) if not isinstance(less, Part) else less for less in simpler])

    def divided(self, depth, families):
        (left, a), (right, b) = self.both(depth, families)
        if "float" not in families or (a == b == "int" and self.chance(0.6)):
            return self.of_two(left, "//", right), "int"
        # A divisor that is computed may be the zero that is less than zero.
        return self.of_two(left, "/", self.leaf(families)[0]), "float"

    def cast(self, depth, families):
        inner, own = self.number(depth + 1)
        wanted = self.pick([kind for kind, family in COLUMNS.values() if family in families and not (own == "float" and kind in WIDE)])
        family = "int" if wanted in INTEGERS else "float" if wanted in FLOATS else "decimal"
        call = self.pick(["CAST", "CAST", "TRY_CAST"])
        return inner.within(f"{call}({{}} AS {wanted})"), family

    def rounded(self, depth, families):
        inner, family = self.number(depth + 1, families)
        digits = self.pick([0, 1, 2, -1, -2, 3, 7, -5, 12])
        # Of a NULL without so many digits before the point DuckDB makes 0.
        if family == "decimal" and digits < 0 and not re.fullmatch("d(9_0|9_2|10_3|18_0|18_4|19_1|28_10|38_2|38_10)", inner):
            digits = -digits
        frames = [f"round({{}}, {digits})", f"round({{}}, {digits})"]
        if "float" in families:
            frames += ["round({})", "floor({})", "ceil({})", "trunc({})"]
        # Rounded to no digits behind the point, DECIMAL(38, 2) is DECIMAL(38, 0), too.
        if re.search("38[,_]", inner) and re.search("round|floor|ceil|trunc", inner):
            frames = ["sign({})"]
        return inner.within(self.pick(frames)), family

    def unary(self, depth, families):
        inner, family = self.number(depth + 1, families)
        # Of a constant DuckDB looks for a type in which its negation fits, and unsigned integers have none but that of 0.
        frames = ["abs({})", "sign({})", "(+ {})"]
        return inner.within(self.pick(frames)), family

    def bits(self, depth, families):
        if "int" not in families:
            return self.leaf(families)
        (left, _), (right, _) = self.both(depth, ("int",))
        if self.chance(0.2):
            return left.within("(~ {})"), "int"
        if self.chance(0.25):
            count = self.pick([0, 1, 3, 7, 8, 31, 40])
            return self.of_two(left, self.pick(["<<", ">>"]), Part(f"CAST({count} AS {self.pick(['TINYINT', 'INTEGER'])})")), "int"
        return self.of_two(left, self.pick(["&", "|"]), right), "int"

    def chosen(self, depth, families):
        if families == ("int",):
            return self.leaf(families)
        (left, a), (right, b) = self.both(depth, families)
        # DECIMAL(38, 0), which HUGEINT and a decimal without digits behind the point have in common, is HUGEINT in Forebay.
        both = f"{left} {right}".lower()
        if re.search("hugeint|ubigint|38[,_]", both) and re.search(r",0\)|_0|round|floor|ceil|trunc", both):
            return self.leaf(families)
        family = "float" if "float" in (a, b) else "decimal" if "decimal" in (a, b) else "int"
        frame = self.pick(["coalesce({}, #)", "greatest({}, #)", "least({}, #)", "CASE WHEN ? THEN {} ELSE # END", "nullif({}, #)"])
        if "?" in frame:
            frame = frame.replace("?", self.test(depth + 1))
        if frame.startswith("nullif"):
            family = a
        with_right = frame.replace("#", right)
        return Part(with_right.replace("{}", left), [left, right, *(with_right.replace("{}", less) for less in left.simpler)]), family

    def test(self, depth=0):
        left, _ = self.number(depth + 1)
        right, _ = self.number(depth + 1)
        kind = self.random.choices(["compare", "between", "in", "null", "distinct"], weights=[60, 12, 12, 8, 8])[0]
        match kind:
            case "compare":
                operator = self.pick(COMPARISONS)
                simpler = [f"{less} {operator} {right}" for less in left.simpler] + [f"{left} {operator} {less}" for less in right.simpler]
                return Part(f"{left} {operator} {right}", simpler)
            case "between":
                return Part(f"{left} BETWEEN {right} AND {self.leaf()[0]}")
            case "in":
                return Part(f"{left} IN ({right}, {self.leaf()[0]}, NULL)")
            case "null":
                return left.within("{} IS NULL")
        return Part(f"({left} IS DISTINCT FROM {right})")

    # Shapes

    def over_rows(self, outputs, where):
        return Outer(Source("n", "n", ROWS, []), where=where, outputs=outputs, order=["ASC NULLS LAST"] * len(outputs), limit=" LIMIT 1000")

    def some_rows(self):
        low = self.random.randrange(ROWS)
        return [self.pick([f"id = {low}", f"id = {low}", f"id BETWEEN {low} AND {low + 3}", "id >= 0"])]

    def rows(self):
        self.has_rows = True
        return self.over_rows(["id", *(self.number()[0] for _ in range(self.pick([1, 1, 2])))], self.some_rows())

    def constants(self):
        self.has_rows = False
        query = Outer(Source("q", "(SELECT 1)", 1, []), outputs=[self.number()[0] for _ in range(self.pick([1, 2]))])
        query.order = ["ASC NULLS LAST"] * len(query.outputs)
        return query

    def filtered(self):
        self.has_rows = True
        return self.over_rows(["id"], [self.test(), *(self.some_rows() if self.chance(0.4) else [])])

    def groups(self):
        self.has_rows = True
        inner, family = self.number(self.pick([1, 2, 3, 3]))
        calls = ["min({})", "max({})", "count({})", "count(DISTINCT {})"]
        calls += ["sum({})", "avg({})", "sum({}) FILTER (WHERE id % 2 = 0)", "avg(DISTINCT {})", "sum(DISTINCT {})"] if family != "float" else []
        # Decimals without digits behind the point are HUGEINT, of which the median is one, and no DOUBLE.
        calls += ["median(CAST({} AS DOUBLE))", "quantile_cont(CAST({} AS DOUBLE), 0.25)"] if family != "float" else []
        calls += ["quantile_disc({}, 0.75)"] if inner in COLUMNS else []
        outputs = [inner.within(self.pick(calls)) for _ in range(self.pick([1, 2]))]
        query = self.over_rows(["g", *outputs] if self.chance(0.7) else outputs, [] if self.chance(0.6) else [self.test(2)])
        query.keys = ["g"] if query.outputs[0] == "g" else []
        return query

    def unified(self):
        """Values of several types in one column: of VALUES, and of UNION."""
        self.has_rows = False
        is_values = self.chance(0.5)
        # Rows of VALUES, and of several UNIONs, get their type in common before there is one of 38 digits to be cut.
        kinds = [kind for kind in TYPES if not is_values or kind not in WIDE]
        parts = [self.constant(kind) for kind in self.random.choices(kinds, k=self.pick([2, 3]) if is_values else 2)]
        if is_values:
            source = Source("q(x)", f"(VALUES {', '.join(f'({part})' for part in parts)})", 3, [])
        else:
            source = Source("q(x)", f"({' UNION ALL '.join(f'SELECT {part}' for part in parts)})", 3, [])
        return Outer(source, outputs=["x", self.pick(["x + x", "x * CAST(1 AS TINYINT)"])] if self.chance(0.4) else ["x"], order=["ASC NULLS LAST"] * 2)
