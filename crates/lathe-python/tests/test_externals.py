"""External functions: what `extern` of a `.tree` file stands for, in Python and in libraries."""

import shutil
import subprocess
import threading

import numpy as np
import pytest

import lathe

TREE = """extern ramp(N)(x: in f64[N], y: out f64[N]) effects (read x[0..N], write y[0..N])
extern scaled(M, N)(A: in f32[M, N], k: in i32, B: out f32[M, N]) effects (read A, write B, fail)
extern twice(N)(x: in f64[N], y: out f64[N]) effects (read x, write y)
extern missing(N)(x: in f64[N], y: out f64[N]) effects (read x, write y)

func ramp_rule(N)(x: in f64[N], y_bar: in f64[N], x_bar: out f64[N]) stage plain {
  for i in 0..N { 'x_bar'[i]: x_bar[i] = 2.0:f64 * x[i] * y_bar[i] }
}

derivative ramp = ramp_rule

func loss(N)(x: in f64[N], s: out f64[]) stage plain {
  alloc y: f64[N]
  call ramp(&x, &y)
  's.init'[]: s[] = 0.0:f64
  for i in 0..N { 's'[i]: s[] sum= y[i] * 3.0:f64 licensed }
}

func matrix(M, N)(A: in f32[M, N], k: in i32, B: out f32[M, N]) stage plain { call scaled(&A, k, &B) }

func linked(N)(x: in f64[N], y: out f64[N]) stage plain { call twice(&x, &y) }

func without(N)(x: in f64[N], y: out f64[N]) stage plain { call missing(&x, &y) }
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("trees") / "externals.tree"
    path.write_text(TREE)
    return path


def test_functions_of_python_are_called_and_differentiated_by_their_rules(file):
    calls = []

    @lathe.external("ramp")
    def ramp(x, y):
        calls.append(threading.get_ident())
        y[...] = x * x

    x = np.array([0.5, 1.0, -2.0])
    loss = lathe.load(file, "loss")
    assert loss(x) == 3 * (x * x).sum() and loss(x[::-1]) == 3 * (x * x).sum() and loss(np.empty(0)) == 0
    value, gradient = lathe.value_and_grad(loss)(x)
    assert value == 3 * (x * x).sum() and len(calls) == 4
    np.testing.assert_array_equal(gradient, 6 * x)
    # One that is given anew is called from then on.
    lathe.external("ramp", lambda x, y: y.fill(1.0))
    assert loss(x) == 9


def test_arrays_are_seen_as_they_lie(file):
    seen = []

    def scaled(a, k, b):
        seen.append((a.shape, a.strides, k.shape, k.dtype))
        if k < 0:
            raise ValueError("negative factor")
        b[...] = a * np.float32(k)

    lathe.external("scaled", scaled)
    matrix = lathe.load(file, "matrix")
    whole = np.arange(48, dtype=np.float32).reshape(6, 8)
    for a in (whole, whole.T, whole[::-1, ::2], whole[1:1], whole[:1, :1]):
        np.testing.assert_array_equal(matrix(a, 3), a * 3)
        shape, strides, *scalar = seen.pop()
        assert shape == a.shape and scalar == [(), np.int32]
        assert 0 in shape or all(n == 1 or s == t for n, s, t in zip(shape, strides, a.strides))
    for _ in range(2):
        with pytest.raises(lathe.LatheError) as e:
            matrix(whole, -1)
        assert e.value.code == "E0827" and "`scaled`" in str(e.value) and isinstance(e.value.__cause__, ValueError)


def test_libraries_are_linked(file, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "twice.c", tmp_path / "libtwice.so"
    source.write_text("""#include <stdint.h>
typedef struct { void *data; const int64_t *shape, *strides; uint32_t dtype, rank; uint64_t elem_bytes; } lathe_array;
int32_t lathe_twice(const void *rt, const lathe_array *args) {
  const double *x = args[0].data;
  double *y = args[1].data;
  for (int64_t i = 0; i < args[0].shape[0]; i++) y[i * args[1].strides[0]] = 2.0 * x[i * args[0].strides[0]];
  return 0;
}
""")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    linked = lathe.load(file, "linked")
    x = np.arange(5.0)
    with pytest.raises(lathe.MachineError) as e:
        linked(x)
    assert e.value.code == "E0826" and "`twice`" in str(e.value)
    lathe.link(library)
    np.testing.assert_array_equal(linked(x[::-1]), 2 * x[::-1])
    with pytest.raises(lathe.MachineError, match="E0826"):
        lathe.link(source)


def test_what_is_missing_or_wrong_is_named(file):
    with pytest.raises(lathe.MachineError) as e:
        lathe.load(file, "without")(np.ones(2))
    assert e.value.code == "E0826" and "lathe.external" in str(e.value)
    for name, function in ((3, print), ("f", 3), ("f", lambda *args: None), ("f", lambda: None)):
        with pytest.raises(lathe.OptionError, match="E0917"):
            lathe.external(name, function)
    assert lathe.external("any", lambda *args: None, parameters=2) is not None
