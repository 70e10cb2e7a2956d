"""Rivals that search: TVM's MetaSchedule, whose records are kept in .env/mdh-tvm, and Halide's automatic schedulers.

    python mdh_rivals.py ROW THREADS      searches one row with MetaSchedule (mdh_rows.py --tune-rivals does all)

MetaSchedule gets its defaults but for two sizes: with batches of 64 and a population of 512 it would measure nothing within a
minute on two processors. It ends after the budget; where it has measured nothing by then, after the first batch, or after
three budgets.
"""
import importlib, json, os, shutil, sys, time, types
import numpy as np
from interleaved import HALIDE, instruction_set
from rows import CPUS, ENV, beside_nothing, halide_nothing, llvm_cpu, tvm_nothing

RECORDS = os.path.join(ENV, "mdh-tvm")
BATCH, POPULATION = 8, 64


# ---- TVM MetaSchedule -----------------------------------------------------------------------------

def records(name, threads):
    return os.path.join(RECORDS, "".join(c if c.isalnum() else "-" for c in f"{name} x{threads}"))


def searched(name, threads):
    """How long MetaSchedule searched this row, and what it measured; `None`: not at all."""
    try:
        return json.load(open(os.path.join(records(name, threads), "done.json")))
    except (OSError, ValueError):
        return None


def cpu(threads):
    return {"kind": "llvm", "mcpu": llvm_cpu(), "num-cores": threads}


def only_own_intrinsics():
    """MetaSchedule imports the intrinsics of all devices, which takes half a minute: here only this CPU's."""
    import tvm.s_tir
    name = "tvm.s_tir.tensor_intrin"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(os.path.dirname(tvm.s_tir.__file__), "tensor_intrin")]
        sys.modules[name] = package
        importlib.import_module(name + ".x86")


def function(define):
    from tvm import te
    return te.create_prim_func(list(define(te)))


def search(name, threads):
    """Runs until somebody ends it; prints when it begins and what it has after each batch."""
    only_own_intrinsics()
    from mdh_cases import CASES
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
    import tvm
    folder = records(name, threads)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    start, best = time.perf_counter(), [float("inf"), 0]

    @derived_object
    class Watch(ms.measure_callback.PyMeasureCallback):
        def apply(self, scheduler, task, candidates, builds, runs):
            for r in runs:
                best[1] += 1
                if r.run_secs:
                    best[0] = min(best[0], float(np.mean([float(s) for s in r.run_secs])))
            print(json.dumps({"at_s": time.perf_counter() - start, "trials": best[1], "best_s": best[0]}), flush=True)

    print(json.dumps({"at_s": 0, "trials": 0, "best_s": None}), flush=True)
    ms.tune_tir(function(CASES[name]().tvm), tvm.target.Target(cpu(threads)), folder, max_trials_global=100000,
                num_trials_per_iter=BATCH, num_tuning_cores=max(1, len(CPUS)), seed=1,
                builder=ms.builder.LocalBuilder(max_workers=len(CPUS), initializer=only_own_intrinsics),
                strategy=ms.search_strategy.EvolutionarySearch(population_size=POPULATION, init_min_unmeasured=BATCH),
                measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel(), Watch()])


def by_metaschedule(name, define):
    """The best of what MetaSchedule measured."""
    def make(ins, outs, threads):
        # Importing TVM takes seconds: first whether there is anything to compile.
        used = next((t for t in (threads, 3 - threads) if searched(name, t)), None)
        if used is None:
            raise RuntimeError("not searched: mdh_rows.py --tune-rivals")
        if not searched(name, used)["trials"]:
            raise RuntimeError(f"measured nothing in {searched(name, used)['at_s']:.0f} s")
        os.sched_setaffinity(0, CPUS)
        only_own_intrinsics()
        import tvm
        from tvm.s_tir import meta_schedule as ms
        database = ms.database.JSONDatabase(work_dir=records(name, used))
        found = ms.tir_integration.compile_tir(database, function(define), tvm.target.Target(cpu(used)))
        if found is None:
            raise RuntimeError(f"no valid schedule among {searched(name, used)['trials']}")
        f = tvm.compile(found.mod, target=cpu(threads))["main"]
        data = [tvm.runtime.tensor(v.reshape(v.shape or (1,))) for v in (*ins, outs[0])]
        shape = outs[0].shape
        return beside_nothing(lambda: f(*data), tvm_nothing(data)), lambda: data[-1].numpy().reshape(shape)
    return make


def tensors(te, *shapes):
    return [te.placeholder(s, "float32", name=f"X{n}") for n, s in enumerate(shapes)]


def contraction(spec, *shapes):
    """`ik,kj->ij` for TVM; without letters on the right, one element."""
    operands, result = spec.split("->")
    extent = {letter: n for part, shape in zip(operands.split(","), shapes) for letter, n in zip(part, shape)}

    def define(te):
        xs = tensors(te, *shapes)
        summed = {x: te.reduce_axis((0, extent[x]), name=x) for x in extent if x not in result}

        def element(*at):
            index = {**dict(zip(result, at)), **summed}
            product = None
            for x, part in zip(xs, operands.split(",")):
                value = x[tuple(index[letter] for letter in part)]
                product = value if product is None else product * value
            return te.sum(product, axis=list(summed.values()))
        return *xs, te.compute(tuple(extent[x] for x in result) or (1,), element, name="C")
    return define


def convolution(n, h, w, c, k, r, s, stride, matrices=0):
    """NHWC, KRSC, NPQK; with matrices in place of pixels, of so many rows and columns."""
    p, q = (h - r) // stride + 1, (w - s) // stride + 1
    m = (matrices,) * 2 if matrices else ()

    def define(te):
        image, f = tensors(te, (n, h, w, c, *m), (k, r, s, c, *m))
        sums = [te.reduce_axis((0, e), name=x) for x, e in (("r", r), ("s", s), ("c", c), *([("l", matrices)] if m else ()))]

        def element(b, y, x, o, *at):
            dy, dx, dc, *l = sums
            left, right = ((at[0], l[0]), (l[0], at[1])) if m else ((), ())
            return te.sum(image[(b, y * stride + dy, x * stride + dx, dc, *left)] * f[(o, dy, dx, dc, *right)], axis=sums)
        return image, f, te.compute((n, p, q, k, *m), element, name="C")
    return define


def convolution2d(n, r):
    def define(te):
        image, f = tensors(te, (n, n), (r, r))
        dy, dx = te.reduce_axis((0, r), name="dy"), te.reduce_axis((0, r), name="dx")
        return image, f, te.compute((n - r + 1,) * 2, lambda y, x: te.sum(image[y + dy, x + dx] * f[dy, dx], axis=[dy, dx]), name="C")
    return define


def seven_points(n):
    def define(te):
        import tvm
        (a,) = tensors(te, (n + 2,) * 3)
        f = lambda v: tvm.tirx.const(v, "float32")

        def element(z, y, x):
            sides = (a[z, y + 1, x + 1] + a[z + 1, y, x + 1] + a[z + 1, y + 1, x] + a[z + 1, y + 1, x + 2] + a[z + 1, y + 2, x + 1]
                     + a[z + 2, y + 1, x + 1])
            return f(0.16) * sides + f(0.04) * a[z + 1, y + 1, x + 1]
        return a, te.compute((n,) * 3, element, name="C")
    return define


# ---- Halide ---------------------------------------------------------------------------------------

SCHEDULERS = ("Mullapudi2016", "Adams2019", "Li2018")


def by_halide_auto(define, rank):
    """The fastest of what Halide's schedulers for CPUs make of the definition."""
    def make(ins, outs, threads):
        import halide as hl
        library = os.path.join(os.path.dirname(hl.__file__), "lib64")
        target, o, calls, wrong = hl.Target(HALIDE[instruction_set()]), hl.Buffer(outs[0]), {}, []
        for scheduler in SCHEDULERS:
            try:
                hl.load_plugin(os.path.join(library, f"libautoschedule_{scheduler.lower()}.so"))
                names = [hl.Var(n) for n in ("x", "y", "z", "w")[:rank]]
                f = hl.Func("f")
                define(f, *[hl.Buffer(i) for i in ins], *names)
                f.set_estimates([hl.Range(0, n) for n in reversed(outs[0].shape)])
                pipeline = hl.Pipeline(f)
                pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(scheduler, {"parallelism": str(threads)}))
                pipeline.compile_jit(target)
                call = lambda pipeline=pipeline: pipeline.realize(o, target)
                call()
                begin = time.perf_counter()
                call(), call()
                calls[scheduler] = (time.perf_counter() - begin, call)
            except Exception as e:
                wrong.append(f"{scheduler}: {(str(e).strip().splitlines() or [type(e).__name__])[0]}")
        if not calls:
            raise RuntimeError("; ".join(wrong))
        return beside_nothing(min(calls.values(), key=lambda c: c[0])[1], halide_nothing(target)), None
    return make


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    search(sys.argv[1], int(sys.argv[2]))
