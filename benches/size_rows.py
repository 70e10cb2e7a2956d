"""One kernel at many random sizes: code that was compiled without them, beside code for each of them.

    python3 benches/size_rows.py [--sizes 1000] [--strategy fast] [--out rows.json]

It needs the wheel installed. Every size is compiled in once (`specialize`), and is then called in turn with the kernel that is not
specialized, on one thread; the least of the rounds counts, less what the option costs a call of one element. Compilations are
counted in an empty cache: those of the calls without `specialize`, and all.
"""

import argparse
import glob
import json
import math
import os
import sys
import tempfile
import time

from interleaved import commit

GEMM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "gemm.lathe")


def shortest(calls, rounds):
    """The shortest time of each call; they take turns."""
    best = [math.inf] * len(calls)
    for _ in range(rounds):
        for n, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            best[n] = min(best[n], time.perf_counter() - begin)
    return best


def entries(folder):
    """How many pieces of machine code the cache has; it also keeps plans, which say where each is used."""
    count = 0
    for path in glob.glob(os.path.join(folder, "lathe", "compiled-*", "*.bin")):
        with open(path, "rb") as f:
            count += b'"versions":' not in f.read(1 << 16)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, default=1000)
    parser.add_argument("--least", type=int, default=1)
    parser.add_argument("--most", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--strategy", help="that of both; the default where none is named")
    parser.add_argument("--out")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Read when the package is loaded.
        os.environ["XDG_CACHE_HOME"] = folder
        import numpy as np
        import lathe

        general = lathe.load(GEMM, "gemm")
        options = {"threads": 1, **({"strategy": a.strategy} if a.strategy else {})}
        random = np.random.default_rng(0)
        cases = []
        for _ in range(a.sizes):
            # As many small sizes as large ones.
            m, k, n = (int(math.exp(x)) for x in random.uniform(math.log(a.least), math.log(a.most + 1), 3))
            cases.append((m, k, n, random.random((m, k), np.float32), random.random((k, n), np.float32)))
        for _, _, _, x, y in cases:
            general(x, y, **options)
        compiled = entries(folder)
        # What a call costs besides its code: one with options takes longer.
        one = np.ones((1, 1), np.float32)
        into = np.empty((1, 1), np.float32)
        whole = {"M": 1, "K": 1, "N": 1}
        fixed = {**options, "specialize": whole}
        general(one, one, out=into, **fixed)
        plain, chosen = shortest([lambda: general(one, one, out=into, **options),
                                  lambda: general(one, one, out=into, **fixed)], 2000)
        rows, refused = [], 0
        for m, k, n, x, y in cases:
            sizes = {"M": m, "K": k, "N": n}
            out = [np.empty((m, n), np.float32) for _ in range(2)]
            given = {**options, "specialize": sizes}
            try:
                general(x, y, out=out[1], **given)
            except lathe.StrategyError:
                # Steps for blocks that these sizes do not have.
                given["strategy"] = "auto"
                refused += 1
            calls = [lambda: general(x, y, out=out[0], **options), lambda: general(x, y, out=out[1], **given)]
            calls[1]()
            times = shortest(calls, a.rounds)
            times[1] = max(times[1] - (chosen - plain), plain)
            np.testing.assert_allclose(out[0], out[1], rtol=1e-4, atol=1e-3)
            rows.append({**sizes, "general": times[0], "specialized": times[1]})
        every = entries(folder)
    ratio = math.exp(sum(math.log(r["specialized"] / r["general"]) for r in rows) / len(rows))
    met = ratio >= 0.95 and compiled <= 3
    print(f"{len(rows)} sizes from {a.least} to {a.most}: {compiled} compilations without the sizes, {every} with them"
          f" ({refused} of these by `auto`);"
          f" the speed of specialized code is reached to {ratio:.3f} in geometric mean{'' if met else '   < goal: 0.95 with 3 compilations'}")
    if a.out:
        with open(a.out, "w") as f:
            json.dump({"commit": commit(), "compilations": compiled, "ratio": ratio, "rows": rows}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
