"""Compiles kernel texts with real NVRTC, without a GPU, and prints what each kernel needs.

    python crates/gpu/tests/nvrtc.py [--arch sm_90]... FILE.cu...

Needs the package nvidia-cuda-nvrtc-cu12 from PyPI (tests/requirements.txt); no driver. Fails where a text does not compile and
where a kernel uses local memory. Prints compile times, the kernels that need most, and all of them with --verbose.
"""

import argparse
import ctypes
import glob
import multiprocessing
import os
import statistics
import struct
import sys
import time

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernels")
OPTIONS = ["--std=c++17", "--fmad=false", "--device-int128", "--device-as-default-execution-space"]
# Attributes of a section .nv.info: maximal registers are in the symbol's st_info of .text's sh_info, frames in these.
EIATTR_FRAME_SIZE, EIATTR_MIN_STACK_SIZE, EIATTR_REGCOUNT = 0x11, 0x12, 0x2F


def find_library():
    folders = [entry for entry in sys.path if os.path.isdir(entry)]
    patterns = ("nvidia/cuda_nvrtc/lib/libnvrtc.so.*", "nvidia/cu*/lib/libnvrtc.so.*")
    found = [path for folder in folders for pattern in patterns for path in glob.glob(os.path.join(folder, pattern))]
    if not found:
        sys.exit("NVRTC is not installed: pip install -r tests/requirements.txt")
    return ctypes.CDLL(sorted(found)[-1])


def check(library, code, what):
    if code != 0:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{what}: {library.nvrtcGetErrorString(code).decode()}")


def compile_text(library, text, arch, headers):
    """The cubin and the milliseconds that it took; an error with the compiler's log."""
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(headers))(*[name.encode() for name, _ in headers])
    texts = (ctypes.c_char_p * len(headers))(*[text.encode() for _, text in headers])
    start = time.process_time()
    code = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), b"pipeline.cu", len(headers), texts, names
    )
    check(library, code, "create")
    options = [f"--gpu-architecture={arch}", *OPTIONS]
    code = library.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    )
    elapsed_ms = (time.process_time() - start) * 1000
    try:
        if code != 0:
            size = ctypes.c_size_t()
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            library.nvrtcGetProgramLog(program, log)
            raise RuntimeError(log.value.decode())
        size = ctypes.c_size_t()
        check(library, library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "size of the cubin")
        cubin = ctypes.create_string_buffer(size.value)
        check(library, library.nvrtcGetCUBIN(program, cubin), "the cubin")
        return cubin.raw, elapsed_ms
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def resources(cubin):
    """Registers of a thread, bytes of its stack frame, bytes of static shared memory: from the cubin's ELF sections."""
    section_offset, = struct.unpack_from("<Q", cubin, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = []
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", cubin, section_offset + number * entry_bytes)
        sections.append({"name": fields[0], "kind": fields[1], "offset": fields[4], "bytes": fields[5]})
    names = sections[names_index]["offset"]
    result = {"registers": 0, "frame_bytes": 0, "shared_bytes": 0}
    for section in sections:
        start = names + section["name"]
        name = cubin[start:cubin.index(b"\0", start)].decode()
        if name.startswith(".nv.shared."):
            result["shared_bytes"] = max(result["shared_bytes"], section["bytes"])
        if name == ".nv.info":
            data = cubin[section["offset"]:section["offset"] + section["bytes"]]
            for attribute, value in attributes(data):
                if attribute == EIATTR_REGCOUNT:
                    result["registers"] = max(result["registers"], struct.unpack("<II", value)[1])
                if attribute == EIATTR_FRAME_SIZE:
                    result["frame_bytes"] = max(result["frame_bytes"], struct.unpack("<II", value)[1])
    return result


def attributes(data):
    """The attributes of a section .nv.info: a format, a number, and a value whose length the format says."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            yield attribute, data[at:at + size]
            at += size


def compile_file(job):
    """One line on a file, what it took in ms, its registers, and whether it failed."""
    path, arch, headers = job
    with open(path) as file:
        text = file.read()
    name = f"{os.path.basename(path)} {arch}"
    try:
        cubin, elapsed_ms = compile_text(find_library(), text, arch, headers)
    except RuntimeError as error:
        return f"{name}: {error}", 0, 0, True
    found = resources(cubin)
    note = "  LOCAL MEMORY" if found["frame_bytes"] > 0 else ""
    line = (
        f"{name}: {found['registers']} registers, {found['frame_bytes']} bytes of local memory, "
        f"{found['shared_bytes']} bytes shared, {elapsed_ms:.0f} ms{note}"
    )
    return line, elapsed_ms, found["registers"], note != ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--where", action="store_true", help="print where NVRTC is, and nothing else")
    parser.add_argument("--arch", action="append")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    library = find_library()
    if arguments.where:
        print(library._name)
        return
    if not arguments.files:
        parser.error("name kernel texts")
    version = [ctypes.c_int(), ctypes.c_int()]
    library.nvrtcVersion(ctypes.byref(version[0]), ctypes.byref(version[1]))
    print(f"NVRTC {version[0].value}.{version[1].value}")
    headers = []
    for name in sorted(os.listdir(KERNELS)):
        with open(os.path.join(KERNELS, name)) as file:
            headers.append((name, file.read()))
    architectures = arguments.arch or ["sm_80", "sm_90", "sm_120"]
    jobs = [(path, arch, headers) for path in arguments.files for arch in architectures]
    with multiprocessing.Pool() as pool:
        results = pool.map(compile_file, jobs, chunksize=4)
    failed = [result for result in results if result[3]]
    shown = results if arguments.verbose else failed + sorted(results, key=lambda result: -result[2])[:5]
    for line, *_ in shown:
        print(line)
    times = [elapsed_ms for _, elapsed_ms, _, _ in results]
    registers = [count for _, _, count, _ in results]
    print(f"registers: median {statistics.median(registers):.0f}, at most {max(registers)}")
    print(f"compile time: median {statistics.median(times):.0f} ms, at most {max(times):.0f} ms")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
