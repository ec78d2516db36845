"""Random expressions of texts: functions over Unicode, with arguments that are NULL, empty, negative or huge, and texts as numbers."""

import random

import computed
from computed import Query
from literals import text

TEXTS = [
    "", " ", "a", "abc", "Hello, World", "hello world", "ABC", "äöü", "ÄÖÜ", "straße", "STRASSE", "ẞ", "ſ", "İstanbul", "ıI", "noe\u0308l", "e\u0301",
    "🦆", "🤦🏼\u200d♂️", "🇩🇪🇫🇷", "👨\u200d👩\u200d👧 family", "שלום", "مرحبا", "日本語", "ǆ ﬁ ŉ", "ΑΣ Σς", "a,b,,c", ",", "a%b_c", "a\\b", "x" * 40,
    "  padded  ", "\u00a0nbsp\u2003", "tab\tnew\nline", "1,234.5", "a1b22c333", "the quick brown fox", "aaa", "abcabc", "foo.bar/baz.txt", "K", "null", "it's",
]
NUMBER_TEXTS = [
    "42", " 42 ", "-7", "+5", "--5", "", " ", "1e3", "1e-3", "1e400", "-1e400", "0x1F", "0X1f", "0x", "-0x1F", "0b101", "0b2", "0o17", "1_000", "_1", "1__0", "1_", "42.5", "42.4",
    "-0.5", ".5", "5.", ".", "1e", "e5", "inf", "-inf", "Infinity", "nan", "NaN", "infin", "1,000", "1 000", "true", "abc", "١", "255", "256", "-129", "32768", "2147483648",
    "9223372036854775807", "9223372036854775808", "9223372036854775807.4", "9223372036854775807.5", "1.7976931348623157e308", "4.9e-324", "0.1", "1e-400", "0001", "1.5e1", "25e-1",
]
BOOLEAN_TEXTS = ["true", "false", "t", "F", "YES", "no", "y", "n", "1", "0", "on", "off", "2", "", " true", "tr"]
PATTERNS = ["%", "", "a%", "%o%", "_", "__", "%b_c", "a\\%b", "%\\%", "h_llo%", "%ö%", "_🦆", "🦆", "%\u0301", "HELLO%", "ss", "%ß%", "i%"]
GLOBS = ["*", "", "a*", "?", "??", "[a-c]*", "[!a]*", "*o*", "*.txt", "\\*", "[", "h[a-f]llo*", "ä*", "[]a]*"]
REGEXES = ["", "a", "[a-c]+", "\\d+", "\\w+", "\\s", "(a)(b)?", "^h", "o$", "o\\b", "[^a-z]+", "l{2}", "(?i)hello", "a|b", ".", ".*", "ö", "(\\w)(\\w*)", "\\.", "x*", "🦆", "[äöü]", "(", "a**", "\\p{L}+"]
REPLACEMENTS = ["", "-", "\\0\\0", "<\\1>", "\\\\", "🦆", "\\2\\1", "$0"]
OPTIONS = ["g", "i", "gi", "c", "s", "l", "", "gc"]
INTEGERS = ["0", "1", "2", "3", "5", "10", "-1", "-2", "-10", "100", "2147483647", "-2147483648", "NULL", "n"]
SMALL = ["0", "1", "2", "3", "5", "10", "-1", "-2", "40", "n", "NULL"]
TYPES = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UINTEGER", "UBIGINT", "DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(18,6)", "HUGEINT"]
FORMATS = [
    ("{}", "t"), ("{}-{}", "tt"), ("{1}{0}", "tt"), ("{:>10}|", "t"), ("{:*^9}|", "t"), ("{:.2}", "t"), ("{:d}", "i"), ("{:05d}", "i"), ("{:+}", "i"), ("{:x} {:X}", "ii"),
    ("{:b}|{:o}", "ii"), ("{:,}", "i"), ("{:.3f}", "d"), ("{:10.2f}|", "d"), ("{:e}", "d"), ("{:g}", "d"), ("{}", "d"), ("{{{}}}", "i"), ("{:<6}|", "i"), ("{", "i"), ("{} {}", "i"), ("{:t.}", "i"),
]
PRINTFS = [("%s", "t"), ("%5s|%-5s|", "tt"), ("%d", "i"), ("%05d|%+d", "ii"), ("%x", "i"), ("%.2f", "d"), ("%8.3f|", "d"), ("%e", "d"), ("100%%", ""), ("%.3s", "t"), ("%,d", "i"), ("%2$s %1$s", "tt"), ("%d %d", "i")]


def statements():
    """The table that is asked: every text beside another, and NULLs."""
    shuffled = random.Random("texts")
    rows = []
    for number, value in enumerate([*TEXTS, None, None]):
        other = shuffled.choice([*TEXTS, None])
        numeral = shuffled.choice([*range(-3, 12), "NULL"])
        rows.append(f"({number}, {literal(value)}, {literal(other)}, {numeral})")
    return [
        "CREATE TABLE m (id INTEGER, s VARCHAR, u VARCHAR, n INTEGER)",
        f"INSERT INTO m VALUES {', '.join(rows)}",
        "CREATE TABLE none AS SELECT * FROM m WHERE false",
    ]


def literal(value):
    return "NULL" if value is None else text(value)


class Generator:
    """Makes query `number` of a seed; the same every time."""

    def __init__(self, seed):
        self.seed = seed

    def query(self, number):
        self.random = random.Random(f"texts:{self.seed}:{number}")
        self.has_columns = self.chance(0.65)
        return self.random.choices([self.values, self.groups, self.casts, self.aggregated], weights=[66, 10, 20, 4])[0]()

    def chance(self, share):
        return self.random.random() < share

    def pick(self, items):
        return self.random.choice(items)

    # Shapes

    def values(self):
        kinds = ["text"] * 6 + ["flag"] * 2 + ["count"] * 2 + ["list", "share", "regex", "shown"]
        outputs = [getattr(self, self.pick(kinds))(2) for _ in range(self.pick([1, 1, 2, 3]))]
        if not self.has_columns:
            return Query(outputs)
        condition = f" WHERE {self.flag(1)}" if self.chance(0.35) else f" WHERE id = {self.random.randrange(len(TEXTS) + 2)}" if self.chance(0.4) else ""
        table = "none" if self.chance(0.02) else "m"
        return Query(outputs, f" FROM {table}{condition} ORDER BY id", parts=[condition])

    def groups(self):
        self.has_columns = True
        key = self.text(1)
        return Query([f"({key})", "count(*)", "min(s)", "max(u)"], f" FROM m GROUP BY {key} ORDER BY min(id), 1")

    def casts(self):
        """Texts as numbers and back."""
        kind = self.pick(TYPES + ["BOOLEAN"])
        texts = BOOLEAN_TEXTS if kind == "BOOLEAN" and self.chance(0.8) else NUMBER_TEXTS
        outputs = []
        for _ in range(self.pick([1, 1, 2])):
            value = f"{self.pick(['CAST', 'TRY_CAST', 'TRY_CAST'])}({text(self.pick(texts))} AS {kind})"
            if kind != "FLOAT" and self.chance(0.3):
                value = f"CAST({value} AS VARCHAR)"
            outputs.append(value)
        return Query(outputs)

    def aggregated(self):
        self.has_columns = True
        separator = self.pick(["','", "''", "' 🦆 '", "NULL"])
        return Query([f"string_agg({self.leaf()}, {separator} ORDER BY id)", "count(DISTINCT s)", "min(s)", "max(s)"], " FROM m")

    # Expressions

    def leaf(self):
        if self.has_columns and self.chance(0.75):
            return self.pick(["s", "s", "u"])
        return literal(self.pick([*TEXTS, None])) if self.chance(0.95) else "CAST(NULL AS VARCHAR)"

    def of(self, depth):
        return self.leaf() if depth <= 0 or self.chance(0.3) else self.text(depth - 1)

    def typed(self):
        """A text that is not NULL alone, whose type DuckDB would have to guess."""
        leaf = self.leaf()
        return "''" if leaf == "NULL" else leaf

    def integer(self):
        return self.number(INTEGERS)

    def number(self, numbers):
        number = self.pick(numbers)
        return "3" if number == "n" and not self.has_columns else number

    def text(self, depth=1):
        s, t = self.of(depth), self.of(0)
        n, m, few = self.integer(), self.integer(), self.number(SMALL)
        return self.pick([
            lambda: f"{self.pick(['substring', 'substr'])}({s}, {n})",
            lambda: f"substring({s}, {n}, {m})",
            lambda: f"{self.pick(['left', 'right'])}({s}, {few})",
            lambda: f"{self.pick(['lpad', 'rpad'])}({s}, {few}, {self.pick([text(' '), text('🦆'), text('xy')])})",
            lambda: f"{self.pick(['trim', 'ltrim', 'rtrim'])}({s})",
            lambda: f"{self.pick(['trim', 'ltrim', 'rtrim'])}({s}, {self.pick([text('a'), text(' ,'), text(''), text('äöü'), t])})",
            lambda: f"replace({s}, {t}, {self.of(0)})",
            lambda: f"translate({s}, {self.pick([text('abc'), text('äöü'), text(''), t])}, {self.pick([text('xy'), text('ÄÖÜ'), text(''), t])})",
            lambda: f"{self.pick(['upper', 'lower', 'ucase', 'lcase', 'reverse'])}({s})",
            lambda: f"{self.pick(['upper', 'lower', 'reverse'])}({s})",
            lambda: f"repeat({s}, {few})",
            lambda: f"split_part({s}, {self.pick([text(','), text(''), text('b'), t])}, {self.pick(['1', '2', '-1', '3', '0', '10'])})",
            lambda: f"concat({s}, {t}, {self.pick(['1', 'true', '1.50', 'NULL', text('x')])})",
            lambda: f"concat_ws({self.pick([text(', '), text(''), text('🦆')])}, {s}, {t}, {self.pick([text('x'), 'NULL', '7'])})",
            lambda: f"({s} || {t})",
            lambda: f"chr({self.pick(['65', '955', '129414', '0', '-1', '1114111', '32'])})",
            lambda: f"({self.typed()})[{self.pick(['1', '2', '-1', '0', '100'])}]",
            lambda: f"({self.typed()})[{self.pick(['1', '2', '-3', '0'])}:{self.pick(['1', '3', '-1', '100'])}]",
            lambda: f"{self.pick(['left_grapheme', 'right_grapheme'])}({s}, {self.pick(['0', '1', '2', '-1'])})",
            lambda: f"substring_grapheme({s}, {self.pick(['1', '2', '-1'])}, {self.pick(['1', '2', '-1'])})",
            lambda: f"{self.pick(['hex', 'bin'])}({self.typed()})",
            lambda: f"{self.pick(['url_encode', 'url_decode', 'md5', 'regexp_escape', 'parse_filename', 'parse_dirname', 'parse_dirpath'])}({s})",
            lambda: f"coalesce({s}, {self.typed()})",
            lambda: f"{self.pick(['greatest', 'least'])}({s}, {self.typed()})",
            lambda: f"to_base({self.pick(['0', '42', '255', '1000000'])}, {self.pick(['2', '16', '36'])})",
            lambda: f"{self.pick(['format_bytes', 'formatReadableDecimalSize'])}({self.pick(['0', '1', '1023', '1024', '1536000', '-1500', '123456789012'])})",
            lambda: f"decode(encode({self.typed()}))",
            lambda: f"to_base64(encode({self.typed()}))",
            lambda: f"bar({few}, 0, 10, {self.pick(['10', '5'])})",
        ])()

    def regex(self, depth=1):
        s, pattern = self.typed(), text(self.pick(REGEXES))
        return self.pick([
            lambda: f"regexp_matches({s}, {pattern}{self.option('i s c l')})",
            lambda: f"regexp_full_match({s}, {pattern})",
            lambda: f"regexp_replace({s}, {pattern}, {text(self.pick(REPLACEMENTS))}{self.option('g gi i c')})",
            lambda: f"regexp_extract({s}, {pattern}{self.pick(['', ', 0', ', 1', ', 2'])})",
            lambda: f"CAST(regexp_extract_all({s}, {pattern}{self.pick(['', ', 0', ', 1'])}) AS VARCHAR)",
            lambda: f"CAST(string_split_regex({s}, {pattern}) AS VARCHAR)",
            lambda: f"({s} {self.pick(['', 'NOT '])}SIMILAR TO {pattern})",
        ])()

    def option(self, options):
        return self.pick(["", "", f", '{self.pick(options.split())}'"])

    def flag(self, depth=1):
        s, t = self.of(depth), self.of(0)
        return self.pick([
            lambda: f"({self.typed()} {self.pick(['', 'NOT '])}{self.pick(['LIKE', 'ILIKE'])} {text(self.pick(PATTERNS))})",
            lambda: f"({self.typed()} {self.pick(['LIKE', 'ILIKE'])} {self.typed()})",
            lambda: f"({self.typed()} {self.pick(['', 'NOT '])}{self.pick(['LIKE', 'ILIKE'])} {text(self.pick(['a$%b', '%$_c', '%', '$$', 'a$b%']))} ESCAPE '$')",
            lambda: f"({self.typed()} GLOB {text(self.pick(GLOBS))})",
            lambda: f"{self.pick(['contains', 'starts_with', 'ends_with', 'prefix', 'suffix'])}({self.typed()}, {self.typed()})",
            lambda: f"({self.typed()} ^@ {self.typed()})",
            lambda: f"({s} {self.pick(['=', '<>', '<', '<=', '>', '>='])} {self.typed()})",
            lambda: f"({s} IS {self.pick(['', 'NOT '])}NULL)",
            lambda: f"({self.typed()} IN ({t}, {self.typed()}))",
            lambda: f"({s} BETWEEN {self.typed()} AND {self.typed()})",
        ])()

    def count(self, depth=1):
        s, t = self.typed(), self.typed()
        return self.pick([
            lambda: f"{self.pick(['length', 'strlen', 'char_length', 'length_grapheme', 'bit_length', 'unicode', 'ord', 'ascii', 'len'])}({s})",
            lambda: f"{self.pick(['strpos', 'instr'])}({s}, {t})",
            lambda: f"position({t} IN {s})",
            lambda: f"{self.pick(['levenshtein', 'editdist3', 'damerau_levenshtein'])}({s}, {t})",
            lambda: f"hamming({text(self.pick(['abc', 'äö', '🦆']))}, {text(self.pick(['abd', 'öä', '🦅', 'ab']))})",
        ])()

    def share(self, depth=1):
        return f"{self.pick(['jaro_similarity', 'jaro_winkler_similarity', 'jaccard'])}({self.pick([text('duck'), text('Hello'), self.typed()])}, {self.pick([text('duckdb'), text('hello'), self.typed()])})"

    def list(self, depth=1):
        function = self.pick(["string_split", "str_split", "split", "string_to_array"])
        return f"CAST({function}({self.typed()}, {self.pick([text(','), text(''), text(' '), text('b'), self.typed()])}) AS VARCHAR)"

    def shown(self, depth=1):
        function, (pattern, kinds) = self.pick([("format", self.pick(FORMATS)), ("printf", self.pick(PRINTFS))])
        values = {"t": lambda: self.typed(), "i": lambda: f"CAST({self.pick(['42', '-7', '0', '1234567'])} AS INTEGER)", "d": lambda: f"CAST({self.pick(['3.14159', '-0.5', '1e10', '12345.678'])} AS DOUBLE)"}
        return f"{function}({', '.join([text(pattern), *(values[kind]() for kind in kinds)])})"


# As docs/execution.md says, *Differences from DuckDB*.
DOCUMENTED = [(r"regexp|SIMILAR|split_regex", r"DuckDB says Invalid Input Error: (missing|bad repetition)[^\n]*\ngot (\[\]|\[\[null\])"), (r"chr\(-1\).*NULL|NULL.*chr\(-1\)", r"got an error:\nError: chr\(-1\): there is no such character|DuckDB says Invalid Input Error: Invalid UTF8 Codepoint -1\ngot (\[\]|\[\[null\])")]


def run(options, report):
    """`options`: binary, directory, seed, computed (how many queries), query (one number, or None)."""
    computed.run(options, report, "texts", options.computed, statements(), Generator(options.seed), DOCUMENTED)
