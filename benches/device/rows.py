"""Checks kernels that Lathe made for a CUDA device, and times them beside PyTorch's.

    python3 rows.py --rows copy,gemm4096 --out rows.json

Needs the driver, PyTorch, and the folder that `make device-bundle` makes: a cubin and the list of launches per row.
Kernels are loaded by the driver and run on PyTorch's arrays; rounds of Lathe and of each rival alternate, timed by
events of the device. A row whose result is wrong has no time.
"""

import argparse
import ctypes
import json
import statistics
import struct
from pathlib import Path

import torch

HERE = Path(__file__).parent
cuda = ctypes.CDLL("libcuda.so.1")
FORMATS = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "index": "q", "u32": "I", "u64": "Q"}
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
    rivals = {"cuBLAS (einsum)": lambda: torch.einsum(spec, a, b)}
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


def wrong_by(got, want, each):
    if not want.dtype.is_floating_point:
        return 0.0 if torch.equal(got.to(want.dtype), want) else 1.0
    # Beside the largest one, or, if every element has a large value of its own, each beside itself.
    scale = (want.abs() if each else want.abs().max()).clamp(min=1e-30)
    return ((got - want).abs() / scale).max().item()


def seconds(f, repeat):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeat):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / repeat


def measure(name, row, folder, rounds, alone):
    k = Kernels(name, folder)
    got, want, rivals, moved, flops = globals()["row_" + row](k)
    k()
    torch.cuda.synchronize()
    error = wrong_by(got.reshape(want.shape), want, row == "scan")
    row = {"name": name, "error": error, "status": int(k.status[0])}
    if not error < 1e-4 or row["status"]:
        return {**row, "wrong": True}
    del want
    who = {"lathe": k} if alone else {"lathe": k, **rivals}
    for f in who.values():
        f()
    once = {n: seconds(f, 2) for n, f in who.items()}
    times = {n: [] for n in who}
    for _ in range(rounds):
        for n, f in who.items():
            times[n].append(seconds(f, max(1, min(50, int(0.01 / max(once[n], 1e-6))))))
    row["median_s"] = {n: statistics.median(t) for n, t in times.items()}
    row["spread_s"] = {n: [min(t), max(t)] for n, t in times.items()}
    if not alone:
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
            done.append(measure(name, known[name].get("row", name), Path(a.bundle), a.rounds, a.alone))
        except Exception as e:
            done.append({"name": name, "failed": f"{type(e).__name__}: {e}"})
        torch.cuda.empty_cache()
        print(json.dumps(done[-1]), flush=True)
        report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": done}
        Path(a.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
