"""The examples of `examples/mdh` as decorated functions. Nothing in them is ever run, so their words are not imported."""
# ruff: noqa: F821

import lathe

RECORDS = """
struct Record { id: i64, first: i32, last: i32, birth: i32, sex: i32, zip: i32 }

struct Match { id: i64, weight: f32 }

op better(a: Match, b: Match) -> Match associative commutative identity(Match(id: -1, weight: -1.0 / 0.0))
    = select(a.weight > b.weight or (a.weight == b.weight and a.id <= b.id), a, b)
"""


@lathe.mdh
def dot(T, K: int):
    return out_view[T](C=[lambda k: ()]), md_hom[K]("*", (pw("+"))), inp_view[T, T](A=[lambda k: (k)], B=[lambda k: (k)])


def matvec_of_the_thesis(T: type, I: int, K: int):
    @mdh(out(w=Buffer[T, [I]]), inp(M=Buffer[T, [I, K]], v=Buffer[T, [K]]))
    def matvec__T_I_K():
        def mul(out, inp):
            out["w"] = inp["M"] * inp["v"]

        def scalar_plus(res, lhs, rhs):
            res["w"] = lhs["w"] + rhs["w"]

        return (
            out_view[T](w=[lambda i, k: (i)]),
            md_hom[I, K](mul, (CC, PW(scalar_plus))),
            inp_view[T, T](M=[lambda i, k: (i, k)], v=[lambda i, k: (k)]),
        )

    return matvec__T_I_K


matvec_of_the_thesis.__name__ = "matvec"
matvec = lathe.mdh(matvec_of_the_thesis)


@lathe.mdh
def matmul(T, I: int, J: int, K: int):
    def mul(out, inp):
        product = inp["A"] * inp["B"]
        out["C"] = product

    def plus(lhs, rhs):
        return lhs + rhs

    return (
        out_view[T](C=[lambda i, j, k: (i, j)]),
        md_hom[I, J, K](mul, (cc, cc, pw(plus))),
        inp_view[T, T](A=[lambda i, j, k: (i, k)], B=[lambda i, j, k: (k, j)]),
    )


@lathe.mdh
def matmul_t(T, I: int, J: int, K: int):
    """The same md_hom between other views."""
    return (
        out_view[T]({"C": [lambda i, j, k: (j, i)]}),
        md_hom[I, J, K]("*", ("++", "++", pw("+"))),
        inp_view[T, T]({"A": [lambda i, j, k: (k, i)], "B": [lambda i, j, k: (j, k)]}),
    )


@lathe.mdh
def batched_matmul(T, B: int, I: int, J: int, K: int):
    return (
        out_view[T](C=lambda b, i, j, k: (b, i, j)),
        md_hom[B, I, J, K](lambda a, x: a * x, (cc, cc, cc, pw(add))),
        inp_view[T, T](A=lambda b, i, j, k: (b, i, k), X=lambda b, i, j, k: (b, k, j)),
    )


@lathe.mdh
def conv2d(T, P: int, Q: int, R: int, S: int):
    return (
        out_view[T](O=[lambda p, q, r, s: (p, q)]),
        md_hom[P, Q, R, S]("*", (cc, cc, pw("+"), pw("+"))),
        inp_view[T, T](I=[lambda p, q, r, s: (p + r, q + s)], F=[lambda p, q, r, s: (r, s)]),
    )


@lathe.mdh
def mcc(T, N: int, P: int, Q: int, K: int, R: int, S: int, C: int):
    return (
        out_view[T](O=[lambda n, p, q, k, r, s, c: (n, p, q, k)]),
        md_hom[N, P, Q, K, R, S, C]("*", (cc, cc, cc, cc, pw("+"), pw("+"), pw("+"))),
        inp_view[T, T](I=[lambda n, p, q, k, r, s, c: (n, p + r, q + s, c)], F=[lambda n, p, q, k, r, s, c: (k, r, s, c)]),
    )


@lathe.mdh
def mcc_stride2(T, N: int, P: int, Q: int, K: int, R: int, S: int, C: int):
    return (
        out_view[T](O=[lambda n, p, q, k, r, s, c: (n, p, q, k)]),
        md_hom[N, P, Q, K, R, S, C]("*", (cc, cc, cc, cc, pw("+"), pw("+"), pw("+"))),
        inp_view[T, T](I=[lambda n, p, q, k, r, s, c: (n, 2 * p + r, 2 * q + s, c)], F=[lambda n, p, q, k, r, s, c: (k, r, s, c)]),
    )


@lathe.mdh
def mcc_capsule(T, N: int, P: int, Q: int, K: int, MI: int, MJ: int, R: int, S: int, C: int, MK: int):
    return (
        out_view[T](O=[lambda n, p, q, k, mi, mj, r, s, c, mk: (n, p, q, k, mi, mj)]),
        md_hom[N, P, Q, K, MI, MJ, R, S, C, MK]("*", (cc, cc, cc, cc, cc, cc, pw("+"), pw("+"), pw("+"), pw("+"))),
        inp_view[T, T](I=[lambda n, p, q, k, mi, mj, r, s, c, mk: (n, p + r, q + s, c, mi, mk)],
                       F=[lambda n, p, q, k, mi, mj, r, s, c, mk: (k, r, s, c, mk, mj)]),
    )


@lathe.mdh
def histogram(B: int, E: int):
    def count(out, inp):
        out["Out"] = 1 if inp["Elms"] == inp["Bins"] else 0

    return (
        out_view[lathe.i32](Out=[lambda b, e: (b)]),
        md_hom[B, E](count, (cc, pw("+"))),
        inp_view[lathe.i32, lathe.i32](Elms=[lambda b, e: (e)], Bins=[lambda b, e: (b)]),
    )


@lathe.mdh
def nearest(T, B: int, E: int):
    return (
        out_view[T](Out=[lambda b, e: (b)]),
        md_hom[B, E](lambda e, b: abs(e - b), (cc, pw(min))),
        inp_view[T, T](Elms=[lambda b, e: (e)], Bins=[lambda b, e: (b)]),
    )


@lathe.mdh
def map(T, N: int):
    return out_view[T](O=[lambda i: (i)]), md_hom[N](lambda x: 2 * x + 1, (cc)), inp_view[T](I=[lambda i: (i)])


@lathe.mdh
def reduce(T, N: int):
    def larger(a, b):
        return max(a, b)

    return out_view[T](O=[lambda i: ()]), md_hom[N]("id", (pw(larger))), inp_view[T](I=[lambda i: (i)])


@lathe.mdh
def scan(T, N: int):
    return out_view[T](O=[lambda i: (i)]), md_hom[N]("id", (ps("+"))), inp_view[T](A=[lambda i: (i)])


@lathe.mdh
def mbbs(T, N: int, M: int):
    return out_view[T](O=[lambda i, j: (i)]), md_hom[N, M]("id", (PS("+"), PW("+"))), inp_view[T](A=[lambda i, j: (i, j)])


@lathe.mdh
def jacobi1d(T, N: int):
    return (
        out_view[T](O=[lambda i: (i)]),
        md_hom[N](lambda a, b, c: (a + b + c) / 3, (cc)),
        inp_view[T](I=[lambda i: (i), lambda i: (i + 1), lambda i: (i + 2)]),
    )


@lathe.mdh
def jacobi2d(T, N: int, M: int):
    def mean(out, inp):
        out["O"] = 0.2 * (inp["I"][0] + inp["I"][1] + inp["I"][2] + inp["I"][3] + inp["I", 4])

    return (
        out_view[T](O=[lambda i, j: (i, j)]),
        md_hom[N, M](mean, (cc, cc)),
        inp_view[T](I=[lambda i, j: (i, j + 1), lambda i, j: (i + 1, j), lambda i, j: (i + 1, j + 1), lambda i, j: (i + 1, j + 2),
                       lambda i, j: (i + 2, j + 1)]),
    )


@lathe.mdh
def jacobi3d(T, N: int, M: int, L: int):
    return (
        out_view[T](O=[lambda i, j, k: (i, j, k)]),
        md_hom[N, M, L](lambda u, n, w, e, s, d, c: 0.16 * (u + n + w + e + s + d) + 0.04 * c, (cc, cc, cc)),
        inp_view[T](I=[lambda i, j, k: (i, j + 1, k + 1), lambda i, j, k: (i + 1, j, k + 1), lambda i, j, k: (i + 1, j + 1, k),
                       lambda i, j, k: (i + 1, j + 1, k + 2), lambda i, j, k: (i + 1, j + 2, k + 1),
                       lambda i, j, k: (i + 2, j + 1, k + 1), lambda i, j, k: (i + 1, j + 1, k + 1)]),
    )


@lathe.mdh(declare=RECORDS)
def prl(I: int, J: int):
    def compare(out, inp):
        n = inp["N"]
        e = inp["E"]
        weight = (
            (6.5 if n.first == e.first else -2.0)
            + (8.5 if n.last == e.last else -3.0)
            + (11.0 if n.birth == e.birth else -4.0)
            + (1.0 if n.sex == e.sex else -5.0)
            + (5.0 if n.zip == e.zip else -1.0)
        )
        out["M"] = Match(e.id, weight) if n.last == e.last or n.birth == e.birth else Match(-1, -1.0 / 0.0)

    return (
        out_view[Match](M=[lambda i, j: (i)]),
        md_hom[I, J](compare, (cc, pw(better))),
        inp_view[Record, Record](N=[lambda i, j: (i)], E=[lambda i, j: (j)]),
    )


#: The contractions of CCSD(T): the result's indices, and those of both operands.
CONTRACTIONS = ["gdab_efgc", "gdac_efgb", "gdbc_efga", "geab_dfgc", "geac_dfgb", "gebc_dfga", "gfab_degc", "gfbc_dega", "gfac_degb"]

CONTRACTION = """import lathe

@lathe.mdh
def abcdef_{name}(T, NA: int, NB: int, NC: int, ND: int, NE: int, NF: int, NG: int):
    return (
        out_view[T](C=[lambda a, b, c, d, e, f, g: (a, b, c, d, e, f)]),
        md_hom[NA, NB, NC, ND, NE, NF, NG]("*", (cc, cc, cc, cc, cc, cc, pw("+"))),
        inp_view[T, T](A=[lambda a, b, c, d, e, f, g: ({a})], B=[lambda a, b, c, d, e, f, g: ({b})]),
    )
"""
