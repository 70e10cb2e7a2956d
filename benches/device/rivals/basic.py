"""Copies, reductions, scans, stencils, products and attention beside PyTorch."""

import torch


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
