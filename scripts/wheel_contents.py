"""Checks what is in a wheel of Lathe, for machines where it may not run: `python3 scripts/wheel_contents.py WHEEL x86_64|aarch64`.

The package's files with their hashes, and of the library its machine, what it exports, and what it needs of a system: the C
library of Debian 12, few bytes of each thread, and nothing of LLVM or C++. ELF as in the System V ABI, chapters 4 and 5, and
its supplement on symbol versions in the LSB.
"""

import base64
import csv
import hashlib
import io
import os
import struct
import sys
import zipfile

MACHINES = {"x86_64": 62, "aarch64": 183}
LIBRARIES = {"libm.so.6", "libgcc_s.so.1", "libc.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0",
             "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
GLIBC = (2, 36)
# glibc keeps 1,664 bytes of each thread for all libraries that are loaded late and need theirs at once: PyTorch's OpenMP
# must find room beside ours.
THREADS_OWN = 900
MOST = 32_000_000
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crates", "lathe-python", "python", "lathe")


def text(data, at):
    return data[at : data.index(b"\0", at)].decode()


class Elf:
    """What a shared library of 64 bits, low byte first, is and needs."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("it is no ELF file of 64 bits, low byte first")
        self.kind, self.machine = struct.unpack_from("<HH", data, 16)
        segments, sections = struct.unpack_from("<QQ", data, 32)
        segment, count, section, number = struct.unpack_from("<HHHH", data, 54)
        self.threads_own = 0
        for n in range(count):
            kind, _, _, _, _, _, size, _ = struct.unpack_from("<IIQQQQQQ", data, segments + n * segment)
            if kind == 7:
                self.threads_own = size
        tables = [struct.unpack_from("<IIQQQQIIQQ", data, sections + n * section) for n in range(number)]
        self.needs, self.versions, self.exports, self.undefined = [], [], set(), set()
        for _, kind, _, _, at, size, link, info, _, _ in tables:
            names = tables[link][4] if kind in (6, 11, 0x6FFFFFFE) else 0
            if kind == 6:
                for tag, value in struct.iter_unpack("<qQ", data[at : at + size]):
                    if tag == 0:
                        break
                    if tag == 1:
                        self.needs.append(text(data, names + value))
            elif kind == 11:
                for name, how, _, place, _, _ in struct.iter_unpack("<IBBHQQ", data[at : at + size]):
                    if name:
                        (self.exports if place else self.undefined).add(text(data, names + name))
            elif kind == 0x6FFFFFFE:
                for _ in range(info):
                    _, count, _, first, next_ = struct.unpack_from("<HHIII", data, at)
                    one = at + first
                    for _ in range(count):
                        _, _, _, name, more = struct.unpack_from("<IHHII", data, one)
                        self.versions.append(text(data, names + name))
                        one += more
                    at += next_


def faults(path, arch):
    """What is wrong with a wheel, in words; nothing, if it is as it should be."""
    out = []
    name = os.path.basename(path)
    tag = f"cp310-abi3-manylinux_{GLIBC[0]}_{GLIBC[1]}_{arch}"
    if not name.endswith(f"-{tag}.whl"):
        out.append(f"its name is {name}, not …-{tag}.whl")
    if os.path.getsize(path) > MOST:
        out.append(f"it has {os.path.getsize(path)} bytes, more than {MOST}")
    with zipfile.ZipFile(path) as wheel:
        files = {n: wheel.read(n) for n in wheel.namelist() if not n.endswith("/")}
    about = {n.split("/")[-1]: data for n, data in files.items() if ".dist-info/" in n}
    if f"Tag: {tag}" not in about.get("WHEEL", b"").decode().splitlines():
        out.append(f"its metadata have no tag {tag}")
    recorded = set()
    for row in csv.reader(io.StringIO(about.get("RECORD", b"").decode())):
        recorded.add(row[0])
        digest = base64.urlsafe_b64encode(hashlib.sha256(files.get(row[0], b"")).digest()).decode().rstrip("=")
        if row[1] and row[1] != f"sha256={digest}":
            out.append(f"{row[0]} is not what was recorded")
    out.extend(f"{n} is not recorded" for n in files if n not in recorded)
    for n in sorted(os.listdir(PACKAGE)):
        if n.endswith((".py", ".pyi")) or n == "py.typed":
            with open(os.path.join(PACKAGE, n), "rb") as f:
                if files.get(f"lathe/{n}") != f.read():
                    out.append(f"lathe/{n} is missing, or another one")
    library = files.get("lathe/_lathe.abi3.so")
    if library is None:
        return [*out, "there is no lathe/_lathe.abi3.so"]
    try:
        elf = Elf(library)
    except (ValueError, struct.error, IndexError) as e:
        return [*out, f"the library cannot be read: {e}"]
    if elf.kind != 3 or elf.machine != MACHINES[arch]:
        out.append(f"the library is of the machine {elf.machine}, not {MACHINES[arch]} ({arch})")
    if "PyInit__lathe" not in elf.exports:
        out.append("the library does not export PyInit__lathe")
    out.extend(f"it needs {n}, which a machine may not have" for n in elf.needs if n not in LIBRARIES)
    for v in sorted(set(elf.versions)):
        if v.startswith("GLIBC_") and tuple(int(x) for x in v[6:].split(".") if x.isdigit()) > GLIBC:
            out.append(f"it needs {v}, which Debian 12 does not have")
    out.extend(f"{n} is to come from elsewhere" for n in sorted(elf.undefined) if n.startswith(("LLVM", "_ZN4llvm", "isl_")))
    if elf.threads_own > THREADS_OWN:
        out.append(f"it needs {elf.threads_own} bytes of thread-local memory, more than {THREADS_OWN}")
    return out


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in MACHINES:
        sys.exit("wheel_contents.py WHEEL x86_64|aarch64")
    found = faults(sys.argv[1], sys.argv[2])
    for fault in found:
        print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
