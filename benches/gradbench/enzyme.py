"""GradBench's evals by Enzyme, through its wheel (`pip install enzyme-ad==0.0.6 jax==0.4.25 jaxlib==0.4.25 "numpy<2"`, for Python 3.9), in
the same form as `evals.py`. `LATHE_GRADBENCH_ENZYME` names that Python; this file runs there, as a process that compiles
`native/programs.hpp` and measures by its own clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FUNCTIONS = ("exp", "log", "sin", "cos", "tanh", "sqrt")


def serve(folder):
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from enzyme_ad.jax import cpp_call

    a = np.load(Path(folder) / "given.npz")
    how = json.loads((Path(folder) / "how.json").read_text())
    name, x, c = how["program"], jnp.asarray(a["x"]), jnp.asarray(a["constants"])
    text = "".join(f'extern "C" double {f}(double);\n' for f in FUNCTIONS) + 'extern "C" void *malloc(unsigned long); extern "C" void free(void *);\n'
    text += Path(how["text"]).read_text()
    numbers = [", ".join(map(str, a[k].tolist())) for k in ("sizes", "at")]
    call = f"{name}<double>(n, at, &c[0], &x[0], &y[0], w);"
    if name == "ba":
        call = f"for (long q = 0; q < {how['results'] // 2}; q++) ba<double>(n, at, &c[2 * q], &x[15 * q], &y[2 * q], w);"
    text += f"""
void entry(enzyme::tensor<double, {how['results']}> &y, const enzyme::tensor<double, {len(x)}> &x, const enzyme::tensor<double, {len(c)}> &c) {{
    const long n[] = {{{numbers[0]}}};
    const int at[] = {{{numbers[1]}}};
    double *w = (double *)malloc({8 * how['scratch']});
    {call}
    free(w);
}}
"""

    level = "x86-64-v4" if " avx512f " in Path("/proc/cpuinfo").read_text() else "x86-64-v3"

    def program(x):
        return cpp_call(x, c, out_shapes=[jax.core.ShapedArray((how["results"],), jnp.float64)], source=text, fn="entry",
                        argv=("-O3", "-ffast-math", "-target-cpu", level))[0]

    if not how["derivative"]:
        f = jax.jit(program)
    else:
        f = jax.jit(lambda x: jax.vjp(program, x)[1](jnp.asarray(a["along"]))[0])
    for line in sys.stdin:
        begin = time.perf_counter()
        result = jax.block_until_ready(f(x))
        took = time.perf_counter() - begin
        if line.strip() == "result":
            np.save(Path(folder) / "result.npy", np.asarray(result))
        print(took, flush=True)


def prepare(module, data, derivative):
    import native
    import numpy as np

    if derivative and module in ("kmeans", "ba", "ht"):
        raise NotImplementedError("second derivatives" if module == "kmeans" else "compiling a Jacobian takes the wheel minutes")
    a = native.given(module, data)
    x, results = a.x, a.results
    if module == "ba":
        n, m, p = a.sizes
        q = np.arange(p)
        x = np.concatenate([x[:11 * n].reshape(n, 11)[q % n], x[11 * n:11 * n + 3 * m].reshape(m, 3)[q % m], x[11 * n + 3 * m:, None]], axis=1).ravel()
        results = 2 * p
        along = np.zeros(results)
    else:
        along = np.zeros(results)
        along[a.of] = 1
    folder = tempfile.mkdtemp()
    np.savez(Path(folder) / "given.npz", x=x, constants=a.constants, sizes=a.sizes, at=a.at, along=along)
    how = {"program": native.NAMES.get(module, module), "text": str(native.HERE / "programs.hpp"), "results": int(results), "scratch": int(a.scratch),
           "derivative": bool(derivative)}
    (Path(folder) / "how.json").write_text(json.dumps(how))
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LATHE_GRADBENCH_ENZYME")}
    child = subprocess.Popen([os.environ["LATHE_GRADBENCH_ENZYME"], __file__, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.PIPE, env=environment)

    def ask(word):
        child.stdin.write(word + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        if not answer:
            raise RuntimeError(child.stderr.read()[-300:])
        return float(answer)

    class Run:
        #: It returns what it took.
        own_clock = True
        asked = False

        def __call__(self):
            if self.asked:
                return ask("run")
            self.asked = True
            ask("result")
            return np.load(Path(folder) / "result.npy")

        def __del__(self):
            child.kill()
            child.wait()

    out = native.output(module, data, derivative)
    if module == "ba":
        weights = a.x[-p:]
        return Run(), lambda y: out(np.concatenate([y, 1 - weights * weights]))
    return Run(), out


if __name__ == "__main__":
    serve(sys.argv[1])
