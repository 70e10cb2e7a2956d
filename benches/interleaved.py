"""Times of candidates that take turns, and where they come from."""

import os
import platform
import random
import re
import statistics
import subprocess
import time

CPUS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def everywhere():
    """This thread may run on all processors of the process again: libraries tie the threads that call them to one, and those that
    another library starts from there would all run on that one."""
    if CPUS:
        os.sched_setaffinity(0, CPUS)


def commit():
    """What was measured, as version control names it; with `-dirty` where files are not as they were committed. Where there is no
    version control, `LATHE_BENCH_COMMIT` says it."""
    if os.environ.get("LATHE_BENCH_COMMIT"):
        return os.environ["LATHE_BENCH_COMMIT"]
    here = os.path.dirname(os.path.abspath(__file__))
    said = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def machine():
    """The processor's name, and how many of them the machine has."""
    try:
        with open("/proc/cpuinfo") as f:
            model = re.search(r"model name\s*: (.*)", f.read())
    except OSError:
        model = None
    return f"{model[1] if model else platform.processor() or 'unknown processor'}, {os.cpu_count()} processors, {platform.system()}"


def instruction_set():
    """What Lathe and its rivals use of this machine: all, or what `LATHE_BENCH_ISA=AVX2` holds them to."""
    if os.environ.get("LATHE_BENCH_ISA"):
        return os.environ["LATHE_BENCH_ISA"]
    try:
        with open("/proc/cpuinfo") as f:
            return "AVX-512" if " avx512f" in f.read() else "AVX2"
    except OSError:
        return "AVX2"


# OpenBLAS's name of the processors with an instruction set.
CORETYPE = {"AVX-512": "SkylakeX", "AVX2": "Haswell"}

# What Halide compiles for.
HALIDE = {"AVX-512": "x86-64-linux-avx-avx2-avx512-avx512_skylake-fma-f16c-sse41", "AVX2": "x86-64-linux-avx-avx2-fma-f16c-sse41"}


def held(environment):
    """An environment in which libraries use no more than the instruction set; those that are compiled here are told when they are."""
    out = {**environment, "OPENBLAS_CORETYPE": CORETYPE[instruction_set()]}
    if os.environ.get("LATHE_BENCH_ISA") == "AVX2":
        flags = f"{environment.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2".strip()
        out.update(ONEDNN_MAX_CPU_ISA="AVX2", DNNL_MAX_CPU_ISA="AVX2", XLA_FLAGS=flags, NUMBA_CPU_NAME="haswell",
                   NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR")
    return out


def built(name):
    """A library that setup.sh built, for the instruction set that all are held to."""
    return f"{name}-avx2.so" if os.environ.get("LATHE_BENCH_ISA") == "AVX2" else f"{name}.so"


def misses(goal, candidates, name, best=None, peak=None):
    """Whether a candidate of Lathe's does not meet a goal: `>= 0.95` of the best rival, `>= 1.0 over XLA`, `each >= 0.8`, `>= 0.85 of
    copy`, which is the ceiling `peak`, or `>= min(1.2 x best, 0.92 x roofline)`, where one of the two is enough. Nothing is known of
    others."""
    mine = candidates[name]
    to = lambda rival: candidates[rival]["median_s"] / mine["median_s"] if rival in candidates else None
    ratio = mine.get("ratio", to(best))
    reached = {"C": to("C"), best: ratio, "best": ratio, **dict.fromkeys(("roofline", "peak", "copy"), mine["rate"] / peak if peak else None)}
    short = lambda factor, of: reached.get(of, to(of)) is not None and reached.get(of, to(of)) < float(factor)
    either = re.search(r"min\(([\d.]+) x best, ([\d.]+) x (\w+)\)", goal)
    if either:
        return short(either[1], "best") and (short(either[2], either[3]) or reached[either[3]] is None)
    each = re.search(r"each >= ([\d.]+)", goal)
    if each:
        return short(each[1], "best")
    over = re.search(r">= ([\d.]+) over (\w+)", goal)
    if over and over[2] in candidates:
        return short(over[1], over[2])
    copy = re.search(r">= ([\d.]+) of copy", goal)
    plain = re.match(r">= ([\d.]+)(?![\d.]* x)", goal)
    return bool(plain) and short(plain[1], "best") or bool(copy) and short(copy[1], "copy")


def settle(most=0.5):
    """Waits until the threads of the candidate before have gone to sleep: OpenMP's spin for some milliseconds after their last loop,
    OpenBLAS's look for work for some 20 ms, on the processors of the next candidate."""
    end = time.perf_counter() + most
    while True:
        busy = time.process_time()
        time.sleep(0.02)
        if time.process_time() - busy < 1e-3 or time.perf_counter() > end:
            return


def rounds(candidates, n=15, at_least=2e-3, limit=60.0):
    """Medians and ranges of seconds per call, measured in turns, in another order in each round: none follows the same other one."""
    times = {name: [] for name in candidates}
    counts = {}
    for name, call in candidates.items():
        everywhere()
        call()
        begin = time.perf_counter()
        call()
        counts[name] = max(1, int(at_least / max(time.perf_counter() - begin, 1e-9)))
    end = time.perf_counter() + limit
    order = random.Random(0)
    for _ in range(n):
        for name, call in order.sample(list(candidates.items()), len(candidates)):
            k = counts[name]
            settle()
            everywhere()
            call()
            begin = time.perf_counter()
            for _ in range(k):
                call()
            times[name].append((time.perf_counter() - begin) / k)
        if time.perf_counter() > end:
            break
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}
