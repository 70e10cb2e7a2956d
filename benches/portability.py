#!/usr/bin/env python3
"""Examples × instruction sets × strategies: what runs without `--strategy`, beside naive, fast and auto.

    python3 benches/portability.py [--lathe PATH] [--cpu host x86-64-v3] [--threads 1 2] [--only PATTERN] [--json FILE]

Each row is one `lathe bench`: the strategies take turns in one pinned process, and the median counts. The last column
is the time of the best of naive, fast and auto, divided by that of the default; below 0.95 the row is marked.
"""
import argparse, json, math, subprocess, sys
from pathlib import Path

from interleaved import commit

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

# Sizes that no document mentions: rests of vectors and tiles, rows in and beyond the caches.
ROWS = [
    ("argmax.lathe:argmax", "M=700 N=900"),
    ("batched_gemm.lathe:batched_gemm", "BATCH=12 M=90 N=110 K=130"),
    ("blur.lathe:blur", "N=1500"),
    ("contraction.lathe:contraction", "NA=16 NB=12 NC=14 ND=10 NE=12 NF=10 NG=18"),
    ("conv2d.lathe:conv2d", "N=2 H=40 W=40 C=24 R=3 S=3 K=48"),
    ("conv2d.lathe:conv2d_stride2", "N=2 H=41 W=41 C=24 R=3 S=3 K=48"),
    ("dot.lathe:dot", "N=700000"),
    ("gather.lathe:gather", "N=100000 A=300 B=1100"),
    ("gemm.lathe:gemm", "M=460 N=520 K=390"),
    ("gemm.lathe:gemm", "M=20 N=300 K=70"),
    ("gemm.lathe:gemm_f64", "M=330 N=290 K=410"),
    ("gemm_t.lathe:gemm_t", "M=300 N=340 K=260"),
    ("heat2d.lathe:heat2d", "N=700 T=20"),
    ("histogram.lathe:histogram", "N=900000 B=200"),
    ("jacobi.lathe:jacobi1d", "N=1700000"),
    ("jacobi.lathe:jacobi2d", "N=1300"),
    ("jacobi.lathe:jacobi3d", "N=140"),
    ("layernorm.lathe:layernorm", "M=300 N=800"),
    ("matvec.lathe:matvec", "N=1400"),
    ("maxpool.lathe:maxpool", "N=2 H=90 W=90 C=40"),
    ("mcc.lathe:mcc", "N=1 H=30 W=30 C=40 R=3 S=3 K=24"),
    ("mlp.lathe:mlp", "M=220 N=310 K=280"),
    ("mps.lathe:mps", "N=500000"),
    ("scan.lathe:scan", "N=600000"),
    ("softmax.lathe:softmax", "M=350 N=1000"),
    ("wave.lathe:wave", "T=60 X=30000"),
    ("patterns/acoustic.lathe:acoustic", "L=60 M=100 N=130"),
    ("patterns/binomial.lathe:binomial", "M=1000 N=1300"),
    ("patterns/gaussian.lathe:gaussian", "M=900 N=1100"),
    ("patterns/gaussian.lathe:gradient", "M=900 N=1100"),
    ("patterns/hotspot.lathe:hotspot2d", "M=1000 N=1200"),
    ("patterns/hotspot.lathe:hotspot3d", "L=60 M=110 N=140"),
    ("patterns/jacobi.lathe:jacobi2d", "M=1000 N=1200"),
    ("patterns/jacobi.lathe:jacobi3d", "L=60 M=110 N=140"),
    ("patterns/matmul.lathe:mm", "M=256 N=320 K=300"),
    ("patterns/srad.lathe:srad", "M=500 N=700"),
]
STRATEGIES = ["naive", "fast", "auto"]


def bench(lathe, target, sizes, cpu, threads, strategy, runs):
    """The reports of one `lathe bench`, or the last line of what went wrong."""
    line = [lathe, "bench", str(EXAMPLES / target), "--json", "--threads", str(threads)]
    for s in sizes.split():
        line += ["-D", s]
    if cpu != "host":
        line += ["--cpu", cpu]
    if strategy:
        line += ["--strategy", strategy]
    if runs:
        line += ["--runs", str(runs)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[:3]
    out = json.loads(done.stdout)
    return out if isinstance(out, list) else [out]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lathe", default="lathe")
    p.add_argument("--cpu", nargs="+", default=["host", "x86-64-v3"])
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--only", default="")
    p.add_argument("--runs", type=int)
    p.add_argument("--json")
    a = p.parse_args()
    rows, ratios, made_of = [], [], commit()
    print(f"commit {made_of}")
    print(f"{'kernel':34} {'machine':10} thr  {'naive':>10} {'fast':>10} {'auto':>10}  default      ratio   (µs)")
    for target, sizes in ROWS:
        if a.only not in target:
            continue
        for cpu in a.cpu:
            for threads in a.threads:
                taken = bench(a.lathe, target, sizes, cpu, threads, None, 1)
                got = bench(a.lathe, target, sizes, cpu, threads, ",".join(STRATEGIES), a.runs)
                name = target.split("/")[-1].replace(".lathe", "")
                if not isinstance(taken[0], dict) or not isinstance(got[0], dict):
                    bad = taken if not isinstance(taken[0], dict) else got
                    print(f"{name:34} {cpu:10} {threads:3}  failed: {' '.join(bad)}", flush=True)
                    continue
                times = {r["strategy"]: r["median_s"] for r in got}
                default = taken[0]["strategy"]
                best = min(times.values())
                # The same code as one of the three; anything else is a stored winner.
                ratio = best / times.get(default, taken[0]["median_s"])
                ratios.append(ratio)
                mark = "  <" if ratio < 0.95 else ""
                us = "".join(f" {times[s] * 1e6:10.1f}" for s in STRATEGIES)
                print(f"{name:34} {cpu:10} {threads:3} {us}  {default:10} {ratio:6.2f}{mark}", flush=True)
                rows.append(dict(commit=made_of, kernel=target, sizes=sizes, machine=cpu, threads=threads, seconds=times,
                                 default=default, ratio=ratio, why=taken[0].get("strategy_reason", "")))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = sum(r < 0.95 for r in ratios)
        print(f"{len(ratios)} rows, geometric mean {mean:.3f}, {below} below 0.95, least {min(ratios):.2f}")
    if a.json:
        Path(a.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
