"""Arrays on CUDA devices: what is refused is tested on any machine, with arrays that only say that they are on one; the rest
where PyTorch finds a device."""

import json
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import lathe
from refusals import refused

try:
    import torch
except ImportError:
    torch = None

HERE = torch is not None and torch.cuda.is_available()
on_device = pytest.mark.skipif(not HERE, reason="no CUDA device, or no PyTorch")

add = lathe.kernel("kernel add(x: f32[N], y: f32[N]) -> (z: f32[N]) { z[i] = x[i] + y[i] }")
gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
softmax = lathe.kernel("""kernel softmax(x: f32[M, N]) -> (y: f32[M, N]) {
    var m: f32[M]
    var s: f32[M]
    m[i] = max[j](x[i, j])
    s[i] = sum[j](exp(x[i, j] - m[i]))
    y[i, j] = exp(x[i, j] - m[i]) / s[i]
}""")


class Array:
    """An array that says that it is on a device."""

    def __init__(self, shape, typestr="<f4", strides=None, address=1 << 20, read_only=False, mask=None):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "strides": strides, "data": (address, read_only),
                                         "mask": mask, "version": 3}

    def __dlpack_device__(self):
        return (2, 0)


def test_devices_are_listed():
    # In a process of its own: drivers of OpenCL start threads, which a fork does not survive.
    code = "import json, lathe; print(json.dumps(lathe.devices()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    for d in found:
        assert set(d) == {"id", "kind", "name", "arch", "memory_bytes", "multiprocessors", "shared_bytes", "features"}
        assert d["id"].split(":")[0] == d["kind"] and d["memory_bytes"] > 0
    assert lathe.devices("abacus") == []
    assert lathe.devices("cuda") == [d for d in found if d["kind"] == "cuda"]
    if HERE:
        assert len(lathe.devices("cuda")) == torch.cuda.device_count()


def test_arrays_that_do_not_fit_are_refused():
    x, out = Array((4,)), Array((4,), address=1 << 21)
    with refused(lathe.DeviceError, "E0916", "y"):
        add(x, np.zeros(4, np.float32), out=out)
    with refused(lathe.DeviceError, "E0916", "y"):
        add(np.zeros(4, np.float32), x)
    with refused(lathe.LayoutError, "E0707", "x"):
        add(Array((4,), strides=(8,)), x, out=out)
    with refused(lathe.LayoutError, "E0707", "x"):
        add(Array((4,), strides=(-4,)), x, out=out)
    with refused(lathe.LayoutError, "E0707", "A"):
        gemm(Array((2, 3), strides=(4, 8)), Array((3, 2)), out=Array((2, 2)))
    with refused(lathe.LayoutError, "E0707", "x", "16"):
        add(Array((4,), address=(1 << 20) + 4), x, out=out)
    with refused(lathe.LayoutError, "E0813", "x"):
        add(Array((4,), strides=(6,)), x, out=out)
    with refused(lathe.DtypeError, "E0809", "x"):
        add(Array((4,), "<f8"), x, out=out)
    with refused(lathe.DtypeError, "E0809", "x"):
        add(Array((4,), ">f4"), x, out=out)
    with refused(lathe.DtypeError, "E0809", "x"):
        add(Array((4,), mask=x), x, out=out)
    with refused(lathe.ShapeError, "E0810", "x"):
        add(Array((4, 1)), x, out=out)
    with refused(lathe.ReadOnlyError, "E0822", "z"):
        add(x, x, out=Array((4,), read_only=True))
    # No package makes a result beside such an array.
    with refused(lathe.DeviceError, "E0916", "z"):
        add(x, x)


@pytest.mark.skipif(bool(lathe.devices("cuda")), reason="there is a device")
def test_without_a_driver_a_call_says_so():
    with refused(lathe.MachineError, "E0841"):
        add(Array((4,)), Array((4,)), out=Array((4,), address=1 << 21))


def near(a, b):
    assert a.device == b.device and a.dtype == b.dtype and a.shape == b.shape
    assert torch.allclose(a, b, rtol=1e-4, atol=1e-4), (a - b).abs().max()


@on_device
@pytest.mark.parametrize("n", [0, 1, 2, 31, 1000, 1 << 20])
def test_elementwise(n):
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    z = add(x, y)
    assert z.is_cuda and torch.equal(z, x + y)
    out = torch.empty(n, device="cuda")
    assert add(x, y, out=out) is out and torch.equal(out, x + y)


@on_device
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (3, 5, 7), (64, 64, 64), (257, 129, 65), (512, 1024, 256), (4, 0, 3), (4, 3, 0)])
def test_products(m, n, k):
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    near(gemm(a, b), a @ b)


@on_device
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (300, 1000), (16, 5000)])
def test_rows(shape):
    x = torch.randn(*shape, device="cuda")
    near(softmax(x), torch.softmax(x, 1))


@on_device
def test_more_shapes_than_are_kept():
    for n in range(1, 40):
        x = torch.randn(n, device="cuda")
        assert torch.equal(add(x, x), x + x)


@on_device
def test_streams_order_calls():
    s = torch.cuda.Stream()
    x = torch.ones(1 << 24, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(s):
        y = x
        for _ in range(20):
            y = add(y, x)
        z = y * 2
    s.synchronize()
    assert torch.equal(z, torch.full_like(x, 42))


@on_device
def test_a_captured_graph_runs_again():
    x, y = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
    out = torch.zeros(1000, device="cuda")
    add(x, y, out=out)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        add(x, y, out=out)
    x.fill_(5)
    g.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, torch.full_like(out, 6))


@on_device
def test_layouts_and_places():
    x = torch.randn(8, 8, device="cuda")
    with refused(lathe.LayoutError, "E0707", "A"):
        gemm(x.t(), x)
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        near(gemm(x.t(), x, copy=True), x.t() @ x)
        line = torch.randn(9, device="cuda")
        assert torch.equal(add(line[1:], line[:8], copy=True), line[1:] + line[:8])
    assert [i.category for i in w] == [lathe.CopyWarning] * 2
    with refused(lathe.LayoutError, "E0707", "x"):
        add(line[1:], line[1:])
    with refused(lathe.DeviceError, "E0916", "B"):
        gemm(x, x.cpu())
    with refused(lathe.ShapeError, "E0811"):
        gemm(x, torch.randn(7, 8, device="cuda"))
    with refused(lathe.DtypeError, "E0809"):
        gemm(x.double(), x)


@on_device
def test_failures_are_known_when_the_call_returns():
    divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")
    x = torch.arange(10, dtype=torch.int32, device="cuda")
    assert torch.equal(divide(x, x + 1), x // (x + 1))
    with refused(lathe.DivisionError, "E0815"):
        divide(x, x)
    gather = lathe.kernel("kernel pick(x: f32[N], p: i32[M]) -> (y: f32[M]) { y[i] = x[p[i]] }")
    v = torch.randn(10, device="cuda")
    assert torch.equal(gather(v, x), v)
    with refused(lathe.CheckError, "E0814"):
        gather(v, x + 1)
    assert torch.equal(gather(v, x), v)


@on_device
def test_arguments_that_are_changed():
    total = lathe.kernel("kernel total(x: f32[N], t: inout f32[N]) { t[i] += x[i] }")
    x, t = torch.randn(100, device="cuda"), torch.randn(100, device="cuda")
    want, version = t + x, t._version
    total(x, t)
    assert torch.equal(t, want) and t._version > version
    with refused(lathe.OverlapError, "E0812", "t"):
        total(t, t)


@on_device
@pytest.mark.parametrize("name", ["bf16", "f16", "f64", "i32", "i64", "u8", "i8", "bool"])
def test_element_types(name):
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64,
             "u8": torch.uint8, "i8": torch.int8, "bool": torch.bool}[name]
    expression = "x[i] != y[i]" if name == "bool" else "x[i] + y[i]"
    k = lathe.kernel(f"kernel t(x: {name}[N], y: {name}[N]) -> (z: {name}[N]) {{ z[i] = {expression} }}")
    x = (torch.randn(1000, device="cuda") * 50).to(dtype)
    assert torch.equal(k(x, x.flip(0)), x ^ x.flip(0) if name == "bool" else x + x.flip(0))


@on_device
def test_operators_have_gradients():
    import lathe.torch

    op = lathe.torch.op(softmax)
    x = torch.randn(8, 33, device="cuda", requires_grad=True)
    y = torch.randn(8, 33, device="cuda")
    (op(x) * y).sum().backward()
    mine, x.grad = x.grad, None
    (torch.softmax(x, 1) * y).sum().backward()
    near(mine, x.grad)
    with refused(lathe.GradientError, "E0915", "x"):
        softmax(x)


@on_device
def test_compiled_functions_call_operators():
    import lathe.torch

    op = lathe.torch.op(gemm)
    f = torch.compile(lambda a, b: op(a, b) * 2 + 1, fullgraph=True)
    a, b = torch.randn(20, 30, device="cuda"), torch.randn(30, 10, device="cuda")
    near(f(a, b), (a @ b) * 2 + 1)


@on_device
def test_threads_of_the_caller():
    x = torch.randn(10000, device="cuda")
    found = []

    def work():
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            for _ in range(50):
                y = add(x, x)
            s.synchronize()
            found.append(torch.equal(y, x + x))

    torch.cuda.synchronize()
    all_threads = [threading.Thread(target=work) for _ in range(4)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    assert found == [True] * 4


@on_device
def test_memory_does_not_grow():
    x = torch.randn(300, 1000, device="cuda")
    for _ in range(50):
        softmax(x)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(2000):
        softmax(x)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] < 1 << 24


@on_device
def test_arrays_of_cupy():
    cupy = pytest.importorskip("cupy")
    a, b = cupy.random.randn(33, 20).astype("f4"), cupy.random.randn(20, 7).astype("f4")
    c = gemm(a, b)
    assert isinstance(c, cupy.ndarray) and cupy.allclose(c, a @ b, atol=1e-4)
    with cupy.cuda.Stream() as s:
        d = add(a.ravel(), a.ravel())
        s.synchronize()
    assert cupy.array_equal(d, 2 * a.ravel())
    out = cupy.empty((33, 7), "f4")
    assert gemm(a, b, out=out) is out and cupy.allclose(out, c)
    with refused(lathe.LayoutError, "E0707", "A"):
        gemm(b.T, a.T.copy())
    with pytest.warns(lathe.CopyWarning):
        assert cupy.allclose(gemm(b.T, a.T.copy(), copy=True), b.T @ a.T, atol=1e-4)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-x"]))
