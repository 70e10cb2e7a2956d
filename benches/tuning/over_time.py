"""Scores runs over simulated time instead of over evaluations.

    over_time.py TABLES RECORDED_T4.json.gz FILE... > OUT.json

TABLES is what `score --write` made of the recorded files, FILEs are runs with traces (of `score --curves` and of
rivals.py). An evaluation takes as long as it took when it was recorded: compiling, running, checking. The budget is
the time in which random search gets through 200 of them. OUT is for merge.py.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path

from score import random_baseline

EVALUATIONS, MOMENTS = 200, 100
INF = float("inf")


def recorded(path):
    """Seconds per configuration."""
    out = {}
    with gzip.open(path) as f:
        for r in json.load(f)["results"]:
            t = r["times"]
            spent = t["compilation"] + t["framework"] + t["validation"] + sum(t.get("runtimes", []))
            out[tuple(sorted(r["configuration"].items()))] = spent / 1e3
    return out


def table(folder, path):
    """The name, the costs, and the seconds of each row of the table made of a recorded file."""
    name = path.name.replace("_T4.json.gz", "").replace("convolution_", "conv-")
    seconds = recorded(path)
    costs, times = [], []
    for r in json.loads((folder / f"{name}_T4.json").read_text())["results"]:
        value = r["measurements"][0]["value"]
        costs.append(INF if isinstance(value, str) else value)
        times.append(seconds[tuple(sorted(r["configuration"].items()))])
    return name, costs, times


def score(trace, costs, times, baseline, optimum):
    mean = sum(times) / len(times)
    total, at, spent, best = 0.0, 0, 0.0, INF
    for moment in range(1, MOMENTS + 1):
        now = moment * EVALUATIONS / MOMENTS * mean
        while at < len(trace) and spent + times[trace[at]] <= now:
            spent += times[trace[at]]
            best = min(best, costs[trace[at]])
            at += 1
        base = baseline[moment * EVALUATIONS // MOMENTS - 1]
        reached = baseline[0] if best == INF else best
        total += (base - reached) / (base - optimum)
    return total / MOMENTS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args()
    tables = {}
    for path in (f for f in args.files if f.suffix == ".gz"):
        name, costs, times = table(args.tables, path)
        tables[name] = (costs, times, random_baseline(costs, EVALUATIONS), min(costs))
    out = []
    for path in (f for f in args.files if f.suffix != ".gz"):
        for run in json.loads(path.read_text()):
            if run["table"] in tables and run.get("trace"):
                out.append(run | {"score": score(run["trace"], *tables[run["table"]])})
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
