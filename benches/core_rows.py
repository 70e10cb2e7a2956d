"""Rows over numbers of threads: products of matrices, copies, additions and softmax by Lathe's default, PyTorch and XLA, and
what independent processes of one thread each reach together.

    python benches/core_rows.py [--threads 1,4,8,16] [--rounds 7] [--out rows.json]

It needs the wheel installed, and PyTorch and JAX for the rivals. Each number of threads is a process of its own that may run
on as many processors, one for each core; candidates take turns, and the numbers are medians with the range of the rounds.
With `--out`, rows that a file has already are not measured again.
"""

import argparse
import json
import os
import subprocess
import sys

from interleaved import commit, rounds
from workers import cores

# Of the best rival.
GOAL = 0.95
# M, K, N, and the type of the elements.
PRODUCTS = [(512, 512, 512, "f32"), (1024, 1024, 1024, "f32"), (2048, 2048, 2048, "f32"), (4096, 4096, 4096, "f32"), (16, 2048, 1000, "f32"),
            (512, 512, 512, "f64"), (1024, 1024, 1024, "f64"), (2048, 2048, 2048, "f64"), (1021, 1019, 1013, "f64")]
LARGE = 1 << 26
SOURCE = """
kernel gemm<T in {f32, f64}>(A: T[M, K], B: T[K, N]) -> (C: T[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
kernel copy(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }
kernel add(x: f32[N], z: f32[N]) -> (y: f32[N]) { y[i] = x[i] + z[i] }
kernel total(x: f32[N]) -> (s: f32) { s = sum[i](x[i]) }
kernel softmax(x: f32[M, N]) -> (y: f32[M, N]) {
    var top: f32[M]
    var e: f32[M, N]
    var all: f32[M]
    top[i] = max[j](x[i, j])
    e[i, j] = exp(x[i, j] - top[i])
    all[i] = sum[j](e[i, j])
    y[i, j] = e[i, j] / all[i]
}
"""


def arrays(np, *shapes, dtype="float32"):
    random = np.random.default_rng(0)
    return [random.random(s, dtype) for s in shapes]


def rows(threads, n, known, only):
    """Measures in this process; yields `(row, {candidate: [median, least, most]}, work)`, the work in operations or bytes."""
    import numpy as np
    import lathe

    wanted = lambda row: row not in known and only in row
    kernels = {name: lathe.kernel(SOURCE, name) for name in ("gemm", "copy", "add", "total", "softmax")}
    try:
        import torch
        torch.set_num_threads(threads)
    except ImportError:
        torch = None
    try:
        import jax
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_x64", True)
    except ImportError:
        jax = None

    def measured(kernel, given, result, with_torch, with_jax):
        k = kernels[kernel]
        candidates = {"lathe": lambda: k(*given, out=result, threads=threads)}
        candidates["lathe"]()
        if torch:
            there, out = [torch.from_numpy(a) for a in given], torch.from_numpy(np.empty_like(result))
            candidates["torch"] = lambda: with_torch(torch, there, out)
            candidates["torch"]()
            np.testing.assert_allclose(result, out.numpy(), rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(result).max())))
        if jax and with_jax:
            f = jax.jit(with_jax)
            on = [jax.device_put(a) for a in given]
            candidates["xla"] = lambda: f(*on).block_until_ready()
        return rounds(candidates, n, at_least=0.05)

    for m, k, c, ty in PRODUCTS:
        row = f"gemm {m} x {c} x {k}" + (" f64" if ty == "f64" else "")
        if wanted(row):
            a, b = arrays(np, (m, k), (k, c), dtype={"f32": "float32", "f64": "float64"}[ty])
            yield row, measured("gemm", [a, b], np.empty((m, c), a.dtype),
                                lambda t, g, o: t.matmul(*g, out=o), lambda x, y: x @ y), 2.0 * m * k * c
    for row, kernel, moved, with_torch, with_jax in [
        ("copy", "copy", 8, lambda t, g, o: o.copy_(g[0]), None),
        ("add", "add", 12, lambda t, g, o: t.add(*g, out=o), lambda x, y: x + y),
        ("total", "total", 4, lambda t, g, o: t.sum(g[0], dim=0, out=o), lambda x: x.sum()),
    ]:
        if wanted(row):
            given = arrays(np, *[(LARGE,)] * (2 if kernel == "add" else 1))
            result = np.empty((), np.float32) if kernel == "total" else np.empty(LARGE, np.float32)
            yield row, measured(kernel, given, result, with_torch, with_jax), float(moved * LARGE)
    for m, c in [(8192, 1024), (64, 131072)]:
        row = f"softmax {m} x {c}"
        if wanted(row):
            (x,) = arrays(np, (m, c))
            yield row, measured("softmax", [x], np.empty_like(x),
                                lambda t, g, o: t.softmax(g[0], 1, out=o), lambda x: __import__("jax").nn.softmax(x, 1)), 8.0 * m * c


def together(processors, seconds=3.0):
    """GFLOP/s of products of 2048 by independent processes of one thread each, at the same time."""
    code = f"""
import sys, time, os
os.sched_setaffinity(0, {{int(sys.argv[1])}})
import numpy as np, lathe
k = lathe.kernel({SOURCE!r}, "gemm")
a = np.random.default_rng(0).random((2048, 2048), np.float32)
c = np.empty_like(a)
k(a, a, out=c, threads=1)
print("ready", flush=True)
sys.stdin.readline()
n, begin = 0, time.perf_counter()
while time.perf_counter() - begin < {seconds}:
    k(a, a, out=c, threads=1)
    n += 1
print(n * 2 * 2048**3 / (time.perf_counter() - begin) / 1e9)
"""
    all_ = [subprocess.Popen([sys.executable, "-c", code, str(c)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for c in processors]
    for p in all_:
        p.stdout.readline()
    for p in all_:
        p.stdin.write("\n")
        p.stdin.flush()
    return sum(float(p.communicate()[0]) for p in all_)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", default="")
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    known = {}
    if a.out and os.path.exists(a.out):
        with open(a.out) as f:
            known = json.load(f)
    if a.one:
        for row, times, work in rows(a.one, a.rounds, known.get(str(a.one), {}), a.only):
            print(json.dumps([row, times, work]), flush=True)
        return
    places = cores()
    counts = [int(t) for t in a.threads.split(",")] if a.threads else [t for t in (1, 2, 4, 8, 16, 32, 64) if t <= len(places)]
    for t in counts:
        mine = set(places[:t])
        rest = [sys.executable, os.path.abspath(__file__), "--one", str(t), "--rounds", str(a.rounds), "--out", a.out, "--only", a.only]
        environment = {**os.environ, "OMP_NUM_THREADS": str(t), "MKL_NUM_THREADS": str(t)}
        child = subprocess.Popen(rest, stdout=subprocess.PIPE, text=True, env=environment,
                                 preexec_fn=lambda: os.sched_setaffinity(0, mine))
        for line in child.stdout:
            row, times, work = json.loads(line)
            known.setdefault(str(t), {})[row] = {"seconds": times, "work": work, "commit": commit()}
            if a.out:
                with open(a.out, "w") as f:
                    json.dump(known, f, indent=1)
            speed = {name: work / s[0] / 1e9 for name, s in times.items()}
            rivals = [v for name, v in speed.items() if name != "lathe"]
            beside = f"{speed['lathe'] / max(rivals):6.2f}" if rivals else "     -"
            missed = "   < goal" if rivals and speed["lathe"] < GOAL * max(rivals) else ""
            spread = (times["lathe"][2] - times["lathe"][1]) / times["lathe"][0]
            print(f"{t:3} threads  {row:24}" + "".join(f"{name} {v:8.1f}  " for name, v in speed.items())
                  + f"of the best rival {beside}  spread {spread:5.0%}{missed}", flush=True)
        if child.wait():
            sys.exit(f"the process of {t} threads ended with {child.returncode}")
    if "together" not in known and not a.only:
        known["together"] = together(places)
        if a.out:
            with open(a.out, "w") as f:
                json.dump(known, f, indent=1)
    if "together" in known:
        print(f"{len(places)} processes of one thread, gemm 2048 x 2048 x 2048 at the same time: {known['together']:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
