"""One pass of the rules for logical plans is enough: a second one changes no plan (crates/rules/src/list.rs). One pass goes our way
(crates/rules/src/driver.rs) and two go DataFusion's, which asks every rule about every node.

Asked of the queries of SSB and TPC-H and of all queries of the SQL files, in the places where they stand.
"""

import difflib
import os
import re

from sqltest import Runner, is_chosen, is_query, parse

PASSES = "SET datafusion.optimizer.max_passes"

# Queries whose plans a second pass changes, by what is in them, with the reason.
KNOWN = {
    "a + 1 AS next_a": "what two projections compute alike is found where they are one, which is behind the rule that looks for it",
    "(1, NULL)": "a test on codes is told to be NULL for all rows, and is none any more",
    "POSITIONAL JOIN w": "a projection is put into the one above it only when the order of the inner join is gone",
    "UNION ALL SELECT t FROM a) UNION ALL": "a union is put into the one around it only when the cast between them is in its inputs",
    "grouping(shop) = 0": "a cast moves to the literal that its result is compared with only when nothing stands between them",
    "now()": "each plan has its own time",
    "s.a, s.b, l[1]": "fields of a struct are taken where it is read from text, behind the rule that looks for what is computed twice",
    "list(s.a ORDER BY i)": "as above: a struct, and a field of it",
    "st.x[2], st['y y'][1]": "as above: two fields of a struct",
    "SELECT {'p': a, 'q': b} AS s": "as above: fields of a struct that the query makes",
    "SELECT unnest(s) FROM n) WHERE": "a test moves below fields of a struct only when these have become columns",
    "HAVING q + s > 3": "a projection of all that groups give is left out only when it stands alone, which is behind the rule for it",
    "HAVING max(id) > 3 AND q": "as above",
    "HAVING k + 1 > 2 AND sum(x)": "a test of a key comes to the scan behind the rules that make a column of the key and turn tests around",
    "HAVING year(dt) > 1": "as above",
    "OFFSET (SELECT 2)": "a subquery that is a constant is known to be none of NULL when it stands alone",
    "limit (select 3) - 1 offset": "what the row number is compared with is computed once when the projections below it are one",
}


def explained(binary, database, queries, options=(), cwd=None):
    """Each query's plans after one pass and after two; None where it cannot be planned."""
    statements = []
    for query in queries:
        statements += [f"{PASSES} = 1", f"EXPLAIN {query}", f"{PASSES} = 2", f"EXPLAIN {query}"]
    answers = binary.answers(database, statements, list(options), timeout=240, cwd=cwd, setup=())
    plans = []
    for start in range(0, len(answers), 4):
        pair = [answers[start + 1], answers[start + 3]]
        failed = any(answer.error is not None for answer in pair)
        plans.append(None if failed else ["\n".join(value for row in answer.rows for _, value in row) for answer in pair])
    return plans


def comparable(plan):
    """A plan without the order of columns and what depends on the numbers of made names: they decide which of two operands
    stands left. A name that is given another name is none."""
    plan = re.sub(r"__(common_expr|correlated_sq|scalar_sq|datafusion_extracted)_\d+", r"__\1", plan)
    plan = re.sub(r" AS [\w()*]+ AS ", " AS ", re.sub(r"@\d+", "", plan)).replace("<", ">")
    return "\n".join(" ".join(sorted(re.split(r"[\s,()\[\]]+", line))) for line in plan.split("\n"))


def reads_nothing(plan):
    """Whether all values are constants: a query of them may keep a few that one more pass would compute."""
    return "EmptyRelation" in plan and not re.search("TableScan|Values|TableFunction", plan)


def check(report, name, query, plans):
    if plans is None:
        return
    once, twice = plans
    known = any(part in query for part in KNOWN) or reads_nothing(once)
    if known or comparable(once) == comparable(twice):
        report.check(name, None)
        return
    lines = difflib.unified_diff(once.split("\n"), twice.split("\n"), "once", "twice", lineterm="", n=1)
    report.check(name, query + "\n" + "\n".join(lines))


class Explainer(Runner):
    """Runs one file; what reads is planned, not run."""

    def flush(self):
        blocks, self.waiting = self.waiting, []
        statements, queries = [], []
        for block in blocks:
            if not is_query(block):
                statements += [block.sql]
                continue
            queries.append((len(statements), block))
            statements += [f"{PASSES} = 1", f"EXPLAIN {block.sql}", f"{PASSES} = 2", f"EXPLAIN {block.sql}"]
        if not statements:
            return
        answers = self.binary.answers(self.database, statements, self.options, timeout=240, cwd=self.directory)
        for start, block in queries:
            pair = [answers[start + 1], answers[start + 3]]
            failed = any(answer.error is not None for answer in pair)
            texts = None if failed else ["\n".join(str(value) for row in answer.rows for _, value in row) for answer in pair]
            check(self.report, f"{self.name}:{block.line}", block.sql, texts)

    def duckdb(self, block):
        pass

    def shell(self, block):
        self.binary.run(*block.arguments.split()[1:], cwd=self.directory)


def run(options, report):
    report.suite("a second pass of the rules")
    for benchmark in ("ssb", "tpch"):
        folder = options.query_directory / benchmark
        database = os.path.join(options.directory, f"passes-{benchmark}")
        schema = (folder / "schema.sql").read_text(encoding="utf-8")
        options.binary.must(database, *filter(str.strip, schema.split(";\n")))
        paths = sorted(folder.glob("q*.sql"))
        queries = [re.sub(r";\s*$", "", path.read_text(encoding="utf-8").strip()) for path in paths]
        for path, query, plans in zip(paths, queries, explained(options.binary, database, queries)):
            report.check(f"{benchmark} {path.stem} is planned", "it is not" if plans is None else None)
            check(report, f"{benchmark} {path.stem}", query, plans)
    for path in sorted(options.sql_directory.glob("*.test")):
        if not is_chosen(options, path):
            continue
        directory = os.path.join(options.directory, "passes", path.stem)
        os.makedirs(directory)
        Explainer(options.binary, directory, report, f"sql/{path.name}").run(parse(path.read_text(encoding="utf-8")))
    report.end()
