"""The examples of `examples/python` beside the same in numba and in Taichi: lines and speed, one thread.

    python benches/python_examples.py [numba] [taichi]

It needs the wheel and numba or taichi. The rounds are interleaved; the numbers are medians. Lines are those that a user writes: without
blank ones, docstrings and decorators.
"""

import ast
import inspect
import math
import os
import statistics
import sys
import textwrap
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "examples", "python"))

rng = np.random.default_rng(0)


def f64(*shape):
    return rng.random(shape) + 0.5


def f32(*shape):
    return f64(*shape).astype(np.float32)


def numba_forms():
    from numba import guvectorize, njit, stencil, vectorize

    @njit
    def go_fast(a):
        trace = 0.0
        for i in range(a.shape[0]):
            trace += np.tanh(a[i, i])
        return a + trace

    @njit
    def sum2d(a):
        total = 0.0
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                total += a[i, j]
        return total

    @njit
    def matmul(a, b):
        c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]
        return c

    @njit
    def mandelbrot(re, im, most, image):
        for y in range(len(im)):
            for x in range(len(re)):
                u, v, n = re[x], im[y], 0
                while n < most and u * u + v * v <= 4.0:
                    u, v = u * u - v * v + re[x], 2.0 * u * v + im[y]
                    n += 1
                image[y, x] = n

    @njit
    def bubble_sort(x):
        for end in range(len(x) - 1, 0, -1):
            for i in range(end):
                if x[i] > x[i + 1]:
                    x[i], x[i + 1] = x[i + 1], x[i]

    @njit
    def jacobi(u):
        v = np.empty((u.shape[0] - 2, u.shape[1] - 2))
        for i in range(v.shape[0]):
            for j in range(v.shape[1]):
                v[i, j] = 0.25 * (u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2])
        return v

    @stencil
    def mean(a):
        return (a[-1, -1] + a[-1, 0] + a[-1, 1] + a[0, -1] + a[0, 0] + a[0, 1] + a[1, -1] + a[1, 0] + a[1, 1]) / 9

    @njit
    def mean3x3(a):
        return mean(a)

    @vectorize
    def rel_diff(x, y):
        return 2 * (x - y) / (x + y)

    @guvectorize(["void(float64[:], float64, float64[:])"], "(n),()->(n)")
    def add_to_rows(x, y, out):
        for i in range(len(x)):
            out[i] = x[i] + y

    @njit
    def moving_average(x):
        y = np.empty(len(x) - 7)
        for i in range(len(y)):
            total = 0.0
            for k in range(8):
                total += x[i + k]
            y[i] = total / 8
        return y

    @njit
    def distances(x):
        d = np.empty((x.shape[0], x.shape[0]))
        for i in range(x.shape[0]):
            for j in range(x.shape[0]):
                total = 0.0
                for k in range(x.shape[1]):
                    total += (x[i, k] - x[j, k]) * (x[i, k] - x[j, k])
                d[i, j] = np.sqrt(total)
        return d

    @njit
    def call_option(s, strike, t, r, v, price):
        for i in range(len(s)):
            root = v * np.sqrt(t[i])
            d1 = (np.log(s[i] / strike[i]) + (r + 0.5 * v * v) * t[i]) / root
            left, right = 0.5 * (1 + math.erf(d1 / 1.4142135623730951)), 0.5 * (1 + math.erf((d1 - root) / 1.4142135623730951))
            price[i] = s[i] * left - strike[i] * np.exp(-r * t[i]) * right

    @njit
    def logistic_step(y, x, w):
        return w - np.dot(y * (1 / (1 + np.exp(-y * np.dot(x, w))) - 1), x)

    @njit
    def running_sum(x, y):
        total = 0.0
        for i in range(len(x)):
            total += x[i]
            y[i] = total

    @njit
    def forces(p, m, a):
        for i in range(len(m)):
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(len(m)):
                dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
                r = dx * dx + dy * dy + dz * dz + 1e-9
                f = m[j] / (r * np.sqrt(r))
                ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
            a[i, 0], a[i, 1], a[i, 2] = ax, ay, az

    forms = dict(locals())
    arguments = {
        "go_fast": [f64(500, 500)], "sum2d": [f64(1000, 1000)], "matmul": [f32(256, 256), f32(256, 256)],
        "mandelbrot": [np.linspace(-2, 1, 300), np.linspace(-1, 1, 200), 100, np.zeros((200, 300), np.int64)],
        "bubble_sort": [f64(500)], "jacobi": [f64(500, 500)], "mean3x3": [f32(500, 500)], "rel_diff": [f64(100_000), f64(100_000)],
        "add_to_rows": [f64(500, 500), f64(500)], "moving_average": [f64(100_000)], "distances": [f64(400, 3)],
        "call_option": [f64(100_000), f64(100_000), f64(100_000), 0.02, 0.3, np.zeros(100_000)],
        "logistic_step": [np.sign(f64(5000) - 1), f64(5000, 10), f64(10)], "running_sum": [f64(100_000), np.zeros(100_000)],
        "forces": [f64(400, 3), f64(400), np.zeros((400, 3))],
    }
    return {n: (getattr(forms[n], "py_func", None) or getattr(forms[n], "__wrapped__", None), forms[n]) for n in arguments}, arguments


def taichi_forms():
    import taichi as ti

    import taichi_forms_of as forms

    ti.init(arch=ti.cpu, cpu_max_num_threads=1, log_level=ti.ERROR, default_ip=ti.i64)
    return forms.all_of(), {
        "julia": [0.3, np.zeros((640, 320), np.float32)], "count_primes": [100_000], "collatz": [np.zeros(20_000, np.int64)],
        "lcs": [rng.integers(0, 4, 1000, np.int32), rng.integers(0, 4, 1000, np.int32), np.zeros((1001, 1001), np.int32)],
        "fill": [np.zeros((500, 500), np.float32), 0.5], "fall": [f32(100_000, 3), f32(100_000, 3), 0.001], "norm2": [f64(100_000)],
    }


def lines(function):
    """Lines that a user writes, the head counted."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    body = tree.body[1:] if isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant) else tree.body
    return 1 + sum(len({n.lineno for n in ast.walk(s) if hasattr(n, "lineno")}) for s in body)


def compared(title, module, forms, arguments):
    import lathe

    lathe.set_threads(1)
    print(title)
    ratios = []
    for name, args in arguments.items():
        ours, (source, theirs) = getattr(module, name), forms[name]

        def fresh():
            return [a.copy() if isinstance(a, np.ndarray) else a for a in args]

        times = {ours: [], theirs: []}
        for f in times:
            f(*fresh())
        for _ in range(25):
            for f in times:
                given = fresh()
                begin = time.perf_counter()
                f(*given)
                times[f].append(time.perf_counter() - begin)
        a, b = (statistics.median(t) * 1e6 for t in times.values())
        ratios.append(b / a)
        written = f"{lines(ours.__wrapped__):2}, {lines(source):2}" if source else f"{lines(ours.__wrapped__):2},  -"
        print(f"  {name:16} lines {written}   {a:10.1f} us, {b:10.1f} us   {b / a:6.2f} times as fast", flush=True)
    print(f"  geometric mean: {statistics.geometric_mean(ratios):.2f} times as fast")


for part in sys.argv[1:] or ["numba", "taichi"]:
    if part == "numba":
        import numba_intro

        compared("Lathe, numba (one thread)", numba_intro, *numba_forms())
    else:
        import taichi_intro

        compared("Lathe, Taichi (one thread)", taichi_intro, *taichi_forms())
