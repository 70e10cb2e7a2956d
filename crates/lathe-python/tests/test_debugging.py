"""`print` and `assert` in kernels."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import lathe
from refusals import refused


@lathe.kernel
def roots(x: lathe.f64["N"], least: lathe.f64, y: lathe.out(lathe.f64["N"])):
    for i in range(len(x)):
        print(f"{{x}}[{i}] is {x[i]}:", x[i] > 2, 'a "{}" \\')
        assert x[i] >= least, f"{x[i]} has no root"
        y[i] = np.sqrt(x[i])


def shown(x, i):
    return f'{{x}}[{i}] is {x}: {str(x > 2).lower()} a "{{}}" \\\n'


def test_they_run_on_request(capsys):
    x = np.array([4.0, 2.25, 1.0])
    assert (roots(x, 0.0) == [2, 1.5, 1]).all()
    assert (roots(x, 5.0) == [2, 1.5, 1]).all()
    assert capsys.readouterr().out == ""
    out = np.empty(3)
    for more in ({}, {"out": out}, {"threads": 2}):
        assert (roots(x, 0.0, debug=True, **more) == [2, 1.5, 1]).all()
        assert capsys.readouterr().out == shown(4.0, 0) + shown(2.25, 1) + shown(1.0, 2)
    with pytest.raises(lathe.AssertError, match="2.25") as e:
        roots(x, 3.0, debug=True)
    assert capsys.readouterr().out == shown(4.0, 0) + shown(2.25, 1)
    assert e.value.code == "E0921" and isinstance(e.value, AssertionError)
    assert e.value.notes == ["x[i] = 2.25", "i = 1", "least = 3.0"] and "x[i] = 2.25" in str(e.value)
    # It points at the line of the function.
    assert e.value.file == __file__ and "assert x[i] >= least" in Path(__file__).read_text().splitlines()[e.value.line - 1]
    assert (roots(x, 9.0, debug=False) == [2, 1.5, 1]).all()


def test_the_same_in_the_language(capsys):
    shows = lathe.kernel("kernel shows(a: i8[N], b: u64[N]) -> (s: f32[1]) { s[0] = 0.0; "
                         "for i in 0..N { print(a[i], b[i]); s[0] += f32(a[i]) }; print(); print(\"sum\", s[0] / 7.0) }")
    a, b = np.array([-128, 127], np.int8), np.array([0, 2**64 - 1], np.uint64)
    shows(a[::-1], b, debug=True)
    printed = f"127 0\n-128 18446744073709551615\n\nsum {np.float32(-1) / np.float32(7)!s}\n"
    assert capsys.readouterr().out == printed
    shows(a[:0], b[:0], debug=True)
    assert capsys.readouterr().out == "\nsum 0.0\n"


def test_all_types(capsys):
    shows = lathe.kernel("kernel shows(z: c64[N], w: c128[N], h: f16[N], b: bool[N]) -> (n: i64[1]) { n[0] = 0; "
                         "for i in 0..N { print(z[i], w[i] * w[i], h[i], b[i]); assert(z[i].re < 3.0) } }")
    z = np.array([1 - 2j, complex(math.inf, math.nan), 3], np.complex64)
    w = z.astype(np.complex128)
    w[1] = 0.1
    h, b = np.array([0.5, -0.0, 65504], np.float16), np.array([True, False, True])
    with pytest.raises(lathe.AssertError) as e:
        shows(z, w, h, b, debug=True)
    assert capsys.readouterr().out == "1.0 - 2.0i -3.0 - 4.0i 0.5 true\ninf + NaNi 0.010000000000000002 + 0.0i -0.0 false\n"
    assert e.value.notes == ["z[i].re = inf", "z[i] = inf + NaNi", "i = 1"]


def test_what_is_too_much_is_not_kept(capsys):
    shows = lathe.kernel("kernel shows(n: i64) -> (s: i64[1]) { s[0] = n; for i in 0..index(n) { print(i) } }")
    shows(200_000, debug=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["0", "1"] and lines[-1] == f"… {200_000 - len(lines) + 1} more were dropped"


@lathe.kernel
def double(x: lathe.f32["N"], y: lathe.out(lathe.f32["N"])):
    for i in range(len(x)):
        assert x[i] < 2
        y[i] = 2 * x[i]


def test_generic_and_derived_kernels(capsys):
    of = lathe.kernel("kernel twice<T in {f32, f64, i64}>(x: T[N + 1]) -> (y: T[N + 1]) { print(\"first\", x[0]); y[i] = x[i] + x[i] }")
    for t, text in ((np.float32, "1.5"), (np.float64, "1.5"), (np.int64, "1")):
        assert of(np.array([1.5], t), debug=True).dtype == t
        assert capsys.readouterr().out == f"first {text}\n"
    x = np.array([1, 3], np.float32)
    # What is not debugged does not know of them: derivatives, code that is written, compiled versions.
    assert (lathe.vjp(double)(x, np.ones(2, np.float32)) == 2).all()
    for text in (double.emit("tree"), double.emit("c"), double.explain()):
        assert "debug.log" not in text and "assert" not in text
    assert (pickle.loads(pickle.dumps(double))(x) == [2, 6]).all()
    with refused(lathe.AssertError, "E0921"):
        double(x, debug=True)


def test_options():
    plain = lathe.kernel("kernel f(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }")
    x = np.ones(3, np.float32)
    assert (plain(x, debug=True) == 1).all()
    with pytest.raises(lathe.OptionError, match="debug"):
        plain(x, debug="yes")
    with pytest.raises(lathe.ShapeError):
        double(x[None], debug=True)
    named = lathe.kernel("kernel f(debug: i64) -> (x: i64[1]) { x[i] = debug }")
    assert named(debug=3)[0] == 3
    spread = double.with_("strategy spread for double = open; parallel(i)")
    assert (spread(x, strategy="spread") == 2).all() and (spread(x, debug=True) == 2).all()
    with pytest.raises(lathe.StrategyError, match="debug.log"):
        spread(x, strategy="spread", debug=True)
    with pytest.raises(lathe.SourceError, match="formats"):
        @lathe.kernel
        def f(x: lathe.f64["N"], y: lathe.out(lathe.f64["N"])):
            for i in range(len(x)):
                print(f"{x[i]:.3f}")
                y[i] = x[i]
