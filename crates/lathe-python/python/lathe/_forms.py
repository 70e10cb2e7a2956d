"""The kernels of contractions: products of matrices, and index notation as it stands."""

from __future__ import annotations

import functools

from ._notation import Labels
from .kernels import Kernel

#: Products of matrices: panels of both are packed, a tile of the result stays in registers (BLIS). `A` and `B` lie in
#: either order. One product is split among the threads by rows, several by products.
_PRODUCT = """
kernel product(A: {t}[{a}], B: {t}[{b}]) -> (C: {t}[{c}]) {{
    C[{ci}] = sum[k](A[{ai}] * B[{bi}])
}}
strategy fast(nc = 1024 in 256..=4096 step 256, mc = 64 in 16..=256 step 16) for product =
    split(j, nc) ; split(i, mc) ; split(j.i, {w2}) ; split(i.i, 8) ;
    reorder(j.o, i.o, j.i.o, i.i.o, k, i.i.i, j.i.i) ;
    stage(B, at: j.o, layout: tile({bj}, {w2}), layout: permute({bp}), pad: true) ;
    stage(A, at: i.o, layout: tile({ad}, 8), layout: permute({ap}), pad: true) ;
    stage(C, at: i.i.o, space: register) ;
    pad(C.init.i.i.i) ; pad(C.init.j.i.i) ; pad(C.i.i.i) ; pad(C.j.i.i) ;
    vectorize(j.i.i, {w}) ; unroll(i.i.i) ; unroll(j.i.i.o) ; fma(C) ;
    vectorize(copy(C).out.{c1}, {w}) ; unroll(copy(C).out.{c0}) ; unroll(copy(C).out.{c1}.o) ;
    {copies} ; {threads}
"""


@functools.lru_cache(maxsize=None)
def product(kind: str, a_turned: bool, b_turned: bool, batch: int) -> Kernel:
    """`batch` is the number of dimensions by which there are several products."""
    w = 16 if kind == "f32" else 8
    o = batch
    lead, at = "".join(f"{x}, " for x in "YZ"[2 - batch:]), "".join(f"{x}, " for x in "yz"[2 - batch:])

    def permuted(*dims: int) -> str:
        return ", ".join(map(str, [*range(o), *(d + o for d in dims)]))

    along = "vectorize(copy({0}).{c1}, {w}, tail: separate)"
    across = ("split(copy({0}).{c0}, 8) ; separate(copy({0}).{c0}.o) ; vectorize(copy({0}).{c1}, {w}, tail: separate) ; "
              "reorder(copy({0}).{c0}.o, copy({0}).{c1}.o, copy({0}).{c1}.i, copy({0}).{c0}.i) ; "
              "unroll(copy({0}).{c0}.i)")
    c = {"c0": o, "c1": o + 1, "w": w}
    copies = " ; ".join([(along if not b_turned else across).format("B", **c),
                         (across if not a_turned else along).format("A", **c)])
    text = _PRODUCT.format(
        t=kind, w2=2 * w, copies=copies, threads=f"parallel({at[0]})" if batch else f"try(parallel(copy(B).{0 if not b_turned else 1})) ; parallel(i.o)", **c,
        a=lead + ("K, M" if a_turned else "M, K"), ai=at + ("k, i" if a_turned else "i, k"),
        ad=o + (1 if a_turned else 0), ap=permuted(1, 0, 2) if a_turned else permuted(0, 2, 1),
        b=lead + ("N, K" if b_turned else "K, N"), bi=at + ("j, k" if b_turned else "k, j"),
        bj=o + (0 if b_turned else 1), bp=permuted(0, 2, 1) if b_turned else permuted(1, 0, 2),
        **{"c": lead + "M, N", "ci": at + "i, j"})
    return Kernel(text)


@functools.lru_cache(maxsize=None)
def general(kind: str, inputs: tuple[Labels, ...], output: Labels) -> Kernel:
    """Index notation as it stands; sizes are named after labels."""
    names = _names(inputs)
    read = [_element(f"A{n}", [names[x] for x in labels]) for n, labels in enumerate(inputs)]
    summed = [names[x] for x in names if x not in output]
    # The product and the sum of truth values, as numpy has them.
    value = (" and " if kind == "bool" else " * ").join(read)
    if summed:
        value = f"{'any' if kind == 'bool' else 'sum'}[{', '.join(summed)}]({value})"
    at = [names[x] for x in output]
    text = f"{_head(kind, inputs, output, names)} {{\n    {_element('C', at)} = {value}\n}}\n"
    return Kernel(text + _loops(kind, [[names[x] for x in labels] for labels in inputs], at, summed))


@functools.lru_cache(maxsize=None)
def factors(kind: str, outer: int, columns: int) -> Kernel:
    """Complex numbers as the matrices that multiply by them: rows after the outer dimensions, columns last."""
    o, c = [f"i{n}" for n in range(outer)], [f"j{n}" for n in range(columns)]

    def read(part: str) -> str:
        return _element("A", [*o, *c, part])

    sizes = [x.upper() for x in (*o, *c)]
    made = [*sizes[:outer], "2", *sizes[outer:], "2"]
    value = f"select(p == 0, {read('r')}, select(r == 0, -{read('1')}, {read('0')}))"
    return Kernel(f"kernel factors(A: {kind}[{', '.join([*sizes, '2'])}]) -> (C: {kind}[{', '.join(made)}]) {{\n"
                  f"    {_element('C', [*o, 'p', *c, 'r'])} = {value}\n}}\n" + _simple([*o, *c], "factors"))


def _names(inputs: tuple[Labels, ...]) -> dict[int, str]:
    return {x: f"i{n}" for n, x in enumerate(dict.fromkeys(x for labels in inputs for x in labels))}


def _element(array: str, at: list[str]) -> str:
    return f"{array}[{', '.join(at)}]" if at else array


def _head(kind: str, inputs: tuple[Labels, ...], output: Labels, names: dict[int, str]) -> str:
    def of(name: str, labels: Labels) -> str:
        extents = [names[x].upper() for x in labels]
        return f"{name}: {kind}[{', '.join(extents)}]" if extents else f"{name}: {kind}"

    params = ", ".join(of(f"A{n}", labels) for n, labels in enumerate(inputs))
    return f"kernel einsum({params}) -> ({of('C', output)})"


def _loops(kind: str, inputs: list[list[str]], out: list[str], summed: list[str]) -> str:
    """A strategy for the general form, so that nothing is searched for kernels that are used once. What a form does not
    have the first way, it has the second."""
    if kind == "bool" or not (out or summed):
        return _simple(out)
    w = 16 if kind in ("f32", "c64") else 8
    plain = []
    if out:
        if summed:
            plain.append(f"try(fission(C.init)) ; try(vectorize(C.init.{out[-1]}, {w}, tail: separate))")
        plain.append(f"try(vectorize(C.{out[-1]}, {w}, tail: separate))")
        if len(out) > 1:
            plain.append(f"try(parallel(C.{out[0]}))")
    largest = max(inputs, key=len)
    best: list[str] = []
    if kind not in ("f32", "f64", "c64", "c128"):
        pass
    elif not summed and len(out) == 1:
        x = out[0]
        best = [f"split({x}, 16384) ; vectorize({x}.i, {w}, tail: separate) ; parallel({x}.o)"]
    elif len(summed) == 1 and not out:
        # Blocks go to the threads; in a block many partial sums hide the latency of the additions.
        k = summed[0]
        best = [f"split({k}, 65536) ; privatize(C, {k}.o, name: part) ; split({k}.i, {4 * w}) ; factor(part, {k}.i.i)",
                f"parallel({k}.o) ; separate({k}.i.o) ; vectorize({k}.i.i, {w}) ; unroll({k}.i.i.o) ; try(fma(C))"]
    elif len(summed) == 1 and largest and largest[-1] == summed[0]:
        # Rows: four share each part of the vector, each has partial sums two vectors wide.
        i, k = out[-1], summed[0]
        threads = f"parallel({i}.o)" if len(out) == 1 else f"parallel({out[0]})"
        n = len(out)
        lanes = ", ".join(map(str, [*range(n - 1), n, n - 1]))
        best = [f"split({i}, 64) ; split({i}.i, 4) ; separate({i}.i.o) ; reorder({i}.i.i, {k}) ; split({k}, {2 * w})",
                f"reorder({k}.o, {i}.i.i, {k}.i) ; factor(C, {k}.i, at: {k}.o) ; "
                f"set_layout(C.p, permute({lanes}))",
                f"separate({k}.o) ; vectorize({k}.i, {w}) ; unroll({i}.i.i) ; unroll({k}.i.o) ; try(fma(C)) ; {threads}"]
    elif len(summed) == 1 and largest and largest[-1] == out[-1]:
        # Columns: a block of the result stays in the cache while the rows run through.
        j, k = out[-1], summed[0]
        threads = f"parallel(C.{j}.o)" if len(out) == 1 else f"parallel(C.{out[0]})"
        best = [f"fission(C.init) ; vectorize(C.init.{j}, {w}, tail: separate) ; split(C.{j}, 512)",
                f"reorder(C.{j}.o, C.{k}, C.{j}.i) ; vectorize(C.{j}.i, {w}, tail: separate) ; try(fma(C)) ; {threads}"]
    ways = ["(" + " ; ".join(way) + ")" for way in (best, plain) if way]
    return f"strategy fast for einsum =\n    {' <+ '.join(ways)}\n" if ways else _simple(out)


def _simple(out: list[str], kernel: str = "einsum") -> str:
    return f"strategy fast for {kernel} = {f'try(parallel(C.{out[0]}))' if out else 'id'}\n"
