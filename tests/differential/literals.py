"""SQL literals that mean the same in DuckDB and in Forebay."""

import datetime
import math


def text(value):
    return "'" + value.replace("'", "''") + "'"


def number(value):
    if value == -(2**63):
        return "CAST('-9223372036854775808' AS BIGINT)"
    return str(value)


def double(value, kind="DOUBLE"):
    if math.isnan(value):
        return f"CAST('NaN' AS {kind})"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS {kind})"
    return f"CAST('{value!r}' AS {kind})"


def moment(microseconds):
    """`2024-01-31 12:34:56.000123` of microseconds since 1970."""
    value = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    shown = f"{value.year:04}-{value.month:02}-{value.day:02} {value.hour:02}:{value.minute:02}:{value.second:02}"
    return f"{shown}.{value.microsecond:06}" if value.microsecond else shown


def literal(column, value):
    """The literal of a value that DuckDB's Arrow column gave for `column` (timestamps as microseconds)."""
    match column.family:
        case "bool":
            return "true" if value else "false"
        case "int":
            return number(value)
        case "float":
            return double(value, column.type)
        case "decimal":
            return f"CAST('{value}' AS {column.type})"
        case "date":
            return f"DATE '{value.year:04}-{value.month:02}-{value.day:02}'"
        case "time":
            return f"TIME '{value}'"
        case "timestamp":
            return f"TIMESTAMP '{moment(value)}'"
        case "timestamptz":
            return f"TIMESTAMPTZ '{moment(value)}+00'"
        case "text":
            return text(value)
        case "blob":
            return f"X'{value.hex()}'"
    raise ValueError(column.family)
