"""The drive below the data: the page cache before it, its raw bandwidth, and a limit to it."""

import contextlib
import mmap
import os
import pathlib
import sys
import threading
import time

DROP_CACHES = "/proc/sys/vm/drop_caches"
CGROUPS = pathlib.Path("/sys/fs/cgroup")

RAW_BYTES = 512 << 20
PIECE_BYTES = 4 << 20
# Enough requests in flight to reach what a drive can do.
READERS = 4
# Read before the clock starts: a limited drive lets some bytes pass that it owes from a quiet moment.
CREDIT_BYTES = 128 << 20


def drop_page_cache():
    os.sync()
    try:
        with open(DROP_CACHES, "w", encoding="ascii") as file:
            file.write("3")
    except OSError as error:
        sys.exit(f"the page cache cannot be dropped: {error}; run this as root on a system whose {DROP_CACHES} is writable, or use --buffered")


def make_raw_file(path):
    """A file of random bytes, which no layer below can store in less room."""
    if os.path.exists(path) and os.path.getsize(path) == RAW_BYTES:
        return
    with open(path, "wb") as out:
        for _ in range(RAW_BYTES // PIECE_BYTES):
            out.write(os.urandom(PIECE_BYTES))
        out.flush()
        os.fsync(out.fileno())


def raw_bandwidth(path):
    """Bytes per second at which a few threads read the file past the page cache."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        sys.exit(f"{path} cannot be read past the page cache: {error}; choose a folder on a drive with --keep")
    failures = []

    def read(reader, end):
        # Anonymous memory is aligned as O_DIRECT wants it.
        with mmap.mmap(-1, PIECE_BYTES) as buffer:
            for offset in range(reader * PIECE_BYTES, end, READERS * PIECE_BYTES):
                if os.preadv(file, [buffer], offset) != PIECE_BYTES:
                    failures.append(offset)

    def read_all(end):
        threads = [threading.Thread(target=read, args=(reader, end)) for reader in range(READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    read_all(CREDIT_BYTES)
    start = time.perf_counter()
    read_all(RAW_BYTES)
    elapsed = time.perf_counter() - start
    os.close(file)
    if failures:
        sys.exit(f"{path} was not read completely: remove it and try again")
    return RAW_BYTES / elapsed


def disk_number(folder):
    """`major:minor` of the whole disk that the folder lies on."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    entry = pathlib.Path("/sys/dev/block") / number
    if not entry.exists():
        sys.exit(f"{folder} lies on no block device, so --throttle cannot limit it; choose a folder on a drive with --keep")
    if (entry / "partition").exists():
        number = (entry.resolve().parent / "dev").read_text(encoding="ascii").strip()
    return number


def io_controller():
    """The root of the control groups that limit reads, the file of the limit, and what its lines begin with."""
    for root in (CGROUPS, CGROUPS / "unified"):
        controllers = root / "cgroup.controllers"
        if controllers.exists() and "io" in controllers.read_text(encoding="ascii").split():
            return root, "io.max", "rbps="
    # Version 1 has a hierarchy for each controller.
    if (CGROUPS / "blkio" / "blkio.throttle.read_bps_device").exists():
        return CGROUPS / "blkio", "blkio.throttle.read_bps_device", ""
    sys.exit(f"--throttle needs control groups with the io controller (version 2) or blkio (version 1) below {CGROUPS}; there are none here")


def own_group(root):
    """The control group below `root` in which this process is."""
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == root.name or (controllers == "" and (root / "cgroup.controllers").exists()):
            return root / path.lstrip("/")
    return root


@contextlib.contextmanager
def throttled(folder, bytes_per_s):
    """This process and those that it starts read at most so many bytes a second from the folder's disk; None: no limit."""
    if bytes_per_s is None:
        yield
        return
    root, limit, prefix = io_controller()
    before = own_group(root)
    group = root / f"forebay-compare-{os.getpid()}"
    line = f"{disk_number(folder)} {prefix}{bytes_per_s}"
    try:
        if prefix:
            (root / "cgroup.subtree_control").write_text("+io", encoding="ascii")
        group.mkdir()
        (group / limit).write_text(line, encoding="ascii")
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    except OSError as error:
        if group.exists():
            group.rmdir()
        sys.exit(f"reads cannot be limited to {bytes_per_s} bytes a second: {error}; run this as root where control groups may be made")
    try:
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        group.rmdir()
