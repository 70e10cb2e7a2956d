#!/usr/bin/env python3
"""How long Lathe and JAX take for GradBench's evals, primal and derivative, on one core: interleaved rounds. Results are
compared before anything is measured. Writes docs/gradbench-results.md.

    taskset -c 0 python3 benches/gradbench/table.py
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

# One thread, like Lathe's kernels here.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import data  # noqa: E402
import evals  # noqa: E402
import rivals  # noqa: E402

ROUNDS = 15


def agree(a: Any, b: Any) -> bool:
    """GradBench's comparison."""
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return len(a) == len(b) and all(map(agree, a, b))
    return abs(a - b) <= 1e-4 * max(1, abs(a) + abs(b))


def shortest(*runs: Any, rounds: int = ROUNDS) -> list[float]:
    """Milliseconds of each, in interleaved rounds: the shortest."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for took, run in zip(times, runs, strict=True):
            begin = time.perf_counter()
            run()
            took.append((time.perf_counter() - begin) * 1e3)
    return [min(t) for t in times]


def row(module: str, name: str, given: Any) -> str:
    ours, theirs = [], []
    for gradient, prepare in enumerate(evals.MODULES[module].values()):
        run, output = prepare(given)
        other, its = rivals.MODULES[module](given, bool(gradient))
        if not agree(output(run()), its(other())):
            sys.exit(f"{module} {name}: the results differ")
        a, b = shortest(run, other)
        ours.append(a)
        theirs.append(b)
    return (f"| {module} | {name} | {ours[0]:.3g} | {ours[1]:.3g} | {ours[1] / ours[0]:.2f} | {theirs[0]:.3g} | {theirs[1]:.3g} | "
            f"{theirs[1] / theirs[0]:.2f} | {sum(theirs) / sum(ours):.2f} |")


def main() -> None:
    lines = ["# GradBench's evals", "",
             "Made by `benches/gradbench/table.py` on one core; do not edit. Milliseconds, the shortest of 15 interleaved rounds, of a",
             "primal and a derivative by Lathe and by JAX, whose results agree within GradBench's tolerance; the last column is JAX's",
             "total over Lathe's. Inputs have GradBench's forms and numbers of our own. Both expand determinants with each minor computed",
             "once, unlike GradBench's own program; Lathe evaluates the polynomial of `llsq` by Horner's rule, JAX by powers.", "",
             "| eval | workload | Lathe: primal | derivative | ratio | JAX: primal | derivative | ratio | JAX ÷ Lathe |",
             "|---|---|---|---|---|---|---|---|---|"]
    for module in sys.argv[1:] or rivals.MODULES:
        for name, given in data.workloads(module, full=True).items():
            lines.append(row(module, name, given))
            print(lines[-1], flush=True)
    lines += ["", "| eval | " + " | ".join(evals.MODULES["saddle"]) + " |", "|---|---|---|---|---|"]
    for module in ("particle", "saddle"):
        given, = data.workloads(module).values()
        times = shortest(*(prepare(given)[0] for prepare in evals.MODULES[module].values()), rounds=3)
        lines.append(f"| {module} | " + " | ".join(f"{t:.0f}" for t in times) + " |")
        print(lines[-1], flush=True)
    lines += ["", "Of `particle` and `saddle`, whose loops around derivatives run in Python, milliseconds of the four nestings (outer, inner mode)."]
    if not sys.argv[1:]:
        (Path(__file__).resolve().parents[2] / "docs/gradbench-results.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
