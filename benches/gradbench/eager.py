"""GradBench's evals in PyTorch and in autograd, in the same form as `evals.py`: one program of both, on arrays of theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from data import expanded

Prepared = tuple[Callable[[], Any], Callable[[Any], Any]]


class Torch:
    """PyTorch: derivatives by `torch.func`."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.np, self.func = torch, torch.func

    def array(self, a: Any) -> Any:
        a = np.asarray(a)
        return self.np.from_numpy(a.astype(np.float64) if a.dtype.kind == "f" else a.astype(np.int64))

    def top(self, a: Any, axis: int) -> Any:
        return self.np.amax(a, axis)

    def least(self, a: Any, axis: int) -> Any:
        return self.np.amin(a, axis)

    def gradient(self, f: Callable[..., Any], count: int) -> Callable[..., Any]:
        return self.func.grad(f, argnums=tuple(range(count)))

    def newton(self, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            slope, diagonal = self.func.jvp(self.func.grad(f), (x,), (self.np.ones_like(x),))
            return slope / diagonal

        return run

    def columns(self, f: Callable[..., Any], args: Any, along: list[Any]) -> list[Any]:
        """Products of the Jacobian with directions."""
        stacked = tuple(self.np.stack(d) for d in zip(*along, strict=True))
        return list(self.func.vmap(lambda *d: self.func.jvp(f, args, d)[1])(*stacked))


class Autograd:
    """autograd, on NumPy's arrays."""

    def __init__(self) -> None:
        import autograd
        import autograd.numpy

        self.np, self.grad = autograd.numpy, autograd

    def array(self, a: Any) -> Any:
        return np.asarray(a, dtype=None if np.asarray(a).dtype.kind in "iu" else np.float64)

    def top(self, a: Any, axis: int) -> Any:
        return self.np.max(a, axis)

    def least(self, a: Any, axis: int) -> Any:
        return self.np.min(a, axis)

    def gradient(self, f: Callable[..., Any], count: int) -> Callable[..., Any]:
        back = self.grad.grad(lambda parts, *rest: f(*parts, *rest))
        return lambda *args: tuple(back(tuple(args[:count]), *args[count:]))

    def newton(self, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        slope = self.grad.grad(f)
        diagonal = self.grad.grad(lambda x: self.np.sum(slope(x)))
        return lambda x: slope(x) / diagonal(x)

    def columns(self, f: Callable[..., Any], args: Any, along: list[Any]) -> list[Any]:
        forward = self.grad.make_jvp(lambda parts: f(*parts))(args)
        return [forward(d)[1] for d in along]


def flat(result: Any) -> list[float]:
    parts = result if isinstance(result, tuple) else (result,)
    return [x for part in parts for x in np.asarray(part).ravel().tolist()]


def scalar(to: Any, f: Callable[..., Any], args: list[Any], count: int, derivative: bool) -> Prepared:
    """A function of its first arguments, and their gradient."""
    if derivative:
        gradient = to.gradient(f, count)
        return lambda: gradient(*args), flat
    return lambda: f(*args), float


def llsq(to: Any, data: Any, derivative: bool) -> Prepared:
    n, m = data["n"], len(data["x"])
    t = -1 + 2 * np.arange(n) / (n - 1)
    powers, sign = to.array(t[:, None] ** np.arange(m)), to.array(np.sign(t))
    return scalar(to, lambda x: to.np.sum((sign - powers @ x) ** 2) / 2, [to.array(data["x"])], 1, derivative)


def total(to: Any, a: Any, axis: int) -> Any:
    top = to.top(a, axis)
    return to.np.log(to.np.sum(to.np.exp(a - to.np.stack([top], axis)), axis)) + top


def lse(to: Any, data: Any, derivative: bool) -> Prepared:
    return scalar(to, lambda x: total(to, x, 0), [to.array(data["x"])], 1, derivative)


def ode(to: Any, data: Any, derivative: bool) -> Prepared:
    steps, one = data["s"], to.array(np.ones(1))
    h = 2 / steps

    def solve(x: Any) -> Any:
        def slope(y: Any) -> Any:
            return x * to.np.concatenate([one, y[:-1]])

        y = 0 * x
        for _ in range(steps):
            a = slope(y)
            b = slope(y + h / 2 * a)
            c = slope(y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + slope(y + h * c))
        return y

    x = to.array(data["x"])
    return scalar(to, lambda x: solve(x)[-1], [x], 1, True) if derivative else (lambda: solve(x), flat)


def det(to: Any, data: Any, derivative: bool) -> Prepared:
    n = data["ell"]
    return scalar(to, lambda a: expanded(a, n, 1.0), [to.array(np.array(data["A"]).reshape(n, n))], 1, derivative)


def gmm(to: Any, data: Any, derivative: bool) -> Prepared:
    d, k, n, m, gamma = (data[name] for name in ("d", "k", "n", "m", "gamma"))
    columns, rows = np.triu_indices(d, 1)
    place, below = np.zeros((d, d), dtype=int), np.zeros((d, d))
    place[rows, columns], below[rows, columns] = np.arange(len(rows)), 1
    degrees = d + m + 1
    prior = degrees * d * (math.log(gamma) - 0.5 * math.log(2))
    prior -= 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * degrees - 0.5 * j) for j in range(d))
    place, below, np_ = to.array(place), to.array(below), to.np

    def objective(alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:
        lower = l[:, place] * below if len(rows) else 0 * np_.einsum("ki,kj->kij", q, q)
        centred = x[:, None, :] - mu
        moved = np_.exp(q) * centred + np_.einsum("kij,nkj->nki", lower, centred)
        inner = alpha + np_.sum(q, 1) - 0.5 * np_.sum(moved ** 2, 2)
        value = -n * d * 0.5 * math.log(2 * math.pi) + np_.sum(total(to, inner, 1)) - n * total(to, alpha, 0)
        return value - 0.5 * gamma ** 2 * (np_.sum(np_.exp(2 * q)) + np_.sum(l ** 2)) + m * np_.sum(q) + k * prior

    args = [to.array(np.array(data[name], dtype=float).reshape(shape)) for name, shape in
            (("alpha", (k,)), ("mu", (k, d)), ("q", (k, d)), ("l", (k, len(rows))), ("x", (n, d)))]
    run, out = scalar(to, objective, args, 4, derivative)
    if not derivative:
        return run, out
    return run, lambda parts: {name: np.asarray(p).tolist() for name, p in zip(("alpha", "mu", "q", "l"), parts, strict=True)}


def kmeans(to: Any, data: Any, derivative: bool) -> Prepared:
    points, centres = to.array(data["points"]), to.array(data["centroids"])

    def cost(centres: Any) -> Any:
        return to.np.sum(to.least(to.np.sum((points[:, None, :] - centres) ** 2, 2), 1))

    if not derivative:
        return lambda: cost(centres), float
    newton = to.newton(cost)
    return lambda: newton(centres), lambda r: np.asarray(r).tolist()


def lstm(to: Any, data: Any, derivative: bool) -> Prepared:
    main, extra, state, text = (to.array(data[name]) for name in ("main_params", "extra_params", "state", "sequence"))
    layers, width, np_ = len(main) // 2, main.shape[1] // 4, to.np

    def sigmoid(a: Any) -> Any:
        return 1 / (1 + np_.exp(-a))

    def objective(main: Any, extra: Any) -> Any:
        parts = main.reshape((layers, 2, 4, width))
        hidden, cells = [state[2 * k] for k in range(layers)], [state[2 * k + 1] for k in range(layers)]
        loss = 0.0
        for t in range(len(text) - 1):
            signal = text[t] * extra[0]
            for k in range(layers):
                w, b = parts[k, 0], parts[k, 1]
                gates = sigmoid(np_.stack([signal, hidden[k], signal]) * w[:3] + b[:3])
                change = np_.tanh(hidden[k] * w[3] + b[3])
                cells[k] = cells[k] * gates[0] + gates[1] * change
                signal = hidden[k] = gates[2] * np_.tanh(cells[k])
            guess = signal * extra[1] + extra[2]
            loss = loss + np_.sum(text[t + 1] * (guess - np_.log(np_.sum(np_.exp(guess)) + 2)))
        return -loss / (len(text) - 1) / width

    return scalar(to, objective, [main, extra], 2, derivative)


def ba(to: Any, data: Any, derivative: bool) -> Prepared:
    n, m, p = data["n"], data["m"], data["p"]
    q = np.arange(p)
    cameras, points = to.array(np.tile(data["cam"], (n, 1))), to.array(np.tile(data["x"], (m, 1)))
    weights, seen, of_camera, of_point = to.array(np.full(p, float(data["w"]))), data["feat"], to.array(q % n), to.array(q % m)
    np_ = to.np

    def gather() -> Any:
        return np_.concatenate([cameras[of_camera], points[of_point], weights[:, None]], 1)

    def project(own: Any) -> tuple[Any, Any]:
        r = [own[:, k] for k in range(15)]
        x, y, z = (r[11 + k] - r[3 + k] for k in range(3))
        angle = np_.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
        a, b, c, s, k = r[0] / angle, r[1] / angle, r[2] / angle, np_.sin(angle), np_.cos(angle)
        t = (1 - k) * (a * x + b * y + c * z)
        deep = z * k + (a * y - b * x) * s + c * t
        g, h = (x * k + (b * z - c * y) * s + a * t) / deep, (y * k + (c * x - a * z) * s + b * t) / deep
        far = g * g + h * h
        f = r[6] * (1 + r[9] * far + r[10] * far * far)
        return r[14] * (f * g + r[7] - seen[0]), r[14] * (f * h + r[8] - seen[1])

    if not derivative:
        return (lambda: (*project(gather()), 1 - weights * weights),
                lambda r: {"reproj_error": {"elements": [float(r[0][0]), float(r[1][0])], "repeated": p}, "w_err": {"element": float(r[2][0]), "repeated": p}})
    # Each observation has parameters of its own.
    rows = [to.gradient(lambda own, k=k: np_.sum(project(own)[k]), 1) for k in range(2)]
    columns = [*range(11), *(11 * n + np.arange(3)), 11 * n + 3 * m]
    numbers = [*range(0, 30 * p, 15), *range(30 * p, 31 * p + 1)]
    return (lambda: (*(row(gather())[0] for row in rows), -2 * weights),
            lambda r: {"rows": [*numbers[:30], numbers[-1]], "cols": [*map(int, 2 * columns), 11 * n + 3 * m + p - 1],
                       "vals": [*np.asarray(r[0][0]).tolist(), *np.asarray(r[1][0]).tolist(), float(r[2][-1])]})


def ht(to: Any, data: Any, derivative: bool) -> Prepared:
    model, np_ = data["data"]["model"], to.np
    bones = len(model["parents"])
    found, wide = np.array(data["data"]["correspondences"]), len(data["us"]) > 0
    measured, base, weights, inverses, side = (to.array(a) for a in (
        data["data"]["points"], model["base_positions"], model["weights"], model["inverse_base_absolutes"],
        [-1.0 if model["is_mirrored"] else 1.0, 1.0, 1.0]))
    bend, turn = np.full(bones, 26), np.full(bones, 26)
    for finger in range(5):
        for joint in range(3):
            bend[2 + 4 * finger + joint] = 6 + 4 * finger + (joint and joint + 1)
        turn[2 + 4 * finger] = 7 + 4 * finger
    relatives, zero = to.array(model["base_relatives"]), to.array(np.zeros(1))
    bends, turns, unit = to.array(bend), to.array(turn), to.array(np.eye(3))
    skew = to.array(np.array([[[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]], [[0, -1, 0], [1, 0, 0], [0, 0, 0]]], dtype=float))
    corners = [to.array(c) for c in (np.array(model["triangles"])[found].T if wide else [found])]

    def positions(theta: Any) -> Any:
        angles = np_.concatenate([theta, zero])
        cx, sx, cz, sz = (f(angles[at])[:, None] for at in (bends, turns) for f in (np_.cos, np_.sin))
        r0, r1, r2, r3 = (relatives[:, :, k] for k in range(4))
        local = np_.stack([r0 * cz + r1 * sz, (r1 * cz - r0 * sz) * cx + r2 * sx, (r0 * sz - r1 * cz) * sx + r2 * cx, r3], 2)
        absolute: list[Any] = []
        for b, parent in enumerate(model["parents"]):
            absolute.append(local[b] if parent < 0 else absolute[parent] @ local[b])
        bone = np_.stack(absolute) @ inverses
        skin = np_.sum(np_.einsum("bij,vj->vbi", bone[:, :3], base) * weights[:, :, None], 1) * side
        size = np_.sqrt(np_.sum(theta[:3] ** 2))
        across = np_.einsum("d,dij->ij", theta[:3] / size, skew)
        rotation = unit + np_.sin(size) * across + (1 - np_.cos(size)) * across @ across
        return np_.einsum("vj,ij->vi", skin, rotation) + theta[3:6]

    def error(theta: Any, u: Any) -> Any:
        place = positions(theta)
        if not wide:
            return (measured - place[corners[0]]).reshape(-1)
        a, b, c = (place[at] for at in corners)
        return (measured - u[:, :1] * a - u[:, 1:] * b - (1 - u[:, :1] - u[:, 1:]) * c).reshape(-1)

    theta, u = to.array(data["theta"]), to.array(np.array(data["us"], dtype=float).reshape(-1, 2))
    if not derivative:
        return lambda: error(theta, u), flat
    still, rest = to.array(np.zeros(26)), to.array(np.zeros(u.shape))
    along = [(still, to.array(np.tile(e, (len(u), 1)))) for e in np.eye(2)] if wide else []
    along += [(to.array(e), rest) for e in np.eye(26)]
    return lambda: to.columns(error, (theta, u), along), lambda r: np.array([np.asarray(c) for c in r]).T.tolist()


MODULES = {"llsq": llsq, "lse": lse, "ode": ode, "det": det, "gmm": gmm, "kmeans": kmeans, "lstm": lstm, "ba": ba, "ht": ht}
