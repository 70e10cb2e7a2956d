"""GradBench's evals with kernels of `examples/gradients`.

A module is a table of functions; a function takes the eval's input and returns what is run and measured, without arguments, and
what makes the eval's output of its result.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lathe
import numpy as np

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples/gradients"
#: GradBench measures one thread by default.
THREADS = int(os.environ.get("LATHE_GRADBENCH_THREADS", "1"))

Prepared = tuple[Callable[[], Any], Callable[[Any], Any]]


@functools.cache
def kernel(file: str, name: str | None = None) -> Callable[..., Any]:
    """A kernel of an example, on the number of threads that is measured."""
    return functools.partial(lathe.load(EXAMPLES / f"{file}.lathe", name or file), threads=THREADS)


#: The cotangent of a number.
ONE = np.ones(())


def floats(data: Any, *shape: int) -> np.ndarray:
    array = np.array(data, dtype=np.float64)
    return array.reshape(shape) if shape else array


def ints(data: Any) -> np.ndarray:
    return np.array(data, dtype=np.int32)


def flat(result: Any) -> list[float]:
    parts = result if isinstance(result, tuple) else (result,)
    return [x for part in parts for x in np.asarray(part).ravel().tolist()]


#: With so many numbers, a kernel is compiled for its sizes, as tools that trace programs do.
MANY = 5000


def call(file: str, name: str | None, *args: Any) -> Callable[[], Any]:
    run = kernel(file, name)
    if sum(np.size(a) for a in args) < MANY:
        return functools.partial(run, *args)
    inputs = [p[2] for p in run.func.parameters if p[1] != "out"]
    sizes = {name: extent for type_, a in zip(inputs, args, strict=True)
             for name, extent in zip(re.findall(r"\w+", type_.partition("[")[2]), np.shape(a), strict=True) if name.isidentifier()}
    return functools.partial(run, *args, specialize=sizes)


# hello: squares, and their derivative by the same program.

SQUARE = "kernel square(x: f64) -> (y: f64) { y = x * x }\nkernel square_vjp = vjp(square)"


def square(data: Any) -> Prepared:
    return functools.partial(lathe.kernel(SQUARE, "square"), float(data)), float


def double(data: Any) -> Prepared:
    return functools.partial(lathe.kernel(SQUARE, "square_vjp"), float(data), ONE), float


# llsq: a polynomial fitted to the sign.


def llsq(data: Any, *, gradient: bool) -> Prepared:
    n = int(data["n"])
    x, t = floats(data["x"]), -1 + 2 * np.arange(n, dtype=np.float64) / (n - 1)
    if gradient:
        return call("polynomial", "polynomial_vjp", x, t, ONE), flat
    return call("polynomial", None, x, t), float


# lse: the logarithm of a sum of exponentials.


def lse(data: Any, *, gradient: bool) -> Prepared:
    x = floats(data["x"], 1, -1)
    if gradient:
        return call("logsumexp", "logsumexp_f64_vjp", x, np.ones(1)), flat
    return call("logsumexp", "logsumexp_f64", x), lambda y: float(y[0])


# ode: the last element of a chain of equations.


def ode(data: Any, *, gradient: bool) -> Prepared:
    x, steps = floats(data["x"]), int(data["s"])
    if gradient:
        last = np.zeros_like(x)
        last[-1] = 1
        return call("runge_kutta", "runge_kutta_vjp", x, steps, last), flat
    return call("runge_kutta", None, x, steps), flat


# det: expansion by minors, each of which is computed once.


@functools.cache
def minors(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each set of columns, smaller ones first: the row that its minor begins in, and for each column the number of the set
    without it and the sign of the term."""
    sets = sorted(range(1 << n), key=lambda s: (s.bit_count(), s))
    number = {s: k for k, s in enumerate(sets)}
    row = np.zeros(len(sets), dtype=np.int32)
    rest = np.zeros((len(sets), n), dtype=np.int32)
    sign = np.zeros((len(sets), n))
    for k, s in enumerate(sets[1:], 1):
        row[k] = n - s.bit_count()
        for at, j in enumerate(j for j in range(n) if s >> j & 1):
            rest[k, j], sign[k, j] = number[s ^ 1 << j], (-1.0) ** at
    return row, rest, sign


def det(data: Any, *, gradient: bool) -> Prepared:
    n = int(data["ell"])
    args = (floats(data["A"], n, n), *minors(n))
    if gradient:
        return call("determinant", "determinant_vjp", *args, ONE), flat
    return call("determinant", None, *args), float


# gmm: a mixture of Gaussians.


def gmm(data: Any, *, gradient: bool) -> Prepared:
    d, k, n, m, gamma = (data[name] for name in ("d", "k", "n", "m", "gamma"))
    place = np.full((d, d), -1, dtype=np.int32)
    # Columns of the strict lower triangle follow one another.
    columns, rows = np.triu_indices(d, 1)
    place[rows, columns] = np.arange(len(rows))
    degrees = d + m + 1
    scale = degrees * d * (math.log(gamma) - 0.5 * math.log(2)) - 0.25 * d * (d - 1) * math.log(math.pi)
    scale -= sum(math.lgamma(0.5 * (degrees + 1 - j)) for j in range(1, d + 1))
    constant = k * scale - n * d * 0.5 * math.log(2 * math.pi)
    args = (floats(data["x"], n, d), floats(data["alpha"]), floats(data["mu"], k, d), floats(data["q"], k, d),
            floats(data["l"], k, d * (d - 1) // 2), place, float(gamma), float(m), constant)
    if gradient:
        return (call("mixture", "mixture_vjp", *args, ONE),
                lambda parts: {name: part.tolist() for name, part in zip(("alpha", "mu", "q", "l"), parts, strict=True)})
    return call("mixture", None, *args), float


# kmeans: a step of Newton's method, whose Hessian is diagonal: its product with ones is the diagonal.


def kmeans_cost(data: Any) -> Prepared:
    return call("kmeans", "kmeans_f64", floats(data["points"]), floats(data["centroids"])), float


def kmeans_direction(data: Any) -> Prepared:
    points, centres = floats(data["points"]), floats(data["centroids"])
    product = call("kmeans", "clusters_hvp", points, centres, ONE, np.ones_like(centres))

    def run() -> np.ndarray:
        gradient, diagonal = product()
        return np.divide(gradient, diagonal)

    return run, lambda direction: direction.tolist()


# lstm: a network over a text.


def lstm(data: Any, *, gradient: bool) -> Prepared:
    layers, width = len(data["main_params"]) // 2, len(data["main_params"][0]) // 4
    args = (floats(data["main_params"], layers, 2, 4, width), floats(data["extra_params"], 3, width),
            floats(data["state"], layers, 2, width), floats(data["sequence"], -1, width))
    if gradient:
        return call("layers", "layers_vjp", *args, ONE), flat
    return call("layers", None, *args), float


# ba: bundle adjustment. Observation q uses camera q % n and point q % m.


def observations(data: Any) -> tuple[np.ndarray, ...]:
    n, m, p = data["n"], data["m"], data["p"]
    q = np.arange(p, dtype=np.int32)
    return (np.tile(floats(data["cam"]), (n, 1)), np.tile(floats(data["x"]), (m, 1)), np.full(p, float(data["w"])),
            (q % n).astype(np.int32), (q % m).astype(np.int32), np.tile(floats(data["feat"]), (p, 1)))


def ba_objective(data: Any) -> Prepared:
    def output(result: Any) -> Any:
        across, down, weight = result
        return {"reproj_error": {"elements": [float(across[0]), float(down[0])], "repeated": len(across)},
                "w_err": {"element": float(weight[0]), "repeated": len(weight)}}

    return call("reprojection", None, *observations(data)), output


def ba_jacobian(data: Any) -> Prepared:
    """The Jacobian in rows: two of 15 elements an observation (camera, point, weight), then one element a weight."""
    cameras, points, w, camera, point, seen = observations(data)
    n, m, p = data["n"], data["m"], data["p"]
    # A direction for each of the two results.
    across, down = (np.tile(unit, (p, 1)) for unit in np.eye(2))
    blocks, of_weights = np.empty((p, 15, 2)), np.empty(p)
    both = call("reprojection", "observation_vjp", cameras, points, w, camera, point, seen, np.zeros((p, 15)), across, down)
    by_weight = call("reprojection", "confidence_vjp", w, np.ones(p))
    rows = np.concatenate([np.arange(2 * p + 1) * 15, 30 * p + 1 + np.arange(p)])
    columns = np.empty((p, 2, 15), dtype=np.int64)
    columns[:, :, :11] = (11 * camera[:, None] + np.arange(11))[:, None, :]
    columns[:, :, 11:14] = (11 * n + 3 * point[:, None] + np.arange(3))[:, None, :]
    columns[:, :, 14] = (11 * n + 3 * m + np.arange(p))[:, None]

    def run() -> tuple[np.ndarray, ...]:
        both(out=blocks)
        by_weight(out=of_weights)
        return rows, columns, blocks, of_weights

    def output(result: tuple[np.ndarray, ...]) -> Any:
        # The first observation's elements and the last of all.
        rows, columns, blocks, of_weights = result
        return {"rows": [*rows[:30].tolist(), int(rows[-1])], "cols": [*columns.ravel()[:30].tolist(), 11 * n + 3 * m + p - 1],
                "vals": [*blocks[0].T.ravel().tolist(), float(of_weights[-1])]}

    return run, output


# ht: hand tracking. The Jacobian is one call with a direction for each column: the parameters one by one, and two for the places on
# triangles, of which every point has its own.


def hand(data: Any) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    model = data["data"]["model"]
    bones = len(model["parents"])
    bend, turn = np.full(bones, 26, dtype=np.int32), np.full(bones, 26, dtype=np.int32)
    for finger in range(5):
        for joint in range(3):
            bone = 2 + 4 * finger + joint
            bend[bone] = 6 + 4 * finger + (joint and joint + 1)
            if joint == 0:
                turn[bone] = 7 + 4 * finger
    found = ints(data["data"]["correspondences"])
    u = floats(data["us"], -1, 2)
    triangle = ints(model["triangles"])[found] if len(u) else np.repeat(found[:, None], 3, axis=1)
    used, corners = np.unique(triangle, return_inverse=True)
    rest = (bend, turn, ints(model["parents"]), floats(model["base_relatives"]), floats(model["inverse_base_absolutes"]),
            floats(model["base_positions"]), floats(model["weights"]), -1.0 if model["is_mirrored"] else 1.0,
            ints(used), ints(corners.reshape(triangle.shape)), floats(data["data"]["points"]))
    return floats(data["theta"]), u if len(u) else np.zeros((len(found), 2)), rest


def ht_objective(data: Any) -> Prepared:
    theta, u, rest = hand(data)
    return call("hand", None, theta, u, *rest), flat


def ht_jacobian(data: Any) -> Prepared:
    theta, u, rest = hand(data)
    first = 2 if len(data["us"]) else 0
    columns = first + 26
    along_theta, along_u = np.zeros((26, columns)), np.zeros((*u.shape, columns))
    along_theta[:, first:] = np.eye(26)
    for k in range(first):
        along_u[:, k, k] = 1
    tangents = call("hand", "hand_jvp", theta, u, *rest, along_theta, along_u)
    return tangents, lambda results: results[1].reshape(-1, columns).tolist()


# particle and saddle: optima of functions that are made of derivatives. All loops are kernels, which call derived kernels.


def particle(data: Any, *, outer: str, inner: str) -> Prepared:
    return call("charges", "nearest", float(data["w"]), int(outer == "f"), int(inner == "f")), float


def saddle(data: Any, *, outer: str, inner: str) -> Prepared:
    return call("minimax", "saddle", floats(data["start"]), int(outer == "f"), int(inner == "f")), \
        lambda results: flat(np.concatenate(results))


def _both(f: Callable[..., Prepared], primal: str, gradient: str) -> dict[str, Callable[[Any], Prepared]]:
    return {primal: functools.partial(f, gradient=False), gradient: functools.partial(f, gradient=True)}


def _four(f: Callable[..., Prepared]) -> dict[str, Callable[[Any], Prepared]]:
    return {a + b: functools.partial(f, outer=a, inner=b) for a in "rf" for b in "rf"}


MODULES: dict[str, dict[str, Callable[[Any], Prepared]]] = {
    "hello": {"square": square, "double": double},
    "llsq": _both(llsq, "primal", "gradient"),
    "lse": _both(lse, "primal", "gradient"),
    "ode": _both(ode, "primal", "gradient"),
    "det": _both(det, "primal", "gradient"),
    "gmm": _both(gmm, "objective", "jacobian"),
    "kmeans": {"cost": kmeans_cost, "dir": kmeans_direction},
    "lstm": _both(lstm, "objective", "jacobian"),
    "ba": {"objective": ba_objective, "jacobian": ba_jacobian},
    "ht": {"objective": ht_objective, "jacobian": ht_jacobian},
    "particle": _four(particle),
    "saddle": _four(saddle),
}


def define(module: str) -> bool:
    """Whether the module is known. Kernels are loaded when a function is first evaluated, which is not measured."""
    return module in MODULES
