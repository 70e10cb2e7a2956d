"""Wheels of compiled kernels: used by a Python that has no Lathe, and what cannot be shipped."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile

import numpy as np
import pytest

import lathe
from refusals import refused

pytestmark = pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc").split()[0]) is None, reason="no C compiler")

gemm = lathe.kernel("""
kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }
strategy tiled(t = 32 in 16..=64 step 16) for gemm = tile(i: t, j: 32) ; parallel(i.o)
""")
mixed = lathe.kernel("kernel mixed(x: f32[N + 2], a: f64, u: inout i32[N, 3]) -> (y: f32[N], s: f64) "
                     "{ y[i] = x[i + 1] * f32(a)\n s = a * 2\n u[i, j] = u[i, j] + 1 }")
gather = lathe.kernel("kernel gather(x: f64[N], at: i64[M]) -> (y: f64[M]) { y[i] = x[at[i]] }")
divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")
slice_ = lathe.kernel("kernel first(x: f64[N], n: index) -> (y: f64[M]) { assume(M <= N)\n y[i] = x[i] + f64(n) }")
flags = lathe.kernel("kernel flags(b: bool[N], c: bool) -> (d: bool[N]) { d[i] = b[i] and c }")

USER = """
import sys
import numpy as np
assert "lathe" not in sys.modules
import kernels_of_mine as k
try:
    import lathe
except ImportError:
    pass
else:
    raise SystemExit("there is a Lathe")

def refused(kind, call):
    try:
        call()
    except kind as e:
        return str(e)
    raise SystemExit(f"not refused: {call}")

rng = np.random.default_rng(0)
A, B = rng.random((70, 33), np.float32), rng.random((33, 50), np.float32)
assert np.allclose(k.gemm(A, B), A @ B, rtol=1e-5)
assert np.allclose(k.gemm(A[::-2, ::3], B=B[::3].T.copy().T), A[::-2, ::3] @ B[::3], rtol=1e-5)
C = np.empty((50, 70), np.float32).T
assert k.gemm(A, B, out=C) is C and np.allclose(C, A @ B, rtol=1e-5)
assert k.gemm(A[:0], B).shape == (0, 50) and (k.gemm(A[:, :0], B[:0]) == 0).all()
u = np.zeros((4, 3), np.int32)
y, s = k.mixed(np.arange(6, dtype=np.float32), 2, u)
assert y.tolist() == [2, 4, 6, 8] and s.shape == () and s == 4 and (u == 1).all()
assert k.gather(np.arange(3.0), np.array([2, 0])).tolist() == [2, 0]
assert k.flags(np.array([True, False]), True).tolist() == [True, False]
out = np.empty(2)
assert k.first(np.ones(3), 5, out=out) is out and (out == 6).all()
x = np.ones(3, np.int32)
assert "gather" in refused(ValueError, lambda: k.gather(np.arange(3.0), np.array([3])))
assert "divide" in refused(ZeroDivisionError, lambda: k.divide(x, x - 1))
assert "33" in refused(ValueError, lambda: k.gemm(A, B[:5]))
assert "float32" in refused(TypeError, lambda: k.gemm(A.astype(float), B))
assert "float32" in refused(TypeError, lambda: k.gemm(A.astype(">f4"), B))
refused(TypeError, lambda: k.gemm(A)), refused(TypeError, lambda: k.gemm(A, B, D=1)), refused(TypeError, lambda: k.gemm(A, B, A=A))
refused(ValueError, lambda: k.gemm(A[0], B)), refused(ValueError, lambda: k.gemm(A, B, out=(C, C)))
refused(ValueError, lambda: k.gemm(A, B, out=np.broadcast_to(C, C.shape))), refused(ValueError, lambda: k.gemm(A, A.T, out=A[:, :70]))
refused(TypeError, lambda: k.mixed(np.arange(6, dtype=np.float32), "2", u)), refused(ValueError, lambda: k.first(np.ones(3), 5))
refused(TypeError, lambda: k.first(np.ones(3), 1.5, out=out)), refused(ValueError, lambda: k.gemm(np.zeros((70, 33), np.float32)[:, 1:], B))
assert "M, K" in k.gemm.__doc__ and sorted(k.__all__) == ["divide", "first", "flags", "gather", "gemm", "mixed"]
print("done")
"""


def test_a_wheel_needs_no_lathe(tmp_path):
    path = lathe.ship([(gemm, {"strategy": "tiled", "params": {"t": 16}}), mixed, gather, divide, slice_, flags], tmp_path,
                      name="kernels_of_mine", version="1.2")
    assert path.parent == tmp_path and path.name.startswith("kernels_of_mine-1.2-py3-none-")
    names = zipfile.ZipFile(path).namelist()
    assert names[-1] == "kernels_of_mine-1.2.dist-info/RECORD" and "kernels_of_mine/kernels.so" in names
    # A Python of its own, which sees numpy and this package.
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check",
                    "--target", str(site), str(path)], check=True)
    numpy = os.path.dirname(os.path.dirname(np.__file__))
    for folder in os.listdir(numpy):
        if folder.startswith("numpy"):
            os.symlink(os.path.join(numpy, folder), site / folder)
    venv.create(tmp_path / "env", with_pip=False)
    done = subprocess.run([str(tmp_path / "env" / "bin" / "python"), "-c", USER], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(site)})
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr


def test_the_same_kernels_give_the_same_wheel(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    a, b = (lathe.ship(gemm, tmp_path / f, name="k").read_bytes() for f in "ab")
    assert a == b


def test_sizes_that_were_baked_in(tmp_path, monkeypatch):
    path = lathe.ship([(gemm, {"specialize": {"K": 4}})], tmp_path, name="baked_in")
    zipfile.ZipFile(path).extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    import baked_in

    ones = np.ones((4, 4), np.float32)
    assert (baked_in.gemm(ones, ones) == 4).all()
    with pytest.raises(ValueError, match="K = 4"):
        baked_in.gemm(np.ones((4, 5), np.float32), np.ones((5, 4), np.float32))


@pytest.mark.parametrize("wrong", [
    lambda f: lathe.ship(gemm, f, name="my kernels"), lambda f: lathe.ship(gemm, f, name="class"), lambda f: lathe.ship(gemm, f, name="a", version="x"),
    lambda f: lathe.ship([], f, name="a"), lambda f: lathe.ship([gemm, gemm], f, name="a"), lambda f: lathe.ship(["gemm"], f, name="a"),
    lambda f: lathe.ship([(gemm, {"threads": 2})], f, name="a"), lambda f: lathe.ship([(gemm, {"strategy": "none"})], f, name="a"),
    lambda f: lathe.ship(gemm, f, name="a", cpu="z80"), lambda f: lathe.ship(gemm, f / "nowhere", name="a"),
    lambda f: lathe.ship(lathe.kernel("kernel half(x: bf16[N]) -> (y: bf16[N]) { y[i] = x[i] }"), f, name="a"),
])
def test_what_cannot_be_shipped(wrong, tmp_path):
    with pytest.raises(lathe.LatheError):
        wrong(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with refused(lathe.MachineError, "E0910", "`no-such-compiler`"):
        lathe.ship(gemm, tmp_path, name="a")
