"""Statements and expressions of Python, written in the language of ``.lathe`` files."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from . import _lathe
from ._called import Sources, called, kernel_of, results_of
from ._inline import inlined
from ._names import CASTS, FUNCTIONS, KNOWN, PARTS, REAL, REDUCTIONS, TRUTH, hint
from ._reading import Scope, Source
from ._variables import mentions
from ._written import begin, end
from .errors import SourceError
from .types import BY_NAME, ArrayType, ScalarType

_RESERVED = frozenset(
    "kernel fun struct op rule strategy use test for in where step let var if then else while assume inout and or not true "
    "false".split()
)

_BINARY: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: ("+", 7), ast.Sub: ("-", 7), ast.Mult: ("*", 8), ast.Div: ("/", 8), ast.FloorDiv: ("//", 8), ast.Mod: ("%", 8),
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}
_BITS: dict[type[ast.operator], tuple[str, str]] = {
    ast.BitAnd: ("bitand", "and"), ast.BitOr: ("bitor", "or"), ast.BitXor: ("bitxor", "xor"), ast.LShift: ("shl", ""),
    ast.RShift: ("shr", ""),
}


class Writer:
    def __init__(self, source: Source, scope: Scope, arrays: dict[str, ArrayType], scalars: set[str], *, marked: bool = True) -> None:
        self.source, self.scope, self.marked = source, scope, marked
        self.arrays, self.scalars = arrays, scalars
        #: Names that are bound within: indices, loops, locals.
        self.bound: set[str] = set()
        #: Element types of names, as far as they are known.
        self.kinds: dict[str, str] = {}
        #: Local numbers that are assigned more than once.
        self.variables: set[str] = set()
        #: Where they are declared: by the block.
        self.declare: dict[int, list[str]] = {}
        self.structs: set[str] = set()
        #: Kernels that statements call.
        self.sources = Sources(source.f.__name__)
        self.depth = 0
        #: What the parts of the text are from, by the numbers of their marks.
        self.nodes: list[ast.AST] = []

    def mark(self, node: ast.AST, text: str) -> str:
        if not self.marked:
            return text
        self.nodes.append(node)
        return f"{begin(len(self.nodes) - 1)}{text}{end()}"

    def fail(self, node: ast.AST, message: str, help: str | None = None) -> SourceError:
        return self.source.fail(node, message, help)

    def name(self, node: ast.AST, name: str) -> str:
        if name in _RESERVED:
            raise self.fail(node, f"`{name}` cannot be a name: it is a word of the language")
        return name

    # Expressions; `level` is how tightly the place binds.

    def expr(self, e: ast.expr, level: int = 0) -> str:
        text, own = self.plain(e)
        text = self.mark(e, text)
        return f"({text})" if own < level else text

    def plain(self, e: ast.expr) -> tuple[str, int]:
        match e:
            case ast.Constant(value=bool(v)):
                return ("true" if v else "false"), 99
            case ast.Constant(value=int() | float() | complex() as v):
                return self.number(e, v)
            case ast.Name(id=name):
                return self.named(e, name)
            case ast.BinOp(left=a, op=ast.Pow(), right=ast.Constant(value=int(n))) if 1 <= n <= 8:
                base = self.expr(a, 9)
                return " * ".join([base] * n), 8 if n > 1 else 9
            case ast.BinOp(left=a, op=ast.Pow(), right=b):
                return f"pow({self.expr(a)}, {self.expr(b)})", 99
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                text, level = _BINARY[type(op)]
                if isinstance(op, (ast.FloorDiv, ast.Mod)) and "f" in (self.kind(a) or self.kind(b) or "")[:2]:
                    word = "floordiv" if isinstance(op, ast.FloorDiv) else "floormod"
                    return f"{word}({self.expr(a)}, {self.expr(b)})", 99
                return f"{self.expr(a, level)} {text} {self.expr(b, level + 1)}", level
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BITS:
                return self.bits(e, op, a, b)
            case ast.UnaryOp(op=ast.Invert(), operand=a):
                return f"not {self.expr(a, 5)}", 4
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return f"-{self.expr(a, 9)}", 9
            case ast.UnaryOp(op=ast.UAdd(), operand=a):
                return self.plain(a)
            case ast.UnaryOp(op=ast.Not(), operand=a):
                return f"not {self.expr(a, 5)}", 4
            case ast.BoolOp(op=op, values=values):
                word, level = ("and", 3) if isinstance(op, ast.And) else ("or", 2)
                return f" {word} ".join(self.expr(v, level + 1) for v in values), level
            case ast.Compare(left=first, ops=ops, comparators=rest):
                parts, left = [], first
                for compared, right in zip(ops, rest):
                    if type(compared) not in _COMPARE:
                        raise self.fail(e, "this comparison has no meaning in a kernel")
                    parts.append(f"{self.expr(left, 6)} {_COMPARE[type(compared)]} {self.expr(right, 6)}")
                    left = right
                return " and ".join(parts), 3 if len(parts) > 1 else 5
            case ast.IfExp(test=c, body=a, orelse=b):
                return f"select({self.expr(c)}, {self.expr(a)}, {self.expr(b)})", 99
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(d))) \
                    if name in self.arrays:
                extents = self.arrays[name].extents
                if not -len(extents) <= d < len(extents):
                    raise self.fail(e, f"`{name}` has {len(extents)} dimensions")
                text = extents[d]
                return text, 99 if text.isidentifier() or text.isdigit() else 0
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self.arrays:
                return f"{name}[{self.subscripts(index)}]", 99
            case ast.Subscript(value=value, slice=ast.Constant(value=int(n))):
                return f"{self.expr(value, 99)}.{n}", 99
            case ast.Attribute(value=value, attr=attr):
                known = self.outer(e)
                if known is not None:
                    return known
                return f"{self.expr(value, 99)}.{self.name(e, attr)}", 99
            case ast.Call():
                return self.call(e), 99
            case ast.Tuple(elts=parts):
                return f"({', '.join(self.expr(p) for p in parts)})", 99
        raise self.fail(e, "this has no meaning in a kernel",
                        "numbers, arithmetic, comparisons, `a if c else b`, subscripts, sums, and functions of numbers")

    def bits(self, e: ast.expr, op: ast.operator, a: ast.expr, b: ast.expr) -> tuple[str, int]:
        """`&`, `|` and `^` are of truth values or of bits."""
        number, truth = _BITS[type(op)]
        if "bool" in (self.kind(a), self.kind(b)):
            if truth in ("and", "or"):
                level = 3 if truth == "and" else 2
                return f"{self.expr(a, level)} {truth} {self.expr(b, level + 1)}", level
            if truth:
                return f"xor({self.expr(a)}, {self.expr(b)})", 99
            raise self.fail(e, "truth values are not shifted")
        return f"{number}({self.expr(a)}, {self.expr(b)})", 99

    def kind(self, e: ast.expr) -> str | None:
        """The element type of an expression, as far as it is plain to see; None for literals and for what is not."""
        match e:
            case ast.Constant(value=bool()) | ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return "bool"
            case ast.Name(id=name):
                return self.kinds.get(name)
            case ast.Subscript(value=ast.Name(id=name)) if name in self.arrays:
                return self.arrays[name].element.name
            case ast.Subscript(value=ast.Attribute(attr="shape")):
                return "index"
            case ast.UnaryOp(operand=a) | ast.IfExp(body=a, orelse=ast.Constant()):
                return self.kind(a)
            case ast.BinOp(left=a, right=b) | ast.IfExp(body=a, orelse=b):
                kinds = (self.kind(a), self.kind(b))
                return next((k for k in kinds if k in PARTS), kinds[0] or kinds[1])
            case ast.Attribute(value=value, attr="real" | "imag"):
                return PARTS.get(self.kind(value) or "")
            case ast.Call(func=ast.Attribute(value=value, attr="conj" | "conjugate"), args=[]):
                return self.kind(value)
            case ast.Call(func=ast.Name(id="len")):
                return "index"
            case ast.Call() if (kernel := kernel_of(self, e)) is not None:
                return next((ty for _, ty, array in results_of(kernel) if not array), None)
            case ast.Call(func=f) if (known := self.helper(f)) is not None:
                self.depth += 1
                try:
                    return self.kind(self.written_out(e, known))
                finally:
                    self.depth -= 1
            case ast.Call(func=f, args=args):
                name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
                if name in CASTS or name in BY_NAME:
                    return CASTS.get(name, name)
                if name in TRUTH or name in ("any", "all"):
                    return "bool"
                if name in ("argmin", "argmax"):
                    return "i64"
                if len(args) == 1 and isinstance(args[0], (ast.GeneratorExp, ast.ListComp)):
                    return self.kind(args[0].elt)
                found = [self.kind(a) for a in args[1 if name in ("where", "select") else 0:]]
                kind = next((k for k in found if k in PARTS), next((k for k in found if k), None))
                return PARTS.get(kind or "", kind) if name in REAL else kind
        return None

    def number(self, e: ast.AST, v: Any) -> tuple[str, int]:
        if isinstance(v, bool):
            return ("true" if v else "false"), 99
        if isinstance(v, complex):
            if v.imag != v.imag or abs(v.imag) == float("inf"):
                raise self.fail(e, "an imaginary literal is finite", "complex(0, math.inf)")
            imaginary = self.number(e, v.imag)[0] + "i"
            return (f"({self.number(e, v.real)[0]} + {imaginary})", 99) if v.real else (imaginary, 9)
        if isinstance(v, int):
            return (str(v), 99) if v >= 0 else (str(v), 9)
        if v != v or v in (float("inf"), float("-inf")):
            return {"inf": "inf", "-inf": "-inf"}.get(str(v), "nan"), 9
        text = repr(float(v))
        if "e" in text and "." not in text:
            text = text.replace("e", ".0e")
        return text, 9 if v < 0 else 99

    def subscripts(self, index: ast.expr) -> str:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        for p in parts:
            if isinstance(p, (ast.Slice, ast.Starred)):
                raise self.fail(p, "slices have no meaning in a kernel", "write the subscript of one element: A[i, j + 1]")
        return ", ".join(self.expr(p) for p in parts)

    def named(self, e: ast.Name, name: str) -> tuple[str, int]:
        if name in self.bound or name in self.scalars or name in self.arrays or name not in self.scope.all:
            return self.name(e, name), 99
        value = self.scope.all[name]
        if isinstance(value, (bool, int, float, complex)):
            return self.number(e, value)
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            return self.number(e, value.item())
        return self.name(e, name), 99

    def outer(self, e: ast.Attribute) -> tuple[str, int] | None:
        """A number that is an attribute of something around: `math.pi`, `config.radius`."""
        root: ast.expr = e
        path: list[str] = []
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self.bound | self.scalars | set(self.arrays):
            return None
        value = self.scope.all.get(root.id)
        for attr in reversed(path):
            value = getattr(value, attr, None)
        if isinstance(value, (bool, int, float, complex)):
            return self.number(e, value)
        return None

    def helper(self, f: ast.expr) -> Any:
        """The function of Python that a name stands for, if it is one that is written out."""
        if isinstance(f, ast.Name) and f.id not in self.bound:
            value = self.scope.all.get(f.id)
            return value if isinstance(value, FunctionType) else None
        return None

    def written_out(self, e: ast.Call, f: Any) -> ast.expr:
        if self.depth > 16:
            raise self.fail(e, f"`{f.__name__}` calls itself")
        return inlined(f, e, self.scope, self.fail)

    def call(self, e: ast.Call) -> str:
        f = e.func
        if (function := self.helper(f)) is not None:
            value = self.written_out(e, function)
            if isinstance(value, ast.Tuple):
                raise self.fail(e, f"`{function.__name__}` gives several values", "a, b = f(x)")
            self.depth += 1
            text = self.expr(value, 99)
            self.depth -= 1
            return text
        if isinstance(f, ast.Name) and f.id == "len" and len(e.args) == 1:
            match e.args[0]:
                case ast.Name(id=name) if name in self.arrays:
                    return bracketed(self.arrays[name].extents[0])
            raise self.fail(e, "`len` is of an array")
        if isinstance(f, ast.Name) and f.id == "bool" and len(e.args) == 1 and f.id not in self.scope.all:
            return f"({self.expr(e.args[0], 6)} != 0)"
        if isinstance(f, ast.Attribute) and f.attr in ("conj", "conjugate") and not e.args and not e.keywords:
            return f"conj({self.expr(f.value)})"
        if e.keywords:
            if isinstance(f, ast.Name) and not e.args:
                fields = ", ".join(f"{k.arg}: {self.expr(k.value)}" for k in e.keywords)
                return f"{self.name(f, f.id)}({fields})"
            raise self.fail(e, "functions of a kernel have no named arguments")
        if isinstance(f, ast.Subscript):
            # sum[k](e), scan(sum)[i](e)
            over = self.subscripts(f.slice)
            of = self.function(f.value)
            if len(e.args) != 1:
                raise self.fail(e, "a reduction has one argument")
            return f"{REDUCTIONS.get(of, of)}[{over}]({self.expr(e.args[0])})"
        if len(e.args) == 1 and isinstance(e.args[0], (ast.GeneratorExp, ast.ListComp)):
            return self.reduction(self.function(f), e.args[0])
        name = self.function(f)
        args = [self.expr(a) for a in e.args]
        if name in ("max", "min") and len(args) > 2:
            text = args[0]
            for a in args[1:]:
                text = f"{name}({text}, {a})"
            return text
        return f"{name}({', '.join(args)})"

    def function(self, f: ast.expr) -> str:
        match f:
            case ast.Name(id=name):
                value = self.scope.all.get(name)
                if isinstance(value, ScalarType) and name not in self.bound:
                    return value.name
                if isinstance(value, _lathe.Kernel):
                    raise self.fail(f, f"`{name}` is a kernel, which is called as a statement",
                                    f"y = {name}(x) for an array or number y, or a function of numbers")
                if value is not None and name not in KNOWN and hasattr(value, "__name__"):
                    name = value.__name__
                return self.known(f, name)
            case ast.Attribute(value=ast.Name(), attr=attr):
                attr = attr.rstrip("_")
                return BY_NAME[attr].name if attr in BY_NAME else self.known(f, attr)
            case ast.Call(func=ast.Name(id="scan"), args=[inner]):
                return f"scan({REDUCTIONS.get(self.function(inner), self.function(inner))})"
        raise self.fail(f, "this is not a function that a kernel can call")

    def known(self, f: ast.expr, name: str) -> str:
        """The language's name of a function; what it does not have is refused by name."""
        if name in CASTS:
            return CASTS[name]
        if name in BY_NAME:
            return BY_NAME[name].name
        name = FUNCTIONS.get(name, name)
        if self.marked and name not in KNOWN and name not in REDUCTIONS and name not in ("scan", "pair"):
            value = self.scope.all.get(name)
            if not isinstance(value, type) and name not in self.structs:
                raise self.fail(f, f"there is no function `{name}` in a kernel", hint(name))
        return name

    def reduction(self, name: str, g: ast.GeneratorExp | ast.ListComp) -> str:
        over, guards, mine = [], [], []
        for part in g.generators:
            if not isinstance(part.target, ast.Name):
                raise self.fail(part.target, "a reduction runs over names: sum(A[k] for k in range(K))")
            lo, hi, step = self.range(part.iter)
            if step is not None:
                raise self.fail(part.iter, "the range of a reduction has no step", "multiply the subscript instead")
            over.append(f"{self.name(part.target, part.target.id)} in {lo}..{hi}")
            mine.append(part.target.id)
            self.bound.add(part.target.id)
            guards += part.ifs
        value = self.expr(g.elt)
        if guards:
            if name != "sum":
                raise self.fail(guards[0], "only sums may have a condition")
            condition = " and ".join(self.expr(c, 4) for c in guards)
            value = f"select({condition}, {value}, 0)"
        self.bound.difference_update(mine)
        return f"{REDUCTIONS.get(name, name)}[{', '.join(over)}]({value})"

    def downward(self, e: ast.expr) -> tuple[str, str, str] | None:
        """First value, how many, and by how much of a range that goes down by a number."""
        match e:
            case ast.Call(func=ast.Name(id="range"), args=[lo, hi, ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(n)))]) \
                    if n > 0:
                first, last = self.expr(lo, 8), self.expr(hi, 8)
                count = f"{first} - {last}" if n == 1 else f"({first} - {last} + {n - 1}) // {n}"
                return first, count, str(n)
        return None

    def range(self, e: ast.expr) -> tuple[str, str, str | None]:
        match e:
            case ast.Call(func=ast.Name(id="range"), args=[hi]):
                return "0", self.expr(hi, 7), None
            case ast.Call(func=ast.Name(id="range"), args=[lo, hi]):
                return self.expr(lo, 7), self.expr(hi, 7), None
            case ast.Call(func=ast.Name(id="range"), args=[lo, hi, step]):
                return self.expr(lo, 7), self.expr(hi, 7), self.expr(step, 7)
        raise self.fail(e, "loops run over `range`")

    # Statements.

    def block(self, body: list[ast.stmt], indent: str) -> list[str]:
        out: list[str] = []
        declared = self.declare.pop(id(body), [])
        for s in body:
            first = [n for n in declared if mentions(s, n)]
            out += [f"{indent}var {n}: {self.kinds[n]}" for n in first]
            declared = [n for n in declared if n not in first]
            lines = [indent + line for line in self.statement(s, indent)]
            if lines:
                self.nodes.append(s)
                lines[0] = begin(len(self.nodes) - 1) + lines[0]
                lines[-1] += end()
            out += lines
        return out

    def before_last(self, body: list[ast.stmt]) -> list[str]:
        """All but the last statement of a function."""
        inner = body[:-1]
        self.declare[id(inner)] = self.declare.pop(id(body), [])
        return self.block(inner, "    ")

    def statement(self, s: ast.stmt, indent: str) -> list[str]:
        match s:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                return []
            case ast.Break():
                return ["break"]
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=parts, keywords=[])) if "print" not in self.bound:
                return [f"print({', '.join(self.printed(p) for p in parts)})"]
            case ast.Assert(test=c, msg=says):
                return [f"assert({', '.join([self.expr(c), *([self.printed(says)] if says else [])])})"]
            case ast.Expr(value=ast.Call() as value) if kernel_of(self, value) is not None:
                return [called(self, s, [], value)]
            case ast.Assign(targets=[target], value=ast.Call() as value) if kernel_of(self, value) is not None:
                return [called(self, s, target.elts if isinstance(target, ast.Tuple) else [target], value)]
            case ast.Assign(targets=[target], value=value) if not isinstance(target, ast.Tuple):
                return [self.assign(target, "=", value)]
            case ast.AugAssign(target=target, op=op, value=value) if isinstance(op, (ast.Add, ast.Mult)):
                return [self.assign(target, "+=" if isinstance(op, ast.Add) else "*=", value)]
            case ast.AugAssign(target=target, op=op, value=value):
                load = ast.copy_location(ast.parse(ast.unparse(target), mode="eval").body, target)
                whole = ast.copy_location(ast.BinOp(load, op, value), s)
                return [self.assign(target, "=", ast.fix_missing_locations(whole))]
            case ast.AnnAssign(target=ast.Name(id=name), annotation=a, value=None):
                ty = self.evaluated(a)
                if not isinstance(ty, ArrayType):
                    raise self.fail(a, "a local array has an array type: H: lathe.f32['N', 'M']")
                self.arrays[self.name(s, name)] = ty
                return [f"var {name}: {ty}"]
            case ast.AnnAssign(target=ast.Name(id=name), annotation=a, value=ast.expr() as value):
                ty = self.evaluated(a)
                if not isinstance(ty, ScalarType):
                    raise self.fail(a, "a local number has the type of an element: s: lathe.f32 = 0")
                self.kinds[self.name(s, name)] = ty.name
                if name in self.variables:
                    return [self.assign(s.target, "=", value)]
                self.bound.add(name)
                return [f"let {name} = {ty.name}({self.expr(value)})"]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                return self.several(s, targets, value)
            case ast.For(target=ast.Name(id=name), iter=it, body=body, orelse=[]) if (down := self.downward(it)) is not None:
                first, count, by = down
                self.bound.add(self.name(s, name))
                self.kinds[name] = "index"
                inner = self.block(body, "    ")
                self.bound.discard(name)
                times = "" if by == "1" else f"{by} * "
                return [f"for {name}_down in 0..{count} {{", f"    let {name} = {first} - {times}{name}_down", *inner, "}"]
            case ast.For(target=ast.Name(id=name), iter=it, body=body, orelse=[]):
                self.kinds[name] = "index"
                lo, hi, step = self.range(it)
                self.bound.add(self.name(s, name))
                by = f" step {step}" if step else ""
                inner = self.block(body, "    ")
                self.bound.discard(name)
                return [f"for {name} in {lo}..{hi}{by} {{", *inner, "}"]
            case ast.While(test=c, body=body, orelse=[]):
                return [f"while {self.expr(c)} {{", *self.block(body, "    "), "}"]
            case ast.If(test=c, body=body, orelse=other):
                out = [f"if {self.expr(c)} {{", *self.block(body, "    ")]
                if other:
                    out += ["} else {", *self.block(other, "    ")]
                return [*out, "}"]
        raise self.fail(s, "this statement has no meaning in a kernel",
                        "assignments, `for` over `range`, `while`, `break`, `if`, local arrays (H: lathe.f32['N'])")

    def printed(self, part: ast.expr) -> str:
        """An argument of `print`, or what an `assert` says."""
        match part:
            case ast.Constant(value=str() as text):
                return _quoted(text)
            case ast.JoinedStr(values=pieces):
                text, values = "", []
                for p in pieces:
                    match p:
                        case ast.Constant(value=str() as more):
                            text += more.replace("{", "{{").replace("}", "}}")
                        case ast.FormattedValue(value=value, format_spec=None):
                            text += "{}"
                            values.append(self.expr(value))
                        case _:
                            raise self.fail(p, "values in a kernel are shown in full: a text has no formats", "{x}")
                return ", ".join([_quoted(text, braces=False), *values])
        return self.expr(part)

    def assign(self, target: ast.expr, op: str, value: ast.expr) -> str:
        match target:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self.arrays:
                return f"{name}[{self.subscripts(index)}] {op} {self.expr(value)}"
            case ast.Name(id=name) if name in self.variables:
                return f"{name} {op} {self.expr(value)}"
            case ast.Name(id=name) if op == "=" and name not in self.arrays:
                kind = self.kind(value)
                if kind is not None:
                    self.kinds[name] = kind
                self.bound.add(name)
                return f"let {self.name(target, name)} = {self.expr(value)}"
        raise self.fail(target, "only elements of arrays and new names are assigned")

    def whole(self, value: ast.expr) -> ast.expr:
        """A value, or what stands for it if a function of Python gives it."""
        if isinstance(value, ast.Call) and (f := self.helper(value.func)) is not None:
            return self.written_out(value, f)
        return value

    def several(self, s: ast.stmt, targets: list[ast.expr], value: ast.expr) -> list[str]:
        """`a, b = x, y`, or what a function of several values gives."""
        value = self.whole(value)
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(targets):
            raise self.fail(s, "as many values are assigned as there are names")
        # All values are taken before the first is assigned.
        out, names = [], []
        for n, v in enumerate(value.elts):
            name = f"taken{s.lineno}_{n}"
            kind = self.kind(v)
            # A literal has the type of what it is for.
            wanted = self.kind(targets[n]) if kind is None else None
            out.append(f"let {name} = {wanted}({self.expr(v)})" if wanted else f"let {name} = {self.expr(v)}")
            kind = kind or wanted
            if kind is not None:
                self.kinds[name] = kind
            self.bound.add(name)
            names.append(name)
        return out + [self.assign(t, "=", ast.copy_location(ast.Name(n, ast.Load()), s)) for t, n in zip(targets, names)]

    def evaluated(self, a: ast.expr) -> Any:
        try:
            return eval(compile(ast.Expression(a), self.source.file, "eval"), self.scope.all)  # noqa: S307
        except Exception as e:
            raise self.fail(a, f"this type is not understood: {e}") from e


class FunWriter(Writer):
    """Expressions of patterns: `|` hands data on, `>>` and `<<` compose, functions are values."""

    def plain(self, e: ast.expr) -> tuple[str, int]:
        match e:
            case ast.BinOp(left=a, op=ast.BitOr(), right=b):
                first = isinstance(a, ast.BinOp) and isinstance(a.op, ast.BitOr)
                return f"{self.expr(a, 1 if first else 2)} |> {self.expr(b, 2)}", 1
            case ast.BinOp(left=a, op=ast.RShift() | ast.LShift() as op, right=b):
                sign = ">>" if isinstance(op, ast.RShift) else "<<"
                return f"{self.expr(a, 2)} {sign} {self.expr(b, 3)}", 2
            case ast.Lambda(args=args, body=body):
                names = [self.name(a, a.arg) for a in args.args]
                self.bound.update(names)
                text = f"|{', '.join(names)}| {self.expr(body)}"
                self.bound.difference_update(names)
                return text, 0
            case ast.Call(func=ast.Name(id="pair"), args=[ast.Lambda(args=args, body=body)]):
                names = [self.name(a, a.arg) for a in args.args]
                self.bound.update(names)
                text = f"|({', '.join(names)})| {self.expr(body)}"
                self.bound.difference_update(names)
                return text, 0
            case ast.Call(func=f, args=args) if not e.keywords:
                return f"{self.expr(f, 99)}({', '.join(self.expr(a) for a in args)})", 99
        return super().plain(e)


def _quoted(text: str, braces: bool = True) -> str:
    """A text of Python in the language; with braces that are meant as such, unless they are for values."""
    if braces:
        text = text.replace("{", "{{").replace("}", "}}")
    escaped = "".join(f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text)
    return f'"{escaped}"'


def bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
