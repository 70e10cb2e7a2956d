"""GradBench's evals in C++: derivatives written by hand, central differences, and ADOL-C, in the same form as `evals.py`.

Programs are in `native/`; they are compiled where `CXX` (or `g++`) is found, ADOL-C's where its headers are (`CPATH` and `LIBRARY_PATH`
name other places).
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent / "native"
FLAGS = ["-std=c++17", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]

Prepared = tuple[Callable[[], Any], Callable[[Any], Any]]


@functools.cache
def library(name: str, *flags: str) -> ctypes.CDLL:
    """A compiled program of `native/`; `LATHE_GRADBENCH_NATIVE` names a folder where it lies already."""
    built = Path(os.environ.get("LATHE_GRADBENCH_NATIVE", Path(__file__).resolve().parents[2] / "target/gradbench"))
    made = built / f"{name}.so"
    sources = [HERE / f"{name}.cpp", HERE / "programs.hpp"]
    if not made.exists() or HERE.exists() and any(s.stat().st_mtime > made.stat().st_mtime for s in sources):
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        if compiler is None:
            raise OSError("no C++ compiler")
        built.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([compiler, *FLAGS, str(sources[0]), "-o", str(made), *flags], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{name}: {done.stderr[:300]}")
    return ctypes.CDLL(str(made))


@dataclass
class Given:
    """The arguments of a program: sizes, indices, constants, inputs; numbers of results, of columns of derivatives, of scratch
    elements; the result that is differentiated, -1 for all."""

    sizes: np.ndarray
    at: np.ndarray
    constants: np.ndarray
    x: np.ndarray
    results: int
    derivatives: int
    scratch: int
    of: int = 0


def joined(*parts: Any) -> np.ndarray:
    return np.concatenate([np.asarray(p, dtype=np.float64).ravel() for p in parts]) if parts else np.zeros(1)


def given(module: str, data: Any) -> Given:
    def make(sizes: list[int], x: np.ndarray, constants: np.ndarray | None = None, at: Any = (0,), results: int = 1,
             derivatives: int | None = None, scratch: int = 1, of: int = 0) -> Given:
        return Given(np.array(sizes, dtype=np.int64), np.array(at, dtype=np.int32), np.zeros(1) if constants is None else constants, x, results,
                     len(x) if derivatives is None else derivatives, scratch, of)

    match module:
        case "llsq":
            n = int(data["n"])
            return make([len(data["x"]), n], joined(data["x"]), -1 + 2 * np.arange(n) / (n - 1), scratch=n)
        case "lse":
            return make([len(data["x"])], joined(data["x"]))
        case "ode":
            n, steps = len(data["x"]), int(data["s"])
            return make([n, steps], joined(data["x"]), results=n, scratch=n * (steps + 9) + 9, of=n - 1)
        case "det":
            n = int(data["ell"])
            return make([n], joined(data["A"]), scratch=2 << n)
        case "gmm":
            d, k, n, m, gamma = (data[name] for name in ("d", "k", "n", "m", "gamma"))
            degrees = d + m + 1
            scale = degrees * d * (math.log(gamma) - 0.5 * math.log(2)) - 0.25 * d * (d - 1) * math.log(math.pi)
            scale -= sum(math.lgamma(0.5 * (degrees + 1 - j)) for j in range(1, d + 1))
            constant = k * scale - n * d * 0.5 * math.log(2 * math.pi)
            x = joined(*(data[name] for name in ("alpha", "mu", "q", "l")))
            return make([d, k, n], x, joined([gamma, m, constant], np.array(data["x"]).T), scratch=k * d + k + 64 * k + 128 * k * (d + 1))
        case "kmeans":
            points, centres = np.array(data["points"]), np.array(data["centroids"])
            return make([len(centres), *points.shape], joined(centres), joined(points), scratch=len(centres))
        case "lstm":
            layers, width, length = len(data["main_params"]) // 2, len(data["main_params"][0]) // 4, len(data["sequence"])
            return make([layers, width, length], joined(data["main_params"], data["extra_params"]), joined(data["state"], data["sequence"]),
                        scratch=length * (layers * 8 + 2) * width + 4 * layers * width + 2 * width)
        case "ba":
            n, m, p = data["n"], data["m"], data["p"]
            x = joined(np.tile(data["cam"], n), np.tile(data["x"], m), np.full(p, data["w"]))
            return make([n, m, p], x, np.tile(joined(data["feat"]), p), results=3 * p, derivatives=31 * p, of=-1)
        case "ht":
            model = data["data"]["model"]
            bones, points = len(model["parents"]), len(data["data"]["points"])
            bend, turn = np.full(bones, 26), np.full(bones, 26)
            for finger in range(5):
                for joint in range(3):
                    bend[2 + 4 * finger + joint] = 6 + 4 * finger + (joint and joint + 1)
                turn[2 + 4 * finger] = 7 + 4 * finger
            found, wide = np.array(data["data"]["correspondences"]), len(data["us"]) > 0
            corners = np.array(model["triangles"])[found] if wide else np.repeat(found[:, None], 3, axis=1)
            # The vertices that points need.
            used, corners = np.unique(corners, return_inverse=True)
            base, weights = np.array(model["base_positions"])[used], np.array(model["weights"])[used]
            constants = joined(model["base_relatives"], model["inverse_base_absolutes"], base, weights,
                               [-1.0 if model["is_mirrored"] else 1.0], data["data"]["points"])
            return make([bones, len(used), points, int(wide)], joined(data["theta"], data["us"]), constants,
                        np.concatenate([bend, turn, model["parents"], corners.ravel()]), results=3 * points,
                        derivatives=3 * points * (28 if wide else 26), scratch=60 * bones + 3 * len(used) + 9 * points, of=-1)
    raise KeyError(module)


def output(module: str, data: Any, derivative: bool) -> Callable[[np.ndarray], Any]:
    """What makes the eval's output of the array that a program gave."""
    if module == "ba":
        n, m, p = data["n"], data["m"], data["p"]
        if not derivative:
            return lambda y: {"reproj_error": {"elements": y[:2].tolist(), "repeated": p}, "w_err": {"element": float(y[2 * p]), "repeated": p}}
        columns = [*range(11), *(11 * n + np.arange(3)), 11 * n + 3 * m]
        rows = [*range(0, 30 * p, 15), *range(30 * p, 31 * p + 1)]
        return lambda g: {"rows": [*rows[:30], rows[-1]], "cols": [*map(int, 2 * columns), 11 * n + 3 * m + p - 1],
                          "vals": [*g[:30].tolist(), float(g[-1])]}
    if module == "ht" and derivative:
        return lambda g: g.reshape(-1, 3 * len(data["data"]["points"])).T.tolist()
    if module == "gmm" and derivative:
        d, k = data["d"], data["k"]
        ends = np.cumsum([k, k * d, k * d])
        shapes = (k,), (k, d), (k, d), (k, d * (d - 1) // 2)
        return lambda g: {name: part.reshape(shape).tolist()
                          for name, part, shape in zip(("alpha", "mu", "q", "l"), np.split(g, ends), shapes, strict=True)}
    if module == "kmeans" and derivative:
        return lambda g: g.reshape(np.array(data["centroids"]).shape).tolist()
    return (lambda r: r.tolist()) if derivative or module in ("ode", "ht") else lambda r: float(r[0])


def pointers(*arrays: np.ndarray) -> list[Any]:
    """Arguments of a call, which keep the arrays alive."""
    return [np.ctypeslib.as_ctypes(a) for a in arrays]


NAMES = {"ht": "hand"}


def by_hand(module: str, data: Any, derivative: bool) -> Prepared:
    a, code = given(module, data), library("byhand")
    result, scratch = np.empty(a.derivatives if derivative else a.results), np.empty(a.scratch)
    f = getattr(code, f"{NAMES.get(module, module)}_{'d' if derivative else 'p'}")
    arguments = pointers(a.sizes, a.at, a.constants, a.x, result, scratch)

    def run() -> np.ndarray:
        f(*arguments)
        return result

    return run, output(module, data, derivative)


#: Programs take so many more seconds at most by differences.
PATIENCE = 1.0


def differences(module: str, data: Any, derivative: bool) -> Prepared:
    run, out = by_hand(module, data, False)
    if not derivative:
        return run, out
    if module in ("kmeans", "ba") or module == "ht" and len(data["us"]):
        raise NotImplementedError("of scalar results and dense Jacobians")
    import time

    a, code = given(module, data), library("byhand")
    begin = time.perf_counter()
    run()
    if 2 * len(a.x) * (time.perf_counter() - begin) > PATIENCE:
        raise NotImplementedError(f"{len(a.x)} inputs")
    result, scratch = np.empty(a.derivatives), np.empty(a.scratch)
    sizes, at, constants, x, to, w = pointers(a.sizes, a.at, a.constants, a.x, result, scratch)
    program = getattr(code, f"{NAMES.get(module, module)}_p")
    counts = [ctypes.c_long(c) for c in (len(a.x), a.results, a.of)]

    def differ() -> np.ndarray:
        code.differences(program, sizes, at, constants, x, *counts, to, w)
        return result

    return differ, output(module, data, True)


def adolc(module: str, data: Any, derivative: bool) -> Prepared:
    code = library("traced", "-ladolc")
    if not derivative:
        return by_hand(module, data, False)
    a = given(module, data)
    result = np.empty(a.derivatives)
    f = getattr(code, f"{NAMES.get(module, module)}_d")
    sizes, at, constants, x, to = pointers(a.sizes, a.at, a.constants, a.x, result)
    counts = [ctypes.c_long(c) for c in (len(a.x), a.results, a.of, a.scratch)]

    def run() -> np.ndarray:
        f(sizes, at, constants, x, *counts, to)
        return result

    return run, output(module, data, True)
