"""The table of the homomorphisms' benchmark: docs/mdh-results.md from mdh-results.json."""
import math, os
from interleaved import misses

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "docs", "mdh-results.md")
# A rival this many times as far from numpy's result as Lathe computes with less precision.
COARSE = 10


def judged(results):
    """The rows without rivals that are not held to their instruction set, which is seen where one is faster than its arithmetic in the
    best of the rows of that run, since a neighbour may have disturbed one of them, and machines of one name have their own clocks; and with ratios of least times where a rival is
    unsteady: most of its rounds take more than twice its least time, which would win."""
    held = [r for r in results["rows"].values() if r.get("instructions") == "AVX2" and r["unit"] == "GFLOP/s"]
    peaks = {}
    for r in held:
        key = run_of(r)
        peaks[key] = max(peaks.get(key, 0), r["peak"])
    free = {n for r in held for n, c in r["candidates"].items()
            if not n.startswith("lathe") and c["rate"] > 1.05 * peaks[run_of(r)]}
    return {k: least(without(r, free if r.get("instructions") == "AVX2" and r["unit"] == "GFLOP/s" else ())) for k, r in results["rows"].items()}


def run_of(r):
    return r["machine"], r["commit"], r["threads"]


def without(r, rivals):
    gone = [n for n in r["candidates"] if n in rivals]
    if not gone:
        return r
    left = {n: dict(c) for n, c in r["candidates"].items() if n not in gone}
    others = {n: c["median_s"] for n, c in left.items() if not n.startswith("lathe")}
    best = min(others, key=others.get, default=None)
    for c in (c for n, c in left.items() if n.startswith("lathe")):
        c.pop("ratio", None), c.pop("interval", None)
        if best:
            c.update(ratio=others[best] / c["median_s"])
    out = {**r, "candidates": left, "failed": {**r["failed"], **{n: "not held to AVX2 by its switch: faster than the ceiling of AVX2 in some row" for n in gone}}}
    out.pop("best", None)
    return {**out, "best": best} if best else out


def least(r):
    others = {n: c for n, c in r["candidates"].items() if not n.startswith("lathe")}
    if r.get("best") not in others:
        return r
    limit = others[r["best"]]["median_s"]
    if not any(c["median_s"] > 2 * c["min_s"] and c["min_s"] < limit for c in others.values()):
        return r
    best = min(others, key=lambda n: others[n]["min_s"])
    mine = {n: {**c, "ratio": others[best]["min_s"] / c["min_s"], "least": True} for n, c in r["candidates"].items() if n.startswith("lathe")}
    [c.pop("interval", None) for c in mine.values()]
    return {**r, "best": best, "candidates": {**r["candidates"], **mine}}


def portability(efficiencies):
    """Pennycook: the harmonic mean over all platforms, 0 if one is not supported."""
    return len(efficiencies) / sum(1 / e for e in efficiencies) if efficiencies and all(efficiencies) else 0.0


def spread(c):
    if c.get("least"):
        return f"{c['ratio']:.2f} (least times)"
    return f"{c['ratio']:.2f}" + (f" [{c['interval'][0]:.2f}..{c['interval'][1]:.2f}]" if "interval" in c else "")


def tuned_cell(results, key, r):
    """How many times as fast as `auto` what a search found is; measured beside it in the row, or in turns with it alone."""
    if results["tuned"].get(key, {}).get("params", 1) is None:
        return "nothing to tune"
    gain = gain_of(results, key, r)
    if gain is None:
        return r["failed"].get("lathe tuned", "–").replace("|", "/")[:60]
    return f"{gain:.2f}"


def gain_of(results, key, r):
    pair = results.get("gains", {}).get(key)
    if pair is None and all(f"lathe {n}" in r["candidates"] for n in ("auto", "tuned")):
        pair = {n: r["candidates"][f"lathe {n}"]["median_s"] for n in ("auto", "tuned")}
    return pair["auto"] / pair["tuned"] if pair else None


def auto_cell(r):
    c = r["candidates"].get("lathe auto")
    if c is None:
        return r["failed"].get("lathe auto", "–").replace("|", "/")[:60]
    return spread(c) if "ratio" in c else f"{c['median_s'] * 1e3:.3g} ms"


def origin(r):
    """The commit that was measured. Rows without one are older than the rivals as they are called now, and are to be measured again."""
    return r.get("commit") or "older rivals, **to be measured again**"


def machines(results, keys):
    """The machines that rows were measured on, in the order in which they come."""
    out = []
    for k in keys:
        if machine_of(results, k) not in out:
            out.append(machine_of(results, k))
    return out


def machine_of(results, key):
    return results["rows"][key].get("machine") or results.get("machine", "unknown")


def short(r):
    """What is said of a goal that `auto`, which is what runs by default, does not meet."""
    c = r["candidates"].get("lathe auto", {})
    return ", **missed**" if "ratio" in c and misses(r["goal"], r["candidates"], "lathe auto", r.get("best"), r["peak"]) else ""


def letter(n):
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 26]


def speed(results, keys):
    rows, geo, places = results["rows"], {}, machines(results, keys)
    out = ["| row | threads | instructions | auto | tuned | best rival | of the ceiling | goal | measured |", "|---|---|---|---|---|---|---|---|---|"]
    for key in keys:
        r = rows[key]
        mine = [c for n, c in r["candidates"].items() if n.startswith("lathe")]
        best = r.get("best", "–")
        rival = r["candidates"].get(best)
        # How much a rival that searches had measured.
        searched = f" ({r['trials']} trials)" if best == "TVM MetaSchedule" and r.get("trials") is not None else ""
        rival = f"{best}{searched}, {rival['median_s'] * 1e3:.3g} ms [{rival['min_s'] * 1e3:.3g}..{rival['max_s'] * 1e3:.3g}]" if rival else "–"
        ceiling = f"{max(c['rate'] for c in mine) / r['peak'] * 100:.0f} % of {r['peak']:.0f} {r['unit']}" if mine and r["unit"] != "Gpairs/s" else "–"
        out.append(f"| {r['name']} | {r['threads']} | {r.get('instructions', 'AVX-512')} | {auto_cell(r)} | {tuned_cell(results, key, r)} | {rival} | {ceiling} | {r['goal']}{short(r)} | {origin(r)}, {letter(places.index(machine_of(results, key)))} |")
        # Rows of older rivals say nothing beside those of today.
        if r.get("commit") and "ratio" in r["candidates"].get("lathe auto", {}):
            of = geo.setdefault((r["group"], r["threads"], r.get("instructions", "AVX-512")), {})
            of.setdefault("auto", []).append(r["candidates"]["lathe auto"]["ratio"])
            if (gain := gain_of(results, key, r)) is not None:
                of.setdefault("tuned", []).append(gain)
    out += ["", "Geometric means, of tuned of what searches gained over auto:", "", "| work | threads | instructions | rows | auto | tuned |", "|---|---|---|---|---|---|"]
    for (group, threads, isa), of in sorted(geo.items()):
        mean = lambda n: f"{math.exp(sum(map(math.log, of[n])) / len(of[n])):.2f} ({len(of[n])})" if n in of else "–"
        out.append(f"| {group} | {threads} | {isa} | {max(map(len, of.values()))} | {mean('auto')} | {mean('tuned')} |")
    return out


def accuracy(results, keys):
    """Items 47 and 48 of the thesis's checklist."""
    rows = results["rows"]
    known = [k for k in keys if any("error" in c for c in rows[k]["candidates"].values())]
    if not known:
        return []
    out = ["", "## Precision", "", "Of results: the largest difference from numpy's, as a part of the largest number; numpy's are in double "
           "precision but for Jacobi, channels, capsules and contractions. Of times: half of the 99 % interval of the mean, as a part of the mean; a row "
           f"ends at 5 %, or when its time is over. A rival that is {COARSE} times as far from numpy as Lathe is marked.", "",
           "| row | threads | Lathe's results | others' | Lathe's times | best rival's |", "|---|---|---|---|---|---|"]
    for key in known:
        r = rows[key]
        mine = [c for n, c in r["candidates"].items() if n.startswith("lathe")]
        errors = [c["error"] for c in mine if c.get("error") is not None]
        own = max(errors, default=None)
        others = []
        for n, c in sorted(r["candidates"].items()):
            if not n.startswith("lathe") and c.get("error") is not None:
                coarse = own is not None and c["error"] > COARSE * max(own, 6e-8)
                others.append(f"{n} {c['error']:.1e}{' (less precise)' if coarse else ''}")
        time = lambda cs: f"{100 * max(c['precision'] for c in cs):.1f} %" if cs and all("precision" in c for c in cs) else "–"
        rival = [r["candidates"][r["best"]]] if r.get("best") in r["candidates"] else []
        shown = f"{own:.1e}" if own is not None else "–"
        out.append(f"| {r['name']} | {r['threads']} | {shown} | {', '.join(others)} | {time(mine)} | {time(rival)} |")
    return out


def searches(results, order):
    rows = [(n, t) for n in order for t in (1, 2) if "space" in results["tuned"].get(f"{n} x{t}", {})]
    if not rows:
        return []
    out = ["", "## Searches", "", f"What `lathe tune -s auto` did on {results.get('searched_on', 'this machine')}. A search ends early if no improvement of at least 1 % was found for a third "
           "of the budget. The gain is over `auto` in the final interleaved rounds of the search.", "",
           "| row | threads | configurations | tried, valid | seconds | gain |", "|---|---|---|---|---|---|"]
    for name, threads in rows:
        t = results["tuned"][f"{name} x{threads}"]
        if t["params"] is None:
            out.append(f"| {name} | {threads} | nothing to tune | – | – | – |")
            continue
        size = int(t["space"])
        shown = f"{size:,}" if size < 10 ** 7 else f"{size:.1e}"
        gain = f"{t['default_s'] / t['median_s']:.2f}" if t.get("default_s") else "–"
        out.append(f"| {name} | {threads} | {shown} | {t['evaluations']}, {t['valid']} | {t['elapsed_s']:.0f} of {t['budget_s']} | {gain} |")
    return out


def decisions(results):
    done = {n: d for n, d in results["decisions"].items() if "beside" in d}
    if not done:
        return []
    out = ["", "## What a minute finds", "", "One thread, two rows at a time; the short search and the long one are independent, and neither ends early. "
           "Their winners are compared in interleaved rounds: the long one's time over the short one's. Goal: 0.95.", "",
           "| row | short | configurations | long | configurations | ratio |", "|---|---|---|---|---|---|"]
    for name, d in done.items():
        s, l, c = d["short"], d["long"], d["beside"]["candidates"]["lathe short"]
        out.append(f"| {name} | {s['budget_s']} s | {s['evaluations']} | {l['budget_s']} s | {l['evaluations']} | {spread(c)} |")
    return out


def platforms(results, order):
    rows = results["rows"]
    out = ["", "## Portability", "", "Pennycook's metric over the available platforms, one and two threads of this CPU: the harmonic mean of "
           "(best time of all candidates / own time), 0 where one is not supported.", "", "| row | Lathe | best single rival |", "|---|---|---|"]
    for name in order:
        both = [rows[f"{name} x{t}"] for t in (1, 2) if f"{name} x{t}" in rows]
        if len(both) < 2:
            continue

        def of(pick):
            e = []
            for r in both:
                own = [c["median_s"] for n, c in r["candidates"].items() if pick(n)]
                e.append(min(c["median_s"] for c in r["candidates"].values()) / min(own) if own else 0)
            return portability(e)
        rivals = {n for r in both for n in r["candidates"] if not n.startswith("lathe")}
        ranked = sorted(((of(lambda n, x=x: n == x), x) for x in rivals), reverse=True)
        best = f"{ranked[0][0]:.2f} ({ranked[0][1]})" if ranked else "–"
        out.append(f"| {name} | {of(lambda n: n.startswith('lathe')):.2f} | {best} |")
    return out


def table(results, order):
    results = {**results, "rows": judged(results)}
    rows = results["rows"]
    place = lambda k: (order.index(rows[k]["name"]) if rows[k]["name"] in order else len(order), rows[k]["threads"], rows[k].get("instructions", ""))
    keys = sorted(rows, key=place)
    out = ["# Homomorphisms: comparison with other systems", "", "Made by `benches/mdh_rows.py`; do not edit.", ""]
    if rows:
        out += [f"* Machine {letter(n)}: {place}." for n, place in enumerate(machines(results, keys))]
        out += ["", "The last column says the commit and the machine of each row. "
                "Each figure is the median of the ratios per round, best rival's time over Lathe's "
                "(above 1: Lathe is faster), with the interval that holds the median with 95 % probability. *auto* is what the cost model "
                "chooses without measuring, *tuned* how many times as fast as auto, in turns with it, is what `lathe tune --budget 10s` found from there. "
                "The ceiling is that of fused multiply-adds, of a copy that bypasses the caches, or, if almost nothing is written, of reading; all measured together with the row. Of calls under 0.2 ms through Python (XLA, TVM, Halide, numba, einsum), one that does nothing is taken off. Every result was compared with numpy's. Where a rival's rounds are mostly more than twice as long as its least one, which would win (threads that "
                "waited for each other), ratios are of least times.", "", *speed(results, keys)]
        out += accuracy(results, keys)
    else:
        out += ["No row has been measured yet: run `benches/mdh_rows.py`."]
    out += searches(results, order) + decisions(results) + platforms(results, order)
    out += ["", "## Rivals", "", "| rival | version and instructions |", "|---|---|"]
    versions = results.get("versions", {})
    sets = [v for v in versions.values() if isinstance(v, dict)] or [versions]
    out += sorted({f"| {n} | {v} |" for each in sets for n, v in each.items() if isinstance(v, str)})
    missing = {}
    for k in keys:
        for n, why in rows[k]["failed"].items():
            missing.setdefault((n, why), []).append(k)
    if missing:
        out += ["", "What did not run:", ""]
        out += [f"* {n}, {', '.join(of) if len(of) <= 8 else f'{len(of)} rows'}: {why}" for (n, why), of in sorted(missing.items())]
    with open(TABLE, "w") as f:
        f.write("\n".join(out) + "\n")
