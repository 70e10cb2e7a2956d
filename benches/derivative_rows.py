#!/usr/bin/env python3
"""Rows about derivatives: what gradients take beside what they are gradients of, on one thread and on more; differentiation after
optimization beside the other order; a norm in a loop; gradients of libraries' kernels beside PyTorch and JAX; repetitions of what
accumulates. Writes docs/derivatives-results.md.

    python3 benches/derivative_rows.py [--json FILE | --from FILE…] [--lathe COMMAND] [--trees FOLDER] [--threads N] [SECTION…]

Sections are ratios, order, norm, tapes, libraries, repeats. Runs are interleaved; times are the shortest of some rounds. Trees that the
command line makes are kept in FOLDER; where they all are, no command is needed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import lathe  # noqa: E402
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, ORDER = ROOT / "examples/gradients", ROOT / "benches/order"
DEFAULT = "inline, licm, raise : tidy, cse, forward, cse, dse, dce, promote"
LAST = "raise : tidy, inline, licm, cse, forward, cse, dse, dce, promote"
# The same passes of the optimizer before and after differentiation, which does nothing of its own.
ORDERS = {"before": DEFAULT, "after": LAST, "plain-before": "inline, licm : cse, forward, cse, dse, dce, promote",
          "plain-after": ": inline, licm, cse, forward, cse, dse, dce, promote"}

# Sizes, numbers, what is differentiated by, and whether the result is one number.
RATIOS: dict[str, tuple[dict[str, int], dict[str, Any], str, str]] = {
    "norm": ({"N": 1 << 20}, {}, "x", ""),
    "gmm": ({"N": 20000, "D": 16, "K": 20}, {}, "alpha,mu,q", "scalar"),
    "mixture": ({"N": 1000, "D": 10, "K": 25, "E": 45}, {"place": "place", "gamma": 1.0, "m": 0.0, "constant": 0.0}, "alpha,mu,q,l", "scalar"),
    "bundle": ({"C": 100, "P": 5000, "Q": 40000}, {}, "cameras,points,w", ""),
    "reprojection": ({"C": 100, "P": 5000, "Q": 40000}, {}, "cameras,points,w", ""),
    "lstm": ({"T": 200, "H": 1024}, {}, "w,b", ""),
    "layers": ({"L": 2, "H": 14, "C": 1024}, {}, "main,extra", "scalar"),
    "kmeans": ({"N": 20000, "D": 16, "K": 32}, {}, "centres", "scalar"),
    "logsumexp": ({"M": 1000, "N": 1000}, {}, "x", ""),
    "least_squares": ({"M": 2000, "N": 1000}, {}, "x", "scalar"),
    "polynomial": ({"M": 128, "N": 16392}, {}, "x", "scalar"),
    "network": ({"B": 256, "I": 256, "H": 512, "O": 64}, {}, "w1,b1,w2,b2", "scalar"),
    "heat": ({"N": 100000}, {"T": 20}, "u,c", ""),
    "ode": ({}, {"steps": 100000, "dt": 1e-5}, "s,p", ""),
    "runge_kutta": ({"N": 1000}, {"steps": 100}, "x", ""),
    "particle": ({"N": 400}, {"steps": 5, "dt": 0.01}, "p,v,m", ""),
    "determinant": ({"N": 11, "S": 2048}, {}, "A", "scalar"),
    "hand": ({"C": 400, "B": 22, "V": 544, "W": 544}, {"parent": "parents", "side": 1.0}, "theta,u", "jacobian"),
    "hydro": ({"P": 9261, "E": 8000}, {"steps": 5, "dt": 0.001, "corner": "corners", "face": "faces"}, "x,v,energy", ""),
    "lattice": ({"X": 128, "Y": 128}, {"T": 10, "omega": 0.9}, "f", ""),
    "lookup": ({"L": 20000, "N": 60, "G": 1000, "M": 12, "J": 30}, {"grid": "sorted"}, "table,density", ""),
}

# What programs of the order of AD and optimizer are differentiated by, and their sizes.
PROGRAMS: dict[str, tuple[dict[str, int], dict[str, Any], str]] = {
    "norm": ({"N": 4096}, {}, ""),
    "mixture": ({"N": 2000, "K": 20, "D": 10}, {}, "alpha,mu,q"),
    "bundle": ({"Q": 20000}, {}, "camera,points,w"),
    "lstm": ({"T": 100, "H": 200}, {}, "w,b"),
    "euler": ({}, {"steps": 100000}, "s,p,heat"),
    "rk4": ({}, {"steps": 100000}, "start,length,friction"),
    "bruss": ({"N": 10000}, {"steps": 20}, "u,v,p"),
    "fourier": ({"N": 512}, {}, "x"),
}

LIBRARIES = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
kernel convolution(x: f32[B, C, H, W], w: f32[F, C, 3, 3]) -> (y: f32[B, F, H - 2, W - 2]) {
    y[b, f, i, j] = sum[c, p, q](x[b, c, i + p, j + q] * w[f, c, p, q])
}
kernel attention(q: f32[H, S, D], k: f32[H, S, D], v: f32[H, S, D]) -> (o: f32[H, S, D]) {
    var a: f32[H, S, S]
    var top: f32[H, S]
    var e: f32[H, S, S]
    var all: f32[H, S]
    var p: f32[H, S, D]
    a[h, i, j] = sum[d](q[h, i, d] * k[h, j, d])
    top[h, i] = max[j](a[h, i, j])
    e[h, i, j] = exp((a[h, i, j] - top[h, i]) * 0.125)
    all[h, i] = sum[j](e[h, i, j])
    p[h, i, d] = sum[j](e[h, i, j] * v[h, j, d])
    o[h, i, d] = p[h, i, d] / all[h, i]
}
kernel jacobi(u: inout f32[N, N], steps: i32) {
    var v: f32[N, N]
    for t in 0..steps {
        for i in 1..N - 1 { for j in 1..N - 1 { v[i, j] = 0.2 * (u[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) } }
        for i in 1..N - 1 { for j in 1..N - 1 { u[i, j] = v[i, j] } }
    }
}
"""

GATHER = "kernel gather(x: f64[M], k: i32[N]) -> (y: f64[N]) { for i in 0..N { y[i] = x[k[i]] * x[k[i]] } }"
INNER = "kernel inner(x: f64[M], w: f64[N, M]) -> (y: f64[N]) { for i in 0..N { y[i] = sum[j](w[i, j] * x[j]) } }"


def mesh() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A cube of 20 x 20 x 20 hexahedra: places of nodes, corners, and the corners of faces, seen from outside anticlockwise."""
    n = 20
    at = np.arange((n + 1) ** 3).reshape(n + 1, n + 1, n + 1)
    places = np.stack(np.meshgrid(*[np.arange(n + 1.0)] * 3, indexing="ij"), -1).reshape(-1, 3)
    corners = np.stack([at[i:n + i, j:n + j, k:n + k].ravel() for i in (0, 1) for j in (0, 1) for k in (0, 1)], 1)
    faces = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return places, corners.astype(np.int32), faces.astype(np.int32)


def special(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if kind == "parents":
        return np.array([-1, *(0 if j == 0 else 4 * f + j for f in range(5) for j in range(4)), 0], dtype=np.int32)
    if kind == "place":
        d = shape[0]
        place = np.full((d, d), -1, dtype=np.int32)
        columns, rows = np.triu_indices(d, 1)
        place[rows, columns] = np.arange(len(rows))
        return place
    if kind == "sorted":
        return np.sort(random.random(shape), axis=-1)
    return mesh()[1 if kind == "corners" else 2]


def arguments(kernel: Any, sizes: dict[str, int], given: dict[str, Any], seed: int = 1) -> list[Any]:
    """Random inputs of a kernel; of integers, small ones. Cotangents are ones."""
    random, made = np.random.default_rng(seed), []
    for name, mode, type_ in kernel.parameters:
        if mode == "out":
            continue
        element, _, dims = type_.partition("[")
        shape = tuple(eval(d, {}, sizes) for d in dims.rstrip("]").split(",") if d)
        dtype = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}[element.strip()]
        if isinstance(given.get(name), str):
            made.append(special(given[name], shape, random).astype(dtype))
        elif name in given:
            made.append(np.asarray(given[name], dtype=dtype)[()])
        elif name.endswith("_bar"):
            made.append(np.ones(shape, dtype=dtype))
        elif dtype in (np.int32, np.int64):
            made.append(random.integers(0, min([9, *[s for s in sizes.values()]]), shape).astype(dtype))
        elif "corner" in given and name == "x":
            made.append(mesh()[0] + 0.05 * random.random(shape))
        elif "corner" in given and name == "volume":
            made.append(np.ones(shape))
        elif "T" in given and name == "c":
            # Steps of heat that stay finite.
            made.append(0.25 * random.random(shape).astype(dtype))
        else:
            made.append((random.random(shape) + (0.1 if dtype == np.float64 else 0)).astype(dtype)[()])
    return made


#: What is measured takes part in rounds for so long.
SECONDS = float(os.environ.get("LATHE_ROWS_SECONDS", "0.5"))


#: On a machine that does other work, too, one thread is measured by the processor's time: `--clock cpu`.
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS["wall"]


def shortest(runs: list[Callable[[], Any]], rounds: int = 7, seconds: float = SECONDS) -> list[float]:
    """Seconds of each, in interleaved rounds: the shortest. Short runs are repeated within a round."""
    best, spent, times = [math.inf] * len(runs), [0.0] * len(runs), []
    for run in runs:
        run()
        begin = clock()
        run()
        times.append(max(1, int(2e-4 / max(clock() - begin, 1e-7))))
    for _ in range(rounds):
        for k, run in enumerate(runs):
            if spent[k] >= seconds:
                continue
            begin = clock()
            for _ in range(times[k]):
                run()
            took = clock() - begin
            best[k], spent[k] = min(best[k], took / times[k]), spent[k] + took
    return best


def bound(kernel: Any, args: list[Any], threads: int, **options: Any) -> Callable[[], Any]:
    """A call with arrays for its results, which it writes again and again; what it modifies is given anew each time."""
    kept = [np.array(a, copy=True) for a in args]
    modes = [p[1] for p in kernel.parameters if p[1] != "out"]
    changed = [k for k, mode in enumerate(modes) if mode == "inout"]
    results = kernel(*args, threads=threads, **options)
    arrays = isinstance(results, tuple) and all(np.ndim(r) for r in results) or isinstance(results, np.ndarray) and results.ndim
    out = {"out": results} if arrays and all(p[1] != "inout" for p in kernel.parameters) else {}

    def run() -> Any:
        for k in changed:
            np.copyto(args[k], kept[k])
        return kernel(*args, threads=threads, **out, **options)

    return run


def ratios(threads: int, rows: list[dict[str, Any]], save: Callable[[], None]) -> None:
    for name, (sizes, given, wrt, kind) in RATIOS.items():
        try:
            f = lathe.load(EXAMPLES / f"{name}.lathe", f"{name}_f64" if name in ("kmeans", "logsumexp") else name)
            d, g = (lathe.vjp(f, wrt.split(","), value=value) for value in (True, False))
            all_ = [(k, arguments(k, sizes, given)) for k in (f, d, g)]
            counts = [1] if threads == 1 else [1, 2, threads] if threads > 2 else [1, 2]
            times = shortest([bound(k, args, t, specialize=sizes) for t in counts for k, args in all_])
            p_s, both_s, alone_s = times[::3], times[1::3], times[2::3]
            rows.append({"kernel": name, "kind": kind, "sizes": {**sizes, **{k: v for k, v in given.items() if not isinstance(v, str)}},
                         "threads": counts, "primal_s": p_s, "gradient_s": both_s, "alone_s": alone_s})
            print(name, *(f"{t}: {p * 1e3:.3f} {b * 1e3:.3f} {a * 1e3:.3f} ms {b / p:.2f} {a / p:.2f};" for t, p, b, a in zip(counts, p_s, both_s, alone_s, strict=True)), flush=True)
        except Exception as e:
            rows.append({"kernel": name, "error": f"{type(e).__name__}: {e}"[:300]})
            print(name, rows[-1]["error"], flush=True)
        save()


def tree(where: Path, command: str, target: str, options: list[str], name: str) -> Path:
    """A derivative as a tree, which the command line makes."""
    made = where / f"{name}.tree"
    if not made.exists():
        where.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([command, "grad", target, *options, "-o", str(made), "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        (where / f"{name}.json").write_text(done.stdout)
    return made


def order(where: Path, command: str) -> list[dict[str, Any]]:
    rows = []
    for name, (sizes, given, wrt) in PROGRAMS.items():
        try:
            runs, results = [], []
            for when, passes in ORDERS.items():
                options = ["--passes", passes, *(["--wrt", wrt] if wrt else [])]
                d = lathe.load(tree(where, command, str(ORDER / f"{name}.lathe:{name}"), options, f"order-{name}-{when}"))
                runs.append(bound(d, arguments(d, sizes, given), 1))
                result = runs[-1]()
                results.append(result if isinstance(result, tuple) else (result,))
            for other in results[1:]:
                for x, y in zip(results[0], other, strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-9)
            a, b, c, d = shortest(runs)
            rows.append({"kernel": name, "sizes": sizes | given, "optimize_then_ad_s": a, "ad_then_optimize_s": b,
                         "plain_optimize_then_ad_s": c, "plain_ad_then_optimize_s": d})
            print(name, f"{a * 1e3:.4f} {b * 1e3:.4f} ms {b / a:.2f}; plain {c * 1e3:.4f} {d * 1e3:.4f} ms {d / c:.2f}", flush=True)
        except Exception as e:
            rows.append({"kernel": name, "error": f"{type(e).__name__}: {e}"[:300]})
            print(name, rows[-1]["error"], flush=True)
    return rows


def tapes(where: Path, command: str) -> list[dict[str, Any]]:
    """What is kept between the sweeps beside everything that the reverse sweep needs and that is gone by then, in bytes, for the sizes of the ratios."""
    rows = []
    for name, (sizes, given, wrt, _) in RATIOS.items():
        target = f"{EXAMPLES / name}.lathe:{name}" + ("_f64" if name in ("kmeans", "logsumexp") else "")
        tree(where, command, target, ["--wrt", wrt], f"tape-{name}")
        report = json.loads((where / f"tape-{name}.json").read_text())
        known = {**sizes, **given, "index": int, "max": max, "min": min}
        kept, everything = (eval(report[k]["expression"], {}, known) for k in ("tape_bytes", "everything_bytes"))
        rows.append({"kernel": name, "kept": kept, "everything": everything})
        print(rows[-1], flush=True)
    return rows


def norm(where: Path, command: str) -> list[dict[str, Any]]:
    target = f"{ORDER / 'norm.lathe'}:norm"
    d = lathe.load(tree(where, command, target, ["--passes", DEFAULT], "order-norm-before"))
    f = lathe.load(tree(where, command, f"{EXAMPLES / 'norm.lathe'}:norm", ["-D", "N=1024"], "norm-example"))
    kept = [json.loads((where / f"{n}.json").read_text())["tape_bytes"]["expression"] for n in ("order-norm-before", "norm-example")]
    rows = []
    for power in range(10, 23, 2):
        sizes = {"N": 1 << power}
        a, b = shortest([bound(k, arguments(k, sizes, {}), 1) for k in (d, f)], rounds=15)
        rows.append({"n": 1 << power, "in_loop_s": a, "example_s": b, "tape": kept})
        print(1 << power, f"{a / (1 << power) * 1e9:.3f} ns an element (f64, written in the loop), {b / (1 << power) * 1e9:.3f} (f32, example)", flush=True)
    return rows


def libraries(threads: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(2)

    def floats(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    cases: dict[str, tuple[list[Any], list[np.ndarray], list[str]]] = {
        "gemm": ([floats(1024, 1024), floats(1024, 1024)], [floats(1024, 1024)], ["A", "B"]),
        "convolution": ([floats(8, 32, 58, 58), floats(32, 32, 3, 3)], [floats(8, 32, 56, 56)], ["x", "w"]),
        "attention": ([floats(8, 512, 64), floats(8, 512, 64), floats(8, 512, 64)], [floats(8, 512, 64)], ["q", "k", "v"]),
        "jacobi": ([floats(1024, 1024), np.int32(20)], [floats(1024, 1024)], ["u"]),
    }
    rows = []
    for count in dict.fromkeys([1, threads]):
        for name, (args, bars, wrt) in cases.items():
            row: dict[str, Any] = {"kernel": name, "threads": count, "ms": {}, "errors": {}}
            found: dict[str, tuple[Callable[[], Any], Callable[[Any], list[np.ndarray]]]] = {}
            for tool, make in (("lathe", by_lathe), ("torch", by_torch), ("jax", by_jax)):
                try:
                    found[tool] = make(name, args, bars, wrt, count)
                except Exception as e:
                    row["errors"][tool] = f"{type(e).__name__}: {e}"[:300]
            want = None
            for tool, (run, out) in list(found.items()):
                try:
                    got = out(run())
                    if want is None:
                        want = got
                    for x, y in zip(got, want, strict=True):
                        np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3 * float(np.abs(y).max()))
                except Exception as e:
                    row["errors"][tool] = f"{type(e).__name__}: {e}"[:300]
                    del found[tool]
            for tool, s in zip(found, shortest([run for run, _ in found.values()], rounds=11), strict=True):
                row["ms"][tool] = s * 1e3
            rows.append(row)
            print(name, count, {t: round(v, 3) for t, v in row["ms"].items()}, row["errors"], flush=True)
    return rows


def by_lathe(name: str, args: list[Any], bars: list[np.ndarray], wrt: list[str], threads: int) -> Any:
    d = lathe.vjp(lathe.kernel(LIBRARIES, name), wrt)
    copies = [np.array(a) if np.ndim(a) else a for a in [*args, *bars]]
    inputs = [p[2] for p in d.parameters if p[1] != "out"]
    sizes = {n: extent for type_, a in zip(inputs, copies, strict=True)
             for n, extent in zip(re.findall(r"[^,\[\]]+", type_.partition("[")[2]), np.shape(a), strict=True) if n.strip().isidentifier()}
    run = bound(d, copies, threads, specialize={n.strip(): extent for n, extent in sizes.items()})
    # A cotangent that is given is changed into that of the beginning.
    return run, lambda r: list(r) if isinstance(r, tuple) else [np.asarray(copies[-1] if r is None else r)]


def jacobi_of(u: Any, steps: int, put: Callable[[Any, Any], Any]) -> Any:
    for _ in range(steps):
        u = put(u, 0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))
    return u


def by_torch(name: str, args: list[Any], bars: list[np.ndarray], wrt: list[str], threads: int) -> Any:
    import torch

    torch.set_num_threads(threads)
    xs = [torch.tensor(a, requires_grad=True) for a in args if np.ndim(a)]
    bar, F = torch.tensor(bars[0]), torch.nn.functional

    def put(u: Any, inner: Any) -> Any:
        v = u.clone()
        v[1:-1, 1:-1] = inner
        return v

    forward = {"gemm": lambda a, b: a @ b, "convolution": lambda x, w: F.conv2d(x, w),
               "attention": lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0],
               "jacobi": lambda u: jacobi_of(u, int(args[1]), put)}[name]
    if name in ("gemm", "convolution"):
        # The products alone; what attention and steps need of the forward sweep is run again by all.
        y = forward(*xs)
        return lambda: torch.autograd.grad(y, xs, bar, retain_graph=True), lambda r: [p.numpy() for p in r]
    return lambda: torch.autograd.grad(forward(*xs), xs, bar), lambda r: [p.numpy() for p in r]


def by_jax(name: str, args: list[Any], bars: list[np.ndarray], wrt: list[str], threads: int) -> Any:
    if threads == 1 and len(os.sched_getaffinity(0)) > 1:
        raise RuntimeError("on all processors of the process")
    import jax
    import jax.numpy as jnp

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(1, 2) * 0.125, axis=-1) @ v

    def jacobi(u: Any) -> Any:
        return jax.lax.fori_loop(0, int(args[1]), lambda _, u: jacobi_of(u, 1, lambda u, inner: u.at[1:-1, 1:-1].set(inner)), u)

    forward = {"gemm": lambda a, b: a @ b, "attention": attention, "jacobi": jacobi,
               "convolution": lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "VALID")}[name]
    f = jax.jit(lambda xs, bar: jax.vjp(forward, *xs)[1](bar))
    xs, bar = [jnp.asarray(a) for a in args if np.ndim(a)], jnp.asarray(bars[0])
    return lambda: jax.block_until_ready(f(xs, bar)), lambda r: [np.asarray(p) for p in r]


def repeats(where: Path, command: str, threads: int, times: int = 1000) -> list[dict[str, Any]]:
    """Atomic accumulation of numbers whose sums are exact loses nothing; the deterministic ways give the same bits on all threads."""
    random, rows = np.random.default_rng(3), []
    count, few = 20000, 37
    k = random.integers(0, few, count).astype(np.int32)
    where.mkdir(parents=True, exist_ok=True)
    for name, text, wrt, options in (("gather", GATHER, "x", ["atomic"]), ("gather", GATHER, "x", ["private"]), ("gather", GATHER, "x", ["deterministic"]),
                                     ("inner", INNER, "x,w", ["reduce"]), ("inner", INNER, "x,w", ["atomic"]), ("inner", INNER, "x,w", ["deterministic"])):
        how = options[0]
        (where / f"{name}.lathe").write_text(text)
        d = lathe.load(tree(where, command, f"{where / name}.lathe:{name}",
                            ["--wrt", wrt, *(["--deterministic"] if how == "deterministic" else ["--accumulate", how])], f"{name}-{how}"))
        exact = how == "atomic"
        def numbers(*shape: int, exact: bool = exact) -> np.ndarray:
            return random.integers(-9, 9, shape).astype(np.float64) if exact else random.standard_normal(shape)

        if name == "gather":
            x, bar = numbers(few), numbers(count)
            args, want = [x, k, bar], np.bincount(k, 2 * bar * x[k], few)
        else:
            x, w, bar = numbers(few), numbers(count // 4, few), numbers(count // 4)
            args, want = [x, w, bar], bar @ w
        different, begin = 0, time.perf_counter()
        first = None
        for n in range(times):
            got = d(*args, threads=[1, 2, threads, 8][n % 4])
            got = got if isinstance(got, tuple) else (got,)
            if first is None:
                first = [np.array(g) for g in got]
                np.testing.assert_allclose(first[0], want, rtol=1e-9, atol=1e-9)
            different += not all(np.array_equal(a, b) for a, b in zip(got, first, strict=True))
            if exact:
                different += not np.array_equal(got[0], want)
        rows.append({"kernel": name, "how": how, "repetitions": times, "different": different, "exact": exact})
        print(rows[-1], f"{time.perf_counter() - begin:.1f} s", flush=True)
    return rows


def geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def text(report: dict[str, Any]) -> str:
    lines = ["# Derivatives beside what they are derivatives of", "",
             "Made by `benches/derivative_rows.py`; do not edit. Kernels run under the strategy that the model chooses, in interleaved rounds;",
             f"times are the shortest{', of the processor (other work ran beside)' if report.get('clock') == 'cpu' else ''}. {report['machine']}, {report['processors']} processors.", ""]
    if rows := report.get("ratios"):
        counts = max((r.get("threads", []) for r in rows), key=len)
        lines += ["Kernel, and derivative: results and cotangents together, and cotangents alone (the ratio in parentheses). The speed-up's ratio is that",
                  "of results and cotangents over that of the kernel.", "",
                  "| kernel | sizes | kernel, ms | derivative, ms | ratio | " + " | ".join(f"{t} threads: ratio | speed-up of kernel, derivative | ratio" for t in counts[1:]) + " |",
                  "|---|---|---|---|---|" + "---|---|---|" * (len(counts) - 1)]
        for r in rows:
            if "error" in r:
                lines.append(f"| {r['kernel']} | {r['error']} |")
                continue
            p, g, a = r["primal_s"], r["gradient_s"], r["alone_s"]
            cells = [f"{g[n] / p[n]:.2f} ({a[n] / p[n]:.2f}) | {p[0] / p[n]:.2f}, {g[0] / g[n]:.2f} | {(g[0] / g[n]) / (p[0] / p[n]):.2f}" for n in range(1, len(p))]
            sizes = " ".join(f"{k}={v}" for k, v in r["sizes"].items())
            lines.append(f"| {r['kernel']} | {sizes} | {p[0] * 1e3:.3g} | {g[0] * 1e3:.3g} | {g[0] / p[0]:.2f} ({a[0] / p[0]:.2f}) | " + " | ".join(cells) + " |")
        good = [r for r in rows if "error" not in r]
        for n, t in enumerate(counts):
            values = [r["gradient_s"][n] / r["primal_s"][n] for r in good]
            alone = [(r["alone_s"][n] / r["primal_s"][n], r["kind"] == "scalar") for r in good]
            numbers = [a for a, scalar in alone if scalar]
            ups = [(r["gradient_s"][0] / r["gradient_s"][n]) / (r["primal_s"][0] / r["primal_s"][n]) for r in good]
            if values:
                lines += ["", f"On {t} thread{'s' * (t > 1)}: median of the ratios {statistics.median(values):.2f}, largest {max(values):.2f}; of cotangents alone "
                          f"{statistics.median(a for a, _ in alone):.2f} and {max(alone)[0]:.2f}"
                          + (f", of the {len(numbers)} whose result is one number {statistics.median(numbers):.2f} and {max(numbers):.2f}" if numbers else "")
                          + (f"; speed-up beside the kernel's: geometric mean {geometric(ups):.2f}, smallest {min(ups):.2f}." if n else ".")]
    if rows := report.get("order"):
        good = [r for r in rows if "error" not in r]
        lines += ["", "The same passes before (and after) differentiation, and all of them after it; programs of `benches/order`, one thread. With `raise` and `tidy`, "
                  "which recover what optimizing first gives, as derivatives are made; and plain, with neither on both sides (`docs/derivatives.md`, passes).", "",
                  "| program | sizes | optimize, then AD, ms | AD, then optimize, ms | ratio | plain: optimize, then AD, ms | AD, then optimize, ms | ratio |", "|---|---|---|---|---|---|---|---|"]
        both = ("", "plain_")

        def ordered(r: dict[str, Any], how: str) -> list[float] | None:
            """The two times with, or without, what differentiation does itself; rows measured before that was a choice have one pair."""
            times = [r.get(f"{how}{when}_s") for when in ("optimize_then_ad", "ad_then_optimize")]
            return None if None in times else times

        for r in rows:
            if "error" in r:
                lines.append(f"| {r['kernel']} | {r['error']} |")
                continue
            cells = [f"{t[0] * 1e3:.4g} | {t[1] * 1e3:.4g} | {t[1] / t[0]:.2f}" if (t := ordered(r, how)) else "– | – | –" for how in both]
            lines.append(f"| {r['kernel']} | {' '.join(f'{k}={v}' for k, v in r['sizes'].items())} | " + " | ".join(cells) + " |")
        for how, text in zip(both, ("Geometric mean", "Plain: geometric mean"), strict=True):
            values = {r["kernel"]: t[1] / t[0] for r in good if (t := ordered(r, how))}
            if values:
                lines += ["", f"{text} {geometric(list(values.values())):.2f}; without `norm`, whose ratio grows with its size, "
                          f"{geometric([v for k, v in values.items() if k != 'norm']):.2f}."]
    if rows := report.get("norm"):
        lines += ["", "The gradient of a norm, on one thread. Kept between the sweeps: " + ", ".join(f"`{t}`" for t in rows[0]["tape"]) + " bytes.", "",
                  "| elements | written in the loop, f64: ns an element | example, f32 |", "|---|---|---|"]
        lines += [f"| {r['n']} | {r['in_loop_s'] / r['n'] * 1e9:.2f} | {r['example_s'] / r['n'] * 1e9:.2f} |" for r in rows]
    if rows := report.get("tapes"):
        lines += ["", "Bytes that are kept between the sweeps, by a minimum cut, beside all values that the reverse sweep needs and that are gone by then.", "",
                  "| kernel | minimum cut | everything | ratio |", "|---|---|---|---|"]
        rows = [r for r in rows if r["everything"]]
        lines += [f"| {r['kernel']} | {r['kept']:,} | {r['everything']:,} | " + (f"{r['everything'] / r['kept']:.2f}" if r["kept"] else "–") + " |" for r in rows]
        found = [r["everything"] / r["kept"] for r in rows if r["kept"]]
        lines += ["", f"Geometric mean of the {len(found)} that keep something {geometric(found):.2f}; the other {len(rows) - len(found)} keep nothing."]
    if rows := report.get("libraries"):
        lines += ["", "Gradients of what libraries have, in milliseconds; of `gemm` and `convolution` the products alone, of `attention` and `jacobi` with the forward sweep.", "",
                  "| kernel | threads | Lathe | PyTorch | JAX | the best ÷ Lathe |", "|---|---|---|---|---|---|"]
        for r in rows:
            ms = r["ms"]
            best = min((v for t, v in ms.items() if t != "lathe"), default=math.nan)
            lines.append(f"| {r['kernel']} | {r['threads']} | " + " | ".join(f"{ms[t]:.3g}" if t in ms else "–" for t in ("lathe", "torch", "jax"))
                         + f" | {best / ms.get('lathe', math.nan):.2f} |")
    if rows := report.get("repeats"):
        lines += ["", "What accumulates, again and again on changing numbers of threads.", "", "| kernel | accumulation | repetitions | results with other bits |", "|---|---|---|---|"]
        lines += [f"| {r['kernel']} | {r['how']}{', sums that are exact' if r['exact'] else ''} | {r['repetitions']} | {r['different']} |" for r in rows]
    return "\n".join(lines) + "\n"


def processor() -> str:
    names = re.findall(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else []
    return names[0] if names else platform.machine()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("sections", nargs="*")
    options.add_argument("--json", type=Path)
    options.add_argument("--lathe", default=str(ROOT / "target/release/lathe"))
    options.add_argument("--trees", type=Path, default=ROOT / "target/derivatives")
    options.add_argument("--from", type=Path, nargs="+", dest="made", help="writes the page from files that --json wrote")
    options.add_argument("--clock", choices=CLOCKS, default="wall")
    options.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = options.parse_args()
    global clock
    clock = CLOCKS[args.clock]
    page = ROOT / "docs/derivatives-results.md"
    if args.made:
        parts = [json.loads(file.read_text()) for file in args.made]
        merged: dict[str, Any] = {}
        for part in parts:
            for key, value in part.items():
                if key == "libraries":
                    known = {(r["kernel"], r["threads"]) for r in merged.get(key, [])}
                    value = merged.get(key, []) + [r for r in value if (r["kernel"], r["threads"]) not in known]
                merged[key] = value
        page.write_text(text(merged | {"processors": max(part["processors"] for part in parts)}))
        return
    report: dict[str, Any] = {"machine": processor(), "processors": len(os.sched_getaffinity(0)), "clock": args.clock}

    def save() -> None:
        if args.json:
            args.json.write_text(json.dumps(report))

    sections: dict[str, Callable[[], Any]] = {"ratios": list, "order": lambda: order(args.trees, args.lathe), "norm": lambda: norm(args.trees, args.lathe),
                "tapes": lambda: tapes(args.trees, args.lathe), "libraries": lambda: libraries(args.threads), "repeats": lambda: repeats(args.trees, args.lathe, args.threads)}
    for name in args.sections or sections:
        begin = time.perf_counter()
        if name == "ratios":
            ratios(args.threads, report.setdefault(name, []), save)
        else:
            report[name] = sections[name]()
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
        save()
    if args.json or args.sections:
        print(text(report))
    else:
        page.write_text(text(report))


if __name__ == "__main__":
    main()
