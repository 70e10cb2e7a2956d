#!/usr/bin/env python3
"""How long gradients take beside what they are gradients of: every example of examples/gradients, kernel and derivative each
under the strategy that `lathe run` takes, in interleaved rounds. Writes docs/derivatives-results.md.

    python3 benches/gradients.py [LATHE]
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Sizes, numbers that are given, and what is differentiated by.
ROWS = {
    "norm": ("-D N=1048576", ""),
    "gmm": ("-D N=20000 -D D=16 -D K=20", "alpha,mu,q"),
    "bundle": ("-D C=100 -D P=5000 -D Q=40000", "cameras,points,w"),
    "lstm": ("-D T=200 -D H=1024", "w,b"),
    "kmeans": ("-D N=20000 -D D=16 -D K=32", "centres"),
    "logsumexp": ("-D M=1000 -D N=1000", ""),
    "least_squares": ("-D M=2000 -D N=1000", "x"),
    "network": ("-D B=256 -D I=256 -D H=512 -D O=64", "w1,b1,w2,b2"),
    "heat": ("-D N=100000 -i T=20", ""),
    "ode": ("-i steps=100000 -i dt=0.00001", "s,p"),
    "particle": ("-D N=400 -i steps=5 -i dt=0.01", "p,v,m"),
}


def measured(lathe: str, name: str, threads: int) -> dict:
    sizes, wrt = ROWS[name]
    line = f"grad {ROOT}/examples/gradients/{name}.lathe:{name} --value --runs 9 --json --threads {threads} {sizes}"
    words = line.split() + (["--wrt", wrt] if wrt else [])
    done = subprocess.run([lathe, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    lathe = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/lathe")
    lines = ["# Gradients beside what they are gradients of", "",
             "Made by `benches/gradients.py`; do not edit. Kernel and derivative (results and cotangents together) run under the",
             "strategy that the model chooses for each, in interleaved rounds; medians of 9. The ratio is the derivative's time over",
             "the kernel's. What is kept between the sweeps is `tape_bytes`.", "",
             "| kernel | sizes | threads | kernel | derivative | ratio | kept, bytes |", "|---|---|---|---|---|---|---|"]
    ratios = []
    for name in ROWS:
        for threads in (1, 2):
            r = measured(lathe, name, threads)
            ratios.append(r["ratio"])
            sizes = ROWS[name][0].replace("-D ", "").replace("-i ", "")
            lines.append(f"| {name} | {sizes} | {threads} | {r['primal_s'] * 1e3:.3g} ms | {r['gradient_s'] * 1e3:.3g} ms | "
                         f"{r['ratio']:.2f} | {r['tape_bytes']['value']} |")
            print(lines[-1], flush=True)
    lines += ["", f"Median of the ratios: {statistics.median(ratios):.2f}; largest: {max(ratios):.2f}."]
    (ROOT / "docs/derivatives-results.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
