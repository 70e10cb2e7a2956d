//! Element types of buffers and types of expressions.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// A short shared string: names of loops, buffers, fields, labels.
pub type Name = Arc<str>;

/// The scalar types. `Index` is a mathematical integer that is established not to overflow at the
/// call (engines use 64 bits); `I8`…`U64` wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Index,
    F16,
    Bf16,
    F32,
    F64,
}

impl Scalar {
    pub const ALL: [Scalar; 14] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::Index,
        Scalar::F16,
        Scalar::Bf16,
        Scalar::F32,
        Scalar::F64,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::Index => "index",
            Scalar::F16 => "f16",
            Scalar::Bf16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Size in memory, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::Index | Scalar::F64 => 8,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64)
    }

    /// Any integer, `Index` included; not `Bool`.
    pub fn is_int(self) -> bool {
        !self.is_float() && self != Scalar::Bool
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 | Scalar::Index)
    }

    /// Width in bits as a machine value.
    pub fn bits(self) -> u32 {
        if self == Scalar::Bool { 1 } else { self.bytes() as u32 * 8 }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A named struct; laid out in memory like a C struct of the same fields.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StructType {
    pub name: Name,
    pub fields: Vec<(Name, Type)>,
}

/// The type of an expression, and of a buffer's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Scalar(Scalar),
    /// Laid out like a C struct with fields `0`, `1`, ….
    Tuple(Arc<[Type]>),
    Struct(Arc<StructType>),
    /// A small array of fixed length as a value.
    Array(Arc<Type>, u32),
    /// A *packed element type* only; SIMD computation is the `vector` executor.
    Vector(Scalar, u32),
}

impl Type {
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);
    pub const INDEX: Type = Type::Scalar(Scalar::Index);
    pub const I32: Type = Type::Scalar(Scalar::I32);
    pub const I64: Type = Type::Scalar(Scalar::I64);
    pub const F32: Type = Type::Scalar(Scalar::F32);
    pub const F64: Type = Type::Scalar(Scalar::F64);

    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(*s),
            _ => None,
        }
    }

    pub fn is_index(&self) -> bool {
        *self == Type::INDEX
    }

    pub fn is_bool(&self) -> bool {
        *self == Type::BOOL
    }

    pub fn is_float(&self) -> bool {
        self.scalar().is_some_and(Scalar::is_float)
    }

    pub fn is_int(&self) -> bool {
        self.scalar().is_some_and(Scalar::is_int)
    }

    /// `c64` or `c128`: the complex type of these parts; `None` for parts that no complex type has.
    ///
    /// Complex types are structs with the fields `re` and `im`, which every module has without declaring them. So layout,
    /// engines and steps treat them as structs, and their arithmetic is that of the parts ([`crate::complex`]); sums add
    /// them component by component.
    pub fn complex(part: Scalar) -> Option<Type> {
        static COMPLEX: LazyLock<[Type; 2]> = LazyLock::new(|| {
            [("c64", Type::F32), ("c128", Type::F64)].map(|(name, part)| {
                let fields = vec![(Name::from("re"), part.clone()), (Name::from("im"), part)];
                Type::Struct(Arc::new(StructType { name: name.into(), fields }))
            })
        });
        match part {
            Scalar::F32 => Some(COMPLEX[0].clone()),
            Scalar::F64 => Some(COMPLEX[1].clone()),
            _ => None,
        }
    }

    /// The complex type of a name: `c64` or `c128`.
    pub fn complex_named(name: &str) -> Option<Type> {
        match name {
            "c64" => Type::complex(Scalar::F32),
            "c128" => Type::complex(Scalar::F64),
            _ => None,
        }
    }

    /// What element types of generic kernels are: a scalar or complex type, by its name.
    pub fn element_named(name: &str) -> Option<Type> {
        Scalar::from_name(name).map(Type::from).or_else(|| Type::complex_named(name))
    }

    /// What the parts of a complex type are; `None` for all others, structs that only have its name included.
    pub fn complex_part(&self) -> Option<Scalar> {
        let Type::Struct(s) = self else { return None };
        let [(re, a), (im, b)] = s.fields.as_slice() else { return None };
        let part = match &*s.name {
            "c64" => Type::F32,
            "c128" => Type::F64,
            _ => return None,
        };
        (&**re == "re" && &**im == "im" && *a == part && *b == part).then(|| part.scalar()).flatten()
    }

    /// What `sum` adds and `prod` multiplies: integers, floats and complex numbers.
    pub fn is_numeric(&self) -> bool {
        self.is_int() || self.is_float() || self.complex_part().is_some()
    }

    /// Component types of an aggregate, in order; empty for a scalar.
    pub fn fields(&self) -> Vec<Type> {
        match self {
            Type::Scalar(_) => Vec::new(),
            Type::Tuple(ts) => ts.to_vec(),
            Type::Struct(s) => s.fields.iter().map(|f| f.1.clone()).collect(),
            Type::Array(t, n) => vec![(**t).clone(); *n as usize],
            Type::Vector(s, n) => vec![Type::Scalar(*s); *n as usize],
        }
    }

    /// Alignment in bytes, as a C compiler for x86-64 would choose it.
    pub fn align(&self) -> u64 {
        self.extent().1
    }

    /// Size in bytes, trailing padding included.
    pub fn bytes(&self) -> u64 {
        self.extent().0
    }

    /// Size and alignment in one walk: a level that asked twice for the one below would double the work per level.
    fn extent(&self) -> (u64, u64) {
        match self {
            Type::Scalar(s) => (s.bytes(), s.bytes()),
            Type::Vector(s, n) => {
                let all = (s.bytes() * u64::from(*n)).next_power_of_two();
                (all, all)
            }
            Type::Array(t, n) => {
                let (bytes, align) = t.extent();
                (bytes * u64::from(*n), align)
            }
            Type::Tuple(_) | Type::Struct(_) => {
                let (mut end, mut align) = (0u64, 1u64);
                for (bytes, a) in self.fields().iter().map(Type::extent) {
                    end = end.next_multiple_of(a.max(1)) + bytes;
                    align = align.max(a);
                }
                (end.next_multiple_of(align), align)
            }
        }
    }

    /// Byte offset of each component.
    pub fn offsets(&self) -> Vec<u64> {
        let mut at = 0u64;
        self.fields()
            .iter()
            .map(|t| {
                let (bytes, align) = t.extent();
                let here = at.next_multiple_of(align.max(1));
                at = here + bytes;
                here
            })
            .collect()
    }

    /// The scalars of the type, depth first: the columns that an engine keeps in registers.
    pub fn leaves(&self) -> Vec<Scalar> {
        match self {
            Type::Scalar(s) => vec![*s],
            _ => self.fields().iter().flat_map(Type::leaves).collect(),
        }
    }
}

impl From<Scalar> for Type {
    fn from(s: Scalar) -> Type {
        Type::Scalar(s)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(s) => write!(f, "{s}"),
            Type::Struct(s) => write!(f, "{}", s.name),
            Type::Array(t, n) => write!(f, "array<{t}, {n}>"),
            Type::Vector(s, n) => write!(f, "vector<{s}, {n}>"),
            Type::Tuple(ts) => {
                write!(f, "(")?;
                for (i, t) in ts.iter().enumerate() {
                    write!(f, "{}{t}", if i > 0 { ", " } else { "" })?;
                }
                write!(f, "{})", if ts.len() == 1 { "," } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_laid_out_like_c() {
        let t = Type::Tuple(Arc::from(vec![Scalar::I8.into(), Type::F64, Scalar::I16.into()]));
        assert_eq!(t.offsets(), vec![0, 8, 16]);
        assert_eq!((t.bytes(), t.align()), (24, 8));
    }
}
