"""The language as Python writes it, and numpy's names, beside Python and numpy themselves."""

import math
import pickle

import numpy as np
import pytest

import lathe
from refusals import refused

RADIUS = 2
SCALE = np.float32(1.5)


def squared(v):
    return v * v


def norm(a, b, p=2):
    """A function of several steps, with a default."""
    s = squared(a) + squared(b)
    s += p
    return math.sqrt(s)


def both(v):
    return v + 1, v - RADIUS


def halved(v):
    return v / 2, v < 8


def is_large(v):
    return v > 1


@lathe.kernel
def dot(x: lathe.f32["N"], y: lathe.f32["N"]) -> lathe.f32:
    return sum(x[i] * y[i] for i in range(len(x)))


@lathe.kernel
def total(x: lathe.f32["N"]) -> lathe.f32:
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


@lathe.kernel
def types_follow_from_functions(x: lathe.f64["N"], y: lathe.out(lathe.f64["N"]), n: lathe.out(lathe.i64["N"])):
    for i in range(len(x)):
        times, more = 0, True
        v, small = halved(x[i])
        large = is_large(v)
        while more and large:
            v, small = halved(v)
            large = is_large(v)
            times, more = times + 1, times < 7
        y[i] = v if small else -v
        n[i] = times


@lathe.kernel
def extremes(x: lathe.f64["N"]) -> tuple[lathe.f64, lathe.f64]:
    low, high = np.inf, -np.inf
    for i in range(len(x)):
        low = min(low, x[i])
        high = max(high, x[i])
    return low, high


@lathe.kernel
def rows(x: lathe.f64["M", "N"], y: lathe.out(lathe.f64["M"])):
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(x.shape[1]):
            if x[i, j] > 0:
                s += x[i, j]
        y[i] = s


@lathe.kernel
def helped(x: lathe.f64["N"], y: lathe.f64["N"]) -> lathe.f64["N"]:
    return lambda i: norm(x[i], y[i]) + norm(x[i], 1.0, p=0)


@lathe.kernel
def pairs(x: lathe.f64["N"]) -> {"up": lathe.f64["N"], "down": lathe.f64["N"]}:
    return (lambda i: x[i] * SCALE, lambda i: x[i] - RADIUS)


@lathe.kernel
def taken(x: lathe.f64["N"], up: lathe.out(lathe.f64["N"]), down: lathe.out(lathe.f64["N"])):
    for i in range(len(x)):
        a, b = both(x[i])
        a, b = b, a
        up[i] = b
        down[i] = a


@lathe.kernel
def bits(a: lathe.i32["N"], b: lathe.i32["N"]) -> lathe.i32["N"]:
    return lambda i: (a[i] & b[i]) + (a[i] | 5) * (a[i] ^ b[i]) + (a[i] << 2) - (b[i] >> 1) + ~a[i]


@lathe.kernel
def truths(a: lathe.f64["N"], b: lathe.f64["N"]) -> lathe.bool_["N"]:
    return lambda i: (a[i] > 0) & (b[i] > 0) | (a[i] < b[i]) ^ (a[i] != b[i]) or not (0 < a[i] <= b[i])


@lathe.kernel
def floats(a: lathe.f64["N"], b: lathe.f64["N"]) -> {"q": lathe.f64["N"], "r": lathe.f64["N"]}:
    return lambda i: (a[i] // b[i], a[i] % b[i])


@lathe.kernel
def whole(a: lathe.i64["N"], b: lathe.i64["N"]) -> {"q": lathe.i64["N"], "r": lathe.i64["N"]}:
    return lambda i: (a[i] // b[i], a[i] % b[i])


@lathe.kernel
def casts(a: lathe.f64["N"]) -> {"n": lathe.i64["N"], "f": lathe.f32["N"], "d": lathe.f64["N"]}:
    return lambda i: (int(a[i] * 3), np.float32(a[i]) / 3, float(int(a[i])) + float(len(a)))


@lathe.kernel
def backwards(x: lathe.inout(lathe.f64["N"])):
    for i in range(x.shape[0] - 2, -1, -1):
        x[i] = x[i] + x[i + 1]


def test_numbers_as_results():
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    assert float(dot(x, y)) == 10 and dot(x, y).shape == ()
    assert float(total(x)) == 10 and float(total(x[:0])) == 0
    d = np.array([3.0, -1, 4, 1])
    assert [float(v) for v in extremes(d)] == [-1, 4]
    m = np.arange(-6.0, 6).reshape(3, 4)
    np.testing.assert_array_equal(rows(m), np.where(m > 0, m, 0).sum(1))


@lathe.kernel
def first_above(x: lathe.f64["M", "N"], limit: lathe.f64, at: lathe.out(lathe.i64["M"])):
    for i in range(x.shape[0]):
        at[i] = -1
        for j in range(x.shape[1]):
            if x[i, j] > limit:
                at[i] = np.int64(j)
                break


@lathe.kernel
def halvings(n: lathe.i64) -> lathe.i64:
    left = n
    count = 0
    while left > 0:
        left = left // 2
        if left == 5:
            break
        count += 1
    return count


def test_loops_end_early():
    x = np.random.default_rng(3).normal(size=(20, 7))
    want = [next((j for j, v in enumerate(row) if v > 1), -1) for row in x]
    assert first_above(x, 1.0).tolist() == want
    assert first_above(x[:, :0], 1.0).tolist() == [-1] * 20
    assert [halvings(n) for n in (0, 1, 5, 8, 11, 40)] == [0, 1, 3, 4, 0, 2]


def test_functions_are_written_out():
    x, y = np.random.default_rng(1).random((2, 6))
    np.testing.assert_array_equal(helped(x, y), [norm(a, b) + norm(a, 1.0, p=0) for a, b in zip(x, y)])
    up, down = pairs(x)
    np.testing.assert_array_equal(up, x * 1.5)
    np.testing.assert_array_equal(down, x - 2)
    up, down = taken(x)
    np.testing.assert_array_equal(up, x + 1)
    np.testing.assert_array_equal(down, x - 2)


def test_operators():
    rng = np.random.default_rng(2)
    a, b = rng.integers(-100, 100, (2, 50), dtype=np.int32)
    np.testing.assert_array_equal(bits(a, b), (a & b) + (a | 5) * (a ^ b) + (a << 2) - (b >> 1) + ~a)
    p, q = rng.integers(-2, 3, (2, 60)).astype(float)
    want = [(bool(x > 0) & bool(y > 0)) | (bool(x < y) ^ bool(x != y)) or not (0 < x <= y) for x, y in zip(p, q)]
    np.testing.assert_array_equal(truths(p, q), want)
    b[b == 0] = 7
    n, d = a.astype(np.int64), b.astype(np.int64)
    for got, w in zip(whole(n, d), (n // d, n % d)):
        np.testing.assert_array_equal(got, w)
    x = np.concatenate([rng.normal(0, 100, 200), [1.0, -1.0, 7.5, 0.3, -0.3, 6.0]])
    y = np.concatenate([rng.normal(0, 3, 200), [0.1, 0.1, 2.5, 0.1, 0.1, -1.5]])
    for got, w in zip(floats(x, y), (x // y, x % y)):
        np.testing.assert_array_equal(got, w)
    c = np.array([1.7, -1.7, 2.0])
    n, f, d = casts(c)
    np.testing.assert_array_equal(n, (c * 3).astype(np.int64))
    np.testing.assert_array_equal(f, c.astype(np.float32) / np.float32(3))
    np.testing.assert_array_equal(d, c.astype(np.int64) + 3.0)
    for n in (0, 1, 2, 7):
        x = np.arange(float(n))
        want = x[::-1].cumsum()[::-1]
        backwards(x)
        np.testing.assert_array_equal(x, want)


ONE = ["arctan", "arcsin", "arccos", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "log1p", "expm1", "log10", "square", "rint",
       "sign", "isnan", "isinf", "isfinite", "reciprocal", "deg2rad", "rad2deg", "fabs", "absolute", "trunc", "exp2", "radians", "degrees"]
TWO = ["hypot", "arctan2", "power", "maximum", "minimum", "mod", "floor_divide", "fmod"]
POINTS = np.array([0.0, -0.0, 0.3, -0.7, 1.0, 1.5, -1.0, 2.5, 1e-9, 30.0, -40.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", ONE)
def test_numpys_functions_of_one_number(name, tmp_path):
    for kind, dtype, close in (("f64", np.float64, 1e-14), ("f32", np.float32, 2e-6)):
        result = "bool_" if name.startswith("is") else kind
        (tmp_path / f"{kind}.py").write_text(f"import lathe, numpy as np\n@lathe.kernel\ndef f(x: lathe.{kind}['N']) -> lathe.{result}['N']:\n"
                                             f"    return lambda i: np.{name}(x[i])\n")
        scope = {"__name__": "user"}
        exec(compile((tmp_path / f"{kind}.py").read_text(), str(tmp_path / f"{kind}.py"), "exec"), scope)
        x = POINTS.astype(dtype)
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x)
        np.testing.assert_allclose(scope["f"](x), want, rtol=close, atol=close * 1e-3)


@pytest.mark.parametrize("name", TWO)
def test_numpys_functions_of_two_numbers(name, tmp_path):
    (tmp_path / "user.py").write_text(f"import lathe, numpy as np\n@lathe.kernel\ndef f(x: lathe.f64['N'], y: lathe.f64['N']) -> lathe.f64['N']:\n"
                                      f"    return lambda i: np.{name}(x[i], y[i])\n")
    scope = {"__name__": "user"}
    exec(compile((tmp_path / "user.py").read_text(), str(tmp_path / "user.py"), "exec"), scope)
    points = np.array([0.5, -0.5, 1.5, 3.0, -2.0, 7.25])
    divisors = np.append(points, [np.inf, -np.inf]) if "mod" in name else points
    x, y = (v.ravel().copy() for v in np.meshgrid(points, divisors))
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
    np.testing.assert_allclose(scope["f"](x, y), want, rtol=1e-14)


@lathe.kernel
def chosen(x: lathe.f64["N"]) -> lathe.f64["N"]:
    return lambda i: np.where(x[i] > 0, np.clip(x[i], 0.25, 0.5), -1.0)


def test_choices():
    x = np.linspace(-1, 1, 9)
    np.testing.assert_array_equal(chosen(x), np.where(x > 0, np.clip(x, 0.25, 0.5), -1.0))


WRONG = [
    ("return lambda i: np.fft(x[i])", "`fft`"), ("return lambda i: np.sinhh(x[i])", "`sinhh` `sinh`"), ("return lambda i: np.arctn(x[i])", "`arctn` `arctan`"),
    ("return lambda i: loop(x[i])", "`loop` 6"), ("return lambda i: again(x[i])", "`again`"), ("return lambda i: norm(x[i])", "`norm` `b`"),
    ("return lambda i: both(x[i])", "`both`"), ("return lambda i: len(x[i])", "`len`"), ("return lambda i: other(x[i])", "`other`"),
    ("return lambda i: norm(x[i], 1, q=3)", "`norm` `q`"),
]


@pytest.mark.parametrize("body,named", WRONG, ids=[b for b, _ in WRONG])
def test_what_is_not_there_is_refused_by_name(body, named, tmp_path):
    file = tmp_path / "user.py"
    file.write_text("import lathe, math, numpy as np\nfrom test_python import both, norm, total as other\n\n\ndef loop(v):\n    for k in range(3):\n        v += k\n"
                    "    return v\n\n\ndef again(v):\n    return again(v)\n\n\n@lathe.kernel\n"
                    f"def f(x: lathe.f64['N']) -> lathe.f64['N']:\n    {body}\n")
    with refused(lathe.SourceError, "E0918", *named.split()) as e:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "user"})
    assert e.value.line == 17, str(e.value)


def test_types_follow_from_functions_of_several_values():
    x = np.array([1.0, 3.0, 64.0, 1e9])
    y, n = types_follow_from_functions(x)
    assert n.tolist() == [0, 1, 5, 8] and y.tolist() == [0.5, 0.75, 1.0, -1e9 / 2**9]


@lathe.kernel
def over_indices(a: lathe.i64["M", "N", 2], limit: lathe.i64, y: lathe.out(lathe.i64["M", "N"])):
    for i, j in np.ndindex(y.shape):
        y[i, j] = 0
        for p, q in np.ndindex(len(a), 2):
            if a[p, j, q] > limit:
                y[i, j] += a[i, j, q] * a[p, j, q]
        for k in range(2):
            if a[i, j, k] > limit:
                break
            y[i, j] -= 1


def test_loops_over_all_indices():
    a = np.random.default_rng(5).integers(-9, 9, (3, 4, 2))
    want = np.zeros((3, 4), np.int64)
    over_indices.__wrapped__(a, 2, want)
    assert (over_indices(a, 2) == want).all()
    assert over_indices(a[:, :0], 2).shape == (3, 0)
    with refused(lathe.SourceError, "E0918", "2 names", "3 dimensions"):
        @lathe.kernel
        def few(y: lathe.inout(lathe.f64["N", "N", "N"])):
            for i, j in np.ndindex(len(y), len(y), len(y)):
                y[i, j, 0] = 0
    with refused(lathe.SourceError, "E0918", "`break`"):
        @lathe.kernel
        def first(y: lathe.inout(lathe.f64["N", "N"])):
            for i, j in np.ndindex(*y.shape):
                if y[i, j] > 0:
                    break
                y[i, j] = 1


OFFSET = np.float32(0.5)


@lathe.kernel
def scaled(x: lathe.f64["N"], by: lathe.f64 = 2.0, plus: lathe.f32 = OFFSET, times: lathe.i32 = 3) -> lathe.f64["N"]:
    return lambda i: (by * x[i] + np.float64(plus)) * np.float64(times)


def test_numbers_have_defaults():
    x = np.arange(5.0)
    assert scaled.defaults == {"by": 2.0, "plus": 0.5, "times": 3}
    for args, named, want in [((), {}, (2 * x + 0.5) * 3), ((4.0,), {}, (4 * x + 0.5) * 3), ((), {"times": 1}, 2 * x + 0.5),
                              ((1.0, 0.25), {"times": -1}, -(x + 0.25)), ((), {"plus": 0.0, "by": 1.0}, 3 * x)]:
        for kernel in (scaled, pickle.loads(pickle.dumps(scaled)), scaled.with_("strategy other for scaled = auto")):
            np.testing.assert_array_equal(kernel(x, *args, **named), want)
    np.testing.assert_array_equal(scaled(x=x), (2 * x + 0.5) * 3)
    np.testing.assert_array_equal(scaled(x, strategy="naive"), (2 * x + 0.5) * 3)
    assert scaled.compile(x).strategy
    with refused(lathe.ArgumentError, "E0808", "`x`"):
        scaled(by=1.0)
    with refused(lathe.ArgumentError, "E0808", "`by`", "twice"):
        scaled(x, 1.0, by=2.0)
    with refused(lathe.ArgumentError, "E0808", "4", "5"):
        scaled(x, 1.0, 2.0, 3, 4)


def test_defaults_in_operators_and_derivatives():
    jax = pytest.importorskip("jax")
    import lathe.jax

    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        x = jax.numpy.arange(4.0)
        double, triple = (lathe.jax.op(with_default(n)) for n in (2.0, 3.0))
        np.testing.assert_array_equal(double(x), 2 * x)
        np.testing.assert_array_equal(jax.jit(lambda x: triple(x))(x), 3 * x)
        np.testing.assert_array_equal(with_default(5.0)(x), 5 * x)
    np.testing.assert_array_equal(lathe.grad(total_of, "x")(np.ones(3)), [2.0, 2.0, 2.0])


def with_default(n):
    @lathe.kernel
    def times(x: lathe.f64["N"], by: lathe.f64 = n) -> lathe.f64["N"]:
        return lambda i: by * x[i]

    return times


@lathe.kernel
def total_of(x: lathe.f64["N"], by: lathe.f64 = 2.0) -> lathe.f64:
    return sum(by * x[i] for i in range(len(x)))
