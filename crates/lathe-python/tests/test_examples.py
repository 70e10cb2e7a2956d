"""The examples in `examples/python`: introductions to numba and Taichi, against numpy and plain Python."""

import importlib
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(os.environ.get("LATHE_ROOT", Path(__file__).parents[3]))
rng = np.random.default_rng(0)


def f64(*shape):
    return rng.random(shape) + 0.5


def f32(*shape):
    return f64(*shape).astype(np.float32)


def mandelbrot(re, im, most, image):
    for (y, x), _ in np.ndenumerate(image):
        z, n = 0, 0
        z = c = complex(re[x], im[y])
        while n < most and abs(z) ** 2 <= 4:
            z, n = z * z + c, n + 1
        image[y, x] = n


def julia(t, pixels):
    for i, j in np.ndindex(pixels.shape):
        c, z, n = complex(-0.8, math.cos(t) * 0.2), complex(i / 320 - 1, j / 320 - 0.5), 0
        while abs(z) ** 2 < 400 and n < 50:
            z, n = z * z + c, n + 1
        pixels[i, j] = 1 - n * 0.02


def lengths(n, count=0):
    return count if n == 1 else lengths(n // 2 if n % 2 == 0 else 3 * n + 1, count + 1)


def collatz(steps):
    steps[:] = [lengths(i + 1) for i in range(len(steps))]


def lcs(a, b, f):
    for i, j in np.ndindex(len(a), len(b)):
        f[i + 1, j + 1] = f[i, j] + 1 if a[i] == b[j] else max(f[i, j + 1], f[i + 1, j])


def windows(a, p, q):
    return np.lib.stride_tricks.sliding_window_view(a, (p, q))


def life(a):
    around = windows(a, 3, 3).sum((2, 3)) - a[1:-1, 1:-1]
    return ((around == 3) | (a[1:-1, 1:-1] == 1) & (around == 2)).astype(np.int32)


def call_option(s, strike, t, r, v, price):
    d1 = (np.log(s / strike) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    d2 = d1 - v * np.sqrt(t)
    cdf = np.vectorize(lambda d: (1 + math.erf(d / math.sqrt(2))) / 2)
    price[:] = s * cdf(d1) - strike * np.exp(-r * t) * cdf(d2)


def logistic_step(y, x, w):
    return w - np.dot(y * (1 / (1 + np.exp(-y * (x @ w))) - 1), x)


def forces(p, m, a):
    d = p[None] - p[:, None]
    r = (d * d).sum(-1) + 1e-9
    a[:] = (m[None, :, None] * d / (r ** 1.5)[..., None]).sum(1)


def fall(x, v, dt):
    v[:, 1] -= np.float32(9.8) * np.float32(dt)
    x += np.float32(dt) * v
    below = x[:, 1] < 0
    v[below, 1] *= -0.9
    x[below, 1] = 0


def primes(n):
    return sum(all(k % d for d in range(2, math.isqrt(k) + 1)) for k in range(2, n))


CASES = {
    "numba_intro": {
        "go_fast": (lambda a: a + np.tanh(np.diag(a)).sum(), lambda: [f64(9, 9)]),
        "sum2d": (np.sum, lambda: [f64(7, 5)]),
        "matmul": (np.matmul, lambda: [f32(6, 7), f32(7, 5)]),
        "mandelbrot": (mandelbrot, lambda: [np.linspace(-2, 1, 12), np.linspace(-1, 1, 9), 20, np.zeros((9, 12), np.int64)]),
        "bubble_sort": (np.ndarray.sort, lambda: [f64(40)]),
        "jacobi": (lambda u: (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4, lambda: [f64(8, 9)]),
        "mean3x3": (lambda a: windows(a, 3, 3).mean((2, 3)), lambda: [f32(8, 9)]),
        "rel_diff": (lambda x, y: 2 * (x - y) / (x + y), lambda: [f64(9), f64(9)]),
        "add_to_rows": (lambda x, y: x + y[:, None], lambda: [f64(4, 3), f64(4)]),
        "moving_average": (lambda x: np.convolve(x, np.ones(8) / 8, "valid"), lambda: [f64(30)]),
        "distances": (lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1), lambda: [f64(9, 3)]),
        "call_option": (call_option, lambda: [f64(9), f64(9), f64(9), 0.02, 0.3, np.zeros(9)]),
        "logistic_step": (logistic_step, lambda: [np.sign(f64(9) - 1), f64(9, 4), f64(4)]),
        "running_sum": (lambda x, y: np.cumsum(x, out=y), lambda: [f64(9), np.zeros(9)]),
        "forces": (forces, lambda: [f64(7, 3), f64(7), np.zeros((7, 3))]),
    },
    "taichi_intro": {
        "julia": (julia, lambda: [0.3, np.zeros((30, 20), np.float32)]),
        "count_primes": (primes, lambda: [200]),
        "collatz": (collatz, lambda: [np.zeros(50, np.int64)]),
        "lcs": (lcs, lambda: [rng.integers(0, 4, 20, np.int32), rng.integers(0, 4, 17, np.int32), np.zeros((21, 18), np.int32)]),
        "life": (life, lambda: [rng.integers(0, 2, (9, 8), np.int32)]),
        "saxpy": (lambda a, x, y: np.float32(a) * x + y, lambda: [0.5, f32(9), f32(9)]),
        "fill": (lambda a, v: np.copyto(a, v * np.add.outer(np.arange(4), np.arange(5))), lambda: [np.zeros((4, 5), np.float32), 0.5]),
        "laplace": (lambda x: 4 * x[1:-1, 1:-1] - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:], lambda: [f32(6, 7)]),
        "fall": (fall, lambda: [f32(9, 3) - 0.6, f32(9, 3), 0.1]),
        "norm2": (np.linalg.norm, lambda: [f64(30)]),
        "bilinear": (lambda s: windows(s, 2, 2).mean((2, 3)), lambda: [f32(6, 5)]),
    },
}


def module(name):
    sys.path.insert(0, str(ROOT / "examples" / "python"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("name, example", [(m, e) for m, all_ in CASES.items() for e in all_])
def test_an_example(name, example):
    reference, make = CASES[name][example]
    ours = make()
    theirs = [a.copy() if isinstance(a, np.ndarray) else a for a in ours]
    got, want = getattr(module(name), example)(*ours), reference(*theirs)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    if got is not None:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_every_example_is_tested():
    from lathe import Kernel

    for name, cases in CASES.items():
        assert {n for n, v in vars(module(name)).items() if isinstance(v, Kernel)} == set(cases)
    assert sum(map(len, CASES.values())) >= 20
