//! Parsing numbers: exactly what was printed, to the bit.

use super::parse::{Parsed, Parser};
use crate::codes;
use crate::expr::{Expr, ExprKind, F64Bits};
use crate::types::{Scalar, Type};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_syntax::Tok;

impl Parser<'_> {
    /// A number with its sign and type.
    pub(super) fn literal(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let negative = self.take("-");
        match self.peek() {
            Tok::Int(text) => {
                self.advance();
                let ty = self.ascription()?.unwrap_or(Type::INDEX);
                let span = self.since(start);
                if let Some(s) = ty.scalar().filter(|s| s.is_float()) {
                    let what = format!("a float has a point or an exponent: `{text}.0:{s}`");
                    return self.wrong(codes::BAD_NUMBER, span, what);
                }
                let magnitude = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse::<u64>(),
                };
                let wide = magnitude.map_or(i128::MAX, i128::from) * if negative { -1 } else { 1 };
                let unsigned = ty.scalar() == Some(Scalar::U64);
                let v = wide as i64;
                // Narrower types are the verifier's business: this is about what the tree can hold.
                let fits = if unsigned { u64::try_from(wide).is_ok() } else { i128::from(v) == wide };
                if !fits {
                    let sign = if negative { "-" } else { "" };
                    let what = format!("{sign}{text} does not fit 64 bits");
                    return self.wrong(codes::BAD_NUMBER, span, what);
                }
                self.make(span, ExprKind::Int(v), ty)
            }
            Tok::Float(text) => {
                self.advance();
                let ty = self.float_type(start)?;
                let v = read_float(text, ty.scalar());
                let v = if negative { -v } else { v };
                if v.is_infinite() {
                    let what = format!("{text} is too large for {ty}; infinity is `inf:{ty}`");
                    return self.wrong(codes::BAD_NUMBER, self.since(start), what);
                }
                self.make(self.since(start), ExprKind::Float(v.into()), ty)
            }
            Tok::Word("inf") => {
                self.advance();
                let ty = self.float_type(start)?;
                let v = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
                self.make(self.since(start), ExprKind::Float(v.into()), ty)
            }
            Tok::Word("nan") => {
                self.advance();
                let mut bits = f64::NAN.to_bits();
                if self.take("(") {
                    bits = self.nan_bits()?;
                    self.expect(")")?;
                }
                if negative {
                    bits |= 1 << 63;
                }
                let ty = self.float_type(start)?;
                self.make(self.since(start), ExprKind::Float(F64Bits(bits)), ty)
            }
            _ => self.expected("a number"),
        }
    }

    fn nan_bits(&mut self) -> Parsed<u64> {
        let bits = match self.peek() {
            Tok::Int(t) => t.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()),
            _ => None,
        };
        match bits.filter(|b| f64::from_bits(*b).is_nan()) {
            Some(b) => {
                self.advance();
                Ok(b)
            }
            None => self.expected("the bits of a NaN, as in `nan(0x7ff8000000000001)`"),
        }
    }

    fn float_type(&mut self, start: Span) -> Parsed<Type> {
        if !self.is(":") {
            let d = Diagnostic::error(codes::BAD_NUMBER, "a float needs a type");
            return Err(d.at(self.since(start), "here").help("write `0.5:f32`, `0.5:f64`, …"));
        }
        self.joined();
        self.advance();
        let at = self.span();
        match self.ty()? {
            t if t.is_float() => Ok(t),
            t => self.wrong(codes::BAD_NUMBER, at, format!("{t} is not a float type")),
        }
    }
}

/// Reads a float in the precision of its type, so that nothing is rounded twice.
fn read_float(text: &str, ty: Option<Scalar>) -> f64 {
    let wide = text.parse::<f64>().unwrap_or(f64::NAN);
    match ty {
        Some(Scalar::F32) => f64::from(text.parse::<f32>().unwrap_or(f32::NAN)),
        Some(Scalar::F16) => half::f16::from_f64(wide).to_f64(),
        Some(Scalar::Bf16) => half::bf16::from_f64(wide).to_f64(),
        _ => wide,
    }
}
