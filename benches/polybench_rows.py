#!/usr/bin/env python3
"""PolyBench's 30 kernels, or the programs of examples/programs, no strategy given, beside gcc, clang and Polly on plain C.

    python3 benches/polybench_rows.py [--lathe PATH] [--size large] [--threads 1] [--only NAME ...] [--rounds 5]
                                      [--strategy NAME] [--machine x86-64-v3] [--programs] [--json FILE]
                                      [--table] [--rivals gcc clang …] [--objects FOLDER] [--results FOLDER]

Candidates take turns in one pinned process, on arrays that are refilled before every call; the results of all are
compared with those of gcc, and the least of their times counts. Where there is no clang, gcc is the only compiler. Where a
kernel adds up or multiplies, which Lathe may reassociate, both compilers take part with -ffast-math, too, and Polly (in
clang where it is built with it) always has it; -ffast-math counts where a step of Lathe's reassociates, Polly always. `--json FILE` keeps the rows: a second run with the
same file measures what is missing; `--table` prints its rows for docs/polybench-results.md. Without `--strategy` Lathe
decides by itself. C is compiled with -O3 -march=native; `--machine` holds all to another machine.

For a machine without clang, `--compile FOLDER` compiles the C of all rivals but gcc into FOLDER/RIVAL/KERNEL.o, for
`--machine`, and `--objects FOLDER` links these there. `--results FOLDER` keeps what gcc computed, so that other rows of a
kernel, say on more threads, are checked without gcc: `--rivals` without names has no C at all.
"""
import argparse, array, ctypes, json, math, os, re, shutil, subprocess, sys, tempfile, time, tomllib
from pathlib import Path

try:
    # Compares large results faster.
    import numpy
except ImportError:
    numpy = None

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
DATA = EXAMPLES / "polybench" / "data.c"
TOLERANCE = {"f64": 1e-8, "f32": 1e-4, "i32": 0.0, "index": 0.0}
# What types are in C's names, in `array`'s, and how long they are.
TYPES = {"f64": ("LATHE_F64", "d", 8), "f32": ("LATHE_F32", "f", 4), "i32": ("LATHE_I32", "i", 4), "index": ("INDEX_CODE", "q", 8)}
# Sizes have three values; scalars may, too.
SIZES = ["mini", "medium", "large"]
P = ctypes.c_void_p
# Candidates that take less than so many seconds run so many times as often.
SHORT = 0.01, 5

SHIM = """
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <omp.h>
#include <sched.h>
#include "kernel.h"
/* Each thread begins with iterations that follow one another, in pieces, and then helps others, as in Lathe's runtime. */
enum { MOST = 256, PIECES = 8 };
static int32_t run_all(void *ctx, int64_t count, lathe_body body, void *env) {
    const int64_t threads = *(int *)ctx < MOST ? *(int *)ctx : MOST, parts = threads < count ? threads : count;
    if (parts < 2) return count > 0 ? body(env, 0, count) : 0;
    const int64_t piece = count / (parts * PIECES) > 0 ? count / (parts * PIECES) : 1;
    struct { _Alignas(64) int64_t next; } at[MOST];
    for (int64_t p = 0; p < parts; p++) at[p].next = count * p / parts;
    int32_t status = 0;
    #pragma omp parallel num_threads(parts) reduction(max: status)
    for (int64_t k = 0, me = omp_get_thread_num(); k < parts; k++) {
        const int64_t p = (me + k) % parts, end = count * (p + 1) / parts;
        for (int64_t i; (i = __atomic_fetch_add(&at[p].next, piece, __ATOMIC_RELAXED)) < end;) {
            const int32_t s = body(env, i, i + piece < end ? i + piece : end);
            status = s > status ? s : status;
        }
    }
    return status;
}
/* Blocks that were given back are kept, as Lathe's runtime keeps them: their pages are mapped already. */
enum { KEPT = 32 };
static _Thread_local struct { uint64_t bytes; void *at; int taken; } kept[KEPT];
static void *take(void *ctx, uint64_t bytes) {
    (void)ctx;
    const uint64_t size = (bytes / 64 + 1) * 64;
    int free_one = -1;
    for (int i = 0; i < KEPT; i++) {
        if (kept[i].at && !kept[i].taken && kept[i].bytes >= size && kept[i].bytes / 2 <= size) {
            kept[i].taken = 1;
            return kept[i].at;
        }
        if (!kept[i].at) free_one = i;
    }
    void *p = aligned_alloc(64, size);
    if (p && free_one >= 0) kept[free_one].bytes = size, kept[free_one].at = p, kept[free_one].taken = 1;
    return p;
}
static void give(void *ctx, void *p) {
    (void)ctx;
    for (int i = 0; i < KEPT; i++)
        if (kept[i].at == p) { kept[i].taken = 0; return; }
    free(p);
}
static int32_t wait_for_others(void *ctx) { (void)ctx; sched_yield(); return 0; }
int32_t call_lathe(void **data, int64_t **shapes, int64_t **strides, const uint32_t *types, const uint32_t *ranks,
    const uint32_t *bytes, int threads) {
    lathe_array a[COUNT];
    memset(a, 0, sizeof a);
    for (int i = 0; i < COUNT; i++)
        a[i] = (lathe_array){data[i], shapes[i], strides[i], types[i], ranks[i], bytes[i]};
    const lathe_runtime rt = {LATHE_ABI_VERSION, &threads, run_all, take, give, wait_for_others};
    return KERNEL(&rt, a);
}
const uint32_t type_codes[4] = {LATHE_F64, LATHE_F32, LATHE_I32, INDEX_CODE};
"""


# What compiles C, beside -O3 and the machine; those with -ffast-math are rivals where Lathe may reassociate.
RIVALS = {"gcc": ["gcc"], "clang": ["clang"], "gcc -ffast-math": ["gcc", "-ffast-math"], "clang -ffast-math": ["clang", "-ffast-math"],
          "polly": ["clang", "-ffast-math", "-mllvm", "-polly"]}


class Param:
    def __init__(self, name, out, inout, ty, extents):
        self.name, self.out, self.inout, self.ty, self.extents = name, out, inout, ty, extents


def signature(kernel, file):
    """The parameters of a kernel, read from its text."""
    text = file.read_text()
    head = re.search(rf"kernel {kernel}\((.*?)\)\s*(?:->\s*\((.*?)\))?\s*\{{", text, re.S)
    out = []
    for part, written in ((head[1], False), (head[2] or "", True)):
        for m in re.finditer(r"(\w+):\s*(inout\s+)?(\w+)(?:\[([^\]]*)\])?", part):
            out.append(Param(m[1], written, bool(m[2]), m[3], [e.strip() for e in m[4].split(",")] if m[4] else []))
    return out


def reassociates(kernel, file):
    """Whether a kernel combines numbers by an operator that may be reassociated."""
    body = re.split(rf"kernel {kernel}\(", file.read_text(), maxsplit=1)[1].split("\nkernel ")[0]
    return bool(re.search(r"[+*-]=|\b(sum|product)\[", body))


def reassociated(emit, path):
    """Whether a step that the command which made an object took combines numbers in another order."""
    explain = [a for a in emit if a not in ("--to", "object", "-o", path)]
    explain[explain.index("emit")] = "explain"
    if "--threads" in explain:
        at = explain.index("--threads")
        del explain[at:at + 2]
    steps = json.loads(run([*explain, "--json"]))["versions"][0]["steps"]
    # Rounding a product and a sum once is what compilers of C do by default.
    return any(s["reassociates"] and s["rule"] != "fma" for s in steps)


def c_objects(args, kernels):
    """The C of all kernels, compiled by every rival but gcc for another machine."""
    for rival, (compiler, *options) in RIVALS.items():
        if compiler == "gcc":
            continue
        at = args.compile / rival.replace(" ", "")
        at.mkdir(parents=True, exist_ok=True)
        for name, entry in kernels.items():
            file = args.folder / entry["file"]
            if args.only and name not in args.only or options == ["-ffast-math"] and not reassociates(name, file.with_suffix(".lathe")):
                continue
            defines = [f"-D{n}={v}" for n, v in entry[args.size].items()] + [f"-DKERNEL_{name}"]
            run([args.clang, *options, "-O3", f"-march={args.machine or 'native'}", "-w", "-fPIC", "-c", *defines,
                 "-o", at / f"{name}.o", file.with_suffix(".c")])
    return 0


def run(command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()[:600]}")
    return done.stdout


class Row:
    """One kernel with its arrays and candidates."""

    def __init__(self, name, entry, args, folder):
        at = SIZES.index(args.size)
        self.name, self.sizes = name, entry[args.size]
        self.folder, self.file = args.folder, args.folder / entry["file"]
        self.params = signature(name, self.file.with_suffix(".lathe"))
        scalars = {k: v[at] if isinstance(v, list) else v for k, v in entry.get("scalars", {}).items()}
        self.data, self.start, self.shapes = [], [], []
        data = self.library(folder / "data.so", ["gcc", "-O2", "-shared", "-fPIC", "-o", folder / "data.so", DATA])
        for n, p in enumerate(self.params):
            shape = [eval(e, {}, dict(self.sizes)) for e in p.extents]
            count = math.prod(shape)
            code = TYPES[p.ty][1]
            a = array.array(code, bytes(count * array.array(code).itemsize))
            at = a.buffer_info()[0]
            if p.name in scalars:
                a[0] = scalars[p.name]
            elif not p.out:
                kind, _, most = entry.get("fill", {}).get(p.name, "r").partition(":")
                rows = shape[0] if shape else 1
                fill = getattr(data, "fill_i64" if p.ty == "index" else f"fill_{p.ty}")
                fill(P(at), ctypes.c_int64(rows), ctypes.c_int64(count // rows), ctypes.c_char(kind.encode()),
                     ctypes.c_uint64(n + 1), ctypes.c_int64(self.sizes.get(most, 0)))
            self.data.append(a)
            self.start.append(a[:] if p.inout else None)
            self.shapes.append(shape)
        self.candidates = {}
        defines = [f"-D{n}={v}" for n, v in self.sizes.items()] + [f"-DKERNEL_{name}"]
        self.sums = sums = reassociates(name, self.file.with_suffix(".lathe"))
        self.fast_counts = True
        for rival, (compiler, *options) in RIVALS.items():
            if args.rivals is not None and rival not in args.rivals or "-ffast-math" in rival and not sums:
                continue
            o = folder / f"{name}-{rival}.o"
            made = args.objects and args.objects / rival.replace(" ", "") / f"{name}.o"
            if made and made.exists():
                o = made
            elif compiler == "gcc" or shutil.which(args.clang):
                call = [args.clang if compiler == "clang" else compiler, *options, "-O3", f"-march={args.machine or 'native'}", "-w", "-fPIC",
                        "-c", *defines, "-o", o, self.file.with_suffix(".c")]
                try:
                    run(call)
                except RuntimeError as e:
                    # A clang without Polly.
                    if rival != "polly":
                        raise e
                    continue
            else:
                continue
            # Linked without options, which would change the mode of all floating-point arithmetic.
            so = folder / f"{name}-{rival}.so"
            self.candidates[rival] = self.c_call(getattr(self.library(so, ["gcc", "-shared", "-o", so, o, "-lm"]), name))
        # Lathe runs early: where time runs out, the row is there.
        rest = {n: self.candidates.pop(n) for n in list(self.candidates)[1:]}
        self.candidates |= {"lathe": self.lathe_call(entry, args, folder), **rest}
        self.kept = args.results and args.results / f"{name}-{args.size}-{'p' if args.programs else 'k'}.bin"

    def library(self, path, command):
        if not path.exists():
            run(command)
        return ctypes.CDLL(str(path))

    def pointers(self):
        return [P(a.buffer_info()[0]) for a in self.data]

    def c_call(self, function):
        function.restype = None
        pointers = self.pointers()
        return lambda: function(*pointers)

    def lathe_call(self, entry, args, folder):
        target = self.file.with_suffix(".lathe")
        at = Path(tempfile.mkdtemp(dir=folder))
        command = [args.lathe, "emit", f"{target}:{self.name}", "--to", "object", "-o", at / "kernel.o", "--specialize"]
        command += [x for n, v in self.sizes.items() for x in ("-D", f"{n}={v}")]
        if args.strategy:
            command += ["--strategy", args.strategy]
        if args.machine:
            command += ["--cpu", args.machine]
        if args.lathe_threads:
            command += ["--threads", str(args.threads)]
        began = time.perf_counter()
        run(command)
        self.seconds = time.perf_counter() - began
        if self.sums:
            self.fast_counts = reassociated(command, at / "kernel.o")
        (at / "shim.c").write_text(SHIM)
        header = (at / "kernel.h").read_text()
        index = next(c for c in ("LATHE_INDEX", "LATHE_I64") if c in header)
        run(["gcc", "-O2", "-w", "-shared", "-fPIC", "-fopenmp", f"-DKERNEL={self.name}", f"-DCOUNT={len(self.params)}",
             f"-DINDEX_CODE={index}", "-I", at, "-o", at / "kernel.so", at / "shim.c", at / "kernel.o", "-lm"])
        lib = ctypes.CDLL(str(at / "kernel.so"))
        codes = dict(zip(["f64", "f32", "i32", "index"], (ctypes.c_uint32 * 4).in_dll(lib, "type_codes")))
        n = len(self.params)
        shapes = [(ctypes.c_int64 * max(len(s), 1))(*s) for s in self.shapes]
        strides = [(ctypes.c_int64 * max(len(s), 1))(*[math.prod(s[d + 1:]) for d in range(len(s))]) for s in self.shapes]
        types = (ctypes.c_uint32 * n)(*[codes[p.ty] for p in self.params])
        sizes = (ctypes.c_uint32 * n)(*[TYPES[p.ty][2] for p in self.params])
        ranks = (ctypes.c_uint32 * n)(*[len(s) for s in self.shapes])
        data = (P * n)(*self.pointers())
        many = lambda all: (P * n)(*[ctypes.addressof(x) for x in all])
        rest = (many(shapes), many(strides), types, ranks, sizes, args.threads)
        keep = (shapes, strides)

        def call():
            status = lib.call_lathe(data, *rest)
            if status != 0:
                raise RuntimeError(f"{self.name} ends with status {status}")
            return keep
        return call

    def restore(self):
        for a, s, p in zip(self.data, self.start, self.params):
            if s is not None:
                ctypes.memmove(a.buffer_info()[0], s.buffer_info()[0], len(a) * a.itemsize)
            elif p.out:
                ctypes.memset(a.buffer_info()[0], 0, len(a) * a.itemsize)

    def results(self):
        return [(a[:], TOLERANCE[p.ty]) for a, p in zip(self.data, self.params) if p.out or p.inout]

    def wrong(self, want):
        """How far the results are from others, of the largest element; 0 if that is near enough."""
        worst = 0.0
        for (g, tolerance), (w, _) in zip(self.results(), want):
            if g == w:
                continue
            if numpy and tolerance:
                a, b = numpy.frombuffer(g, g.typecode), numpy.frombuffer(w, w.typecode)
                most, apart = float(abs(b).max()) or 1.0, float(abs(a - b).max())
                far = apart / most if apart == apart else math.inf
            else:
                most = max(map(abs, w)) or 1.0
                far = max(abs(x - y) if x - y == x - y else math.inf for x, y in zip(g, w)) / most
            worst = max(worst, far if far > tolerance else 0.0)
        return worst

    def reference(self):
        """The results of gcc, and how long it took now; kept ones, if there are any."""
        if self.kept and self.kept.exists():
            raw, want = self.kept.read_bytes(), []
            for a, tolerance in self.results():
                n = len(a) * a.itemsize
                want.append((array.array(a.typecode, raw[:n]), tolerance))
                raw = raw[n:]
            return want, None
        if "gcc" not in self.candidates:
            raise RuntimeError(f"{self.name}: there are no results of gcc")
        self.restore()
        began = time.perf_counter()
        self.candidates["gcc"]()
        took = time.perf_counter() - began
        want = self.results()
        if self.kept:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            part = self.kept.with_suffix(f".{os.getpid()}")
            part.write_bytes(b"".join(a.tobytes() for a, _ in want))
            part.rename(self.kept)
        return want, took

    def measure(self, rounds, most, report=lambda times: None):
        """Seconds of each candidate, in `rounds` rounds, and more where all are short; those that would take more than `most` seconds run less often."""
        want, first = self.reference()
        times = {n: [] for n in self.candidates}
        if first is not None:
            times["gcc"].append(first)
        for r in range(SHORT[1] * rounds):
            if r >= rounds and any(not t or min(t) > SHORT[0] for t in times.values()):
                break
            for n, call in list(self.candidates.items()):
                if times[n] and sum(times[n]) + min(times[n]) > most:
                    continue
                self.restore()
                self.now = n
                began = time.perf_counter()
                call()
                took = time.perf_counter() - began
                # What brings results from elsewhere into the arrays.
                getattr(call, "finish", lambda: None)()
                if not times[n] and (off := self.wrong(want)) > 0:
                    text = f"{self.name}: {n} is off by {off:.2g} of the largest element"
                    if n in ("gcc", "lathe", "clang"):
                        raise RuntimeError(text)
                    # Another arithmetic that is none of this kernel's.
                    print(text, flush=True)
                    self.candidates.pop(n)
                    times.pop(n)
                    continue
                times[n].append(took)
                report(times)
        return times


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lathe", default=shutil.which("lathe") or "lathe")
    p.add_argument("--clang", default=shutil.which("clang-22") or shutil.which("clang-15") or "clang")
    p.add_argument("--size", choices=SIZES, default="large")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--strategy")
    p.add_argument("--only", nargs="+", default=[])
    p.add_argument("--machine")
    p.add_argument("--programs", action="store_true")
    p.add_argument("--json", type=Path)
    p.add_argument("--table", action="store_true")
    p.add_argument("--rivals", nargs="*", choices=list(RIVALS), help="of these alone; none: Lathe alone")
    p.add_argument("--compile", type=Path, help="compiles the C of clang and Polly into a folder, and ends")
    p.add_argument("--objects", type=Path, help="C that was compiled elsewhere")
    p.add_argument("--results", type=Path, help="keeps the results of gcc")
    p.add_argument("--most", type=float, default=math.inf, help="seconds for the rounds of one candidate")
    p.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)))
    args = p.parse_args()
    args.folder = EXAMPLES / ("programs" if args.programs else "polybench")
    kernels = tomllib.loads((args.folder / "kernels.toml").read_text())
    if args.compile:
        return c_objects(args, kernels)
    args.lathe_threads = "--threads" in run([args.lathe, "emit", "--help"])
    if args.threads == 1:
        os.sched_setaffinity(0, {args.cpu})
    key = "/".join([*(["programs"] if args.programs else []), args.size, str(args.threads), args.strategy or "default", *filter(None, [args.machine])])
    kept = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    rows = kept.setdefault(key, {})
    if args.table:
        return table({n: rows[n] for n in kernels if "factor" in rows.get(n, {})})
    with tempfile.TemporaryDirectory() as folder:
        for name, entry in kernels.items():
            if name in rows and "error" not in rows[name] or args.only and name not in args.only:
                continue
            try:
                row = Row(name, entry, args, Path(folder))

                def report(times):
                    best = {n: min(t) for n, t in times.items() if t}
                    if "lathe" not in best:
                        return
                    rows[name] = {"seconds": best, "spread": {n: max(t) / min(t) for n, t in times.items() if t}, "choosing": row.seconds}
                    counts = lambda n: n != "lathe" and (row.fast_counts or "-ffast-math" not in n)
                    rivals = [t for n, t in best.items() if counts(n)]
                    rows[name]["fast_counts"] = row.fast_counts
                    if rivals:
                        rows[name]["factor"] = min(rivals) / best["lathe"]
                    if args.json:
                        args.json.write_text(json.dumps(kept, indent=1))
                row.measure(args.rounds, args.most, report)
            except RuntimeError as e:
                rows[name] = {"error": str(e)}
            if args.json:
                args.json.write_text(json.dumps(kept, indent=1))
            show(name, rows[name])
    good = [r for r in rows.values() if "factor" in r]
    if good:
        best, clang = means(good)
        print(f"{len(good)} rows: geometric mean {best:.2f} over the best rival, {clang} over clang; "
              f"{sum(r['factor'] < 0.95 for r in good)} below 0.95")
    return 1 if any("error" in r for r in rows.values()) else 0


def means(rows):
    """Geometric means over the best rival, and over clang."""
    mean = lambda f: math.exp(sum(math.log(f(r)) for r in rows) / len(rows))
    clang = all("clang" in r["seconds"] for r in rows)
    return mean(lambda r: r["factor"]), f'{mean(lambda r: r["seconds"]["clang"] / r["seconds"]["lathe"]):.2f}' if clang else "–"


def table(rows):
    rivals = [c for c in RIVALS if any(c in r["seconds"] for r in rows.values())]
    print("| kernel | " + "".join(f"{c}, ms | " for c in rivals) + "Lathe, ms | best rival / Lathe |")
    print("|---" * (len(rivals) + 3) + "|")
    number = lambda s: "–" if s is None else f"{s * 1e3:.3f}" if s < 1e-3 else f"{s * 1e3:.2f}"
    for n, r in rows.items():
        print(f"| {n} | {' | '.join(number(r['seconds'].get(c)) for c in (*rivals, 'lathe'))} | {r['factor']:.2f} |")
    best, clang = means(list(rows.values()))
    below = [f"`{n}`" for n, r in rows.items() if r["factor"] < 0.95]
    print(f"\nGeometric mean {best:.2f} over the best rival, {clang} over clang. "
          f"Below 0.95: {', '.join(below) or 'none'}.")
    return 0


def show(name, r):
    if "error" in r:
        print(f"{name:16} {r['error']}", flush=True)
        return
    s = r["seconds"]
    print(f"{name:16} {', '.join(f'{n} {t * 1e3:9.2f}' for n, t in s.items())} ms: "
          f"{r.get('factor', math.nan):5.2f}  (made in {r['choosing']:.2f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
