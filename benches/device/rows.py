"""Checks kernels that Lathe made for a CUDA device, and times them beside PyTorch's.

    python3 rows.py --rows copy,gemm4096 --out rows.json

Needs the driver, PyTorch, and the folder that `make device-bundle` makes: a cubin and the list of launches per row.
Kernels are loaded by the driver and run on PyTorch's arrays; rounds of Lathe and of each rival alternate, timed by
events of the device. A row whose result is wrong has no time.
"""

import argparse
import ctypes
import json
import os
import statistics
import struct
import time
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import torch

HERE = Path(__file__).parent
cuda = ctypes.CDLL("libcuda.so.1")
FORMATS = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "index": "q", "u32": "I", "u64": "Q"}
# Structs are rows of words.
WORDS = {"Record": 8, "Match": 4}
TYPES = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64}


def ok(result, what):
    if result != 0:
        raise RuntimeError(f"{what} failed ({result})")


class Kernels:
    """The kernels of one function on fixed arrays."""

    def __init__(self, name, folder):
        self.plan = json.loads((folder / f"{name}.json").read_text())
        module = ctypes.c_void_p()
        ok(cuda.cuModuleLoadData(ctypes.byref(module), (folder / f"{name}.cubin").read_bytes()), "loading the cubin")
        self.functions = {}
        for launch in self.plan["launches"]:
            function = ctypes.c_void_p()
            symbol = launch["kernel"].encode()
            ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, symbol), "finding the kernel")
            if launch["dynamic_shared"]:
                ok(cuda.cuFuncSetAttribute(function, 8, launch["dynamic_shared"]), "asking for shared memory")
            self.functions[launch["kernel"]] = function
        self.status = torch.zeros(4, dtype=torch.int32, device="cuda")
        self.arrays, self.scalars = {}, {}
        for a in self.plan["arrays"]:
            if a["mode"] == "scalar":
                self.scalars[a["name"]] = 0.5
            elif a["type"] in WORDS:
                self.arrays[a["name"]] = torch.zeros([*a["shape"], WORDS[a["type"]]], dtype=torch.int32, device="cuda")
            elif a["mode"] == "in" and TYPES[a["type"]] in (torch.int32, torch.int64):
                self.arrays[a["name"]] = torch.randint(0, 256, a["shape"], dtype=TYPES[a["type"]], device="cuda")
            elif a["mode"] == "in":
                self.arrays[a["name"]] = torch.randn(a["shape"], dtype=TYPES[a["type"]], device="cuda")
            else:
                self.arrays[a["name"]] = torch.zeros(a["shape"], dtype=TYPES[a["type"]], device="cuda")
        self.buffers = {b["name"]: torch.empty(max(b["bytes"], 16), dtype=torch.uint8, device="cuda") for b in self.plan["buffers"]}
        self.prepared = [self.prepare(launch) for launch in self.plan["launches"]]

    def prepare(self, launch):
        cells = []
        for a in launch["arguments"]:
            if "array" in a:
                tensor = self.arrays.get(a["array"], self.buffers.get(a["array"]))
                data = struct.pack("Q", tensor.data_ptr())
            elif "bytes" in a:
                data = bytes.fromhex(a["bytes"])
            else:
                data = struct.pack(FORMATS[a["type"]], self.scalars[a["scalar"]])
            cells.append(ctypes.create_string_buffer(data.ljust(8, b"\0"), 8))
        # Words by which blocks wait for one another: 0 before every launch.
        turns = torch.zeros(launch.get("turns", 0) // 8, dtype=torch.int64, device="cuda")
        if turns.numel():
            cells.append(ctypes.create_string_buffer(struct.pack("Q", turns.data_ptr()), 8))
        if launch["status"]:
            cells.append(ctypes.create_string_buffer(struct.pack("Q", self.status.data_ptr()), 8))
        pointers = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(c) for c in cells])
        return self.functions[launch["kernel"]], launch, pointers, (cells, turns)

    def __call__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, l, pointers, (_, turns) in self.prepared:
            if turns.numel():
                turns.zero_()
            started = cuda.cuLaunchKernel(
                function, l["blocks"], 1, 1, l["threads"], 1, 1, l["dynamic_shared"], stream, pointers, None
            )
            ok(started, f"starting {l['kernel']}")


def row_copy(k):
    x, y = k.arrays["X"], k.arrays["Y"]
    out = torch.empty_like(y)
    return y, x, {"torch copy_": lambda: out.copy_(x)}, 8 * x.numel(), 0


def row_axpy(k):
    x, y, z = (k.arrays[n] for n in "XYZ")
    out = torch.empty_like(z)
    return z, 0.5 * x + y, {"torch add": lambda: torch.add(y, x, alpha=0.5, out=out)}, 12 * x.numel(), 0


def row_transpose(k):
    a, b = k.arrays["A"], k.arrays["B"]
    out = torch.empty_like(b)
    return b, a.t(), {"torch t().copy": lambda: out.copy_(a.t())}, 8 * a.numel(), 0


def row_jacobi2d(k):
    a, b = k.arrays["A"], k.arrays["B"]

    def step(a):
        return 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])

    compiled = torch.compile(step)
    return b, step(a), {"torch.compile": lambda: compiled(a)}, 8 * b.numel(), 0


def row_jacobi3d(k):
    a, b = k.arrays["A"], k.arrays["B"]

    def step(a):
        m = a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
        return 0.1 * (m + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:])

    compiled = torch.compile(step)
    return b, step(a), {"torch.compile": lambda: compiled(a)}, 8 * b.numel(), 0


def row_hotspot(k):
    t, p, b = (k.arrays[n] for n in "TPB")
    cap, rx, ry, rz, air = (k.scalars[n] for n in ("cap", "rx", "ry", "rz", "air"))

    def step(t, p):
        c = t[1:-1, 1:-1]
        ns, ew = t[2:, 1:-1] + t[:-2, 1:-1] - 2 * c, t[1:-1, 2:] + t[1:-1, :-2] - 2 * c
        return c + cap * (p + ns * ry + ew * rx + (air - c) * rz)

    compiled = torch.compile(step)
    return b, step(t, p), {"torch.compile": lambda: compiled(t, p)}, 12 * b.numel(), 0


def row_acoustic(k):
    u, v, w, c = k.arrays["U"], k.arrays["V"], k.arrays["W"], k.scalars["c"]

    def step(u, v):
        sides = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        sides = sides + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        return (2 - 6 * c) * u[1:-1, 1:-1, 1:-1] - v + c * sides

    compiled = torch.compile(step)
    return w, step(u, v), {"torch.compile": lambda: compiled(u, v)}, 12 * w.numel(), 0


def row_srad(k):
    j, c, out, rate = k.arrays["J"], k.arrays["c"], k.arrays["K"], k.scalars["lambda"]

    def step(j, c):
        m = j[1:-1, 1:-1]
        flow = c[:-1, :-1] * (j[:-2, 1:-1] - m) + c[1:, :-1] * (j[2:, 1:-1] - m)
        flow = flow + c[:-1, :-1] * (j[1:-1, :-2] - m) + c[:-1, 1:] * (j[1:-1, 2:] - m)
        return m + 0.25 * rate * flow

    compiled = torch.compile(step)
    return out, step(j, c), {"torch.compile": lambda: compiled(j, c)}, 12 * out.numel(), 0


def row_coefficients(k):
    # A picture of positive values.
    j, c, q = k.arrays["J"].abs_().add_(1), k.arrays["c"], k.scalars["q"]

    def step(j):
        m = j[1:-1, 1:-1]
        n, s, w, e = j[:-2, 1:-1] - m, j[2:, 1:-1] - m, j[1:-1, :-2] - m, j[1:-1, 2:] - m
        g = (n * n + s * s + w * w + e * e) / (m * m)
        l = (n + s + w + e) / m
        v = (0.5 * g - 0.0625 * (l * l)) / ((1 + 0.25 * l) * (1 + 0.25 * l))
        return torch.clamp(1 / (1 + (v - q) / (q * (1 + q))), 0, 1)

    compiled = torch.compile(step)
    return c, step(j), {"torch.compile": lambda: compiled(j)}, 8 * c.numel(), 0


def row_nbody(k):
    p, f, eps = k.arrays["P"].abs_(), k.arrays["F"], k.scalars["eps"]

    def forces(p):
        d = p[None, :, :3] - p[:, None, :3]
        s = (d * d).sum(2) + eps
        return ((p[None, :, 3] / (s * torch.sqrt(s)))[:, :, None] * d).sum(1)

    compiled = torch.compile(forces)
    return f, forces(p.double()).float(), {"torch.compile": lambda: compiled(p)}, 0, 20 * p.shape[0] ** 2


def row_batched(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    moved = 4 * (a.numel() + b.numel() + c.numel())
    return c, (a.double() @ b.double()).float(), {"cuBLAS": lambda: torch.bmm(a, b, out=out)}, moved, 0


def row_layernorm(k):
    x, g, b, y = (k.arrays[n] for n in "xgby")
    norm = torch.nn.functional.layer_norm
    compiled = torch.compile(lambda x: norm(x, x.shape[1:], g, b))
    rivals = {"torch layer_norm": lambda: norm(x, x.shape[1:], g, b), "torch.compile": lambda: compiled(x)}
    return y, norm(x, x.shape[1:], g, b), rivals, 8 * x.numel(), 0


def row_histogram(k):
    x, h = k.arrays["x"], k.arrays["h"]
    floats, bins = x.float(), h.numel()
    rivals = {
        "torch bincount": lambda: torch.bincount(x, minlength=bins),
        "torch histc": lambda: torch.histc(floats, bins=bins, min=0, max=bins),
    }
    return h, torch.bincount(x, minlength=bins), rivals, 4 * x.numel(), 0


def row_scan(k):
    x, s = k.arrays["x"], k.arrays["s"]
    if s.dtype == torch.int32:
        want = torch.cumsum(x, 0, dtype=torch.int32)
    else:
        # Of one sign, so that the error is relative to what was added.
        want = torch.cumsum(x.abs_().double(), 0).float()
    out = torch.empty_like(s)
    rivals = {"torch cumsum": lambda: torch.cumsum(x, 0, dtype=s.dtype, out=out)}
    try:
        import cupy

        a, b = cupy.from_dlpack(x), cupy.from_dlpack(out)
        rivals["CUB (CuPy)"] = lambda: cupy.cumsum(a, out=b)
    except ImportError:
        pass
    return s, want, rivals, 8 * x.numel(), 0


def row_sum(k):
    x, s = k.arrays["X"], k.arrays["s"]
    return s, x.double().sum().float(), {"torch sum": lambda: torch.sum(x)}, 4 * x.numel(), 0


def row_dot(k):
    # Of one sign, so that the error is relative to what was added.
    x, y, s = k.arrays["X"].abs_(), k.arrays["Y"].abs_(), k.arrays["s"]
    return s, (x.double() * y.double()).sum().float(), {"cuBLAS": lambda: torch.dot(x, y)}, 8 * x.numel(), 0


def row_matvec(k):
    a, x, y = k.arrays["A"], k.arrays["x"], k.arrays["y"]
    return y, (a.double() @ x.double()).float(), {"torch mv": lambda: torch.mv(a, x)}, 4 * a.numel(), 0


def row_softmax(k):
    x, y = k.arrays["x"], k.arrays["y"]
    soft = torch.compile(lambda x: torch.softmax(x, 1))
    rivals = {"torch softmax": lambda: torch.softmax(x, 1), "torch.compile": lambda: soft(x)}
    return y, torch.softmax(x, 1), rivals, 8 * x.numel(), 0


def row_gemm(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    want = (a.double() @ b.double()).float()
    return c, want, {"cuBLAS": lambda: torch.mm(a, b, out=out)}, 0, 2 * a.shape[0] * a.shape[1] * b.shape[1]


def row_attention(k):
    q, keys, v, o = (k.arrays[n] for n in "QKVO")
    attend = torch.nn.functional.scaled_dot_product_attention
    want = torch.empty_like(o)
    for h in range(o.shape[0]):
        want[h] = attend(q[h].double(), keys[h].double(), v[h].double()).float()

    def written_out():
        return torch.bmm(torch.softmax(torch.bmm(q, keys.transpose(1, 2)) / q.shape[2] ** 0.5, 2), v)

    compiled = torch.compile(written_out)
    rivals = {
        "torch attention": lambda: attend(q[None], keys[None], v[None]),
        "cuBLAS, softmax": written_out,
        "torch.compile": compiled,
    }
    heads, m, d = q.shape
    return o, want, rivals, 0, 2 * heads * m * keys.shape[1] * (d + v.shape[2])


def by_hand(k, dims, halo, element):
    """A stencil in CUDA C as one writes it first: a thread has an element. `a(i, j)`: the neighbour, `at`: the own place."""
    import cupy

    names = "lmn"[3 - dims :]
    sizes = "".join(f", int {n}" for n in names)
    wide = lambda n: f"({n} + {2 * halo})"
    if dims == 2:
        start = "int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y; if (i >= m || j >= n) return;"
        macro = f"#define a(y, x) A[(size_t)(i + {halo} + y) * {wide('n')} + (j + {halo} + x)]"
        at = "(size_t)i * n + j"
    else:
        start = "int k = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y, i = blockIdx.z; if (j >= m || k >= n) return;"
        macro = f"#define a(z, y, x) A[((size_t)(i + {halo} + z) * {wide('m')} + (j + {halo} + y)) * {wide('n')} + (k + {halo} + x)]"
        at = "((size_t)i * m + j) * n + k"
    source = f"""{macro}
extern "C" __global__ void hand(const float *__restrict__ A, const float *__restrict__ P, float *__restrict__ B{sizes}) {{
  {start} size_t at = {at}; B[at] = {element};
}}"""
    kernel = cupy.RawKernel(source, "hand")
    a = k.arrays["A"] if "A" in k.arrays else k.arrays["T"]
    power, b = k.arrays.get("P", a), torch.empty_like(k.arrays["B"])
    grid = (-(-b.shape[-1] // 32), -(-b.shape[-2] // 8), *b.shape[:-2])
    arguments = tuple(cupy.from_dlpack(x) for x in (a, power, b)) + tuple(cupy.int32(n) for n in b.shape)

    def run():
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel(grid, (32, 8), arguments)

    return run


def stencil(k, dims, halo, value, element):
    """`value(a)` of neighbours in PyTorch, `element` the same in CUDA C."""
    a = k.arrays["A"] if "A" in k.arrays else k.arrays["T"]
    b = k.arrays["B"]

    def step(a):
        def at(*offsets):
            return a[tuple(slice(halo + o, n - halo + o) for o, n in zip(offsets, a.shape))]

        return value(at)

    compiled = torch.compile(step)
    rivals = {"torch.compile": lambda: compiled(a)}
    try:
        rivals["CUDA C"] = by_hand(k, dims, halo, element)
    except ImportError:
        pass
    moved = 4 * (a.numel() + b.numel() + (k.arrays["P"].numel() if "P" in k.arrays else 0))
    return b, step(a.double() if "P" not in k.arrays else a).float(), rivals, moved, 0


def linear(k, dims, halo, weights):
    """Neighbours by their offsets, each with a weight."""
    element = " + ".join(f"{w!r}f * a({', '.join(map(str, o))})" for o, w in weights.items())
    return stencil(k, dims, halo, lambda at: sum(w * at(*o) for o, w in weights.items()), element)


def faces(dims, distance=1):
    return [tuple(s * distance if d == e else 0 for e in range(dims)) for d in range(dims) for s in (-1, 1)]


def row_stencil2d(k):
    centre, side, corner = (k.scalars[n] for n in ("centre", "side", "corner"))
    corners = [(y, x) for y in (-1, 1) for x in (-1, 1)]
    weights = {(0, 0): centre, **dict.fromkeys(faces(2), side), **dict.fromkeys(corners, corner)}
    return linear(k, 2, 1, weights)


def row_gaussian(k):
    line = [[2, 4, 5, 4, 2], [4, 9, 12, 9, 4], [5, 12, 15, 12, 5]]
    weights = {(y, x): line[2 - abs(y)][x + 2] / 159 for y in range(-2, 3) for x in range(-2, 3)}
    return linear(k, 2, 2, weights)


def row_gradient(k):
    def value(at):
        c = at(0, 0)
        return 1 / torch.sqrt(0.0001 + sum((c - at(*o)) ** 2 for o in faces(2)))

    squares = " + ".join(f"(a(0, 0) - a({y}, {x})) * (a(0, 0) - a({y}, {x}))" for y, x in faces(2))
    return stencil(k, 2, 1, value, f"1.0f / sqrtf(0.0001f + {squares})")


def row_jacobi2d9(k):
    return linear(k, 2, 1, {(y, x): 1 / 9 for y in (-1, 0, 1) for x in (-1, 0, 1)})


def row_hotspot3d(k):
    cc, cn, ce, ct, power, ambient = (k.scalars[n] for n in ("cc", "cn", "ce", "ct", "power", "ambient"))
    p = k.arrays["P"]

    def value(at):
        ns, ew, tb = at(0, -1, 0) + at(0, 1, 0), at(0, 0, -1) + at(0, 0, 1), at(-1, 0, 0) + at(1, 0, 0)
        return cc * at(0, 0, 0) + cn * ns + ce * ew + ct * tb + power * p + ct * ambient

    element = f"""{cc}f * a(0, 0, 0) + {cn}f * (a(0, -1, 0) + a(0, 1, 0)) + {ce}f * (a(0, 0, -1) + a(0, 0, 1))
      + {ct}f * (a(-1, 0, 0) + a(1, 0, 0)) + {power}f * P[at] + {ct * ambient}f"""
    return stencil(k, 3, 1, value, element)


def row_jacobi3d13(k):
    weights = dict.fromkeys(faces(3) + faces(3, 2), 0.083)
    return linear(k, 3, 2, {**weights, (0, 0, 0): -0.996})


def row_poisson(k):
    near = [(z, y, x) for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1)]
    weight = {0: 2.666, 1: -0.166, 2: -0.0833}
    weights = {o: weight[n] for o in near if (n := sum(map(abs, o))) < 3}
    return linear(k, 3, 1, weights)


def row_heat(k):
    return linear(k, 3, 1, {**dict.fromkeys(faces(3), 0.125), (0, 0, 0): 0.25})


def row_contraction(k, spec):
    """A contraction of two arrays as `einsum` writes it."""
    a, b, c = k.arrays.values()
    inputs, output = spec.split("->")
    x, y = inputs.split(",")
    sizes = {**dict(zip(x, a.shape)), **dict(zip(y, b.shape))}
    flops = 2
    for n in sizes.values():
        flops *= n
    out = torch.empty_like(c)
    # What einsum returns may lie in another order in memory; the copy is in that of the result.
    rivals = {"cuBLAS (einsum)": lambda: torch.einsum(spec, a, b), "einsum, copied": lambda: out.copy_(torch.einsum(spec, a, b))}
    return c, torch.einsum(spec, a.double(), b.double()).float(), rivals, 0, flops


def row_bmatmul(k):
    return row_contraction(k, "bik,bkj->bij")


def row_ccsdt(k):
    return row_contraction(k, "gdab,efgc->abcdef")


def row_ccsdt_last(k):
    return row_contraction(k, "gfbc,dega->abcdef")


def row_convolution(k, stride=1):
    image, f, o = k.arrays["I"], k.arrays["F"], k.arrays["O"]
    conv = torch.nn.functional.conv2d
    # The library's own order of dimensions, in the same memory; and its other one.
    last = lambda x: x.permute(0, 3, 1, 2)
    x, w = last(image), last(f)
    first = x.contiguous(), w.contiguous()
    want = conv(x.double(), w.double(), stride=stride).permute(0, 2, 3, 1).float()
    rivals = {
        "cuDNN (channels last)": lambda: conv(x, w, stride=stride),
        "cuDNN (channels first)": lambda: conv(*first, stride=stride),
    }
    return o, want, rivals, 0, 2 * o.numel() * f[0].numel()


def row_convolution2(k):
    return row_convolution(k, 2)


def row_capsule(k, stride=1):
    image, f, o = k.arrays["I"], k.arrays["F"], k.arrays["O"]
    _, p, q = o.shape[:3]

    def capsules(image, f):
        total = 0
        for y in range(f.shape[1]):
            for x in range(f.shape[2]):
                part = image[:, y : y + stride * (p - 1) + 1 : stride, x : x + stride * (q - 1) + 1 : stride]
                total = total + torch.einsum("npqcim,kcmj->npqkij", part, f[:, y, x])
        return total

    rivals = {"cuBLAS (einsum)": lambda: capsules(image, f)}
    flops = 2 * o.numel() * f.shape[1] * f.shape[2] * f.shape[3] * f.shape[4]
    return o, capsules(image.double(), f.double()).float(), rivals, 0, flops


def row_capsule2(k):
    return row_capsule(k, 2)


def on_jax(f, *inputs):
    """`f` of JAX's arrays, compiled by XLA, without TF32. Small inputs are many, so that a call is not only its launch."""
    try:
        import jax

        if jax.default_backend() != "gpu":
            return {}
        jax.config.update("jax_default_matmul_precision", "highest")
    except (ImportError, RuntimeError):
        return {}
    many = 20 if sum(x.numel() for x in inputs) < 1 << 21 else 1
    own = [[jax.dlpack.from_dlpack(x.clone()) for x in inputs] for _ in range(many)]
    compiled = jax.jit(lambda all: [f(*x) for x in all])

    def run(repeat):
        compiled(own)[0].block_until_ready()
        start = time.perf_counter()
        for _ in range(repeat):
            last = compiled(own)
        jax.block_until_ready(last)
        return (time.perf_counter() - start) / (repeat * many)

    run.timed_by_host = True
    return {"JAX": run}


def on_triton(a, b):
    """A product of matrices as in Triton's tutorial, without TF32, the best of some shapes of tiles."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return {}
    shapes = [(64, 64, 32, 4), (128, 64, 32, 4), (32, 64, 32, 4), (16, 64, 64, 4), (16, 32, 128, 2)]
    configs = [triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=w, num_stages=3) for m, n, k, w in shapes]

    @triton.autotune(configs=configs, key=["M", "N", "K"])
    @triton.jit
    def product(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        i = tl.program_id(0) * BM + tl.arange(0, BM)
        j = tl.program_id(1) * BN + tl.arange(0, BN)
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for first in range(0, K, BK):
            k = first + tl.arange(0, BK)
            x = tl.load(A + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
            y = tl.load(B + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
            sums = tl.dot(x, y, sums, input_precision="ieee")
        tl.store(C + i[:, None] * N + j[None, :], sums, mask=(i[:, None] < M) & (j[None, :] < N))

    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), device="cuda")
    return {"Triton": lambda: product[lambda c: (triton.cdiv(m, c["BM"]), triton.cdiv(n, c["BN"]))](a, b, out, m, n, k)}


def row_matmul(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    rivals = {"cuBLAS": lambda: torch.mm(a, b, out=out), **on_jax(lambda x, y: x @ y, a, b), **on_triton(a, b)}
    return c, (a.double() @ b.double()).float(), rivals, 0, 2 * a.numel() * b.shape[1]


def row_matmul_t(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    rivals = {"cuBLAS": lambda: torch.mm(b, a, out=out), **on_jax(lambda x, y: y @ x, a, b)}
    return c, (b.double() @ a.double()).float(), rivals, 0, 2 * a.numel() * b.shape[0]


def row_tmm(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    rivals = {"cuBLAS": lambda: torch.mm(a, b.t(), out=out), **on_jax(lambda x, y: x @ y.T, a, b)}
    return c, (a.double() @ b.double().t()).float(), rivals, 0, 2 * a.numel() * b.shape[0]


def row_tbmm(k):
    x, y, z = (k.arrays[n] for n in "XYZ")
    out = torch.empty_like(z)
    rivals = {"cuBLAS": lambda: torch.bmm(x, y.transpose(1, 2), out=out)}
    rivals.update(on_jax(lambda x, y: x @ y.transpose(0, 2, 1), x, y))
    return z, (x.double() @ y.double().transpose(1, 2)).float(), rivals, 0, 2 * z.numel() * x.shape[2]


def layers(i, *weights):
    """Layers of a perceptron; their weights and biases in turn."""
    for w, b in zip(weights[::2], weights[1::2]):
        i = torch.relu(torch.nn.functional.linear(i, w, b))
    return i


def row_mlp(k, names, out):
    inputs = [k.arrays[n] for n in names]
    compiled = torch.compile(layers)
    rivals = {"cuBLAS": lambda: layers(*inputs), "torch.compile": lambda: compiled(*inputs)}

    def of_jax(i, *weights):
        import jax

        for w, b in zip(weights[::2], weights[1::2]):
            i = jax.nn.relu(i @ w.T + b)
        return i

    flops = 2 * inputs[0].shape[0] * sum(w.numel() for w in inputs[1::2])
    want = layers(*(x.double() for x in inputs)).float()
    return k.arrays[out], want, {**rivals, **on_jax(of_jax, *inputs)}, 0, flops


def row_mlp1(k):
    return row_mlp(k, ["I", "W", "bias"], "O")


def row_mlp3(k):
    return row_mlp(k, ["I", "W2", "B2", "W3", "B3", "W4", "B4"], "O4")


def row_lookup(k):
    table, numbers, o = k.arrays["T"], k.arrays["I"], k.arrays["O"]
    numbers.copy_(torch.randint(0, table.shape[0], numbers.shape, device="cuda"))
    bag = lambda: torch.nn.functional.embedding_bag(numbers, table, mode="sum")
    compiled = torch.compile(lambda t, i: t[i].sum(1))
    rivals = {"torch embedding_bag": bag, "torch.compile": lambda: compiled(table, numbers)}
    rivals["torch, a gather and a sum"] = lambda: table[numbers].sum(1)
    return o, table[numbers].double().sum(1).float(), rivals, 4 * (numbers.numel() * table.shape[1] + o.numel()), 0


def row_mdh_dot(k):
    x, y = k.arrays["A"].abs_(), k.arrays["B"].abs_()
    want = (x.double() * y.double()).sum().float()
    compiled = torch.compile(lambda x, y: (x * y).sum())
    rivals = {"cuBLAS": lambda: torch.dot(x, y), "torch.compile": lambda: compiled(x, y), **on_jax(lambda x, y: x @ y, x, y)}
    return k.arrays["C"], want, rivals, 8 * x.numel(), 0


def row_mdh_matvec(k):
    a, x, y = k.arrays["M"], k.arrays["v"], k.arrays["w"]
    out = torch.empty_like(y)
    compiled = torch.compile(lambda a, x: (a * x).sum(1))
    rivals = {"cuBLAS": lambda: torch.mv(a, x, out=out), "torch.compile": lambda: compiled(a, x)}
    return y, (a.double() @ x.double()).float(), {**rivals, **on_jax(lambda a, x: a @ x, a, x)}, 4 * a.numel(), 0


def row_mdh_jacobi3d(k):
    a, b = k.arrays["I"], k.arrays["O"]

    def step(a):
        m = a[1:-1, 1:-1]
        sides = a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
        return 0.16 * (sides + m[:, :, :-2] + m[:, :, 2:]) + 0.04 * m[:, :, 1:-1]

    compiled = torch.compile(step)
    return b, step(a.double()).float(), {"torch.compile": lambda: compiled(a), **on_jax(step, a)}, 4 * (a.numel() + b.numel()), 0


def row_conv2d(k):
    image, f, o = k.arrays["I"], k.arrays["F"], k.arrays["O"]
    conv = torch.nn.functional.conv2d
    rivals = {"cuDNN": lambda: conv(image[None, None], f[None, None])}

    def windows(a, f):
        return sum(f[r, s] * a[r : r + o.shape[0], s : s + o.shape[1]] for r in range(f.shape[0]) for s in range(f.shape[1]))

    compiled = torch.compile(windows)
    rivals["torch.compile"] = lambda: compiled(image, f)
    rivals.update(on_jax(windows, image, f))
    return o, windows(image.double(), f.double()).float(), rivals, 4 * (image.numel() + o.numel()), 2 * o.numel() * f.numel()


PRL = """
struct Record { long long id; int first, last, birth, sex, zip; };
struct Match { long long id; float weight; };
extern "C" __global__ void __launch_bounds__(128) hand(const Record *__restrict__ N, const Record *__restrict__ E, Match *M, int n, int m) {
  __shared__ Record tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  Record r = N[i];
  Match best = {-1, -__int_as_float(0x7f800000)};
  for (int j = 0; j < m; j += 128) {
    __syncthreads();
    tile[threadIdx.x] = E[j + threadIdx.x];
    __syncthreads();
    for (int t = 0; t < 128; t++) {
      const Record &e = tile[t];
      if (r.last == e.last || r.birth == e.birth) {
        float w = (r.first == e.first ? 6.5f : -2.0f) + (r.last == e.last ? 8.5f : -3.0f) + (r.birth == e.birth ? 11.0f : -4.0f)
          + (r.sex == e.sex ? 1.0f : -5.0f) + (r.zip == e.zip ? 5.0f : -1.0f);
        if (w > best.weight || w == best.weight && e.id < best.id) best = {e.id, w};
      }
    }
  }
  M[i] = best;
}"""


def row_prl(k):
    new, old, m = k.arrays["N"], k.arrays["E"], k.arrays["M"]
    for records in (new, old):
        # Identities (two words), then the fields.
        records[:, 0] = torch.arange(len(records), device="cuda")
        for field, values in zip(range(2, 7), (1000, 5000, 20000, 2, 8000)):
            records[:, field] = torch.randint(0, values, (len(records),), device="cuda")

    def weights(a, b):
        same = [a[:, None, f] == b[None, :, f] for f in range(2, 7)]
        parts = zip(same, (6.5, 8.5, 11.0, 1.0, 5.0), (-2.0, -3.0, -4.0, -5.0, -1.0))
        w = sum(torch.where(s, yes, no) for s, yes, no in parts)
        return torch.where(same[1] | same[2], w, -float("inf"))

    best = torch.compile(lambda a, b: weights(a, b).max(1))
    some = new[:512]
    w = torch.cat([weights(some, part) for part in old.split(1 << 15)], 1)
    top = w.max(1).values
    first = torch.where(w == top[:, None], old[None, :, 0], 1 << 30).min(1).values
    first = torch.where(top == -float("inf"), -1, first).to(torch.int32)
    want = torch.stack([first, torch.where(first < 0, -1, 0).to(torch.int32), top.view(torch.int32)], 1)
    rivals = {} if len(new) > 1 << 16 else {"torch.compile": lambda: best(new, old)}
    try:
        import cupy

        kernel, out = cupy.RawKernel(PRL, "hand"), torch.empty_like(m)
        arguments = tuple(cupy.from_dlpack(x) for x in (new, old, out)) + (cupy.int32(len(new)), cupy.int32(len(old)))

        def run():
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                kernel((len(new) // 128,), (128,), arguments)

        rivals["CUDA C"] = run
    except ImportError:
        pass
    return m[:512, :3], want, rivals, 0, 0


def row_ccsdt_gdac_efgb(k):
    return row_contraction(k, "gdac,efgb->abcdef")


def row_ccsdt_gdbc_efga(k):
    return row_contraction(k, "gdbc,efga->abcdef")


def row_ccsdt_geab_dfgc(k):
    return row_contraction(k, "geab,dfgc->abcdef")


def row_ccsdt_geac_dfgb(k):
    return row_contraction(k, "geac,dfgb->abcdef")


def row_ccsdt_gebc_dfga(k):
    return row_contraction(k, "gebc,dfga->abcdef")


def row_ccsdt_gfab_degc(k):
    return row_contraction(k, "gfab,degc->abcdef")


def wrong_by(got, want, each):
    if not want.dtype.is_floating_point:
        return 0.0 if torch.equal(got.to(want.dtype), want) else 1.0
    # Beside the largest one, or, if every element has a large value of its own, each beside itself.
    scale = (want.abs() if each else want.abs().max()).clamp(min=1e-30)
    return ((got - want).abs() / scale).max().item()


def captured(f, repeat):
    """So many calls as one launch: without it, short kernels wait for Python. None where `f` cannot be captured."""
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(repeat):
                f()
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay
    except Exception:
        torch.cuda.synchronize()
        return None


def seconds(f, repeat):
    if getattr(f, "timed_by_host", False):
        return f(repeat)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeat):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / repeat


def measure(name, row, folder, rounds, alone, times):
    k = Kernels(name, folder)
    got, want, rivals, moved, flops = globals()["row_" + row](k)
    k()
    torch.cuda.synchronize()
    error = wrong_by(got.reshape(want.shape), want, row == "scan")
    row = {"name": name, "error": error, "status": int(k.status[0])}
    if not error < 1e-4 or row["status"]:
        return {**row, "wrong": True}
    # Blocks that wait for one another, and updates by atomics, are repeated.
    first, other = got.clone(), 0
    for n in range(times):
        k()
        other += not torch.equal(got, first)
        if n % 50 == 0 and not wrong_by(got.reshape(want.shape), want, row["name"].startswith("scan")) < 1e-4:
            return {**row, "wrong": f"repetition {n}"}
    row.update(repetitions=times, other_bits=other)
    del want, first
    who = {"lathe": k}
    for n, f in {} if alone else rivals.items():
        try:
            f(1) if getattr(f, "timed_by_host", False) else f()
            who[n] = f
        except Exception as e:
            row.setdefault("left_out", {})[n] = f"{type(e).__name__}: {e}"[:200]
    once = {n: seconds(f, 2) for n, f in who.items()}
    calls = {n: (f, 1) for n, f in who.items()}
    for n, f in who.items():
        if once[n] < 1e-3 and not getattr(f, "timed_by_host", False):
            graph = captured(f, 20)
            if graph:
                calls[n] = (graph, 20)
    row["captured"] = [n for n, c in calls.items() if c[1] > 1]
    taken = {n: [] for n in who}
    for _ in range(rounds):
        for n, (f, each) in calls.items():
            repeat = max(1, min(50, int(0.01 / max(once[n] * each, 1e-6))))
            taken[n].append(seconds(f, repeat) / each)
    row["median_s"] = {n: statistics.median(t) for n, t in taken.items()}
    row["spread_s"] = {n: [min(t), max(t)] for n, t in taken.items()}
    if len(who) > 1:
        best = min(t for n, t in row["median_s"].items() if n != "lathe")
        row["against_best"] = best / row["median_s"]["lathe"]
    if moved:
        row["gbytes_per_s"] = {n: moved / t / 1e9 for n, t in row["median_s"].items()}
    if flops:
        row["tflops"] = {n: flops / t / 1e12 for n, t in row["median_s"].items()}
    return row


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", default="")
    p.add_argument("--out", default="rows.json")
    p.add_argument("--bundle", default=str(HERE / "bundle"))
    p.add_argument("--rounds", type=int, default=11)
    p.add_argument("--alone", action="store_true", help="without rivals: to compare strategies")
    p.add_argument("--repeat", type=int, default=0, help="repetitions that must give the same bits")
    a = p.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    known = json.loads((Path(a.bundle) / "rows.json").read_text())
    done = []
    for name in [n for n in a.rows.split(",") if n] or known:
        try:
            done.append(measure(name, known[name].get("row", name), Path(a.bundle), a.rounds, a.alone, a.repeat))
        except Exception as e:
            done.append({"name": name, "failed": f"{type(e).__name__}: {e}"})
        torch.cuda.empty_cache()
        print(json.dumps(done[-1]), flush=True)
        report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": done}
        Path(a.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
