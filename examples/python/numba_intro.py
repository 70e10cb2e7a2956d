"""What introductions to numba compute, as kernels of Lathe. `benches/python_examples.py` has numba's form of each, and compares
lines and speed."""

import math

import numpy as np

import lathe
from lathe import f32, f64, i32, i64, inout


@lathe.kernel
def go_fast(a: f64["N", "N"]) -> f64["N", "N"]:
    """The sum of tanh along the diagonal, added to each element."""
    trace = sum(np.tanh(a[k, k]) for k in range(len(a)))
    return lambda i, j: a[i, j] + trace


@lathe.kernel
def sum2d(a: f64["M", "N"]) -> f64:
    return sum(a[i, j] for i in range(a.shape[0]) for j in range(a.shape[1]))


@lathe.kernel
def matmul(a: f32["M", "K"], b: f32["K", "N"]) -> f32["M", "N"]:
    return lambda i, j: sum(a[i, k] * b[k, j] for k in range(a.shape[1]))


@lathe.kernel
def mandelbrot(re: f64["N"], im: f64["M"], most: i64, image: inout(i64["M", "N"])):
    for y in range(len(im)):
        for x in range(len(re)):
            u, v, n = re[x], im[y], 0
            while n < most and u * u + v * v <= 4.0:
                u, v = u * u - v * v + re[x], 2.0 * u * v + im[y]
                n += 1
            image[y, x] = n


@lathe.kernel
def bubble_sort(x: inout(f64["N"])):
    for end in range(len(x) - 1, 0, -1):
        for i in range(end):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]


@lathe.kernel
def jacobi(u: f64["M", "N"]) -> f64["M-2", "N-2"]:
    """A step of relaxation towards a solution of Laplace's equation."""
    return lambda i, j: 0.25 * (u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2])


@lathe.kernel
def mean3x3(a: f32["M", "N"]) -> f32["M-2", "N-2"]:
    """numba's stencil."""
    return lambda i, j: sum(a[i + p, j + q] for p in range(3) for q in range(3)) / 9


@lathe.kernel
def rel_diff(x: f64["N"], y: f64["N"]) -> f64["N"]:
    """numba's first function for `vectorize`."""
    return lambda i: 2 * (x[i] - y[i]) / (x[i] + y[i])


@lathe.kernel
def add_to_rows(x: f64["M", "N"], y: f64["M"]) -> f64["M", "N"]:
    """numba's first function for `guvectorize`."""
    return lambda i, j: x[i, j] + y[i]


@lathe.kernel
def moving_average(x: f64["N+7"]) -> f64["N"]:
    return lambda i: sum(x[i + k] for k in range(8)) / 8


@lathe.kernel
def distances(x: f64["N", "D"]) -> f64["N", "N"]:
    """From each point to each other."""
    return lambda i, j: np.sqrt(sum((x[i, k] - x[j, k]) * (x[i, k] - x[j, k]) for k in range(x.shape[1])))



@lathe.kernel
def call_option(s: f64["N"], strike: f64["N"], t: f64["N"], r: f64, v: f64, price: inout(f64["N"])):
    """Black's and Scholes's price of a call."""
    for i in range(len(s)):
        root = v * np.sqrt(t[i])
        d1 = (np.log(s[i] / strike[i]) + (r + 0.5 * v * v) * t[i]) / root
        left, right = 0.5 * (1 + math.erf(d1 / 1.4142135623730951)), 0.5 * (1 + math.erf((d1 - root) / 1.4142135623730951))
        price[i] = s[i] * left - strike[i] * np.exp(-r * t[i]) * right


@lathe.kernel
def logistic_step(y: f64["N"], x: f64["N", "D"], w: f64["D"]) -> f64["D"]:
    """A step of gradient descent."""
    return lambda d: w[d] - sum(y[n] * x[n, d] * (1 / (1 + np.exp(-y[n] * sum(x[n, e] * w[e] for e in range(len(w))))) - 1) for n in range(len(y)))


@lathe.kernel
def running_sum(x: f64["N"], y: inout(f64["N"])):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        y[i] = total


@lathe.kernel
def forces(p: f64["N", 3], m: f64["N"], a: inout(f64["N", 3])):
    """Accelerations by gravity."""
    for i in range(len(m)):
        ax, ay, az = 0.0, 0.0, 0.0
        for j in range(len(m)):
            dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
            r = dx * dx + dy * dy + dz * dz + 1e-9
            f = m[j] / (r * np.sqrt(r))
            ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
        a[i, 0], a[i, 1], a[i, 2] = ax, ay, az
