"""Compares rows of Forebay (JSON text) with rows of DuckDB (Arrow): by value, as the type of DuckDB's column says."""

import datetime
import json
import math
import re
import struct
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from binary import Number

EPOCH = datetime.datetime(1970, 1, 1)
MOMENT = re.compile(
    r"(?P<year>\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T](?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)


class Unreadable(Exception):
    """A value of Forebay that its column's type does not allow."""


def microseconds(fraction):
    return int(((fraction or "0") + "000000")[:6])


def read_moment(text):
    """Microseconds since 1970 in UTC of a date, a timestamp or a timestamp with zone."""
    match = MOMENT.fullmatch(text)
    if not match:
        raise Unreadable(f"{text!r} is not a point in time")
    clock = [int(part) for part in (match["clock"] or "00:00:00").split(":")]
    try:
        moment = datetime.datetime(int(match["year"]), int(match["month"]), int(match["day"]), *clock)
    except ValueError as error:
        raise Unreadable(f"{text!r}: {error}") from error
    zone = match["zone"]
    offset = 0
    if zone and zone not in ("Z", "UTC"):
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    elapsed = moment - EPOCH
    return (elapsed.days * 86400 + elapsed.seconds - offset * 60) * 10**6 + microseconds(match["fraction"])


def read_float(cell):
    special = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}
    try:
        return special.get(str(cell).lower(), None) if not isinstance(cell, Number) else float(cell)
    except ValueError:
        return None


def read_value(cell, kind):
    """A cell of Forebay as Python value of the Arrow type `kind`."""
    if cell is None:
        return None
    if pa.types.is_boolean(kind):
        if not isinstance(cell, bool):
            raise Unreadable(f"{cell!r} is not a boolean")
        return cell
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        if not isinstance(cell, Number):
            raise Unreadable(f"{cell!r} is not a number")
        try:
            return Decimal(cell)
        except InvalidOperation as error:
            raise Unreadable(f"{cell!r} is not a number") from error
    if pa.types.is_floating(kind):
        value = read_float(cell)
        if value is None:
            raise Unreadable(f"{cell!r} is not a float")
        return value
    if not isinstance(cell, str) or isinstance(cell, Number):
        raise Unreadable(f"{cell!r} is not a {kind}")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return read_moment(cell)
    if pa.types.is_time(kind):
        clock, _, fraction = cell.partition(".")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        return ((hours * 60 + minutes) * 60 + seconds) * 10**6 + microseconds(fraction)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        if not cell.startswith("\\x"):
            raise Unreadable(f"{cell!r} is not a blob in the form \\x00ff")
        return bytes.fromhex(cell[2:])
    return cell


def plain_column(column):
    """A column of DuckDB as Python values comparable with those of [`read_value`]."""
    kind = column.type
    if pa.types.is_date32(kind):
        return [None if days is None else days * 86400 * 10**6 for days in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(kind):
        scale = {"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}[kind.unit]
        values = column.cast(pa.int64()).to_pylist()
        return [None if value is None else value * scale[0] // scale[1] for value in values]
    if pa.types.is_time64(kind):
        divisor = 1 if kind.unit == "us" else 1000
        return [None if value is None else value // divisor for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).to_pylist()
    values = column.to_pylist()
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return [None if value is None else Decimal(value) for value in values]
    return values


class Expected:
    """Rows of DuckDB, ready to be compared."""

    def __init__(self, table):
        self.names = table.column_names
        self.kinds = [field.type for field in table.schema]
        columns = [plain_column(column) for column in table.columns]
        self.rows = [list(row) for row in zip(*columns)] if columns else []

    def read(self, rows):
        """Forebay's rows as values."""
        out = []
        for row in rows:
            if len(row) != len(self.kinds):
                raise Unreadable(f"{len(row)} columns where {len(self.kinds)} are expected")
            out.append([read_value(cell, kind) for (_, cell), kind in zip(row, self.kinds)])
        return out


def equal_floats(expected, got, kind, tolerance):
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    if pa.types.is_float32(kind):
        try:
            got = struct.unpack("f", struct.pack("f", got))[0]
        except OverflowError:
            return False
        tolerance = max(tolerance, 1e-6)
    if math.isinf(expected) or math.isinf(got):
        return expected == got
    return abs(expected - got) <= tolerance * max(abs(expected), abs(got))


def last_digit(cell):
    """One unit of the last digit of a decimal's text: what an average kept as a decimal may be off by."""
    _, point, digits = cell.partition(".")
    return 10.0 ** -len(digits) if point and len(digits) >= 4 and digits.isdigit() else 0.0


def sort_key(row, kinds):
    """Exact columns first, floats last: rounding must not change the order of rows that differ elsewhere."""
    exact, rounded = [], []
    for value, kind in zip(row, kinds):
        if pa.types.is_floating(kind):
            number = math.inf if value is None or math.isnan(value) else value
            rounded.append((value is None, value is not None and math.isnan(value), number))
        elif isinstance(value, Decimal):
            exact.append((0, value, ""))
        else:
            exact.append((2, 0, "") if value is None else (1, 0, repr(value)))
    return exact, rounded


def show(rows, limit=6):
    lines = [" | ".join("NULL" if value is None else shorten(value) for value in row) for row in rows[:limit]]
    if len(rows) > limit:
        lines.append(f"… {len(rows)} rows")
    return "\n".join(lines) or "(no rows)"


def shorten(value):
    text = str(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def difference(expected, answer, ordered, tolerance=1e-9, averages=False):
    """None where Forebay's answer is DuckDB's, else what differs.

    `averages`: a float of DuckDB may be a decimal in Forebay, off by one unit of its last digit.
    """
    if answer.error is not None:
        return f"expected {len(expected.rows)} rows, got an error:\n{answer.error}"
    try:
        got = expected.read(answer.rows)
    except Unreadable as error:
        return f"unreadable: {error}\nexpected:\n{show(expected.rows)}\ngot:\n{json.dumps(answer.rows[:3])[:600]}"
    if len(got) != len(expected.rows):
        return f"expected {len(expected.rows)} rows:\n{show(expected.rows)}\ngot {len(got)} rows:\n{show(got)}"
    texts = answer.rows
    wanted = expected.rows
    if not ordered:
        order = sorted(range(len(got)), key=lambda index: sort_key(got[index], expected.kinds))
        texts = [texts[index] for index in order]
        got = [got[index] for index in order]
        wanted = sorted(wanted, key=lambda row: sort_key(row, expected.kinds))
    for index, (left, right) in enumerate(zip(wanted, got)):
        for column, (a, b) in enumerate(zip(left, right)):
            if same(a, b, expected.kinds[column], tolerance, texts[index][column][1] if averages else None):
                continue
            around = slice(max(index - 1, 0), index + 3)
            return (
                f"row {index + 1}, column {expected.names[column]}: expected {shorten(a)}, got {shorten(b)}\n"
                f"expected:\n{show(wanted[around])}\ngot:\n{show(got[around])}"
            )
    return None


def same(expected, got, kind, tolerance, text):
    if expected is None or got is None:
        return expected is got
    if pa.types.is_floating(kind):
        if equal_floats(expected, got, kind, tolerance):
            return True
        return isinstance(text, Number) and abs(expected - got) <= last_digit(text)
    return expected == got
