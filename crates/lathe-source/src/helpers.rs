//! The small C functions that emitted code may call; only those that are used are written.

use crate::by_reference::by_reference;
use lathe_ir::Scalar;
use std::collections::BTreeSet;

/// Names of helpers in use; each name encodes what it is for (`min_f32`, `floordiv_i64`).
#[derive(Clone, Debug, Default)]
pub struct Helpers {
    used: BTreeSet<(u8, String)>,
}

/// The C type of an element in memory, and of its value. Of `f16` and `bf16` these are the bits.
pub fn memory_type(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool | Scalar::U8 => "uint8_t",
        Scalar::I8 => "int8_t",
        Scalar::I16 => "int16_t",
        Scalar::I32 => "int32_t",
        Scalar::I64 | Scalar::Index => "int64_t",
        Scalar::U16 | Scalar::F16 | Scalar::Bf16 => "uint16_t",
        Scalar::U32 => "uint32_t",
        Scalar::U64 => "uint64_t",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

/// The unsigned C type of the same width.
pub fn unsigned_type(bits: u32) -> &'static str {
    match bits {
        8 | 1 => "uint8_t",
        16 => "uint16_t",
        32 => "uint32_t",
        _ => "uint64_t",
    }
}

/// The integer type `index` as C names it in helpers.
fn short(s: Scalar) -> &'static str {
    if s == Scalar::Index { "i64" } else { s.name() }
}

impl Helpers {
    /// Registers a helper text under its name; `order` puts helpers before those that call them.
    fn need(&mut self, order: u8, text: String) {
        self.used.insert((order, text));
    }

    /// All helpers in use, one per line group, in an order that C accepts.
    pub fn text(&self) -> String {
        self.used.iter().map(|(_, t)| by_reference(t) + "\n").collect()
    }

    /// `min` or `max` of floats: NaN propagates, -0 < +0. CUDA devices have an instruction for it from 8.0 on.
    pub fn float_extreme(&mut self, max: bool, s: Scalar, cuda: bool) -> String {
        let (t, n) = if s == Scalar::F64 { ("double", "f64") } else { ("float", "f32") };
        let (name, op, sign) = if max { ("max", ">", "!") } else { ("min", "<", "") };
        let full = format!("lathe_{name}_{n}");
        let body = format!(
            "return a != a || b != b ? a + b : a {op} b || (a == b && {sign}__builtin_signbit(a)) ? a : b;"
        );
        let body = if cuda && s != Scalar::F64 {
            format!(
                "#if __CUDA_ARCH__ >= 800\n    float m;\n    \
                 asm(\"{name}.NaN.f32 %0, %1, %2;\" : \"=f\"(m) : \"f\"(a), \"f\"(b));\n    return m;\n\
                 #else\n    {body}\n#endif"
            )
        } else {
            format!("    {body}")
        };
        self.need(1, format!("static inline {t} {full}({t} a, {t} b) {{\n{body}\n}}"));
        full
    }

    /// A product that is subtracted: GCC's patterns for alternating sums and differences (since 12) fuse it where there is
    /// a sum of products beside it, in spite of `-ffp-contract=off`.
    pub fn rounded(&mut self) -> &'static str {
        self.need(
            0,
            "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12\n\
             #define lathe_rounded(x) __builtin_assoc_barrier(x)\n\
             #else\n#define lathe_rounded(x) (x)\n#endif"
                .into(),
        );
        "lathe_rounded"
    }

    /// `floordiv` or `floormod` of integers; the divisor is not 0.
    pub fn floor(&mut self, modulo: bool, s: Scalar) -> String {
        let t = memory_type(s);
        let u = unsigned_type(s.bits());
        let name = format!("lathe_{}_{}", if modulo { "floormod" } else { "floordiv" }, short(s));
        let text = match modulo {
            false => format!(
                "static inline {t} {name}({t} a, {t} b) {{\n    \
                 if (b == -1) return ({t})(0 - ({u})a);\n    \
                 {t} q = ({t})(a / b), r = ({t})(a % b);\n    \
                 return ({t})(q - (r != 0 && (r < 0) != (b < 0)));\n}}"
            ),
            true => format!(
                "static inline {t} {name}({t} a, {t} b) {{\n    \
                 if (b == -1) return 0;\n    \
                 {t} r = ({t})(a % b);\n    \
                 return ({t})(r != 0 && (r < 0) != (b < 0) ? r + b : r);\n}}"
            ),
        };
        self.need(1, text);
        name
    }

    /// `tdiv` or `trem` of signed integers; the divisor is not 0, and `MIN / -1` wraps.
    pub fn truncated(&mut self, rem: bool, s: Scalar) -> String {
        let t = memory_type(s);
        let u = unsigned_type(s.bits());
        let name = format!("lathe_{}_{}", if rem { "trem" } else { "tdiv" }, short(s));
        let (special, op) = if rem { ("0".to_string(), "%") } else { (format!("({t})(0 - ({u})a)"), "/") };
        self.need(
            1,
            format!(
                "static inline {t} {name}({t} a, {t} b) {{\n    return b == -1 ? {special} : ({t})(a {op} b);\n}}"
            ),
        );
        name
    }

    /// Float (`f32` or `f64`) to integer, saturating; NaN gives 0.
    pub fn saturate(&mut self, from: Scalar, to: Scalar) -> String {
        let (ft, t) = (memory_type(from), memory_type(to));
        let name = format!("lathe_{}_to_{}", from.name(), short(to));
        let bits = to.bits();
        let (lo, hi, min, max) = if to.is_signed() {
            let edge = 2f64.powi(bits as i32 - 1);
            (format!("-{edge:e}"), format!("{edge:e}"), format!("INT{bits}_MIN"), format!("INT{bits}_MAX"))
        } else {
            let edge = 2f64.powi(bits as i32);
            ("0.0".to_string(), format!("{edge:e}"), "0".to_string(), format!("UINT{bits}_MAX"))
        };
        self.need(
            1,
            format!(
                "static inline {t} {name}({ft} v) {{\n    \
                 return v != v || v <= {lo} ? (v != v ? 0 : {min}) : v >= {hi} ? {max} : ({t})v;\n}}"
            ),
        );
        name
    }

    /// The same bits as another type of equal width.
    pub fn bits(&mut self, from: Scalar, to: Scalar) -> String {
        let (f, t) = (memory_type(from), memory_type(to));
        let name = format!("lathe_bits_{}_{}", short(from), short(to));
        self.need(
            1,
            format!(
                "static inline {t} {name}({f} v) {{\n    union {{ {f} from; {t} to; }} u;\n    u.from = v;\n    return u.to;\n}}"
            ),
        );
        name
    }

    fn float_bits(&mut self) {
        self.bits(Scalar::F32, Scalar::U32);
        self.bits(Scalar::U32, Scalar::F32);
    }

    /// `f16` to `f32`.
    pub fn widened_f16(&mut self) -> &'static str {
        self.float_bits();
        self.need(
            2,
            "static inline float lathe_from_f16(uint16_t h) {\n    \
             /* Put the exponent and fraction in a float's place, and scale by 2^112. */\n    \
             uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;\n    \
             if (rest >= 0x0f800000) return lathe_bits_u32_f32(sign | 0x70000000 | rest);\n    \
             float v = lathe_bits_u32_f32(rest) * 0x1p112f;\n    \
             return lathe_bits_u32_f32(sign | lathe_bits_f32_u32(v));\n}"
                .into(),
        );
        "lathe_from_f16"
    }

    /// `f32` to `f16`, to nearest even.
    pub fn narrowed_f16(&mut self) -> &'static str {
        self.float_bits();
        self.need(
            2,
            "static inline uint16_t lathe_to_f16(float v) {\n    \
             uint32_t b = lathe_bits_f32_u32(v), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;\n    \
             if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);\n    \
             if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);\n    \
             if (a < 0x38800000) {\n        \
             /* Below the normal numbers: adding 0.5 rounds at the last place of the subnormals. */\n        \
             float r = lathe_bits_u32_f32(a) + 0.5f;\n        \
             return (uint16_t)(sign | (lathe_bits_f32_u32(r) - 0x3f000000));\n    \
             }\n    \
             a += 0xc8000fff + (a >> 13 & 1);\n    \
             return (uint16_t)(sign | a >> 13);\n}"
                .into(),
        );
        "lathe_to_f16"
    }

    /// Multiplies a number of bytes by an extent; true on overflow. Negative extents count as 0.
    pub fn scale(&mut self) -> &'static str {
        self.need(
            1,
            "static inline int lathe_scale(uint64_t *bytes, int64_t extent) {\n    \
             return __builtin_mul_overflow(*bytes, (uint64_t)(extent < 0 ? 0 : extent), bytes);\n}"
                .into(),
        );
        "lathe_scale"
    }

    /// Intrinsics of x86 are used under the compiler's feature macros.
    pub fn intrinsics(&mut self) {
        self.need(0, "#if defined(__x86_64__)\n#include <immintrin.h>\n#endif".into());
    }

    /// Adds all helpers of another set.
    pub fn join(&mut self, other: Helpers) {
        self.used.extend(other.used);
    }

    /// Any other text, e.g. the vector types.
    pub fn other(&mut self, order: u8, text: String) {
        self.need(order, text);
    }
}
