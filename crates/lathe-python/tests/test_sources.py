"""Kernels, strategies and funs that are written in Python: they say what the same text says."""

import importlib.util
import linecache
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import lathe
from refusals import refused

RADIUS = 2
rng = np.random.default_rng(2)


@lathe.kernel
def blur(I: lathe.f32["H", "W"]) -> lathe.f32["H-2", "W-2"]:
    """Three rows."""
    return lambda y, x: (I[y, x] + I[y + 1, x] + I[y + 2, x]) / 3


@lathe.kernel
def gemm(A: lathe.f32["M", "K"], B: lathe.f32["K", "N"]) -> {"C": lathe.f32["M", "N"]}:
    return lambda i, j: sum(A[i, k] * B[k, j] for k in range(A.shape[1]))


def test_decorated_functions():
    i = rng.random((6, 7), np.float32)
    np.testing.assert_allclose(blur(i), ((i[:-2] + i[1:-1] + i[2:]) / 3)[:, :-2], rtol=1e-6)
    assert blur.source().startswith("# Three rows.\nkernel blur(I: f32[H, W])")
    a, b = rng.random((3, 4), np.float32), rng.random((4, 5), np.float32)
    np.testing.assert_allclose(gemm(a, b), a @ b, rtol=1e-6)
    assert [p[0] for p in gemm.parameters] == ["A", "B", "C"]
    again = lathe.kernel(gemm.source())
    np.testing.assert_array_equal(again(a, b), gemm(a, b))


def test_loops_locals_and_conditions():
    @lathe.kernel
    def heat(u: lathe.inout(lathe.f64["T", "X"]), c: lathe.f64):
        for t in range(u.shape[0] - 1):
            for x in range(u.shape[1]):
                if x >= 1 and x < u.shape[1] - 1:
                    u[t + 1, x] = u[t, x] + c * (u[t, x - 1] - 2 * u[t, x] + u[t, x + 1])
                else:
                    u[t + 1, x] = u[t, x]

    u = rng.random((4, 9))
    want = u.copy()
    for t in range(3):
        want[t + 1] = want[t]
        want[t + 1, 1:-1] = want[t, 1:-1] + 0.1 * (want[t, :-2] - 2 * want[t, 1:-1] + want[t, 2:])
    heat(u, 0.1)
    np.testing.assert_allclose(u, want)

    @lathe.kernel
    def two(x: lathe.f64["N"]) -> (lathe.f64["N"], lathe.f64["N"]):
        return lambda i: (math.exp(x[i]) if x[i] > 0 else -x[i], np.maximum(x[i], 1) ** 2 - math.pi + RADIUS)

    x = rng.random(5) - 0.5
    p, q = two(x)
    np.testing.assert_allclose(p, np.where(x > 0, np.exp(x), -x))
    np.testing.assert_allclose(q, np.maximum(x, 1) ** 2 - math.pi + RADIUS)

    @lathe.kernel
    def staged(I: lathe.f32["N", "M"], O: lathe.out(lathe.f32["N", "M - 1"])):
        H: lathe.f32["N", "M"]
        H[y, x] = 2 * I[y, x]
        O[y, x] = H[y, x] + H[y, x + 1]

    i = rng.random((3, 4), np.float32)
    np.testing.assert_allclose(staged(i), 2 * (i[:, :-1] + i[:, 1:]), rtol=1e-6)

    @lathe.kernel
    def picked(x: lathe.i32["N"], lo: lathe.i32) -> lathe.i32["N"]:
        return lambda i: max(x[k] if x[k] > lo else -1 for k in range(x.shape[0])) + i32(0) * x[i]  # noqa: F821

    np.testing.assert_array_equal(picked(np.array([3, 9, 4], np.int32), 3), [9, 9, 9])


def test_what_python_says_and_a_kernel_cannot():
    with refused(lathe.SourceError, "E0918") as e:
        @lathe.kernel
        def bad(x: lathe.f32["N"]) -> lathe.f32["N"]:
            return lambda i: x[i:2]
    assert e.value.file == __file__ and "^^^" in str(e.value)
    assert "x[i:2]" in Path(__file__).read_text().splitlines()[e.value.line - 1]
    with refused(lathe.SourceError, "E0918", "`x`"):
        @lathe.kernel
        def untyped(x) -> lathe.f32["N"]:
            return lambda i: x[i]
    with refused(lathe.SourceError, "E0918", "`step`"):
        @lathe.kernel
        def words(step: lathe.f32["N"]) -> lathe.f32["N"]:
            return lambda i: step[i]
    with refused(lathe.SourceError, "E0918"):
        @lathe.kernel
        def text(x: lathe.f32["N"]) -> lathe.f32["N"]:
            return lambda i: x[i] if "a" else 0
    with refused(lathe.SourceError, "E0918", "2", "1"):
        @lathe.kernel
        def indices(x: lathe.f32["N"]) -> lathe.f32["N", "N"]:
            return lambda i: x[i]
    with pytest.raises(TypeError):
        lathe.f32[1.5]


def test_strategies_are_values():
    a, b = rng.random((50, 40), np.float32), rng.random((40, 30), np.float32)
    s = lathe.strategy(lambda p: p.tile(i=p.pick(16, 256, step=16), j=64) >> p.parallel("i.o"), for_=gemm)
    np.testing.assert_allclose(gemm(a, b, strategy=s), a @ b, rtol=1e-5)
    np.testing.assert_allclose(gemm(a, b, strategy=s, params={"p1": 32}), a @ b, rtol=1e-5)
    with pytest.raises(lathe.StrategyError):
        gemm(a, b, strategy=s, params={"p1": 33})

    @lambda f: lathe.strategy(f, for_=gemm, where="ti * 2 <= 128")
    def tiled(p, ti=lathe.pick([16, 32, 64], default=32), w=16):
        return p.tile(i=ti, j=ti * 2) >> p.try_(p.vectorize("j.i", w)) >> (p.unroll("nothing") | p.id)

    assert tiled.name == "tiled" and tiled.parameters == ["ti", "w"]
    assert "strategy tiled(ti = 32 in {16, 32, 64}, w = 16 where ti * 2 <= 128) for gemm =" in tiled.source()
    both = gemm.with_(tiled, s)
    assert {n for n, _ in both.strategies()} >= {"tiled", s.name, "naive"}
    np.testing.assert_allclose(both(a, b, strategy="tiled", params={"ti": 64}), a @ b, rtol=1e-5)
    np.testing.assert_allclose(lathe.kernel(both.source())(a, b, strategy="tiled"), a @ b, rtol=1e-5)
    inner = lathe.strategy(lambda p: p.split("k", 8), name="inner")
    outer = lathe.strategy(lambda p: p.when("M <= 64", inner, p.tile(i=16, j=16) >> inner), for_=gemm, name="outer")
    text = gemm.explain(strategy=outer)
    assert "outer when M <= 64" in text and "split" in text
    with refused(lathe.StrategyError, None, "`int`"):
        lathe.strategy(lambda p: 3)
    with pytest.raises(lathe.StrategyError):
        gemm.explain(strategy=lathe.strategy(lambda p: p.unroll("q"), for_=gemm))


def test_funs():
    @lathe.fun
    def dot(xs: lathe.f32["K"], ys: lathe.f32["K"]) -> lathe.f32:
        return zip(xs, ys) | map(pair(lambda x, y: x * y)) | reduce(add, 0)  # noqa: F821

    x = np.arange(5, dtype=np.float32)
    assert dot(x, x) == 30
    text = lathe.fun("fun twice(xs: f32[N]) -> f32[N] = xs |> map(|x| 2 * x)")
    np.testing.assert_array_equal(text(x), 2 * x)


def test_a_look_at_a_kernel():
    k = lathe.kernel("""
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
strategy tiled(ti = 64 in 16..=256 step 16) for gemm = tile(i: ti, j: 64) ; parallel(i.o)
""")
    e = k.explain(strategy="tiled", diff=True)
    assert "tile(i: 64, j: 64)" in e and "by-dependence" in e
    assert "<table>" in e._repr_html_() and e.data["kernel"] == "gemm"
    assert "func gemm" in k.emit("tree") and "gemm" in k.emit("asm") and "define" in k.emit("llvm")
    assert "int32_t" in k.emit("c") and k.emit("object")[:4] == b"\x7fELF"
    with refused(ValueError, "E0917", "`rust`"):
        k.emit("rust")
    c = k.compile(strategy="tiled", params={"ti": 32})
    assert c.strategy == "tiled" and c.source == "requested" and c.params["ti"] == "32"
    assert "C: f32[M, N]" in repr(k) and "kernel gemm" in k._repr_html_()
    assert k.sizes == ["M", "K", "N"]
    again = pickle.loads(pickle.dumps(k))
    assert again.source() == k.source() and again.name == k.name


def test_objects_are_written_with_a_header(tmp_path):
    path = gemm.emit("object", tmp_path / "gemm.o")
    assert path.read_bytes()[:4] == b"\x7fELF" and "gemm" in (tmp_path / "gemm.h").read_text()
    with pytest.raises(OSError):
        gemm.emit("object", tmp_path / "no" / "gemm.o")


def test_files(tmp_path):
    file = tmp_path / "two.lathe"
    file.write_text("kernel a(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] }\nkernel b(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }")
    assert lathe.load(file, "b")(np.ones(2, np.float32)).tolist() == [2, 2]
    with refused(lathe.SourceError, "E0902", f"`{file}`"):
        lathe.load(file)
    with refused(lathe.FileError, "E0901", f"`{tmp_path / 'none.lathe'}`"):
        lathe.load(tmp_path / "none.lathe")


def test_codes_are_explained():
    from lathe.errors import explain

    assert "E0811" in explain("E0811") and "Wrong" in explain("E0811")
    with pytest.raises(ValueError):
        explain("E9999")


def test_sources_that_are_edited(tmp_path):
    """A kernel stays what it was made of; a function is read only from the text that it was made of."""
    module = """import lathe

def f(x: lathe.f32["N"]) -> lathe.f32["N"]:
    return lambda i: x[i] + 1

def g(x: lathe.f32["N"]) -> lathe.f32["N"]:
    return lambda i: 3 * x[i]
"""
    file = tmp_path / "edited_module.py"
    file.write_text(module)
    spec = importlib.util.spec_from_file_location("edited_module", file)
    m = importlib.util.module_from_spec(spec)
    sys.modules["edited_module"] = m
    spec.loader.exec_module(m)
    x = np.zeros(2, np.float32)
    before = lathe.kernel(m.f)
    assert before(x).tolist() == [1, 1]
    # The next second, and another length: whoever caches files by these sees the change.
    file.write_text(module.replace("x[i] + 1", "x[i] + 22"))
    linecache.checkcache()
    assert before(x).tolist() == [1, 1]
    with refused(lathe.SourceError, None, "`f`", str(file)):
        lathe.kernel(m.f)
    assert lathe.kernel(m.g)(x + 1).tolist() == [3, 3]
    spec.loader.exec_module(m)
    assert lathe.kernel(m.f)(x).tolist() == [22, 22]
    for other in ("def broken(:\n" + module, "# One more line.\n" + module, "", module.replace("def f", "def h")):
        file.write_text(other)
        linecache.checkcache()
        with pytest.raises(lathe.SourceError):
            lathe.kernel(m.f)
    source = tmp_path / "k.lathe"
    source.write_text("kernel k(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] + 1 }")
    one = lathe.load(source)
    source.write_text("kernel k(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] + 2 }")
    assert one(x).tolist() == [1, 1] and lathe.load(source)(x).tolist() == [2, 2]
