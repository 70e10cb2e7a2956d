"""Joins files of runs (table, technique, seed, score, final) into one table, with verdicts.

    merge.py FILE... [--own portfolio]

A rival is `better` or `worse` than the own technique on a table if the 95 % interval of the difference of their mean
scores, bootstrapped over runs, excludes 0.
"""

import argparse
import json
import random


def mean(values):
    return sum(values) / len(values)


def interval(own, other, draws=2000):
    """The 95 % interval of mean(other) - mean(own)."""
    rng = random.Random(95)
    differences = sorted(
        mean(rng.choices(other, k=len(other))) - mean(rng.choices(own, k=len(own))) for _ in range(draws)
    )
    return differences[int(0.025 * draws)], differences[int(0.975 * draws) - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--own", default="portfolio")
    args = parser.parse_args()
    scores = {}
    for file in args.files:
        with open(file) as f:
            for run in json.load(f):
                scores.setdefault(run["technique"], {}).setdefault(run["table"], []).append(run["score"])
    tables = sorted(scores[args.own])
    complete = {t: s for t, s in scores.items() if all(table in s for table in tables)}
    overall = {t: mean([mean(s[table]) for table in tables]) for t, s in complete.items()}
    print(f"{'technique':24}" + "".join(f"{t:>14}" for t in tables) + f"{'mean':>9} {'better':>7} {'worse':>6}")
    for technique in sorted(complete, key=lambda t: -overall[t]):
        line, better, worse = f"{technique:24}", 0, 0
        for table in tables:
            mark = " "
            if technique != args.own:
                low, high = interval(scores[args.own][table], scores[technique][table])
                mark = "+" if low > 0 else "-" if high < 0 else "="
                better += low > 0
                worse += high < 0
            line += f"{mean(scores[technique][table]):>13.3f}{mark}"
        print(line + f"{overall[technique]:>9.3f} {better:>7} {worse:>6}")
    left_out = sorted(set(scores) - set(complete))
    if left_out:
        print("not on every table:", ", ".join(left_out))
    print(f"+ better, - worse, = not distinguishable from {args.own} on that table")


if __name__ == "__main__":
    main()
