"""Input files that are damaged or hostile: Parquet, CSV, JSON, gz and zst files with single bytes changed, cut, or with
lengths, nesting and sizes that they do not have. Reading one gives rows, or exactly one error that names the file: never a
panic, an end of the process, a hang, or more memory than the budget."""

import gzip
import io
import json
import os
import random
import re
import shutil
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow
import pyarrow.csv
import pyarrow.parquet

import duckdb

SECONDS = 20
MEMORY = "256MB"
MEMORY_BYTES = 256 << 20
# What the program needs itself, beside its budget.
PROGRAM_BYTES = 180 << 20
# What is no word for a user: names of Rust, of its libraries and their insides.
INSIDES = re.compile(
    r"panick|unwrap|called `|\bArrow\b|DataFusion|arrow[_-]|parquet::|::|Utf8|Int(8|16|32|64)\b|Float(32|64)\b|Parquet error|Csv error|Json error"
    r"|External\b|EOF\b|Eof\b|Some\(|None\b|Err\(|\bErr\b|task \d|ZERO|JoinError|src/"
)


def peak_bytes(pid):
    """The most memory that a process had. What `wait4` says is no less than what this one had when it forked."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def tables():
    """A table of each kind of column, small enough that a random byte often hits structure."""
    rows = 400
    chance = random.Random(7)
    text = [None if n % 11 == 0 else f"value {n % 37}" for n in range(rows)]
    long_text = ["x" * chance.randrange(200) for _ in range(rows)]
    flat = pyarrow.table(
        {
            "i": pyarrow.array([None if n % 7 == 0 else n for n in range(rows)], pyarrow.int32()),
            "k": pyarrow.array([n * 1_000_003 for n in range(rows)], pyarrow.int64()),
            "x": pyarrow.array([n / 8 for n in range(rows)], pyarrow.float64()),
            "b": pyarrow.array([n % 3 == 0 for n in range(rows)]),
            "s": pyarrow.array(text),
            "t": pyarrow.array(long_text),
            "d": pyarrow.array([n % 400 for n in range(rows)], pyarrow.int32()).cast(pyarrow.date32()),
            "m": pyarrow.array([n * 100 for n in range(rows)], pyarrow.int64()).cast(pyarrow.timestamp("us")),
            "n": pyarrow.array([None if n % 5 == 0 else n for n in range(rows)]).cast(pyarrow.decimal128(24, 2)),
        }
    )
    nested = pyarrow.table(
        {
            "l": pyarrow.array([[n, n + 1] if n % 3 else [] if n % 2 else None for n in range(rows)]),
            "o": pyarrow.array([{"a": n, "b": {"c": str(n)}} for n in range(rows)]),
            "k": pyarrow.array(list(range(rows))),
        }
    )
    return flat, nested


def parquet_files():
    """Whole Parquet files by name: every codec and encoding, both versions of pages, indexes, checksums, Bloom filters."""
    flat, nested = tables()
    files = {}

    def write(name, table, **options):
        out = io.BytesIO()
        pyarrow.parquet.write_table(table, out, **options)
        files[f"{name}.parquet"] = out.getvalue()

    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        write(codec, flat, compression=codec, row_group_size=150, data_page_size=700, write_page_checksum=codec == "snappy")
    write("indexes", flat, compression="none", write_page_index=True, data_page_size=500, row_group_size=200)
    write("pages2", flat, data_page_version="2.0", compression="zstd", data_page_size=700)
    plain = {"use_dictionary": False, "compression": "none", "data_page_version": "2.0"}
    encodings = {"i": "DELTA_BINARY_PACKED", "k": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "t": "DELTA_LENGTH_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT", "b": "RLE"}
    write("encodings", flat, column_encoding=encodings, **plain)
    write("nested", nested, compression="snappy", row_group_size=150)
    write("nested-plain", nested, use_dictionary=False, compression="none", data_page_version="2.0")
    return files


def duckdb_files(directory):
    """Files as DuckDB writes them: Parquet with Bloom filters."""
    path = os.path.join(directory, "duck.parquet")
    query = "SELECT range AS k, (range % 50)::INTEGER AS i, 'value ' || (range % 37) AS s, range / 8.0 AS x FROM range(2000)"
    duckdb.connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, DICTIONARY_SIZE_LIMIT 100)")
    with open(path, "rb") as file:
        return {"duck.parquet": file.read()}


def text_files():
    """CSV and JSON, plain and compressed."""
    flat, nested = tables()
    out = io.BytesIO()
    pyarrow.csv.write_csv(flat, out)
    csv = out.getvalue()
    lines = "".join(json.dumps(row, default=str) + "\n" for row in flat.to_pylist()).encode()
    deep = "".join(json.dumps(row, default=str) + "\n" for row in nested.to_pylist()).encode()
    tbl = "".join(f"{n}|name {n}|{n / 4}|\n" for n in range(400)).encode()
    files = {"plain.csv": csv, "plain.json": lines, "nested.json": deep, "plain.tbl": tbl}
    for name in ("plain.csv", "plain.json", "plain.tbl"):
        files[name + ".gz"] = gzip.compress(files[name], mtime=0)
        files[name + ".zst"] = zstd(files[name])
    return files


def zstd(data):
    return pyarrow.compress(data, codec="zstd", asbytes=True)


def footer(data):
    """Where a Parquet file's footer begins."""
    return len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


HUGE = [127, 128, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


def spoil(chance, name, data):
    """One damage: what was done, and the bytes with it."""
    data = bytearray(data)
    is_parquet = name.endswith(".parquet")
    kinds = ["flip", "flip", "byte", "cut", "insert", "remove", "swap", "repeat"]
    if is_parquet:
        kinds += ["footer", "footer", "footer", "grow", "grow", "grow", "length", "pages"]
    kind = chance.choice(kinds)
    start, end = 0, len(data)
    if is_parquet and kind in ("footer", "grow"):
        start, end = footer(data), len(data) - 8
    if kind == "pages":
        end = footer(data)
    position = chance.randrange(start, end)
    if kind == "flip":
        data[position] ^= 1 << chance.randrange(8)
    elif kind in ("byte", "footer", "pages"):
        data[position] = chance.choice([0, 0xFF, 0x7F, 0x80, 0xF9, 0xFC, chance.randrange(256)])
    elif kind == "grow":
        # A longer number in place of a byte: the length of the footer grows with it.
        number = varint(chance.choice(HUGE))
        length = struct.unpack("<I", data[-8:-4])[0] + len(number) - 1
        data[position:position + 1] = number
        data[-8:-4] = struct.pack("<I", length)
        return f"byte {position} becomes {number.hex()}", bytes(data)
    elif kind == "length":
        data[-8:-4] = struct.pack("<I", chance.choice([0, 1, len(data), len(data) - 8, len(data) - 12, 1 << 20, (1 << 31) - 1, (1 << 32) - 1]))
    elif kind == "cut":
        del data[position:]
    elif kind == "insert":
        data[position:position] = bytes(chance.randrange(256) for _ in range(chance.choice([1, 3, 40])))
    elif kind == "remove":
        del data[position:position + chance.choice([1, 3, 40])]
    elif kind == "swap":
        other = chance.randrange(len(data))
        length = chance.choice([1, 4, 16])
        data[position:position + length], data[other:other + length] = data[other:other + length], data[position:position + length]
    elif kind == "repeat":
        data[position:position] = data[position:position + chance.choice([1, 8, 60])]
    return f"{kind} at {position}", bytes(data)


def statement(name, chance):
    """What is asked of a file."""
    if name.endswith(".parquet"):
        column = chance.choice({"nested": "l o k", "duck.p": "k i s x"}.get(name[:6], "i k x b s t d m n").split())
        return chance.choice(
            [
                f"SELECT * FROM '{name}'",
                f"SELECT count(*) FROM '{name}'",
                f"SELECT max({column}), count(*) FROM '{name}'",
                f"SELECT count(*) FROM '{name}' WHERE k = 7",
                f"SELECT * FROM '{name}' WHERE {'s' if 'nested' not in name else 'k'} = '17' ORDER BY k LIMIT 3",
                f"CREATE TABLE t AS SELECT * FROM '{name}'",
            ]
        )
    return chance.choice([f"SELECT * FROM '{name}'", f"SELECT count(*) FROM '{name}'", f"CREATE TABLE t AS SELECT * FROM '{name}'"])


def run_limited(binary, directory, sql, seconds=SECONDS):
    """One process: its status, what it wrote, its seconds and its peak of memory."""
    out = open(os.path.join(directory, "out"), "w+b")
    errors = open(os.path.join(directory, "errors"), "w+b")
    with out, errors:
        process = subprocess.Popen(
            [binary.path, "--memory", MEMORY, "--threads", "2", "--quiet", "--format", "csv", "-c", sql],
            stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=directory,
        )
        deadline = time.monotonic() + seconds
        timed_out, peak = False, 0
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            if time.monotonic() > deadline:
                timed_out = True
                process.kill()
                process.wait()
            time.sleep(0.002)
        errors.seek(0)
        return process.returncode, errors.read().decode("utf-8", "replace"), timed_out, peak


def verdict(name, result):
    """None where the process answered, or said in one line which file is wrong."""
    status, errors, timed_out, peak = result
    if timed_out:
        return f"no answer within {SECONDS} s"
    if status < 0 or status not in (0, 1) or "panicked" in errors:
        return f"exit status {status}: {errors[:600]}"
    if peak > MEMORY_BYTES * 1.25 + PROGRAM_BYTES:
        return f"{peak >> 20} MiB of memory were in use, with a budget of {MEMORY}: {errors[:300]}"
    if status == 0:
        return None
    lines = [line for line in errors.splitlines() if line.startswith("Error:")]
    if len(lines) != 1:
        return f"{len(lines)} error lines, expected one: {errors[:600]}"
    if len(lines[0]) > 1000:
        return f"an error of {len(lines[0])} characters: {lines[0][:300]}"
    if name.split(".")[0] + "." not in lines[0] and not re.search(r"column .* does not exist|cannot be cast|cannot cast|compar|VARCHAR|operator|out of range", lines[0]):
        return f"the error does not name the file: {lines[0]}"
    if INSIDES.search(lines[0]):
        return f"the error speaks of insides: {lines[0]}"
    return None


def parquet_of_footer(footer_bytes):
    return b"PAR1" + footer_bytes + struct.pack("<I", len(footer_bytes)) + b"PAR1"


def schema_element(name, children):
    """An element of a schema (parquet.thrift): an optional INT32, or a group with so many children."""
    name = b"\x48" + varint(len(name)) + name
    if children:
        return b"\x35\x02" + b"\x18" + name[1:] + b"\x15" + varint(2 * children) + b"\x00"
    return b"\x15\x02\x25\x02" + b"\x18" + name[1:] + b"\x00"


def deep_schema(levels):
    """A footer whose schema is nested so deeply, without rows."""
    elements = b"".join(schema_element(b"g", 1) for _ in range(levels)) + schema_element(b"x", 0)
    return b"\x15\x02\x19\xfc" + varint(levels + 1) + elements + b"\x16\x00\x19\x0c\x00"


def zstd_runs(byte, blocks, claimed):
    """A frame of runs of 128 KiB, each in four bytes, that claims to inflate to so many bytes."""
    run = struct.pack("<I", (131072 << 3 | 1 << 1))[:3] + byte
    last = struct.pack("<I", (131072 << 3 | 1 << 1 | 1))[:3] + byte
    return b"\x28\xb5\x2f\xfd\xc0\x50" + struct.pack("<Q", claimed) + run * (blocks - 1) + last


def large_page(directory):
    """A Parquet file of some kilobytes with one page of 320 MB, which is as it should be."""
    path = os.path.join(directory, "page.parquet")
    # One value is another: a column of one value is not read at all.
    zeros = bytes(319_999_992) + b"\x01" + bytes(7)
    zeros = pyarrow.table({"a": pyarrow.array(memoryview(zeros).cast("q"), pyarrow.int64())})
    pyarrow.parquet.write_table(
        zeros, path, use_dictionary=False, compression="zstd", data_page_size=1 << 30, row_group_size=1 << 30, max_rows_per_page=1 << 30
    )
    with open(path, "rb") as file:
        return file.read()


def sparse(start, length):
    """A file that begins so and then has nothing but zeros, which take no room."""
    def write(path):
        with open(path, "wb") as out:
            out.write(start)
            out.truncate(length)
    return write


def hostile_files(directory):
    """Files that were made to hurt, by name: their bytes or what writes them, and what their error says."""
    flat, _ = tables()
    page = io.BytesIO()
    pyarrow.parquet.write_table(flat.select(["k"]), page, use_dictionary=False, compression="snappy")
    page = page.getvalue()
    # Behind the magic bytes lies the first page: its type, and the bytes that it claims to inflate to.
    huge_page = page[:7] + varint(2 * ((1 << 31) - 1)) + page[9:]
    claims_groups = b"\x15\x02\x19\x1c" + schema_element(b"g", 0) + b"\x16\x00\x19\xfc" + varint((1 << 31) - 1) + b"\x00"
    deep_objects = b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n"
    deep_arrays = b'{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}\n"
    zeros = zstd(bytes(64 << 20))
    return {
        "length.parquet": (page[:-8] + struct.pack("<I", (1 << 32) - 1) + b"PAR1", "footer claims"),
        "groups.parquet": (parquet_of_footer(claims_groups), "claimed"),
        "deep.parquet": (parquet_of_footer(deep_schema(200_000)), "levels"),
        "huge-page.parquet": (huge_page, "page at byte|no column"),
        "page.parquet": (large_page(directory), "memory|no column"),
        "objects.json": (deep_objects, "recursion|nest|deep"),
        "arrays.json": (deep_arrays, "recursion|nest|deep"),
        "bomb.csv.zst": (zstd_runs(b"x", 250_000, 250_000 * 131072), "longer than|line"),
        "claim.csv.zst": (zstd_runs(b"x", 4, 100 << 30), "claim.csv"),
        "bomb.json.zst": (zstd_runs(b" ", 250_000, 250_000 * 131072), "longer than"),
        "bomb.tbl.zst": (zeros * 200, "longer than"),
        "bomb.csv.gz": (gzip.compress(bytes(100 << 20), 6) * 8, "longer than"),
        "line.csv": (b"a,b\n1,x\n2," + b"y" * (100 << 20), "longer than"),
        "commas.csv": (b"," * (30 << 20), "values"),
        "quoted.csv": (b'a,b\n1,"' + b"y\n" * (40 << 20) + b'"\n', "longer than"),
        "line.json": (b'{"a": 1}\n{"a": "' + b"y" * (100 << 20) + b'"}\n', "longer than"),
        "line.tbl": (b"1|2|\n" + b"y" * (100 << 20), "longer than"),
        "sparse.csv": (sparse(b"a,b\n1,2\n", 4 << 30), "longer than"),
        "sparse.json": (sparse(b'{"a": 1}\n{"a": "', 4 << 30), "longer than"),
        "sparse.tbl": (sparse(b"1|2|\n", 4 << 30), "longer than"),
        "sparse.parquet": (sparse(b"PAR1", 4 << 30), "PAR1"),
    }


def fine_files():
    """Files with long lines that are meant to be, and how they are read."""
    long = b"y" * (34 << 20)
    return {
        "long.csv": (b"a,b\n1," + long + b"\n2,z\n", "read_csv('long.csv', max_line_size = 100000000)"),
        "long.json": (b'{"b": "z"}\n{"b": "' + long + b'"}\n', "read_json('long.json', maximum_object_size = 100000000)"),
        "middle.csv": (b"a,b\n" + b"1," + b"y" * (1 << 20) + b"\n" + b"2,z\n", "'middle.csv'"),
        "many.csv": (b"a,b\n" + (b"1," + b"y" * (1 << 20) + b"\n") * 300 + b"2,z\n", "'many.csv'"),
        "many.json": ((b'{"b": "' + b"y" * (1 << 20) + b'"}\n') * 300, "'many.json'"),
    }


def hostile(options, report, directory):
    for name, (content, pattern) in hostile_files(directory).items():
        path = os.path.join(directory, name)
        if callable(content):
            content(path)
        else:
            with open(path, "wb") as out:
                out.write(content)
        columns = "a VARCHAR" if name.endswith((".json", ".json.zst")) else "a VARCHAR, b VARCHAR"
        for sql in (f"SELECT count(*), max(length(a::VARCHAR)) FROM '{name}' AS t(a)", f"CREATE TABLE t ({columns}); COPY t FROM '{name}'"):
            result = run_limited(options.binary, directory, sql)
            difference = verdict(name, result)
            if not difference and result[0] == 0:
                difference = "it was read"
            elif not difference and not re.search(pattern, result[1]):
                difference = f"the error does not say {pattern}: {result[1][:600]}"
            report.check(f"{name}: {sql}", difference)
        os.remove(path)
    for name, (content, source) in fine_files().items():
        with open(os.path.join(directory, name), "wb") as out:
            out.write(content)
        status, errors, timed_out, peak = run_limited(options.binary, directory, f"SELECT count(*), max(length(b)) FROM {source}")
        limit = MEMORY_BYTES * 1.25 + PROGRAM_BYTES
        difference = None
        if status != 0 or timed_out or peak > limit:
            difference = f"exit status {status}, {peak >> 20} MiB of memory: {errors[:600]}"
        report.check(f"{name} is read", difference)
        os.remove(os.path.join(directory, name))


def one(options, directory, number, names, files):
    chance = random.Random(options.seed * 1_000_003 + number)
    name = chance.choice(names)
    what, data = spoil(chance, name, files[name])
    place = os.path.join(directory, str(number))
    os.makedirs(place)
    path = os.path.join(place, name)
    with open(path, "wb") as out:
        out.write(data)
    sql = statement(name, chance)
    difference = verdict(name, run_limited(options.binary, place, sql))
    shutil.rmtree(place)
    return f"{number}: {name}, {what}: {sql}", difference


def run(options, report):
    report.suite(f"spoiled files, {options.mutations} mutations, seed {options.seed}")
    directory = os.path.join(options.directory, "spoiled")
    os.makedirs(directory)
    hostile(options, report, directory)
    files = {**parquet_files(), **duckdb_files(directory), **text_files()}
    names = sorted(files)
    with ThreadPoolExecutor(max_workers=min(4, len(os.sched_getaffinity(0)))) as pool:
        numbers = range(options.mutations)
        for name, difference in pool.map(lambda number: one(options, directory, number, names, files), numbers):
            report.check(name, difference)
    report.end()
