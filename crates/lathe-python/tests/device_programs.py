"""Programs with `lathe.device`, each a function, on the devices of one kind: `python device_programs.py opencl [NAME...]` runs
them and prints what became of each. They run in a process of their own, since drivers of devices start threads, which the
forks of other tests do not survive."""

import gc
import json
import os
import sys
import threading
import time
import traceback
import weakref

import numpy as np

import lathe
from lathe.device import (Buffer, Devices, Kernel, MappedBuffer, PinnedBuffer, Sequence, dim3, nd_range, read, read_write,
                          to_cuda, to_opencl, write)

# Also for programs in other files, which run as these do.
KIND = next((a for a in sys.argv[1:2] if a in ("opencl", "cuda")), "opencl")
CASES = int(os.environ.get("LATHE_CASES", "0"))

SCALE = """__global__ void scale(float *y, const float *x, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i];
}"""
ADD = "__kernel void add(__global int *y, int n) { y[get_global_id(0)] += n; }"
SPIN = """__kernel void spin(__global float *y, int n) {
    float v = y[0];
    for (int i = 0; i < n; i++) v = v * 0.999f + 0.5f;
    y[0] = v;
}"""
GEMM = "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }"


class Skipped(Exception):
    pass


class refused:
    """Expects an exception of a class with a code, whose text has these parts."""

    def __init__(self, kind, code, *parts):
        self.kind, self.code, self.parts = kind, code, parts

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert error is not None, f"{self.code} was not raised"
        if not isinstance(error, lathe.LatheError):
            return False
        assert isinstance(error, self.kind) and error.code == self.code, f"{type(error)} {error.code}: {error}"
        assert all(p in str(error) for p in self.parts), str(error)
        return True


def opened(count=1):
    return Devices([f"{KIND}:0"] * count)


def devices_have_names_numbers_and_properties():
    all_ = Devices.of_kind(KIND)
    assert len(all_) == len(lathe.devices(KIND)) and [d.info.id for d in all_] == [d["id"] for d in lathe.devices(KIND)]
    info = all_[0].info
    assert info.kind == KIND and info.memory_bytes > 0 and all_[0].number == 0 and all_[-1].number == len(all_) - 1
    assert Devices.named(KIND)[0].info == info == Devices.named(f"{KIND}:0")[0].info
    if all(d["kind"] == KIND for d in lathe.devices() if info.name in d["name"]):
        assert info in [d.info for d in Devices.named(info.name)]
    assert len(Devices.choose(lambda d: d.kind == KIND)) == len(all_)
    assert [d.info.id for d in opened(2)] == [f"{KIND}:0"] * 2
    with refused(lathe.MachineError, "E0841", "15"):
        Devices.named(f"{KIND}:15")
    with refused(lathe.MachineError, "E0841", "abacus"):
        Devices.named("an abacus")
    with refused(lathe.MachineError, "E0841"):
        Devices.of_kind("abacus")
    with refused(lathe.MachineError, "E0841"):
        Devices.choose(lambda d: False)
    with refused(lathe.MachineError, "E0841", "7"):
        all_[7]


def parts_are_written_by_several_devices():
    devices, scale = opened(4), Kernel.cuda(SCALE)
    for kind in (Buffer, PinnedBuffer, MappedBuffer):
        before = devices.counters()
        data = np.arange(1024, dtype=np.float32)
        x, y = kind(devices, data), kind.empty(devices, 1024, lathe.f32)
        for n, d in enumerate(devices):
            part = slice(256 * n, 256 * n + 256)
            d.launch(scale, dim3(2, 128), write(y[part]), read(x[part]), n + 1)
        want = data * np.repeat(np.arange(1, 5), 256)
        assert (y.numpy() == want).all() and (x.numpy() == data).all()
        after = devices.counters()
        assert after["launches"] - before["launches"] == 4
        if kind is not MappedBuffer:
            assert after["to_device_bytes"] - before["to_device_bytes"] == 4096
            assert after["from_device_bytes"] - before["from_device_bytes"] == 4096
            assert after["copies"] - before["copies"] == 8
        # Nothing moves again.
        assert (y[5:9].numpy() == want[5:9]).all() and devices.counters() == after
        assert devices[0].has(x[:256]) and (kind is MappedBuffer or not devices[1].has(x[:256]))


def the_host_reads_and_writes():
    devices = opened()
    b = Buffer(devices, np.arange(12, dtype=np.int32).reshape(3, 4))
    assert b.shape == (3, 4) and b.dtype == np.int32 and b.size == 12 and b.nbytes == 48 and b.ndim == 2 and len(b) == 3
    assert b.devices is devices and repr(b) == "<Buffer [3, 4] of int32>"
    b[1:2] = np.full((1, 4), 7, np.int32)
    b[-1:] = 9
    assert b.numpy().tolist() == [[0, 1, 2, 3], [7] * 4, [9] * 4]
    assert np.asarray(b[1:]).tolist() == [[7] * 4, [9] * 4] and np.asarray(b, np.float64).dtype == np.float64
    flat = b.reshape(12)[3:6]
    assert flat.numpy().tolist() == [3, 7, 7] and b.reshape((2, 6)).shape == (2, 6)
    out = np.zeros((3, 4), np.int32)
    assert b.numpy(out=out) is out and out[2, 3] == 9
    b.set(np.ascontiguousarray(out[::-1])[::-1])
    assert (b.numpy() == out).all()
    devices[0].launch(Kernel.opencl(ADD), dim3(1, 12), read_write(b), 1)
    b[:1] = 0
    assert b.numpy().tolist() == [[0] * 4, [8] * 4, [10] * 4]
    for part in (slice(0, 4), slice(2, 1), slice(-4, 1)):
        with refused(lathe.ArgumentError, "E0852"):
            b[part]
    for key in (1, (0, 1), slice(0, 2, 2), slice(None, None, -1)):
        with refused(lathe.ArgumentError, "E0852"):
            b[key]
    with refused(lathe.ArgumentError, "E0852"):
        b.reshape(5)
    with refused(lathe.DtypeError, "E0809", "int32", "int64"):
        b.set(np.zeros((3, 4), np.int64))
    with refused(lathe.DtypeError, "E0809"):
        b[:] = 1.5
    with refused(lathe.DtypeError, "E0809"):
        b[:] = 2**31
    with refused(lathe.ShapeError, "E0811"):
        b.set(np.zeros((4, 3), np.int32))
    with refused(lathe.DtypeError, "E0809"):
        b.numpy(out=np.zeros((3, 4)))
    with refused(lathe.ShapeError, "E0811"):
        b.numpy(out=np.zeros(12, np.int32))
    with refused(lathe.LayoutError, "E0813"):
        b.numpy(out=np.zeros((4, 3), np.int32).T)
    with refused(lathe.DtypeError, "E0809", ">i4"):
        Buffer(devices, np.zeros(3, ">i4"))
    with refused(lathe.DtypeError, "E0809", "datetime"):
        Buffer.empty(devices, 3, "datetime64[s]")
    with refused(lathe.DtypeError, "E0809"):
        Buffer.empty(devices, 3, "no type")
    with refused(lathe.ArgumentError, "E0852"):
        Buffer.empty(devices, -1, np.int32)
    with refused(lathe.ArgumentError, "E0852"):
        Buffer.empty(devices, (2**40, 2**40), np.int32)
    with refused(lathe.ArgumentError, "E0851"):
        Buffer.empty(devices, 3, np.int32).numpy()


def elements_of_all_types():
    devices = opened()
    record = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
    for dtype in (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, np.complex64, np.complex128, record):
        for shape in ((), (0,), (1,), (3, 2)):
            data = np.zeros(shape, dtype)
            data[...] = np.ones((), dtype)
            b = Buffer(devices, data)
            assert b.dtype == data.dtype and b.shape == shape and (b.numpy() == data).all()
            if shape:
                assert (b[...].numpy() == data).all() and b[0:0].size == 0
            devices[0].prefetch(b)
            assert devices[0].has(b) and (b.numpy() == data).all()


def numbers_have_the_type_of_the_parameter():
    devices = opened()
    k = Kernel.opencl("""__kernel void k(__global double *y, char a, ushort b, int c, uint d, long e, ulong f, float g, double h, float4 v) {
        y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e; y[5] = f; y[6] = g; y[7] = h; y[8] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w;
    }""")
    assert k.name == "k" and k.parameters[0] == ("y", "*") and k.parameters[4] == ("d", "uint")
    y = Buffer.empty(devices, 9, np.float64)
    v = np.array([1, 2, 3, 4], np.float32)
    values = [-5, 65535, -2**31, 2**32 - 1, -2**63, 2**63, 0.5, 0.1]
    devices[0].launch(k, dim3(1, 1), write(y), *values, v)
    assert y.numpy().tolist() == [*map(float, values), 4321]
    devices[0].launch(k, nd_range(1, 1), write(y), np.int8(1), np.uint16(2), np.int32(3), np.uint32(4), np.int64(5), 6, np.float32(7), 8, v)
    assert y.numpy().tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 4321]
    for at, bad in ((0, 128), (1, -1), (2, 1.5), (3, -1), (4, 2**63), (6, 1e39), (7, "x"), (2, None)):
        given = list(values)
        given[at] = bad
        with refused(lathe.ArgumentError, "E0850", "of `k`"):
            devices[0].launch(k, dim3(1, 1), write(y), *given, v)
    with refused(lathe.ArgumentError, "E0850", "16 bytes"):
        devices[0].launch(k, dim3(1, 1), write(y), *values, v[:2])
    with refused(lathe.ArgumentError, "E0850", "`v`"):
        devices[0].launch(k, dim3(1, 1), write(y), *values, 1.0)
    with refused(lathe.ArgumentError, "E0850", "`y`"):
        devices[0].launch(k, dim3(1, 1), 1, *values, v)
    with refused(lathe.ArgumentError, "E0850", "read(…)"):
        devices[0].launch(k, dim3(1, 1), y, *values, v)
    with refused(lathe.ArgumentError, "E0850", "`a`"):
        devices[0].launch(k, dim3(1, 1), write(y), write(y), *values[1:], v)
    with refused(lathe.ArgumentError, "E0850", "takes 10"):
        devices[0].launch(k, dim3(1, 1), write(y))
    with refused(lathe.ArgumentError, "E0850", "grid"):
        devices[0].launch(k, write(y), *values, v)
    with refused(lathe.OptionError, "E0917"):
        devices[0].launch(k, dim3(1, 1), write(y), *values, v, strategy="auto")
    with refused(lathe.OptionError, "E0917"):
        devices[0].launch(GEMM, write(y))
    other = opened()
    with refused(lathe.ArgumentError, "E0850"):
        other[0].launch(k, dim3(1, 1), write(y), *values, v)


def grids_in_both_ways():
    devices = opened()
    where = Kernel.cuda("""__global__ void where(int *y) {
        int x = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
        y[r * gridDim.x * blockDim.x + x] = 100 * r + x;
    }""")
    want = [[100 * r + x for x in range(6)] for r in range(4)]
    for grid in (dim3((2, 2), (3, 2)), nd_range((6, 4), (3, 2))):
        y = Buffer.empty(devices, (4, 6), np.int32)
        devices[0].launch(where, grid, write(y))
        assert y.numpy().tolist() == want
    y = Buffer.empty(devices, (4, 6), np.int32)
    for bad in ((lambda: dim3((1, 2, 3, 4), 1)), (lambda: dim3(-1, 1)), (lambda: nd_range("a", 1)), (lambda: dim3(2**32, 1))):
        with refused(lathe.OptionError, "E0917"):
            bad()
    with refused(lathe.ArgumentError, "E0850"):
        devices[0].launch(where, nd_range((7, 4), (3, 2)), write(y))
    with refused(lathe.MachineError, "E0844"):
        devices[0].launch(where, dim3(1, 2**20), write(y))
    # Memory of a block is a parameter in OpenCL C and a variable in CUDA C; this is not translated.
    reverse = Kernel.opencl("""__kernel void reverse(__global int *y, __local int *t) {
        int i = get_local_id(0), n = get_local_size(0);
        t[i] = y[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        y[i] = t[n - 1 - i];
    }""") if KIND == "opencl" else Kernel.cuda("""__global__ void reverse(int *y) {
        extern __shared__ int t[];
        int i = threadIdx.x, n = blockDim.x;
        t[i] = y[i];
        __syncthreads();
        y[i] = t[n - 1 - i];
    }""")
    y = Buffer(devices, np.arange(32, dtype=np.int32))
    devices[0].launch(reverse, dim3(1, 32, shared=128), read_write(y))
    assert y.numpy().tolist() == [*range(31, -1, -1)]


def sources_names_and_flags():
    two = "__kernel void f(__global int *y) { y[0] = N; } __kernel void g(__global int *y) { y[0] = 2 * N; }"
    devices = opened()
    y = Buffer.empty(devices, 1, np.int32)
    devices[0].launch(Kernel.opencl(two, "g", flags=["-DN=4"]), dim3(1, 1), write(y))
    assert y.numpy()[0] == 8
    with refused(lathe.SourceError, "E0848", "`f`, `g`"):
        Kernel.opencl(two)
    with refused(lathe.SourceError, "E0848", "`h`"):
        Kernel.opencl(two, "h")
    with refused(lathe.MachineError, "E0842"):
        devices[0].launch(Kernel.opencl("__kernel void bad(__global int *y) { y[0] = ; }"), dim3(1, 1), write(y))
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"lathe-test-{os.getpid()}.cl")
    with open(path, "w") as f:
        f.write(ADD)
    try:
        k = Kernel.file(path)
    finally:
        os.unlink(path)
    y = Buffer(devices, np.arange(4, dtype=np.int32))
    devices[0].compile(k)
    devices[0].launch(k, dim3(1, 4), read_write(y), 5)
    assert y.numpy().tolist() == [5, 6, 7, 8]
    with refused(lathe.SourceError, "E0848"):
        Kernel.file(path)
    assert "__kernel" in to_opencl(SCALE) and "__global__" in to_cuda(ADD)
    with refused(lathe.SourceError, "E0849", "__shfl_down_sync"):
        to_opencl("__global__ void f(int *y) { y[0] = __shfl_down_sync(~0u, y[0], 1); }")


def failures_are_raised_where_the_host_waits():
    devices = opened()
    divide = lathe.kernel("kernel divide(x: i32[N], y: i32[N]) -> (q: i32[N]) { q[i] = x[i] // y[i] }")
    x = Buffer(devices, np.arange(10, dtype=np.int32))
    q, r = Buffer.empty(devices, 10, np.int32), Buffer.empty(devices, 10, np.int32)
    first = devices[0].launch(divide, x, x, q)
    second = devices[0].launch(divide, q, x, r)
    for wait in (first.wait, second.wait, q.numpy, r.numpy):
        with refused(lathe.MachineError, "E0854", "divide"):
            wait()
    assert x.numpy().tolist() == [*range(10)]
    x[:] = 1
    devices[0].launch(divide, x, x, q).wait()
    assert q.numpy().tolist() == [1] * 10


def sequences():
    devices, add = opened(), Kernel.opencl(ADD)
    y = Buffer(devices, np.zeros(16, np.int32))
    s = Sequence(devices[0], "twenty")
    for n in range(20):
        s.add(add, dim3(1, 16), read_write(y), n)
    assert len(s) == 20 and y.numpy().tolist() == [0] * 16
    for _ in range(3):
        s.launch()
    s.launch().wait()
    assert y.numpy().tolist() == [4 * 190] * 16
    with refused(lathe.ArgumentError, "E0850"):
        s.add(add, dim3(1, 16), 1, 2)
    # It keeps its buffers.
    seen = weakref.ref(y)
    del y
    s.launch().wait()
    del s
    gc.collect()
    assert seen() is None


def several_devices_share_a_kernel():
    devices = opened(3)
    k = lathe.kernel("""kernel scale(A: f32[N, M]) -> (B: f32[N, M]) { B[i, j] = A[i, j] * 2.0 }
strategy shared for scale = split(i, 8) ; bind(i.o, device) ; bind(i.i, grid) ; bind(j, block)""")
    for rows in (0, 1, 20, 50):
        a = np.arange(rows * 5, dtype=np.float32).reshape(rows, 5)
        A, B = Buffer(devices, a), Buffer.empty(devices, (rows, 5), np.float32)
        before = devices.counters()
        launch = devices.launch(k, A, B, strategy="shared")
        launch.wait()
        assert (B.numpy() == 2 * a).all()
        after = devices.counters()
        moved = [after[n] - before[n] for n in ("to_device_bytes", "from_device_bytes", "between_bytes", "launches")]
        assert moved == [a.nbytes, a.nbytes, 0, -(-rows // 8)], moved
        assert rows < 20 or devices[0].has(B[:8]) and devices[1].has(B[8:16]) and not devices[1].has(A[:8])
        # One device runs all of it.
        devices[1].launch(k, A, B, strategy="shared").wait()
        assert (B.numpy() == 2 * a).all()
    with refused(lathe.OptionError, "E0917", "lathe.kernel"):
        devices.launch(Kernel.cuda(SCALE), A, B)
    # In a sequence, beside a kernel of the user's.
    x = Buffer(devices, np.ones((16, 4), np.float32))
    y = Buffer(devices, np.zeros((16, 4), np.float32))
    steps = Sequence(devices[0], "steps")
    steps.add(k, x, y, strategy="shared")
    steps.add(k, y, x)
    steps.add(Kernel.cuda(SCALE), dim3(1, 64), write(y), read(x), 3)
    with refused(lathe.ShapeError, "E0811"):
        steps.add(k, x, B)
    for _ in range(2):
        steps.launch().wait()
    assert len(steps) == 3 and (x.numpy() == 16).all() and (y.numpy() == 48).all()


def devices_do_something_together():
    devices = opened(3)
    data = np.arange(96, dtype=np.int32)
    a, b = Buffer(devices, data), Buffer(devices, np.zeros(32 * 9, np.int32))
    parts = [a[32 * n:32 * n + 32] for n in range(3)]
    arrays = [b[96 * n:96 * n + 96] for n in range(3)]
    devices.all_gather(parts, arrays).wait()
    assert (b.numpy().reshape(3, 96) == data).all()
    devices.reduce_scatter(arrays, parts).wait()
    assert (a.numpy() == 3 * data).all()
    devices.all_reduce(parts, "max").wait()
    assert (a.numpy().reshape(3, 32) == 3 * data[64:]).all()
    a.set(data)
    devices.broadcast(parts, root=1).wait()
    assert (a.numpy().reshape(3, 32) == data[32:64]).all()
    with refused(lathe.ArgumentError, "E0850", "mean"):
        devices.all_reduce(parts, "mean")
    with refused(lathe.ArgumentError, "E0850"):
        devices.broadcast(parts[:2])


def a_full_device_gives_buffers_up():
    devices, add = opened(), Kernel.opencl(ADD)
    devices.bound(0, 3 * 4096)
    all_ = [Buffer(devices, np.full(1024, n, np.int32)) for n in range(8)]
    for _ in range(2):
        for b in all_:
            devices[0].launch(add, dim3(16, 64), read_write(b), 1)
    assert [b.numpy().tolist() for b in all_] == [[n + 2] * 1024 for n in range(8)]
    assert devices.counters()["evictions"] >= 8
    notices = devices.take_notices()
    assert len(notices) == 1 and "full" in notices[0] and devices.take_notices() == []
    large = Buffer(devices, np.zeros(8192, np.int32))
    with refused(lathe.OutOfMemoryError, "E0853", "32768"):
        devices[0].launch(add, dim3(16, 64), read_write(large), 1)
    assert (large.numpy() == 0).all()
    with refused(lathe.MachineError, "E0841"):
        devices.bound(3, 1)


def profiles():
    devices, add = opened(), Kernel.opencl(ADD)
    devices.keep_profile(True)
    y = Buffer(devices, np.zeros(1024, np.int32))
    for _ in range(3):
        devices[0].launch(add, dim3(16, 64), read_write(y), 1)
    y.numpy()
    p = devices.profile()
    spans = p.spans()
    assert [s[2] for s in spans].count("add") == 3 and all(s[4] <= s[5] for s in spans)
    assert sorted(s[3] for s in spans if s[3] is not None) == [4096, 4096]
    assert "add" in p.text() and str(p) == p.text()
    data = json.loads(p.json())
    assert len(data["spans"]) == 5 and data["devices"][0]["id"] == f"{KIND}:0"
    trace = json.loads(p.chrome())["traceEvents"]
    assert sum(e["ph"] == "X" for e in trace) == 5
    assert p.svg().startswith("<svg") and p._repr_svg_() == p.svg()
    assert devices.profile().spans() == []


def measurements_are_reported():
    devices, gemm = opened(), lathe.kernel(GEMM)
    A, B, C = Buffer(devices, np.ones((32, 16), np.float32)), Buffer(devices, np.ones((16, 8), np.float32)), Buffer.empty(devices, (32, 8), np.float32)
    r = devices[0].measure(gemm, A, B, C, runs=3)
    info = devices[0].info
    assert r["device"] == {"kind": KIND, "index": 0, "name": info.name, "arch": info.arch}
    assert r["kernel"] == "gemm" and r["kernel_s"] > 0 and r["launches"] == 1 and r["compiled"] in ("new", "cached")
    assert r["transfers"] == {"to_device_bytes": 32 * 16 * 4 + 16 * 8 * 4, "from_device_bytes": 0, "count": 2}
    y = Buffer(devices, np.zeros(8, np.int32))
    fresh = Kernel.opencl(ADD.replace("add", f"add_{os.getpid()}_{time.time_ns()}"))
    r = devices[0].measure(fresh, dim3(1, 8), read_write(y), 1, runs=2)
    assert r["compiled"] == "new" and y.numpy().tolist() == [3] * 8
    assert devices[0].measure(fresh, dim3(1, 8), read_write(y), 1, runs=2)["compiled"] == "cached"
    with refused(lathe.OptionError, "E0917"):
        devices[0].measure(gemm, A, B, C, runs=0)


def libraries_are_called_with_memory():
    devices = opened()
    x, y = Buffer(devices, np.arange(8, dtype=np.float32)), Buffer.empty(devices, (2, 4), np.float32)
    seen = []

    def library(a, b):
        assert a.kind == KIND and a.number == 0 and a.queue == b.queue and a.shape == (4,) and b.shape == (2, 4)
        assert a.dtype == np.float32 and a.pointer and b.pointer and a.pointer != b.pointer
        seen.append((a.offset, b.offset))
        if KIND == "opencl":
            with refused(lathe.ArgumentError, "E0850", "cl_mem"):
                a.__dlpack__()
            with refused(lathe.ArgumentError, "E0850", "cl_mem"):
                a.__cuda_array_interface__
        with refused(lathe.ArgumentError, "E0852"):
            devices.finish()
        with refused(lathe.ArgumentError, "E0852"):
            x.numpy()
        # What is released meanwhile is released behind the call.
        temporary.clear()

    temporary = [Buffer(devices, np.zeros(4, np.float32))]
    devices[0].call("library", library, read(x[4:]), write(y)).wait()
    assert len(seen) == 1 and not temporary

    def fails(a):
        raise KeyError("mine")

    try:
        devices[0].call("fails", fails, write(y))
        raise AssertionError("nothing was raised")
    except KeyError as e:
        assert e.args == ("mine",)
    kept = []
    with refused(lathe.ArgumentError, "E0850", "kept"):
        devices[0].call("keeps", lambda a: kept.append(a), read(x))
    assert kept[0].pointer is None
    with refused(lathe.ArgumentError, "E0850", "returned"):
        kept[0].__dlpack_device__()
    with refused(lathe.ArgumentError, "E0850", "`int`"):
        devices[0].call("number", lambda a: None, 1)
    with refused(lathe.MachineError, "E0854", "fails"):
        y.numpy()
    assert x.numpy().tolist() == [*range(8)]


def pytorch_works_on_buffers():
    if KIND != "cuda":
        raise Skipped("tensors of PyTorch are on CUDA devices")
    try:
        import torch
    except ImportError:
        raise Skipped("no PyTorch") from None
    devices, scale = opened(), Kernel.cuda(SCALE)
    x, y = Buffer(devices, np.arange(1 << 20, dtype=np.float32)), Buffer.empty(devices, 1 << 20, np.float32)
    addresses = []

    def squares(a, b):
        s, t = torch.from_dlpack(a), torch.as_tensor(b, device="cuda")
        assert s.data_ptr() == a.pointer and t.data_ptr() == b.pointer and s.shape == (1 << 20,)
        assert torch.cuda.current_stream().cuda_stream == a.queue
        addresses.append(s.data_ptr())
        torch.mul(s, s, out=t)

    devices[0].launch(scale, dim3(1 << 12, 256), write(y), read(x), 2)
    z = Buffer.empty(devices, 1 << 20, np.float32)
    devices[0].call("squares", squares, read(y), write(z))
    devices[0].launch(scale, dim3(1 << 12, 256), write(y), read(z), 0.5)
    want = 0.5 * (2 * np.arange(1 << 20, dtype=np.float32)) ** 2
    assert np.array_equal(y.numpy(), want) and len(addresses) == 1
    other = torch.cuda.Stream()

    def elsewhere(a):
        with torch.cuda.stream(other):
            torch.from_dlpack(a)

    with refused(lathe.ArgumentError, "E0850", "stream"):
        devices[0].call("elsewhere", elsewhere, read(x))
    kept = []
    with refused(lathe.ArgumentError, "E0850", "kept"):
        devices[0].call("keeps", lambda a: kept.append(torch.from_dlpack(a)), read(x))


def cupy_works_on_buffers():
    if KIND != "cuda":
        raise Skipped("arrays of CuPy are on CUDA devices")
    try:
        import cupy
    except ImportError:
        raise Skipped("no CuPy") from None
    devices = opened()
    x, y = Buffer(devices, np.arange(1000, dtype=np.float64)), Buffer.empty(devices, 1000, np.float64)

    def doubled(a, b):
        s, t = cupy.asarray(a), cupy.from_dlpack(b)
        assert s.data.ptr == a.pointer and t.data.ptr == b.pointer
        assert cupy.cuda.get_current_stream().ptr == a.queue
        cupy.multiply(s, 2, out=t)

    devices[0].call("doubled", doubled, read(x), write(y))
    assert (y.numpy() == 2 * np.arange(1000)).all()


def threads_share_devices():
    devices, add = opened(2), Kernel.opencl(ADD)
    done = []

    def work(n):
        b = Buffer(devices, np.zeros(256, np.int32))
        for i in range(50):
            devices[i % 2].launch(add, dim3(4, 64), read_write(b), n)
            if i % 7 == 0:
                b.numpy()
        done.append((b.numpy() == 50 * n).all())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert done == [True] * 4


def other_threads_run_while_one_waits():
    devices, spin = opened(), Kernel.opencl(SPIN)
    y = Buffer(devices, np.zeros(1, np.float32))
    devices[0].launch(spin, dim3(1, 1), read_write(y), 1)
    y.numpy()
    devices[0].launch(spin, dim3(1, 1), read_write(y), 50_000_000)
    ended, count = [], 0
    waiter = threading.Thread(target=lambda: ended.append(y.numpy()))
    waiter.start()
    while not ended:
        count += 1
        time.sleep(0.0005)
    waiter.join()
    assert count > 20, count


def memory_does_not_grow():
    devices, add = opened(), Kernel.opencl(ADD)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    kept = Buffer(devices, np.zeros(64, np.int32))

    def run(count):
        for i in range(count):
            devices[0].launch(add, dim3(1, 64), read_write(kept), 1)
            if i % 10 == 0:
                b = Buffer(devices, np.zeros(1024, np.int32))
                devices[0].launch(add, dim3(16, 64), read_write(b), 1)
        devices.finish()

    count = max(2000, CASES * 20)
    run(count // 2)
    before = resident()
    run(count)
    assert resident() - before < 8 << 20, (before, resident(), count)
    assert (kept.numpy() == count // 2 + count).all()


def random_programs_equal_sequential_execution():
    add, devices = Kernel.opencl(ADD), opened(3)
    copy = Kernel.opencl("__kernel void copy(__global int *y, __global const int *x) { y[get_global_id(0)] = x[get_global_id(0)]; }")
    for seed in range(max(10, CASES // 20)):
        rng = np.random.default_rng(seed)
        kinds = [(Buffer, PinnedBuffer, MappedBuffer)[rng.integers(3)] for _ in range(3)]
        data = [rng.integers(0, 100, 512, np.int32) for _ in kinds]
        buffers = [kind(devices, d) for kind, d in zip(kinds, data)]
        for _ in range(30):
            b, c = rng.choice(3, 2, replace=False)
            # Kernels of OpenCL get parts that begin at multiples of a device's alignment.
            start = 32 * int(rng.integers(0, 15))
            stop = 32 * int(rng.integers(start // 32 + 1, 17))
            part, device = slice(start, stop), devices[int(rng.integers(3))]
            what = rng.integers(5)
            if what < 2:
                n = int(rng.integers(100))
                device.launch(add, dim3((stop - start) // 32, 32), read_write(buffers[b][part]), n)
                data[b][part] += n
            elif what == 2:
                device.launch(copy, dim3((stop - start) // 32, 32), write(buffers[b][part]), read(buffers[c][part]))
                data[b][part] = data[c][part]
            elif what == 3:
                data[b][part] = rng.integers(0, 100, stop - start)
                buffers[b][part] = data[b][part]
            else:
                assert (buffers[b][part].numpy() == data[b][part]).all(), seed
        for b, d in zip(buffers, data):
            assert (b.numpy() == d).all(), seed


def a_fork_is_refused():
    devices = opened()
    b = Buffer(devices, np.zeros(4, np.int32))
    devices[0].launch(Kernel.opencl(ADD), dim3(1, 4), read_write(b), 1).wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with refused(lathe.MachineError, "E0847"):
                b.numpy()
            with refused(lathe.MachineError, "E0847"):
                Buffer(devices, np.zeros(4, np.int32))
            del b, devices
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert b.numpy().tolist() == [1] * 4


def programs(module):
    """The programs of a module, in order."""
    return [f for name, f in list(vars(module).items())
            if callable(f) and getattr(f, "__module__", "") == module.__name__ and not isinstance(f, type)
            and name not in ("opened", "programs", "main")]


def main(all_, names):
    good = True
    for f in all_:
        if names and f.__name__ not in names:
            continue
        start = time.time()
        try:
            f()
            said = "ok"
        except Skipped as e:
            said = f"skipped: {e}"
        except BaseException:
            said = traceback.format_exc()
        good &= said == "ok" or said.startswith("skipped")
        print(json.dumps([f.__name__, said, round(time.time() - start, 2)]), flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if main(programs(sys.modules["__main__"]), sys.argv[2:]) else 1)
