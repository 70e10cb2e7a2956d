"""Rivals as calls on the arrays of a row of mdh_cases.py: `by_...(...)` gives `make(ins, outs, threads)`, which gives a call and where its result lies
(`None`: in `outs`).
"""
import ctypes, os
import numpy as np
from rows import CPUS, I, beside_nothing, crates, lib, llvm_cpu, ptr, rivals, tvm_nothing, xla

OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0"


def openblas_version():
    l = lib(OPENBLAS)
    l.openblas_get_config.restype = ctypes.c_char_p
    return l.openblas_get_config().decode().split()[1]


def onednn_version():
    l = lib("libdnnl.so.2")
    l.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
    return ".".join(map(str, l.dnnl_version()[0]))


def c_compiler():
    l = rivals()
    l.compiler.restype = ctypes.c_char_p
    return l.compiler().decode()


def by_xla(f):
    return lambda ins, outs, threads: xla(f, *ins)


def by_einsum(spec):
    """numpy with the order of contraction by opt_einsum."""
    def make(ins, outs, threads):
        import opt_einsum
        e = opt_einsum.contract_expression(spec, *[i.shape for i in ins])
        ones = single(ins)
        return through_numpy(e, opt_einsum.contract_expression(spec, *[i.shape for i in ones]), ins, outs), None
    return make


def single(arrays):
    """Arrays of one element, for the same way through Python."""
    return [np.ascontiguousarray(a[(slice(0, 1),) * a.ndim]) for a in arrays]


def through_numpy(f, small, ins, outs):
    """A call of numpy's, and `small` on one element, which costs what Python costs."""
    ones = single(ins)
    one = np.array(small(*ones))

    def call():
        outs[0][...] = f(*ins)

    def empty():
        one[...] = small(*ones)
    return beside_nothing(call, empty)


def by_numpy(f):
    def make(ins, outs, threads):
        return through_numpy(f, f, ins, outs), None
    return make


def by_numba(f):
    """`f(parallel)` gives the compiled function, which writes its last arguments."""
    def make(ins, outs, threads):
        import numba
        numba.set_num_threads(threads)
        g = f(threads > 1)
        nothing = numba.njit(lambda *arrays: None)
        nothing(*ins, *outs)
        return beside_nothing(lambda: g(*ins, *outs), lambda: nothing(*ins, *outs)), None
    return make


def by_openblas(batch, m, n, k, transposed=False, over=False):
    """`over`: the threads share the batch, not each product."""
    def make(ins, outs, threads):
        l, run = lib(OPENBLAS), rivals().mdh_sgemm
        args = (l.cblas_sgemm, I(transposed), I(batch), I(m), I(n), I(k), ptr(ins[0]), ptr(ins[1]), ptr(outs[0]), threads if over else 1)

        def call(times=1):
            # Other candidates of the same process have other wishes.
            l.openblas_set_num_threads(1 if over else threads)
            run(*args, I(times))
        return call, None
    return make


def by_onednn(batch, m, n, k, transposed=False, over=False):
    def make(ins, outs, threads):
        run = rivals().mdh_dnnl_sgemm
        args = (I(transposed), I(batch), I(m), I(n), I(k), ptr(ins[0]), ptr(ins[1]), ptr(outs[0]), threads if over else 1)
        return (lambda times=1: run(*args, I(times))), None
    return make


def by_primitive(what, function, sizes):
    """A primitive of oneDNN on the arrays of a row: `function` opens it."""
    def make(ins, outs, threads):
        l = rivals()
        opened = getattr(l, function)
        opened.restype = ctypes.c_void_p
        x = opened(*[I(v) for v in sizes], *[ptr(a) for a in (*ins, outs[0])])
        if not x:
            raise RuntimeError(f"oneDNN has no such {what}")
        x = ctypes.c_void_p(x)
        return (lambda times=1: l.mdh_primitive_run(x, I(times))), None
    return make


def by_gemm(m, n, k):
    def make(ins, outs, threads):
        f = crates().rival_gemm_f32
        args = (I(m), I(n), I(k), ptr(ins[0]), ptr(ins[1]), ptr(outs[0]), I(threads))
        return (lambda times=1: f(*args, I(times))), None
    return make


def by_tvm(compute, schedule):
    """A TensorIR schedule written by hand: `compute(te)` gives placeholders and result, `schedule(s, threads)` the loops."""
    def make(ins, outs, threads):
        os.sched_setaffinity(0, CPUS)
        import tvm
        from tvm import te
        from tvm.s_tir import Schedule
        args = compute(te)
        s = Schedule(te.create_prim_func(list(args)))
        schedule(s, threads)
        f = tvm.compile(s.mod, target={"kind": "llvm", "mcpu": llvm_cpu(), "num-cores": threads})["main"]
        data = [tvm.runtime.tensor(v) for v in (*ins, outs[0])]
        return beside_nothing(lambda: f(*data), tvm_nothing(data)), lambda: data[-1].numpy()
    return make
