"""A column of the tables that random queries ask."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """`family` says what it compares with, `exact` that sums of it are the same in any order, `summable` that sums of any
    rows stay in range (floats: without cancellation), `few` that it has few distinct values: good to group by."""

    name: str
    type: str
    family: str
    expression: str
    constants: tuple = ()
    exact: bool = False
    summable: bool = False
    few: bool = False
    not_null: bool = False


def h(salt):
    """A hash of the row's number `i`, another one for each salt."""
    return f"hash(i, {{seed}} * 100 + {salt})"
