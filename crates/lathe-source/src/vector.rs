//! Vector loops: all lanes at once in GNU vector types where the body allows it, else a plain loop
//! over the lanes, which every C compiler may vectorize.
//!
//! `bool` lanes are 32-bit masks, 0 or -1. What has no vector form (conversions of `f16`, general
//! integer division, conditions per lane around statements) makes the whole loop fall back.

mod memory;

use crate::emit::{Buf, Emitter, FALLBACK, Lanes, Place, Result, Val, Var, fallback, ill_formed};
use crate::expr::arith::symbol;
use crate::expr::{exact_name, no_operator};
use crate::helpers::memory_type;
use crate::writer::{bare, is_atom};
use lathe_ir::build::{add, index, mul, var_id};
use lathe_ir::visit::{substitute, vars_of};
use lathe_ir::{Access, BinOp, Expr, Loop, MathFn, Scalar, Type, UnOp, VarId};
use lathe_poly::Linear;
use std::collections::HashMap;

impl Emitter<'_> {
    pub fn vector(&mut self, l: &Loop, width: u32) -> Result<()> {
        if self.lanes.is_some() {
            return Err(fallback());
        }
        let fits = width.is_power_of_two() && (2..=64).contains(&width) && l.step == 1;
        if self.device.is_some() {
            return self.serial(l, Some("#pragma unroll"));
        }
        if !fits || self.lane_loops_only {
            return self.serial(l, None);
        }
        if self.attempt(FALLBACK, |e| e.all_lanes(l, width))? { Ok(()) } else { self.serial(l, None) }
    }

    fn all_lanes(&mut self, l: &Loop, width: u32) -> Result<()> {
        self.begin(&[&l.lo, &l.hi]);
        let span = Linear::difference(&l.hi, &l.lo);
        let lo = self.uniform(&l.lo)?;
        // A first lane that has a name, or is a number, needs no other.
        let block = !is_atom(&lo);
        let name = if block { self.names.fresh(&l.binder.name) } else { lo.clone() };
        if block {
            self.open("{");
            self.line(format!("const int64_t {name} = {};", bare(&lo)));
        }
        let base = VarId(self.fresh_id());
        let frame = self.frames.len() - 1;
        self.vars.insert(base, Var { name: name.clone(), ty: l.binder.ty, frame, lanes: false });
        let lanes =
            |active: Option<String>| Lanes { width, active, binder: l.binder.id, base, lo: l.lo.clone() };
        let body = |e: &mut Self, active: Option<String>| -> Result<()> {
            e.lanes = Some(lanes(active));
            let old =
                e.vars.insert(l.binder.id, Var { name: name.clone(), ty: l.binder.ty, frame, lanes: true });
            let r = e.stmt(&l.body);
            if let Some(old) = old {
                e.vars.insert(l.binder.id, old);
            }
            e.lanes = None;
            r
        };
        match span {
            Some(n) if n == i64::from(width) => body(self, None)?,
            Some(n) if n <= 0 => {}
            Some(n) if n < i64::from(width) => body(self, Some(n.to_string()))?,
            _ => {
                let hi = self.uniform(&l.hi)?;
                let count = self.names.fresh(&format!("{}_lanes", l.binder.name));
                self.line(format!("const int64_t {count} = {hi} - {name};"));
                self.open(format!("if ({count} >= {width}) {{"));
                body(self, None)?;
                self.close(format!("}} else if ({count} > 0) {{"));
                body(self, Some(count))?;
                self.close("}");
            }
        }
        if block {
            self.close("}");
        }
        Ok(())
    }

    /// The lanes of a `vector` loop's variable.
    pub fn lane_variable(&mut self, name: &str, ty: Scalar) -> Result<Val> {
        let v = self.vector_type(ty)?;
        let w = self.width()?;
        let iota = format!("lathe_iota_{}", short(&v));
        let splat = self.splat(ty)?;
        let numbers: Vec<String> = (0..w).map(|l| l.to_string()).collect();
        let elem = memory_type(ty);
        self.helpers.other(
            2,
            format!(
                "static inline {v} {iota}({elem} x) {{\n    return {splat}(x) + ({v}){{{}}};\n}}",
                numbers.join(", ")
            ),
        );
        Ok(Val { text: format!("{iota}({name})"), lanes: true })
    }

    pub fn width(&self) -> Result<u32> {
        self.lanes.as_ref().map(|l| l.width).ok_or_else(|| ill_formed("lanes outside of a vector loop"))
    }

    pub fn active(&self) -> Option<String> {
        self.lanes.as_ref().and_then(|l| l.active.clone())
    }

    /// The C vector type of values of a type.
    pub fn lanes_type(&mut self, ty: &Type) -> Result<String> {
        match ty.scalar() {
            Some(s) => self.vector_type(s),
            None => Err(fallback()),
        }
    }

    pub fn vector_type(&mut self, s: Scalar) -> Result<String> {
        let s = match s {
            Scalar::F16 | Scalar::Bf16 => Scalar::U16,
            Scalar::Bool => Scalar::I32,
            Scalar::Index => Scalar::I64,
            s => s,
        };
        let w = self.width()?;
        Ok(self.define_vector(s, w))
    }

    /// Defines the vector type of `w` elements as they are in memory.
    pub fn define_vector(&mut self, s: Scalar, w: u32) -> String {
        let name = format!("lathe_{}x{w}", s.name());
        let (elem, bytes) = (memory_type(s), s.bytes() * u64::from(w));
        self.helpers.other(
            0,
            format!(
                "typedef {elem} {name} __attribute__((vector_size({bytes})));\n\
                 typedef {elem} {name}_u __attribute__((vector_size({bytes}), aligned({}), may_alias));",
                s.bytes()
            ),
        );
        name
    }

    /// The signed integer vector with lanes of a width.
    pub fn mask_type(&mut self, bits: u32) -> Result<String> {
        self.vector_type(match bits {
            8 => Scalar::I8,
            16 => Scalar::I16,
            64 => Scalar::I64,
            _ => Scalar::I32,
        })
    }

    fn unsigned_vector(&mut self, s: Scalar) -> Result<String> {
        self.vector_type(match s.bits() {
            8 => Scalar::U8,
            16 => Scalar::U16,
            64 => Scalar::U64,
            _ => Scalar::U32,
        })
    }

    fn splat(&mut self, s: Scalar) -> Result<String> {
        let v = self.vector_type(s)?;
        let w = self.width()? as usize;
        let name = format!("lathe_splat_{}", short(&v));
        let elem = if s == Scalar::Bool { "int32_t" } else { memory_type(s) };
        let copies = vec!["x"; w].join(", ");
        self.helpers
            .other(1, format!("static inline {v} {name}({elem} x) {{\n    return ({v}){{{copies}}};\n}}"));
        Ok(name)
    }

    /// A value as lanes.
    pub fn widened(&mut self, v: &Val, s: Scalar) -> Result<Val> {
        if v.lanes {
            return Ok(v.clone());
        }
        let splat = self.splat(s)?;
        let text = bare(&v.text);
        // A scalar `bool` is 0 or 1, a mask 0 or -1.
        let text = if s == Scalar::Bool { format!("{splat}(-({text}))") } else { format!("{splat}({text})") };
        Ok(Val { text, lanes: true })
    }

    pub fn lanes_unary(&mut self, op: UnOp, s: Scalar, v: &Val) -> Result<Val> {
        let t = self.vector_type(s)?;
        let text = match op {
            UnOp::Neg if s.is_float() => format!("(-{})", v.text),
            UnOp::Neg if s.is_int() => {
                let u = self.unsigned_vector(s)?;
                format!("(({t})(-({u}){}))", v.text)
            }
            UnOp::Not if !s.is_float() => format!("(~{})", v.text),
            _ => return Err(ill_formed(format!("{op:?} is not defined on {s}"))),
        };
        Ok(Val { text, lanes: true })
    }

    pub fn lanes_binary(
        &mut self,
        op: BinOp,
        s: Scalar,
        a: &Val,
        b: &Val,
        constant: Option<i64>,
    ) -> Result<Val> {
        use BinOp::*;
        let t = self.vector_type(s)?;
        if s.is_int() {
            match (op, constant) {
                (Shl | Shr, Some(by)) => {
                    let by = by & i64::from(s.bits() - 1);
                    let u = self.unsigned_vector(s)?;
                    let text = match op {
                        Shl => format!("(({t})(({u}){} << {by}))", a.text),
                        _ => format!("({} >> {by})", a.text),
                    };
                    return Ok(Val { text, lanes: true });
                }
                (FloorDiv | FloorMod, Some(d)) if d > 0 && (d as u64).is_power_of_two() && s.bits() >= 32 => {
                    let text = match op {
                        FloorDiv => format!("({} >> {})", a.text, d.trailing_zeros()),
                        _ => format!("({} & {})", a.text, d - 1),
                    };
                    return Ok(Val { text, lanes: true });
                }
                (FloorDiv | FloorMod | TruncDiv | TruncRem | Shl | Shr, _) => return Err(fallback()),
                (Div, _) => return Err(no_operator(op, s)),
                _ => {}
            }
        }
        let (a, b) = (self.widened(a, s)?.text, self.widened(b, s)?.text);
        let c_op = match op {
            Min | Max => {
                let f = self.lanes_extreme(op == Max, s)?;
                return Ok(Val { text: format!("{f}({}, {})", bare(&a), bare(&b)), lanes: true });
            }
            _ => symbol(op).ok_or_else(|| no_operator(op, s))?,
        };
        let text = if op.is_comparison() {
            match s {
                // Masks are 0 and -1, so true is the smaller one.
                Scalar::Bool => match op {
                    Eq => format!("(~({a} ^ {b}))"),
                    Ne => format!("({a} ^ {b})"),
                    _ => return Err(fallback()),
                },
                _ => {
                    let mask = self.vector_type(Scalar::I32)?;
                    let text = format!("({a} {c_op} {b})");
                    if s.bits() == 32 {
                        format!("(({mask}){text})")
                    } else {
                        format!("__builtin_convertvector({text}, {mask})")
                    }
                }
            }
        } else if matches!(op, And | Or | Xor) {
            if s.is_float() {
                return Err(no_operator(op, s));
            }
            format!("({a} {c_op} {b})")
        } else if s.is_int() && s.is_signed() {
            let u = self.unsigned_vector(s)?;
            format!("(({t})(({u}){a} {c_op} ({u}){b}))")
        } else if s == Scalar::Bool {
            return Err(no_operator(op, s));
        } else {
            format!("({a} {c_op} {b})")
        };
        Ok(Val { text, lanes: true })
    }

    /// The helper that picks lanes by a mask of the lanes' width.
    pub fn pick(&mut self, s: Scalar) -> Result<String> {
        let v = self.vector_type(s)?;
        let bits = if s == Scalar::Bool { 32 } else { s.bits() };
        let m = self.mask_type(bits)?;
        let name = format!("lathe_pick_{}", short(&v));
        self.helpers.other(
            1,
            format!(
                "static inline {v} {name}({m} mask, {v} a, {v} b) {{\n    \
                 return ({v})((mask & ({m})a) | (~mask & ({m})b));\n}}"
            ),
        );
        Ok(name)
    }

    fn lanes_extreme(&mut self, max: bool, s: Scalar) -> Result<String> {
        let v = self.vector_type(s)?;
        if s == Scalar::Bool {
            return Err(fallback());
        }
        let m = self.mask_type(s.bits())?;
        let pick = self.pick(s)?;
        let (word, op, zero) = if max { ("max", ">", "&") } else { ("min", "<", "|") };
        let name = format!("lathe_{word}_{}", short(&v));
        let text = if s.is_float() {
            format!(
                "static inline {v} {name}({v} a, {v} b) {{\n    \
                 {v} r = {pick}(a {op} b, a, b);\n    \
                 r = {pick}(a == b, ({v})(({m})a {zero} ({m})b), r);\n    \
                 return {pick}((a != a) | (b != b), a + b, r);\n}}"
            )
        } else {
            format!("static inline {v} {name}({v} a, {v} b) {{\n    return {pick}(a {op} b, a, b);\n}}")
        };
        self.helpers.other(2, text);
        Ok(name)
    }

    pub fn lanes_select(&mut self, cond: &Val, s: Scalar, a: &Val, b: &Val) -> Result<Val> {
        let (a, b) = (self.widened(a, s)?.text, self.widened(b, s)?.text);
        let pick = self.pick(s)?;
        let bits = if s == Scalar::Bool { 32 } else { s.bits() };
        let mask = if bits == 32 {
            bare(&cond.text).to_string()
        } else {
            format!("__builtin_convertvector({}, {})", bare(&cond.text), self.mask_type(bits)?)
        };
        Ok(Val { text: format!("{pick}({mask}, {}, {})", bare(&a), bare(&b)), lanes: true })
    }

    pub fn lanes_cast(&mut self, from: Scalar, to: Scalar, v: &Val) -> Result<Val> {
        if from == to {
            return Ok(v.clone());
        }
        if from == Scalar::F16 || to == Scalar::F16 || from.is_float() && to.is_int() {
            return Err(fallback());
        }
        if to == Scalar::Bool {
            return self.lanes_binary(BinOp::Ne, from, v, &Val::scalar("0"), None);
        }
        let text = if from == Scalar::Bool { format!("(-{})", v.text) } else { v.text.clone() };
        let t = self.vector_type(to)?;
        Ok(Val { text: format!("__builtin_convertvector({}, {t})", bare(&text)), lanes: true })
    }

    pub fn lanes_bitcast(&mut self, from: Scalar, to: Scalar, v: &Val) -> Result<Val> {
        if from == Scalar::Bool || to == Scalar::Bool {
            return Err(fallback());
        }
        self.vector_type(from)?;
        let t = self.vector_type(to)?;
        Ok(Val { text: format!("(({t}){})", v.text), lanes: true })
    }

    pub fn lanes_math(&mut self, f: MathFn, s: Scalar, args: &[Val]) -> Result<Val> {
        if !s.is_float() {
            return Err(fallback());
        }
        let v = self.vector_type(s)?;
        let mut texts = Vec::new();
        for a in args {
            texts.push(bare(&self.widened(a, s)?.text).to_string());
        }
        let op = exact_name(f).ok_or_else(fallback)?;
        let name = format!("lathe_{op}_{}", short(&v));
        let (w, elem) = (self.width()?, memory_type(s));
        let suffix = if s == Scalar::F64 { "" } else { "f" };
        let text = if f == MathFn::Fma {
            let lanes = format!(
                "    {elem} x[{w}], y[{w}], z[{w}];\n    \
                 __builtin_memcpy(x, &a, sizeof x);\n    __builtin_memcpy(y, &b, sizeof y);\n    \
                 __builtin_memcpy(z, &c, sizeof z);\n    \
                 for (int l = 0; l < {w}; l++) z[l] = __builtin_fma{suffix}(x[l], y[l], z[l]);\n    \
                 {v} r;\n    __builtin_memcpy(&r, z, sizeof r);\n    return r;\n"
            );
            let letter = if s == Scalar::F64 { "d" } else { "" };
            let kind = if s == Scalar::F64 { "pd" } else { "ps" };
            let intrinsic = match s.bytes() * u64::from(w) {
                64 => Some(("__AVX512F__", 512)),
                32 => Some(("__FMA__", 256)),
                16 => Some(("__FMA__", 128)),
                _ => None,
            };
            match intrinsic {
                Some((macro_name, bits)) => {
                    self.helpers.intrinsics();
                    let prefix = if bits == 128 { "_mm".to_string() } else { format!("_mm{bits}") };
                    let m = format!("__m{bits}{letter}");
                    format!(
                        "static inline {v} {name}({v} a, {v} b, {v} c) {{\n#if defined({macro_name})\n    \
                         return ({v}){prefix}_fmadd_{kind}(({m})a, ({m})b, ({m})c);\n#else\n{lanes}#endif\n}}"
                    )
                }
                None => format!("static inline {v} {name}({v} a, {v} b, {v} c) {{\n{lanes}}}"),
            }
        } else {
            format!(
                "static inline {v} {name}({v} a) {{\n    {elem} x[{w}];\n    __builtin_memcpy(x, &a, sizeof x);\n    \
                 for (int l = 0; l < {w}; l++) x[l] = __builtin_{op}{suffix}(x[l]);\n    \
                 __builtin_memcpy(&a, x, sizeof a);\n    return a;\n}}"
            )
        };
        self.helpers.other(2, text);
        Ok(Val { text: format!("{name}({})", texts.join(", ")), lanes: true })
    }
}

/// `f32x16` of `lathe_f32x16`.
fn short(v: &str) -> &str {
    v.strip_prefix("lathe_").unwrap_or(v)
}
