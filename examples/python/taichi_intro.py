"""What introductions to Taichi compute, as kernels of Lathe. `benches/python_examples.py` has Taichi's form of each, and
compares lines and speed."""

import numpy as np

import lathe
from lathe import f32, f64, i32, i64, inout


@lathe.kernel
def julia(t: f32, pixels: inout(f32["N", "M"])):
    """Taichi's first picture."""
    for i, j in np.ndindex(pixels.shape):
        cr, ci = -0.8, np.cos(t) * 0.2
        x, y, n = f32(i) / 320 - 1, f32(j) / 320 - 0.5, 0
        while x * x + y * y < 400 and n < 50:
            x, y = x * x - y * y + cr, 2 * x * y + ci
            n += 1
        pixels[i, j] = 1 - f32(n) * 0.02


@lathe.kernel
def count_primes(limit: i64) -> i64:
    count = 0
    for n in range(2, limit):
        k = 2
        while k * k <= i64(n) and i64(n) % k != 0:
            k += 1
        if k * k > i64(n):
            count += 1
    return count


@lathe.kernel
def collatz(steps: inout(i64["N"])):
    for i in range(len(steps)):
        n, count = i64(i) + 1, 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        steps[i] = count


@lathe.kernel
def lcs(a: i32["N"], b: i32["M"], f: inout(i32["N+1", "M+1"])):
    """The length of the longest common subsequence of each two beginnings; Taichi's example beside numpy and numba."""
    for i in range(len(a)):
        for j in range(len(b)):
            f[i + 1, j + 1] = f[i, j] + 1 if a[i] == b[j] else max(f[i, j + 1], f[i + 1, j])


def rule(alive, neighbours):
    return 1 if neighbours == 3 or (alive == 1 and neighbours == 2) else 0


@lathe.kernel
def life(a: i32["N+2", "M+2"]) -> i32["N", "M"]:
    """A generation of the game of life."""
    return lambda i, j: rule(a[i + 1, j + 1], sum(a[i + p, j + q] for p in range(3) for q in range(3)) - a[i + 1, j + 1])


@lathe.kernel
def saxpy(a: f32, x: f32["N"], y: f32["N"]) -> f32["N"]:
    return lambda i: a * x[i] + y[i]


@lathe.kernel
def fill(a: inout(f32["N", "M"]), v: f32):
    for i, j in np.ndindex(a.shape):
        a[i, j] = v * f32(i + j)


@lathe.kernel
def laplace(x: f32["N+2", "M+2"]) -> f32["N", "M"]:
    return lambda i, j: 4 * x[i + 1, j + 1] - x[i, j + 1] - x[i + 2, j + 1] - x[i + 1, j] - x[i + 1, j + 2]


@lathe.kernel
def fall(x: inout(f32["N", 3]), v: inout(f32["N", 3]), dt: f32):
    """Balls that bounce off the ground."""
    for i in range(x.shape[0]):
        v[i, 1] = v[i, 1] - 9.8 * dt
        for c in range(3):
            x[i, c] = x[i, c] + dt * v[i, c]
        if x[i, 1] < 0:
            x[i, 1], v[i, 1] = 0.0, -0.9 * v[i, 1]


@lathe.kernel
def norm2(x: f64["N"]) -> f64:
    return np.sqrt(sum(x[i] * x[i] for i in range(len(x))))


@lathe.kernel
def bilinear(src: f32["N+1", "M+1"]) -> f32["N", "M"]:
    """The value in the middle of each four pixels."""
    return lambda i, j: 0.25 * (src[i, j] + src[i + 1, j] + src[i, j + 1] + src[i + 1, j + 1])
