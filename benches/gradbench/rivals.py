"""GradBench's evals in JAX, in the same form as `evals.py`: what Lathe is compared with, in results and in time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from data import expanded

Prepared = tuple[Callable[[], Any], Callable[[Any], Any]]


def compiled(f: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """A call that ends when its results are there."""
    f = jax.jit(f)
    with jax.enable_x64(True):
        args = tuple(jnp.asarray(a) for a in args)

    def call() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(f(*args))

    return call


def flat(result: Any) -> list[float]:
    return [x for part in jax.tree.leaves(result) for x in np.asarray(part).ravel().tolist()]


def scalar(f: Callable[..., Any], count: int) -> dict[bool, Callable[..., Any]]:
    """A function of its first arguments, and their gradient."""
    return {False: f, True: jax.grad(f, argnums=tuple(range(count)))}


def llsq(data: Any, gradient: bool) -> Prepared:
    n, m = data["n"], len(data["x"])

    def loss(x: Any) -> Any:
        t = -1 + 2 * jnp.arange(n) / (n - 1)
        return jnp.sum((jnp.sign(t) - t[:, None] ** jnp.arange(m) @ x) ** 2) / 2

    return compiled(scalar(loss, 1)[gradient], np.array(data["x"])), flat if gradient else float


def lse(data: Any, gradient: bool) -> Prepared:
    def f(x: Any) -> Any:
        top = jnp.max(x)
        return jnp.log(jnp.sum(jnp.exp(x - top))) + top

    return compiled(scalar(f, 1)[gradient], np.array(data["x"])), flat if gradient else float


def ode(data: Any, gradient: bool) -> Prepared:
    steps = data["s"]

    def solve(x: Any) -> Any:
        h = 2 / steps

        def slope(y: Any) -> Any:
            return x * jnp.concatenate([jnp.ones(1), y[:-1]])

        def step(y: Any, _: Any) -> Any:
            a = slope(y)
            b = slope(y + h / 2 * a)
            c = slope(y + h / 2 * b)
            d = slope(y + h * c)
            return y + h / 6 * (a + 2 * b + 2 * c + d), None

        return jax.lax.scan(step, jnp.zeros_like(x), None, length=steps)[0]

    return compiled(jax.grad(lambda x: solve(x)[-1]) if gradient else solve, np.array(data["x"])), flat


def det(data: Any, gradient: bool) -> Prepared:
    n = data["ell"]
    return compiled(scalar(lambda a: expanded(a, n, jnp.ones(())), 1)[gradient], np.array(data["A"]).reshape(n, n)), flat if gradient else float


def gmm(data: Any, gradient: bool) -> Prepared:
    d, k, n, m, gamma = (data[name] for name in ("d", "k", "n", "m", "gamma"))
    upper = np.triu_indices(d, 1)
    degrees = d + m + 1
    prior = degrees * d * (math.log(gamma) - 0.5 * math.log(2))
    prior -= 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * degrees - 0.5 * j) for j in range(d))

    def total(a: Any, axis: int) -> Any:
        top = jnp.max(a, axis=axis, keepdims=True)
        return jnp.squeeze(jnp.log(jnp.sum(jnp.exp(a - top), axis=axis, keepdims=True)) + top, axis)

    def objective(alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:
        lower = jnp.zeros((k, d, d)).at[:, upper[1], upper[0]].set(l)
        centred = x[:, None, :] - mu
        moved = jnp.exp(q) * centred + jnp.einsum("kij,nkj->nki", lower, centred)
        inner = alpha + q.sum(axis=1) - 0.5 * (moved ** 2).sum(axis=2)
        value = -n * d * 0.5 * math.log(2 * math.pi) + total(inner, 1).sum() - n * total(alpha, 0)
        return value - 0.5 * gamma ** 2 * ((jnp.exp(q) ** 2).sum() + (l ** 2).sum()) + m * q.sum() + k * prior

    args = [np.array(data[name]).reshape(shape) for name, shape in
            (("alpha", (k,)), ("mu", (k, d)), ("q", (k, d)), ("l", (k, len(upper[0]))), ("x", (n, d)))]
    run = compiled(scalar(objective, 4)[gradient], *args)
    if not gradient:
        return run, float
    return run, lambda parts: {name: np.asarray(p).tolist() for name, p in zip(("alpha", "mu", "q", "l"), parts, strict=True)}


def kmeans(data: Any, gradient: bool) -> Prepared:
    def cost(centres: Any, points: Any) -> Any:
        return jnp.sum(jnp.min(jnp.sum((points[:, None, :] - centres) ** 2, axis=2), axis=1))

    def direction(centres: Any, points: Any) -> Any:
        slope, diagonal = jax.jvp(lambda c: jax.grad(cost)(c, points), (centres,), (jnp.ones_like(centres),))
        return slope / diagonal

    run = compiled(direction if gradient else cost, np.array(data["centroids"]), np.array(data["points"]))
    return run, (lambda r: np.asarray(r).tolist()) if gradient else float


def lstm(data: Any, gradient: bool) -> Prepared:
    main, extra, state, text = (np.array(data[name]) for name in ("main_params", "extra_params", "state", "sequence"))
    layers, width = len(main) // 2, main.shape[1] // 4

    def objective(main: Any, extra: Any, state: Any, text: Any) -> Any:
        parts = main.reshape(layers, 2, 4, width)

        def step(carry: Any, pair: Any) -> Any:
            now, after = pair
            signal, new = now * extra[0], []
            for k in range(layers):
                (w, b), (hidden, cell) = parts[k], carry[k]
                forget, leave = (jax.nn.sigmoid(signal * w[g] + b[g]) for g in (0, 2))
                enter, change = jax.nn.sigmoid(hidden * w[1] + b[1]), jnp.tanh(hidden * w[3] + b[3])
                cell = cell * forget + enter * change
                signal = leave * jnp.tanh(cell)
                new.append(jnp.stack([signal, cell]))
            guess = signal * extra[1] + extra[2]
            return jnp.stack(new), jnp.sum(after * (guess - jnp.log(jnp.sum(jnp.exp(guess)) + 2)))

        _, losses = jax.lax.scan(step, state.reshape(layers, 2, width), (text[:-1], text[1:]))
        return -jnp.sum(losses) / (len(text) - 1) / width

    return compiled(scalar(objective, 2)[gradient], main, extra, state, text), flat if gradient else float


def ba(data: Any, gradient: bool) -> Prepared:
    n, m, p = data["n"], data["m"], data["p"]
    cameras, points = np.tile(np.array(data["cam"]), (n, 1)), np.tile(np.array(data["x"]), (m, 1))
    weights, seen, q = np.full(p, data["w"]), np.array(data["feat"]), np.arange(p)

    def project(camera: Any, point: Any, w: Any) -> Any:
        moved = point - camera[3:6]
        angle = jnp.sqrt(jnp.sum(camera[:3] ** 2))
        axis = camera[:3] / angle
        turned = moved * jnp.cos(angle) + jnp.cross(axis, moved) * jnp.sin(angle) + axis * (axis @ moved) * (1 - jnp.cos(angle))
        flat = turned[:2] / turned[2]
        far = flat @ flat
        return w * (flat * (1 + camera[9] * far + camera[10] * far ** 2) * camera[6] + camera[7:9] - seen)

    def objective(cameras: Any, points: Any, w: Any) -> Any:
        return jax.vmap(project)(cameras[q % n], points[q % m], w), 1 - w ** 2

    def jacobian(cameras: Any, points: Any, w: Any) -> Any:
        parts = jax.vmap(jax.jacrev(project, argnums=(0, 1, 2)))(cameras[q % n], points[q % m], w)
        return jnp.concatenate([parts[0], parts[1], parts[2][:, :, None]], axis=2), -2 * w

    run = compiled(jacobian if gradient else objective, cameras, points, weights)
    if not gradient:
        return run, lambda r: {"reproj_error": {"elements": np.asarray(r[0][0]).tolist(), "repeated": p},
                               "w_err": {"element": float(r[1][0]), "repeated": p}}
    columns = [*range(11), *(11 * n + np.arange(3)), 11 * n + 3 * m]
    rows = [*range(0, 30 * p, 15), *range(30 * p, 31 * p + 1)]
    # The first observation's elements and the last of all.
    return run, lambda r: {"rows": [*rows[:30], rows[-1]], "cols": [*map(int, 2 * columns), 11 * n + 3 * m + p - 1],
                           "vals": [*np.asarray(r[0][0]).ravel().tolist(), float(r[1][-1])]}


def ht(data: Any, gradient: bool) -> Prepared:
    model = data["data"]["model"]
    found, measured, us = np.array(data["data"]["correspondences"]), np.array(data["data"]["points"]), np.array(data["us"])
    parents, relatives, inverses = model["parents"], np.array(model["base_relatives"]), np.array(model["inverse_base_absolutes"])
    base, weights = np.array(model["base_positions"]), np.array(model["weights"])

    def euler(xzy: Any) -> Any:
        (cx, cz, cy), (sx, sz, sy) = jnp.cos(xzy), jnp.sin(xzy)
        x = jnp.array([[1, 0, 0, 0], [0, cx, -sx, 0], [0, sx, cx, 0], [0, 0, 0, 1]])
        y = jnp.array([[cy, 0, sy, 0], [0, 1, 0, 0], [-sy, 0, cy, 0], [0, 0, 0, 1]])
        z = jnp.array([[cz, -sz, 0, 0], [sz, cz, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        return z @ y @ x

    def positions(theta: Any) -> Any:
        pose = jnp.zeros((len(parents), 3))
        for finger in range(5):
            t, b = 6 + 4 * finger, 2 + 4 * finger
            pose = pose.at[b, :2].set(theta[t:t + 2]).at[b + 1, 0].set(theta[t + 2]).at[b + 2, 0].set(theta[t + 3])
        local = jnp.einsum("bij,bjk->bik", relatives, jax.vmap(euler)(pose))
        absolute: list[Any] = []
        for b, parent in enumerate(parents):
            absolute.append(local[b] if parent < 0 else absolute[parent] @ local[b])
        bones = jnp.einsum("bij,bjk->bik", jnp.stack(absolute), inverses)
        skin = jnp.einsum("bij,vj,vb->vi", bones, base, weights)[:, :3]
        if model["is_mirrored"]:
            skin = skin * jnp.array([-1, 1, 1])
        size = jnp.sqrt(jnp.sum(theta[:3] ** 2))
        x, y, z = theta[:3] / size
        across = jnp.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        turn = jnp.eye(3) + jnp.sin(size) * across + (1 - jnp.cos(size)) * across @ across
        return skin @ turn.T + theta[3:6]

    def simple(theta: Any) -> Any:
        return (measured - positions(theta)[found]).ravel()

    triangles = np.array(model["triangles"])

    def complicated(theta: Any, u: Any) -> Any:
        a, b, c = jnp.moveaxis(positions(theta)[triangles[found]], 1, 0)
        return (measured - u[:, :1] * a - u[:, 1:] * b - (1 - u[:, :1] - u[:, 1:]) * c).ravel()

    def wide(theta: Any, u: Any) -> Any:
        # Each point has its own place on a triangle: two directions give all derivatives by the places.
        by_u = [jax.jvp(lambda v: complicated(theta, v), (u,), (jnp.zeros_like(u).at[:, k].set(1),))[1] for k in range(2)]
        return jnp.column_stack([*by_u, jax.jacfwd(complicated)(theta, u)])

    args = (np.array(data["theta"]), us) if len(us) else (np.array(data["theta"]),)
    f = (wide if len(us) else jax.jacfwd(simple)) if gradient else (complicated if len(us) else simple)
    return compiled(f, *args), lambda r: np.asarray(r).tolist()


MODULES: dict[str, Callable[[Any, bool], Prepared]] = {
    "llsq": llsq, "lse": lse, "ode": ode, "det": det, "gmm": gmm, "kmeans": kmeans, "lstm": lstm, "ba": ba, "ht": ht,
}
