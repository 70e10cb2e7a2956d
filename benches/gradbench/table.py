#!/usr/bin/env python3
"""How long Lathe and other tools take for GradBench's evals, primal and derivative, on one core: interleaved rounds. Results are
compared with those of derivatives written by hand before anything is measured. Writes docs/gradbench-results.md.

    taskset -c 0 python3 benches/gradbench/table.py [--json FILE | --from FILE…] [--seconds S] [--tools lathe,jax,…] [EVAL…]

Tools that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread, like Lathe's kernels here.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import data  # noqa: E402
import evals  # noqa: E402
import native  # noqa: E402

ROUNDS = 15
Prepare = Callable[[str, Any, bool], tuple[Callable[[], Any], Callable[[Any], Any]]]


def tools() -> dict[str, Prepare]:
    """What prepares a run of an eval, by tool."""
    found: dict[str, Prepare] = {"lathe": lambda module, given, d: list(evals.MODULES[module].values())[d](given)}
    for name in ("jax", "torch", "autograd"):
        try:
            if name == "jax":
                import rivals

                found[name] = lambda module, given, d: rivals.MODULES[module](given, d)
            else:
                import eager

                to = eager.Torch() if name == "torch" else eager.Autograd()
                found[name] = lambda module, given, d, to=to: eager.MODULES[module](to, given, d)
        except ImportError as e:
            print(f"without {name}: {e}", file=sys.stderr)
    if "LATHE_GRADBENCH_ENZYME" in os.environ:
        import enzyme

        found["Enzyme"] = enzyme.prepare
    found["ADOL-C"], found["differences"], found["by hand"] = native.adolc, native.differences, native.by_hand
    return found


def agree(a: Any, b: Any) -> bool:
    """GradBench's comparison."""
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k]) for k in b)
    if isinstance(b, list):
        return len(a) == len(b) and all(map(agree, a, b))
    return abs(a - b) <= 1e-4 * max(1, abs(a) + abs(b))


def shortest(runs: list[Callable[[], Any]], seconds: float, rounds: int = ROUNDS) -> list[float]:
    """Milliseconds of each, in interleaved rounds: the shortest. What took its seconds takes part in no further round."""
    best, spent = [math.inf] * len(runs), [0.0] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            if spent[k] < seconds:
                begin = time.perf_counter()
                result = run()
                took = result if getattr(run, "own_clock", False) else time.perf_counter() - begin
                best[k], spent[k] = min(best[k], took * 1e3), spent[k] + took
    return best


def measured(module: str, name: str, given: Any, by: dict[str, Prepare], seconds: float) -> dict[str, Any]:
    """Of a workload: milliseconds of primal and derivative by tool, and why a tool has none."""
    row: dict[str, Any] = {"eval": module, "workload": name, "ms": {}, "without": {}}
    want = []
    for d in (False, True):
        run, output = native.by_hand(module, given, d)
        want.append(output(run()))
    times: dict[str, list[float]] = {tool: [] for tool in by}
    for d in (False, True):
        runs = {}
        for tool, prepare in by.items():
            if tool in row["without"]:
                continue
            try:
                run, output = prepare(module, given, d)
                if not agree(output(run()), want[d]):
                    raise ValueError("the result differs")
                runs[tool] = run
            except Exception as e:
                row["without"][tool] = f"{type(e).__name__}: {e}"[:200]
        # The first round warms caches up.
        for tool, ms in zip(runs, shortest(list(runs.values()), seconds), strict=True):
            times[tool].append(ms)
    row["ms"] = {tool: both for tool, both in times.items() if len(both) == 2}
    return row


def digits(ms: float) -> str:
    return f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}"


def place(row: dict[str, Any]) -> int:
    """Lathe's place among tools, by the total time."""
    ours = sum(row["ms"]["lathe"])
    return 1 + sum(sum(both) < ours for tool, both in row["ms"].items() if tool not in ("lathe", "by hand"))


def text(*reports: dict[str, Any]) -> str:
    """The page: what each machine measured."""
    lines = ["# GradBench's evals", "",
             "Made by `benches/gradbench/table.py` on one core; do not edit. Milliseconds, the shortest of at most 15 interleaved rounds, of a",
             "primal and a derivative; results agree within GradBench's tolerance with derivatives that were written by hand",
             "(`benches/gradbench/native`, `g++ -O3 -ffast-math` for the machine's instructions). Totals are primal plus derivative; the place is that among",
             "tools, without what is written by hand. Inputs have GradBench's forms and numbers of our own. All expand determinants with each minor",
             "computed once, unlike GradBench's own program; Lathe and the C++ programs evaluate the polynomial of `llsq` by Horner's rule, JAX, PyTorch",
             "and autograd by powers; Lathe and the C++ programs of `ht` compute the vertices that points need. Central differences use the C++",
             "program, ADOL-C records it in every call, Enzyme (its wheel, called through JAX) compiles it."]
    for report in reports:
        lines += part(report)
    return "\n".join(lines) + "\n"


def part(report: dict[str, Any]) -> list[str]:
    rows, names = report["rows"], report["tools"]
    others = [t for t in names if t != "lathe"]
    lines = ["", f"## {report['machine']}", "",
             report.get("note", "") + ", ".join(f"{k} {v}" for k, v in report["versions"].items()) + ".", "",
             "| eval | workload | Lathe: primal | derivative | ratio | total | " + " | ".join(f"{t}" for t in others) + " | place | Lathe ÷ by hand |",
             "|---|---|" + "---|" * (len(others) + 6)]
    for r in rows:
        ms = r["ms"]
        if "lathe" not in ms:
            lines.append(f"| {r['eval']} | {r['workload']} | {r['without'].get('lathe')} |")
            continue
        a, b = ms["lathe"]
        cells = [digits(sum(ms[t])) if t in ms else "–" for t in others]
        hand = f"{(a + b) / sum(ms['by hand']):.2f}" if "by hand" in ms else "–"
        lines.append(f"| {r['eval']} | {r['workload']} | {digits(a)} | {digits(b)} | {b / a:.2f} | {digits(a + b)} | " + " | ".join(cells) + f" | {place(r)} | {hand} |")
    lines += ["", "| eval | derivative ÷ primal: Lathe | by hand | total: Lathe | the best tool | Lathe ÷ by hand | place |", "|---|---|---|---|---|---|---|"]
    first = 0
    ratios = []
    for module in dict.fromkeys(r["eval"] for r in rows):
        of = [r["ms"] for r in rows if r["eval"] == module and "lathe" in r["ms"]]
        if not of:
            continue
        # Tools that have all workloads.
        sums = {t: sum(sum(ms[t]) for ms in of) for t in names if all(t in ms for ms in of)}
        ratio = {t: math.exp(sum(math.log(ms[t][1] / ms[t][0]) for ms in of) / len(of)) for t in ("lathe", "by hand") if t in sums}
        tools_only = {t: s for t, s in sums.items() if t not in ("lathe", "by hand")}
        best = min(tools_only, key=lambda t: tools_only[t], default=None)
        at = 1 + sum(s < sums["lathe"] for s in tools_only.values())
        first += at == 1
        ratios.append(ratio["lathe"])
        lines.append(f"| {module} | {ratio['lathe']:.2f} | {ratio.get('by hand', math.nan):.2f} | {digits(sums['lathe'])} | "
                     + (f"{best} {digits(tools_only[best])}" if best else "–") + f" | {sums['lathe'] / sums.get('by hand', math.nan):.2f} | {at} |")
    if ratios:
        lines += ["", f"First on {first} of {len(ratios)}; median of the ratios {sorted(ratios)[len(ratios) // 2]:.2f}. Ratios are geometric means over workloads, "
                  "totals are sums."]
    if report["nested"]:
        lines += ["", "| eval | tool | " + " | ".join(evals.MODULES["saddle"]) + " |", "|---|---|---|---|---|---|"]
        for n in report["nested"]:
            lines.append(f"| {n['eval']} | {n['tool']} | " + " | ".join(digits(n["ms"][k]) if k in n["ms"] else "–" for k in evals.MODULES["saddle"]) + " |")
        lines += ["", "Of `particle` and `saddle`, milliseconds of the four nestings (outer, inner mode)."]
    without = sorted({(r["eval"], t, why) for r in rows for t, why in r["without"].items()})
    if without:
        lines += ["", "| eval | without | because |", "|---|---|---|", *(f"| {e} | {t} | {why.splitlines()[0] if why else ''} |" for e, t, why in without)]
    return lines


def processor() -> str:
    try:
        names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    from importlib import metadata

    found = {"Python": platform.python_version()}
    for name in ("lathe", "jax", "torch", "autograd"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("evals", nargs="*")
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--seconds", type=float, default=1.0, help="a function of a tool takes part in rounds for so long")
    arguments.add_argument("--from", type=Path, dest="made", nargs="+", help="writes the page from files that --json wrote, one a machine")
    arguments.add_argument("--tools", help="of all that are installed")
    args = arguments.parse_args()
    page = Path(__file__).resolve().parents[2] / "docs/gradbench-results.md"
    if args.made:
        page.write_text(text(*(json.loads(file.read_text()) for file in args.made)))
        return
    warnings.filterwarnings("ignore")
    by = {name: prepare for name, prepare in tools().items() if not args.tools or name in args.tools.split(",") or name == "lathe"}
    report: dict[str, Any] = {"machine": processor(), "versions": versions(), "tools": list(by), "rows": [], "nested": []}

    def save() -> None:
        if args.json:
            args.json.write_text(json.dumps(report))

    chosen = args.evals or [m for m in evals.MODULES if m != "hello"]
    for module in chosen:
        given = data.workloads(module, full=True)
        if module in ("particle", "saddle"):
            one, = given.values()
            runs = {name: prepare(one)[0] for name, prepare in evals.MODULES[module].items()}
            for run in runs.values():
                # Compiling is no part of it, as in `tool.py`.
                run()
            report["nested"].append({"eval": module, "tool": "lathe", "ms": dict(zip(runs, shortest(list(runs.values()), 2 * args.seconds, 3), strict=True))})
            print(report["nested"][-1], flush=True)
        else:
            for name, g in given.items():
                row = measured(module, name, g, by, args.seconds)
                report["rows"].append(row)
                print(module, name, {t: [float(digits(x)) for x in both] for t, both in row["ms"].items()}, *row["without"].items(), flush=True)
                save()
    save()
    if not args.evals and not args.json:
        page.write_text(text(report))
    else:
        print(text(report))


if __name__ == "__main__":
    main()
