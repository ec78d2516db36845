"""Random joins: Forebay gives DuckDB's rows on the interpreter, by compiled code with each kind of vector instructions that
this processor has, on several numbers of threads, and on the emulated device. A query that fails is made smaller before it is shown."""

import os
import re
import threading

import duckdb

from binary import Answer
from join_queries import Generator
from join_tables import TABLES, load_sql, make_table
from layouts import lay_out
from rows import Expected, difference

BATCH = 50
SECONDS = 10
SMALLER_TRIES = 60

# How a query is run: settings before it. Threads are more than this machine may have, so that workers' parts are merged.
EXECUTIONS = {
    "interpreter": ["SET execution = interpreter"],
    "avx512": ["SET simd = avx512", "SET threads = 3"],
    "avx2": ["SET simd = avx2", "SET threads = 1"],
    "portable": ["SET simd = portable", "SET threads = 2"],
    "folded": ["SET fold_rows = 0"],
    "ranges": ["SET partition_wise_rows = 0", "SET threads = 2"],
    "datafusion": ["SET execution = datafusion"],
    "emulated": ["SET device = emulated"],
}
# The emulated device is slow: it is asked the queries of one batch in so many.
EMULATED_SHARE = 4

# Errors of DuckDB where Forebay has an answer, as docs/execution.md says. Executions must agree on it.
WIDER = [
    re.compile(r"Overflow in HUGEINT (addition|multiplication)"),
    re.compile(r"Overflow in SUM of DECIMAL: the result does not fit in DECIMAL\(38\)"),
    re.compile(r"Overflow in division of -\d+ / -1"),
    re.compile(r"Overflow in (addition|subtraction|multiplication) of U?INT(8|16|32) "),
]

# Values that a part of a query may have where another part fails that decides nothing, as docs/execution.md says: of no rows, of
# NULL, and of zero times anything.
NOTHING = (None, "0", "false")
ZERO = re.compile(r"0\.0+")

# What Forebay says to SQL that it does not have, and says so in its documents.
UNSUPPORTED = [
    "a subquery in this place is not supported yet",
    "IN, EXISTS, ANY or ALL with a subquery outside of WHERE and HAVING is not supported yet",
]
MOST_UNSUPPORTED = 0.05
FEWEST_CARVED = 0.5


class Oracle:
    """DuckDB with the test tables."""

    def __init__(self):
        self.connection = duckdb.connect(config={"threads": 2})
        self.connection.execute("SET TimeZone = 'UTC'")

    def rows(self, sql):
        """Its rows, or the error that it gives; None where it takes too long."""
        timer = threading.Timer(SECONDS, self.connection.interrupt)
        timer.start()
        try:
            return Expected(self.connection.sql(sql).to_arrow_table())
        except duckdb.InterruptException:
            return None
        except duckdb.Error as error:
            return error
        finally:
            timer.cancel()

    def unoptimised(self, sql):
        """What it gives without its optimiser: a second opinion."""
        self.connection.execute("PRAGMA disable_optimizer")
        try:
            return self.rows(sql)
        finally:
            self.connection.execute("PRAGMA enable_optimizer")

    def with_any_row(self, sql):
        """What it gives where a subquery in the place of a value may have several rows, of which it takes one."""
        self.connection.execute("SET scalar_subquery_error_on_multiple_rows = false")
        try:
            return self.rows(sql)
        finally:
            self.connection.execute("RESET scalar_subquery_error_on_multiple_rows")


def is_invalid(error):
    """Whether DuckDB refuses the query itself rather than what it computes."""
    return isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.NotImplementedException))


def compare(wanted, answer, ordered):
    """None where Forebay agrees: the same rows, or an error where DuckDB gives one."""
    if answer.crashed:
        return answer.error
    if isinstance(wanted, Exception):
        return None if answer.error is not None else f"DuckDB says {wanted}\ngot {len(answer.rows)} rows: {answer.rows[:3]}"
    return difference(wanted, answer, ordered)


class Suite:
    """`name` is what `--only` calls it; `generator` makes its queries."""

    # The test tables that it needs, and what Forebay says to SQL that it refuses.
    tables = tuple(TABLES)
    unsupported_texts = UNSUPPORTED
    wider = WIDER
    # Errors of DuckDB of parts that may decide nothing.
    undecided = ()

    def __init__(self, options, report, name="joins", generator=Generator, executions=tuple(EXECUTIONS)):
        self.options, self.report, self.name, self.make_generator = options, report, name, generator
        self.wanted_executions = executions
        self.directory = os.path.join(options.directory, name)
        self.database = os.path.join(self.directory, "db")
        os.makedirs(self.directory)
        self.oracle = Oracle()
        self.unsupported = self.carved = self.slow = self.asked = 0

    def make_tables(self):
        """The test tables, in DuckDB, and the statements that load them into Forebay."""
        seed = self.options.seed
        tables = {name: make_table(self.oracle.connection, self.directory, name, seed + place) for place, name in enumerate(TABLES) if name in self.tables}
        return tables, [sql for table in tables.values() for sql in load_sql(table)]

    def load(self):
        tables, statements = self.make_tables()
        for answer in self.options.binary.answers(self.database, statements):
            self.report.check("load the test tables", answer.error)
        lay_out(self.options, self.report, self.database)
        self.generator = self.make_generator(self.oracle.connection, tables, self.options.seed)
        self.executions = {name: EXECUTIONS[name] for name in self.wanted_executions}
        for name in self.wanted_executions:
            [answer] = self.ask(name, ["SELECT 1"])
            if answer.error is not None and "processor does not have" in answer.error:
                self.report.say(f"   {name}: left out, this processor does not have it")
                del self.executions[name]

    def ask(self, execution, statements, timeout=300):
        setup = EXECUTIONS[execution]
        try:
            return self.options.binary.answers(self.database, statements, timeout=timeout, setup=setup)
        except RuntimeError as error:
            return [Answer(error=str(error))] * len(statements)

    def ask_all(self, count):
        """The queries of numbers below `count`, or the one that was named."""
        numbers = [self.options.query] if self.options.query is not None else list(range(count))
        for start in range(0, len(numbers), BATCH):
            self.batch(numbers[start:start + BATCH])

    def batch(self, numbers):
        queries = [(number, self.generator.query(number)) for number in numbers]
        wanted = [self.oracle.rows(query.text()) for _, query in queries]
        self.slow += sum(rows is None for rows in wanted)
        asked = [(number, query, rows) for (number, query), rows in zip(queries, wanted) if rows is not None]
        self.asked += len(asked)
        texts = [query.text() for _, query, _ in asked]
        answers = self.answers(numbers[0] // BATCH, texts)
        plans = self.ask("portable", [f"EXPLAIN {text}" for text in texts])
        self.carved += sum("ForebayPipelines" in str(plan.rows) for plan in plans)
        for index, (number, query, rows) in enumerate(asked):
            self.judge(number, query, rows, {name: answers[name][index] for name in answers})

    def answers(self, batch, texts):
        """By execution, the answers that it gives."""
        is_slow = batch % EMULATED_SHARE != 0
        executions = [name for name in self.executions if name != "emulated" or not is_slow]
        return {name: self.ask(name, texts) for name in executions}

    def is_unsupported(self, answer):
        return answer.error is not None and any(part in answer.error for part in self.unsupported_texts)

    def gist(self, answer):
        """What executions must agree on where DuckDB has no answer."""
        return str(sorted(map(str, answer.rows)) if answer.error is None else "an error")

    def is_nothing(self, answer):
        """Whether nothing of an answer may come from a part that fails."""
        return all(value in NOTHING or ZERO.fullmatch(value) for row in answer.rows for _, value in row)

    def judge(self, number, query, wanted, answers):
        name = f"query {number} (--only {self.name} --seed {self.options.seed} --query {number})"
        if is_invalid(wanted):
            self.report.fail(name, f"the oracle refused the query: {wanted}\n{query.text()}")
            return
        if all(map(self.is_unsupported, answers.values())):
            self.unsupported += 1
            self.report.check(name, None)
            return
        if isinstance(wanted, Exception) and self.may_answer(query.text(), str(wanted)):
            texts = {self.gist(answer) for answer in answers.values()}
            self.report.check(name, None if len(texts) == 1 else f"{query.text()}\nexecutions differ: {texts}")
            return
        if isinstance(wanted, Exception) and any(pattern.search(str(wanted)) for pattern in self.undecided):
            texts = {self.gist(answer) for answer in answers.values()}
            if len(texts) == 1 and all(answer.error is None and self.is_nothing(answer) for answer in answers.values()):
                self.report.check(name, None)
                return
        failed = {execution: compare(wanted, answer, bool(query.order)) for execution, answer in answers.items()}
        failed = {execution: different for execution, different in failed.items() if different}
        if failed:
            second = self.oracle.unoptimised(query.text())
            if second is not None and not any(compare(second, answers[execution], bool(query.order)) for execution in failed):
                self.report.say(f"   {name}: DuckDB contradicts itself, without its optimiser it gives what Forebay gives")
                failed = {}
        if not failed:
            self.report.check(name, None)
            return
        execution = next(iter(failed))
        query, different = self.smallest(execution, query, failed[execution])
        if self.is_documented(execution, query, different):
            self.report.check(name, None)
            return
        self.report.fail(name, f"on {', '.join(failed)}:\n{query.text()}\n{different}")

    def is_documented(self, execution, query, different):
        """Whether docs/execution.md says what is different: here, that the part which fails in DuckDB alone decides nothing."""
        said = re.match(r"DuckDB says (.*)", different)
        if not said or not any(pattern.search(said[1]) for pattern in self.undecided):
            return False
        [answer] = self.ask(execution, [query.text()])
        return answer.error is None and self.is_nothing(answer)

    def may_answer(self, text, error):
        """Whether a query may have an answer where DuckDB has this error."""
        return any(pattern.search(error) for pattern in self.wider)

    def smallest(self, execution, query, different):
        """The query with parts left out as long as it still fails, and how."""
        left, shrinking = SMALLER_TRIES, True
        while shrinking and left > 0:
            shrinking = False
            for less in query.smaller():
                left -= 1
                wanted = self.oracle.rows(less.text())
                if left <= 0:
                    break
                if wanted is None or is_invalid(wanted):
                    continue
                [answer] = self.ask(execution, [less.text()])
                now = None if self.is_unsupported(answer) else compare(wanted, answer, bool(less.order and less.limit))
                if now and kind_of(now) == kind_of(different):
                    query, different, shrinking = less, now, True
                    break
        return query, different


def kind_of(different):
    """What sort of difference it is, so that a smaller query fails as the whole one does."""
    error = re.search(r"got an error:\n(.{0,40})", different)
    return error[1] if error else different.split(" ")[0]


def run(options, report):
    """`options`: binary, directory, seed, joins (how many queries), query (one number, or None)."""
    report.suite(f"random joins, seed {options.seed}, {options.joins} queries")
    suite = Suite(options, report)
    suite.load()
    suite.ask_all(options.joins)
    report.say(f"   {suite.asked} queries, {suite.carved} with pipelines, {suite.unsupported} not supported, {suite.slow} left out because DuckDB took {SECONDS} s")
    if options.query is None:
        report.check("few queries are not supported", None if suite.unsupported <= MOST_UNSUPPORTED * suite.asked else f"{suite.unsupported} of {suite.asked}")
        report.check("many queries run in pipelines", None if suite.carved >= FEWEST_CARVED * suite.asked else f"{suite.carved} of {suite.asked}")
    report.end()
