"""Inputs of GradBench's evals, made here: of the forms and, where `full` asks for it, of the sizes of its own, with other numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


def workloads(module: str, full: bool = False) -> dict[str, Any]:
    """Inputs by name. The small ones have odd sizes."""
    random = np.random.default_rng(7)
    uniform, normal = random.random, random.standard_normal
    match module:
        case "hello":
            return {"3": 3.0}
        case "llsq":
            return {f"n={n}": {"x": normal(m).tolist(), "n": n} for m, n in ([(128, 1024), (128, 16392)] if full else [(5, 7)])}
        case "lse":
            return {f"n={n}": {"x": uniform(n).tolist()} for n in ([40_000, 640_000] if full else [1, 13])}
        case "ode":
            return {f"n={n}, s={s}": {"x": uniform(n).tolist(), "s": s} for n, s in ([(1000, 100), (100_000, 10)] if full else [(5, 3)])}
        case "det":
            # JAX compiles the expansion of a larger one for minutes.
            return {f"ell={n}": {"A": normal(n * n).tolist(), "ell": n} for n in ([5, 7] if full else [1, 4])}
        case "gmm":
            return {f"d={d}, k={k}": {
                "d": d, "k": k, "n": n, "x": normal((n, d)).tolist(), "m": 0 if full else 2, "gamma": 1.0 if full else 0.7,
                "alpha": normal(k).tolist(), "mu": uniform((k, d)).tolist(), "q": (0.3 * normal((k, d))).tolist(),
                "l": normal((k, d * (d - 1) // 2)).tolist(),
            } for d, k, n in ([(10, 25, 1000), (32, 50, 1000)] if full else [(3, 4, 7), (1, 2, 3)])}
        case "kmeans":
            return {f"k={k}, n={n}, d={d}": {"points": (p := uniform((n, d))).tolist(), "centroids": p[:k].tolist()}
                    for k, n, d in ([(10, 10_000, 8), (100, 10_000, 16)] if full else [(3, 11, 5)])}
        case "lstm":
            made = {}
            for layers, length, width in [(2, 1024, 14), (4, 1024, 14)] if full else [(2, 6, 5)]:
                made[f"l={layers}, c={length}"] = {
                    "main_params": uniform((2 * layers, 4 * width)).tolist(), "extra_params": uniform((3, width)).tolist(),
                    "state": uniform((2 * layers, width)).tolist(),
                    "sequence": (uniform((length, width)) < 0.5).astype(float).tolist(),
                }
            return made
        case "ba":
            camera, point = [0.1, -0.2, 0.3, 0.2, 0.1, -2.0, 1.4, 0.1, 0.05, 0.02, 0.01], [0.3, 0.4, 1.0]
            return {f"p={p}": {"n": n, "m": m, "p": p, "cam": camera, "x": point, "w": 0.9, "feat": [0.2, 0.3]}
                    for n, m, p in ([(49, 7776, 31_843)] if full else [(2, 3, 7)])}
        case "ht":
            return {f"{kind}, C={c}": hand(random, v, c, kind == "complicated")
                    for v, c in ([(544, 100), (544, 400)] if full else [(9, 5)]) for kind in ("simple", "complicated")}
        case "particle":
            return {"w=0": {"w": 0.0}}
        case "saddle":
            return {"start": {"start": [1.0, 1.0]}}
    raise KeyError(module)


def hand(random: np.random.Generator, vertices: int, points: int, complicated: bool) -> dict[str, Any]:
    """A hand of 22 bones: a wrist, four bones a finger, and a forearm."""
    bones = 22
    parents = [-1, *(0 if joint == 0 else 4 * finger + joint for finger in range(5) for joint in range(4)), 0]

    def motions() -> list[Any]:
        made = np.tile(np.eye(4), (bones, 1, 1))
        made[:, :3] += 0.3 * random.standard_normal((bones, 3, 4))
        return made.tolist()

    weights = random.random((vertices, bones))
    return {
        "theta": (0.5 * random.standard_normal(26)).tolist(),
        "us": random.random((points, 2)).tolist() if complicated else [],
        "data": {
            "correspondences": random.integers(0, 2 * vertices if complicated else vertices, points).tolist(),
            "points": random.standard_normal((points, 3)).tolist(),
            "model": {
                "bone_count": bones, "bone_names": [f"bone{b}" for b in range(bones)], "parents": parents, "base_relatives": motions(),
                "inverse_base_absolutes": motions(), "is_mirrored": complicated,
                "base_positions": np.c_[random.standard_normal((vertices, 3)), np.ones(vertices)].tolist(),
                "weights": (weights / weights.sum(axis=1, keepdims=True)).tolist(),
                "triangles": random.integers(0, vertices, (2 * vertices, 3)).tolist(),
            },
        },
    }


def expanded(a: Any, n: int, one: Any) -> Any:
    """A determinant, expanded by minors; a minor that comes again is shared. `one` is that of nothing."""
    known: dict[tuple[int, ...], Any] = {(): one}

    def minor(columns: tuple[int, ...]) -> Any:
        if columns not in known:
            row = n - len(columns)
            known[columns] = sum((-1.0) ** k * a[row, j] * minor(columns[:k] + columns[k + 1:]) for k, j in enumerate(columns))
        return known[columns]

    return minor(tuple(range(n)))
