"""Times of candidates that take turns, and where they come from."""

import os
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
    """What was measured, as version control names it; with `-dirty` where files are not as they were committed."""
    here = os.path.dirname(os.path.abspath(__file__))
    said = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


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


def misses(goal, ratio, share=None):
    """Whether a goal is not met: `>= 0.95` of the best rival, or `>= min(1.2 x best, 0.92 x roofline)` with the reached `share` of
    the ceiling. Nothing is known of others."""
    either = re.fullmatch(r">= min\(([\d.]+) x best, ([\d.]+) x roofline\)", goal)
    if either:
        return ratio < float(either[1]) and (share or 0.0) < float(either[2])
    plain = re.match(r">= ([\d.]+)(?![\d.]* x)", goal)
    return bool(plain) and ratio < float(plain[1])


def rounds(candidates, n=15, at_least=2e-3, limit=60.0):
    """Medians and ranges of seconds per call, measured in turns."""
    times = {name: [] for name in candidates}
    counts = {}
    for name, call in candidates.items():
        everywhere()
        call()
        begin = time.perf_counter()
        call()
        counts[name] = max(1, int(at_least / max(time.perf_counter() - begin, 1e-9)))
    end = time.perf_counter() + limit
    for _ in range(n):
        for name, call in candidates.items():
            k = counts[name]
            # Threads of the one before may still be looking for work, OpenBLAS's for some 20 ms.
            time.sleep(0.04)
            everywhere()
            call()
            begin = time.perf_counter()
            for _ in range(k):
                call()
            times[name].append((time.perf_counter() - begin) / k)
        if time.perf_counter() > end:
            break
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}
