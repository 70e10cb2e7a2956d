"""Calls with arrays of every kind: correct, or a clear error."""

import gc
import threading
import weakref

import numpy as np
import pytest

import lathe
from refusals import refused

GEMM = """
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
strategy tiled(ti = 64 in 16..=256 step 16, tj = 64 in 16..=256 step 16) for gemm =
    tile(i: ti, j: tj) ; vectorize(j.i, 16) ; parallel(i.o)
"""

gemm = lathe.kernel(GEMM)
scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")
rng = np.random.default_rng(1)


def matrices(m=5, n=7, k=3):
    return rng.random((m, k), np.float32), rng.random((k, n), np.float32)


def check(a, b, c):
    assert c.dtype == np.float32 and c.shape == (a.shape[0], b.shape[1])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_the_example_of_the_readme():
    a, b = matrices(50, 70, 30)
    c = gemm(a, b)
    check(a, b, c)
    again = gemm(a, b, out=c, strategy="tiled", params=dict(ti=96, tj=64), threads=2)
    assert again is c
    check(a, b, c)
    check(a, b, gemm(B=b, A=a))
    check(a, b, gemm(a, B=b))


def test_without_a_strategy():
    plain = lathe.kernel(GEMM[: GEMM.index("strategy")])
    for m, n, k in ((200, 130, 97), (64, 300, 128), (3, 4, 5)):
        a, b = matrices(m, n, k)
        check(a, b, plain(a, b))
        check(a.T.copy().T, b[:, ::-1], plain(a.T.copy().T, b[:, ::-1]))
    a, b = matrices(40, 30, 20)
    check(a, b, plain(a, b, strategy="auto"))


def test_strides_of_all_kinds():
    base = rng.random((12, 16), np.float32)
    for a in (base[:6, :8], base[::2, ::2], base[::-1, ::-1][:6, :8], base.T[:6, :8], base[5::-1, 7::-1],
              np.broadcast_to(base[0, :8], (6, 8)), base[:, ::-2][:6]):
        for b in (rng.random((8, 9), np.float32), rng.random((9, 8), np.float32).T, np.zeros((8, 0), np.float32),
                  rng.random((8, 9), np.float32)[:, ::-1]):
            check(a, b, gemm(a, b))
    out = np.zeros((9, 6), np.float32)
    a, b = matrices(6, 9)
    assert gemm(a, b, out=out.T).base is out
    check(a, b, out.T)
    big = np.full((20, 30), 7, np.float32)
    view = big[3:9, 25:7:-2]
    gemm(a, b, out=view)
    check(a, b, view)
    assert (big[:3] == 7).all() and (big[9:] == 7).all() and (big[:, 26:] == 7).all()


@pytest.mark.parametrize("m,n,k", [(0, 4, 3), (4, 0, 3), (4, 5, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_and_single(m, n, k):
    a, b = matrices(m, n, k)
    check(a, b, gemm(a, b))


def test_inputs_may_be_read_only():
    a, b = matrices()
    a.flags.writeable = False
    check(a, b, gemm(a, b))
    check(a, b, gemm(a, np.frombuffer(b.tobytes(), np.float32).reshape(b.shape)))
    out = np.zeros((5, 7), np.float32)
    out.flags.writeable = False
    with refused(lathe.ReadOnlyError, "E0822", "`C`"):
        gemm(a, b, out=out)


def test_wrong_arguments_are_named():
    a, b = matrices()
    with refused(lathe.ShapeError, "E0811", "`B`", "K = 3", "4"):
        gemm(a, rng.random((4, 7), np.float32))
    with refused(lathe.DtypeError, "E0809", "`A`", "f32", "float64", "astype(numpy.float32)") as e:
        gemm(a.astype(np.float64), b)
    assert isinstance(e.value, TypeError) and isinstance(e.value, lathe.ArgumentError)
    with refused(lathe.ShapeError, "E0810", "`A`", "2", "1"):
        gemm(a[0], b)
    with refused(lathe.DtypeError, "E0808", "`gemm`", "2", "1"):
        gemm(a)
    with refused(TypeError, "E0917", "`alpha`"):
        gemm(a, b, alpha=2)
    with refused(lathe.DtypeError, "E0808", "`A`"):
        gemm(a, A=b)
    with refused(lathe.DtypeError, "E0809", "`list`"):
        gemm([[1.0]], b)
    with refused(lathe.DtypeError, "E0809", "object"):
        gemm(a.astype(object), b)
    with refused(lathe.DtypeError, "E0809", "`MaskedArray`"):
        gemm(np.ma.masked_array(a), b)
    with refused(lathe.DtypeError, "E0809", "`NoneType`"):
        gemm(None, b)
    with refused(lathe.ShapeError, "E0811", "`C`", "7", "8"):
        gemm(a, b, out=np.zeros((5, 8), np.float32))
    with refused(lathe.DtypeError, "E0809", "`C`", "float64"):
        gemm(a, b, out=np.zeros((5, 7)))
    with refused(ValueError, "E0917", "`threads`"):
        gemm(a, b, threads=0)
    with refused(lathe.StrategyError, "E0903", "`fats`"):
        gemm(a, b, strategy="fats")
    with refused(lathe.StrategyError, "E0602", "`ti`", "17"):
        gemm(a, b, strategy="tiled", params=dict(ti=17))
    with refused(lathe.StrategyError, "E0601", "`tk`"):
        gemm(a, b, strategy="tiled", params=dict(tk=16))


def test_what_needs_a_copy_is_copied_only_when_allowed():
    a, b = matrices()
    swapped = a.astype(">f4")
    raw = np.zeros(a.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(a.shape)
    misaligned[:] = a
    pairs = np.zeros((5, 3), np.dtype([("x", "u1"), ("v", "f4")], align=False))
    pairs["v"] = a
    odd = np.ndarray((5, 3), np.float32, buffer=np.zeros(200, np.uint8), strides=(30, 6), offset=0)
    odd[:] = a
    for x in (swapped, misaligned, pairs["v"], odd):
        with pytest.raises(lathe.ArgumentError) as e:
            gemm(x, b)
        assert "copy=True" in e.value.help
        with pytest.warns(lathe.CopyWarning, match="`A`"):
            check(a, b, gemm(x, b, copy=True))
        with pytest.raises(lathe.ArgumentError):
            gemm(a, b, out=x if x.shape == (5, 7) else np.zeros((5, 7), ">f4"), copy=True)
    with pytest.warns(lathe.CopyWarning):
        check(a, b, gemm(a.tolist(), b, copy=True))
    with pytest.raises(lathe.DtypeError):
        gemm(a.astype(object), b, copy=True)
    with pytest.raises(lathe.DtypeError):
        gemm(a.astype(np.float64), b, copy=True)


def test_results_must_not_overlap():
    a, b = matrices(6, 6, 6)
    for out in (a, b, a[::-1], a.T):
        with refused(lathe.OverlapError, "E0812", "`C`", "`gemm`"):
            gemm(a, b, out=out)
    check(a, a, gemm(a, a))
    with pytest.raises(lathe.OverlapError):
        gemm(a, b, out=np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (6, 6), (0, 4)))


def test_numbers():
    x = np.arange(4, dtype=np.float32)
    flip = lathe.kernel("kernel flip(b: bool, x: bool[N]) -> (y: bool[N]) { y[i] = b and x[i] }")
    for no in (False, np.False_, np.array(False), np.array([True, False])[1:].reshape(())):
        assert not flip(no, np.array([True])).any() and flip(not no, np.array([True])).all()
    for wrong in (0, None, np.array([True]), np.array(1), "x"):
        with pytest.raises(lathe.DtypeError):
            flip(wrong, np.array([True]))
    for two in (2, 2.0, np.float64(2), np.int8(2), np.float32(2), np.array(2.0), True + 1):
        np.testing.assert_array_equal(scale(two, x), 2 * x)
    for wrong in ("2", None, [2], x):
        with pytest.raises((lathe.DtypeError, TypeError)):
            scale(wrong, x)
    with pytest.raises(lathe.ArgumentError):
        scale(1e300, x)
    ints = lathe.kernel("kernel add(a: i8, x: i8[N]) -> (y: i8[N]) { y[i] = a + x[i] }")
    np.testing.assert_array_equal(ints(-3, np.array([1, 2], np.int8)), [-2, -1])
    for wrong in (128, -129, 1.5, 2**70):
        with pytest.raises(lathe.ArgumentError):
            ints(wrong, np.array([1], np.int8))


def test_every_element_type():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    types = dict(f16=np.float16, bf16=ml_dtypes.bfloat16, f32=np.float32, f64=np.float64, i8=np.int8, i16=np.int16,
                 i32=np.int32, i64=np.int64, u8=np.uint8, u16=np.uint16, u32=np.uint32, u64=np.uint64, index=np.int64)
    for name, dtype in types.items():
        k = lathe.kernel(f"kernel twice(x: {name}[N]) -> (y: {name}[N]) {{ y[i] = x[i] + x[i] }}")
        x = np.array([1, 2, 3], dtype)
        y = k(x)
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y, x + x)
        for other, wrong in types.items():
            if np.dtype(wrong) != np.dtype(dtype):
                with pytest.raises(lathe.DtypeError):
                    k(np.array([1], wrong))
    k = lathe.kernel("kernel flip(x: bool[N]) -> (y: bool[N]) { y[i] = not x[i] }")
    np.testing.assert_array_equal(k(np.array([True, False])), [False, True])
    for wrong in (np.complex64, np.dtype("M8[s]"), np.dtype("S4"), np.longdouble):
        with pytest.raises(lathe.DtypeError):
            scale(1, np.zeros(3, wrong))


def test_structs():
    k = lathe.kernel("""
struct Point { x: f32, n: i64 }
kernel swap(p: Point[N]) -> (q: Point[N]) { q[i] = Point(x: f32(p[i].n), n: i64(p[i].x)) }
""")
    dtype = k.dtype("p")
    p = np.zeros(3, dtype)
    p["x"], p["n"] = [1, 2, 3], [4, 5, 6]
    q = k(p)
    assert q["x"].tolist() == [4, 5, 6] and q["n"].tolist() == [1, 2, 3]
    with pytest.raises(lathe.DtypeError):
        k(np.zeros(3, [("x", "f4"), ("n", "i8")]))
    with pytest.raises(lathe.DtypeError):
        k(np.zeros(3, "V16"))


def test_several_results_and_inout():
    both = lathe.kernel("kernel both(x: f32[N]) -> (d: f32[N], s: f32[N]) { d[i] = 2 * x[i]\n s[i] = x[i] * x[i] }")
    x = np.arange(4, dtype=np.float32)
    d, s = both(x)
    np.testing.assert_array_equal(d, 2 * x)
    np.testing.assert_array_equal(s, x * x)
    mine = np.empty(4, np.float32)
    d, s = both(x, out=(None, mine))
    assert s is mine
    with refused(lathe.ArgumentError, "E0907", "`both`", "2", "1"):
        both(x, out=mine)
    total = lathe.kernel("kernel total(x: f32[N], t: inout f32[N]) { t[i] += x[i] }")
    t = np.ones(4, np.float32)
    assert total(x, t) is None
    np.testing.assert_array_equal(t, 1 + x)
    t.flags.writeable = False
    with pytest.raises(lathe.ReadOnlyError):
        total(x, t)
    with pytest.raises(lathe.OverlapError):
        total(x, x)


def test_extents_that_are_formulas():
    blur = lathe.kernel("kernel b(I: f32[N + 2, 2 * M]) -> (O: f32[N, M]) { O[y, x] = I[y, 2 * x] + I[y + 2, 2 * x + 1] }")
    i = rng.random((7, 6), np.float32)
    np.testing.assert_allclose(blur(i), i[:5, ::2] + i[2:, 1::2])
    # What was meant is one of two.
    with refused(lathe.ShapeError, "E0811", "`I`", "extent 4 (`M * 2`)", "has 5", "extent 4 with M = 2", "extent 6 with M = 3"):
        blur(rng.random((7, 5), np.float32))
    with refused(lathe.ShapeError, "E0811", "dimension 0 of `O`", "extent 5", "has 4", "N = 5", "dimension 0 of `I`", "`N + 2`"):
        blur(i, out=np.empty((4, 3), np.float32))
    with refused(lathe.ShapeError, "E0811", "`O`", "-1"):
        blur(rng.random((1, 6), np.float32))
    # Sizes that follow from several dimensions together.
    conv = lathe.kernel("kernel c(I: f32[P + R - 1, Q + 2 * S], F: f32[R, S]) -> (O: f32[P, Q]) "
                        "{ O[p, q] = sum[r, s](I[p + r, q + s] * F[r, s]) }")
    f = rng.random((3, 1), np.float32)
    np.testing.assert_allclose(conv(i, f), i[:5, :4] * f[0] + i[1:6, :4] * f[1] + i[2:, :4] * f[2], rtol=1e-6)
    with pytest.raises(lathe.ShapeError):
        conv(i, rng.random((9, 1), np.float32))


def test_checks_and_failures_of_kernels():
    k = lathe.kernel("kernel div(a: i32[N], b: i32[N]) -> (c: i32[N]) { c[i] = a[i] // b[i] }")
    with pytest.raises(ZeroDivisionError):
        k(np.ones(3, np.int32), np.zeros(3, np.int32))
    with pytest.raises(lathe.LatheError):
        k(np.ones(3, np.int32), np.zeros(3, np.int32))


def test_sources_that_are_wrong_show_the_place():
    with refused(lathe.SourceError, "E0201", "`Q`") as e:
        lathe.kernel("kernel f(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i] + Q[i]\n}")
    assert e.value.line == 2 and "Q[i]" in str(e.value)
    with pytest.raises(lathe.SourceError):
        lathe.kernel("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = A[i + 1] }")(np.ones(3, np.float32))
    with refused(lathe.SourceError, "E0902"):
        lathe.kernel("")
    with refused(lathe.StrategyError, "E0621", "`unroll`", "`q`") as e:
        lathe.kernel("kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }\nstrategy s for f = unroll(q)").explain(strategy="s")
    assert "unroll(q)" in str(e.value) and e.value.line == 2


def test_a_default_that_sizes_refuse_is_replaced_with_a_warning():
    k = lathe.kernel(
        "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }\nstrategy fast for f = split(i, 8) ; unroll(i.i)"
    )
    a = np.arange(5, dtype=np.float32)
    with pytest.warns(UserWarning, match="`fast`.*E0624"):
        np.testing.assert_array_equal(k(a, specialize={"N": 5}), 2 * a)
    with pytest.raises(lathe.StrategyError):
        k(a, specialize={"N": 5}, strategy="fast")


def test_threads_call_the_same_kernel():
    # Small integers: every order of the sums gives the same bits.
    pairs = [tuple(rng.integers(-4, 5, s).astype(np.float32) for s in ((n + 3, 9), (9, 4))) for n in range(8)]
    failures, done = [], []

    def run(a, b):
        try:
            want = a @ b
            for i in range(1000):
                c = gemm(a, b) if i % 2 else gemm(a, b, strategy="tiled", threads=2)
                np.testing.assert_array_equal(c, want)
                done.append(i)
        except BaseException as e:  # noqa: BLE001
            failures.append(e)

    threads = [threading.Thread(target=run, args=p) for p in pairs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and len(done) == 8000


def test_arrays_live_as_long_as_the_call():
    """Nobody else holds them, and others collect what nobody holds; a resize that asks first is refused meanwhile."""
    slow = lathe.kernel("kernel slow(x: f64[N]) -> (y: f64[N]) { y[i] = sum[k](x[k] * x[i]) where i in 0..N, k in 0..N }")
    slow(np.ones(2))
    n, results, freed = 6000, [], []

    class Mine(np.ndarray):
        pass

    def run():
        x = np.ones(n).view(Mine)
        weakref.finalize(x, freed.append, 1)
        results.append(slow(x))
        del x

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        gc.collect()
        np.full(n, 7.0)
    for t in threads:
        t.join()
    gc.collect()
    assert len(freed) == 4 and len(results) == 4 and all((r == n).all() for r in results)
    y = slow(np.ones(3))
    assert y.base is None and y.flags.owndata and y.tolist() == [3, 3, 3]


def test_the_lock_is_released():
    slow = lathe.kernel("kernel slow(x: f64[N]) -> (y: f64[N]) { y[i] = sum[k](x[k] * x[i] + x[k]) where i in 0..N, k in 0..N }")
    x = np.ones(20_000)
    slow(x[:2])
    ticks = 0
    done = threading.Event()
    t = threading.Thread(target=lambda: (slow(x), done.set()))
    t.start()
    while not done.is_set():
        ticks += 1
        done.wait(0.001)
    t.join()
    assert ticks > 3


GENERIC = """
kernel scaled<T in {f16, f32, f64, i32}>(a: T, x: T[N]) -> (y: T[N]) { y[i] = a * x[i] }
kernel mixed<T = f64 in {f32, f64}, I in {i32, i64}>(x: T[M], p: I[N]) -> (y: T[N]) {
    y[i] = select(p[i] >= I(0) and p[i] < I(M), x[p[i]], T(0))
}
strategy wide for scaled = vectorize(i, vector(T))
"""


def test_arrays_choose_the_element_types_of_generic_kernels():
    scaled = lathe.kernel(GENERIC, "scaled")
    for _ in range(2):
        for dtype in (np.float64, np.float32, np.int32, np.float16):
            x = np.arange(5).astype(dtype)
            y = scaled(3, x)
            assert y.dtype == dtype and (y == 3 * x).all()
            out = np.empty_like(x)
            assert scaled(x=x, a=2, out=out, strategy="wide") is out and (out == 2 * x).all()
    mixed = lathe.kernel(GENERIC, "mixed")
    assert mixed.name == "mixed"
    for t in (np.float32, np.float64):
        for p in (np.int32, np.int64):
            y = mixed(np.arange(4).astype(t), np.array([3, 0, 9], p))
            assert y.dtype == t and (y == [3, 0, 0]).all()


def test_what_no_choice_fits_is_told_about_the_kernel_itself():
    scaled = lathe.kernel(GENERIC, "scaled")
    scaled(1, np.ones(3, np.float64))
    for wrong in (np.ones(3, np.uint8), np.ones(3, complex), np.array(["a"])):
        with refused(lathe.DtypeError, "E0809", "`x`", "f32") as e:
            scaled(1, wrong)
        assert "f64" not in e.value.message
    with pytest.raises(lathe.ShapeError):
        scaled(1, np.ones((2, 2), np.float64))
    # A choice that was named is meant.
    only = scaled.typed(T=lathe.f64)
    assert only.name == "scaled_f64" and scaled.typed().name == "scaled" and scaled.typed(T="i32").name == "scaled_i32"
    with pytest.raises(lathe.DtypeError):
        only(1, np.ones(3, np.float32))
    for types in ({"T": "i8"}, {"S": lathe.f32}, {"T": "nothing"}):
        with pytest.raises(lathe.LatheError):
            scaled.typed(**types)
    with pytest.raises(lathe.LatheError):
        gemm.typed(T=lathe.f32)
