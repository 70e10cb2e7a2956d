"""The examples of `examples/python/taichi_intro.py` in Taichi, for `python_examples.py`."""

import taichi as ti


def all_of():
    return {f.__name__: (f, ti.kernel(f)) for f in (julia, count_primes, collatz, lcs, fill, fall, norm2)}


def julia(t: ti.f32, pixels: ti.types.ndarray(ti.f32, 2)):
    for i, j in pixels:
        cr, ci = -0.8, ti.cos(t) * 0.2
        x, y, n = i / 320 - 1, j / 320 - 0.5, 0
        while x * x + y * y < 400 and n < 50:
            x, y = x * x - y * y + cr, 2 * x * y + ci
            n += 1
        pixels[i, j] = 1 - n * 0.02


def count_primes(limit: ti.i64) -> ti.i64:
    count = 0
    for n in range(2, limit):
        k = 2
        while k * k <= n and n % k != 0:
            k += 1
        if k * k > n:
            count += 1
    return count


def collatz(steps: ti.types.ndarray(ti.i64, 1)):
    for i in steps:
        n, count = i + 1, 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            count += 1
        steps[i] = count


def lcs(a: ti.types.ndarray(ti.i32, 1), b: ti.types.ndarray(ti.i32, 1), f: ti.types.ndarray(ti.i32, 2)):
    ti.loop_config(serialize=True)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            f[i + 1, j + 1] = f[i, j] + 1 if a[i] == b[j] else ti.max(f[i, j + 1], f[i + 1, j])


def fill(a: ti.types.ndarray(ti.f32, 2), v: ti.f32):
    for i, j in a:
        a[i, j] = v * (i + j)


def fall(x: ti.types.ndarray(ti.f32, 2), v: ti.types.ndarray(ti.f32, 2), dt: ti.f32):
    for i in range(x.shape[0]):
        v[i, 1] -= 9.8 * dt
        for c in range(3):
            x[i, c] += dt * v[i, c]
        if x[i, 1] < 0:
            x[i, 1], v[i, 1] = 0.0, -0.9 * v[i, 1]


def norm2(x: ti.types.ndarray(ti.f64, 1)) -> ti.f64:
    total = ti.cast(0, ti.f64)
    for i in x:
        total += x[i] * x[i]
    return ti.sqrt(total)
