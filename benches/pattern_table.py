#!/usr/bin/env python3
"""docs/patterns-results.md from what `bench.py patterns --json FILE` wrote, one file or several (pattern-results.json: the last ones).

    python3 benches/pattern_table.py FILE...
"""
import json, os, sys
from interleaved import misses
from mdh_table import letter

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "patterns-results.md")


def table(rows):
    places = list(dict.fromkeys(r["machine"] for r in rows))
    out = ["# Patterns: comparison with other systems", "", "Made by `benches/pattern_table.py` from `benches/bench.py patterns`; do not edit.", "",
           *[f"* Machine {letter(n)}: {place}." for n, place in enumerate(places)], "",
           "Each figure is the median of the ratios per round, best rival's time over Lathe's (above 1: Lathe is faster), with the interval that holds "
           "the median with 95 % probability. Rows of `matmul` are TVM's seven versions of a product of 1024 × 1024 matrices beside Lathe's strategies of the "
           "same names; *registers* is a strategy on patterns beside the best one of the kernel in index notation. Filters are beside Halide, stencils "
           "beside C written by hand and beside Lathe's loop kernels of the same computations. Every result was compared with numpy's. The last column says "
           "the commit and the machine.", "",
           "| row | threads | instructions | Lathe | best rival | of the ceiling | goal | measured |", "|---|---|---|---|---|---|---|---|"]
    order = list(dict.fromkeys(r["row"] for r in rows))
    for r in sorted(rows, key=lambda r: (order.index(r["row"]), r["threads"], r["instructions"])):
        mine, best = r["candidates"]["lathe"], r["candidates"][r["best"]]
        share = mine["rate"] / r["peak"]
        missed = ", **missed**" if misses(r["goal"], r["candidates"], "lathe", r["best"], r["peak"]) else ""
        out.append(f"| {r['row'].removeprefix('patterns ')} | {r['threads']} | {r['instructions']} | {mine['ratio']:.2f} "
                   f"[{mine['interval'][0]:.2f}..{mine['interval'][1]:.2f}] | {r['best']}, {best['median_s'] * 1e3:.3g} ms "
                   f"[{best['min_s'] * 1e3:.3g}..{best['max_s'] * 1e3:.3g}] | {share * 100:.0f} % of {r['peak']:.0f} {r['unit']} | {r['goal']}{missed} | "
                   f"{r['commit']}, {letter(places.index(r['machine']))} |")
    with open(TABLE, "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    table([r for path in sys.argv[1:] for r in json.load(open(path))])
