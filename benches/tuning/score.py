"""The score of a run against random search: the same as in lathe_tune::score."""


def random_baseline(costs, n):
    """Expected best of random search without repetition after 1..n evaluations; costs may hold infinities."""
    total = len(costs)
    valid = sorted(c for c in costs if c != float("inf"))
    mean = sum(valid) / len(valid)
    out = []
    for k in range(1, min(n, total) + 1):
        expected, none = 0.0, 1.0
        for i, cost in enumerate(valid):
            left = total - i
            missed = none * max((left - k) / left, 0.0)
            expected += (none - missed) * cost
            none = missed
            if none < 1e-15:
                break
        out.append(expected + none * mean)
    return out


def score(best, baseline, optimum):
    """Mean over evaluations of (baseline - best) / (baseline - optimum); `best[i]` after i + 1 evaluations."""
    total, n = 0.0, 0
    for i, base in enumerate(baseline):
        reached = best[min(i, len(best) - 1)] if best else float("inf")
        if reached == float("inf"):
            reached = baseline[0]
        if base - optimum > 1e-12 * abs(base):
            total += (base - reached) / (base - optimum)
            n += 1
    return total / n if n else 0.0
