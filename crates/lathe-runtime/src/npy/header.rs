//! What is before the data of a `.npy` file: a dictionary with dtype, order and shape.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Name, Scalar, StructType, Type};
use std::sync::Arc;

pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header that is read: NumPy itself stops at 10,000 characters unless told otherwise.
const MAX_HEADER: usize = 1 << 20;
/// Records nest so deep.
const MAX_DEPTH: usize = 16;

/// What the header of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub elem: Elem,
    pub fortran_order: bool,
    pub shape: Vec<i64>,
    /// Offset of the first element in the file.
    pub data: usize,
}

/// One element of a file: a scalar or a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elem {
    /// As arrays have it; records are laid out again.
    pub ty: Type,
    /// In the file, padding included.
    pub bytes: usize,
    /// One per leaf of the type.
    pub leaves: Vec<Leaf>,
}

/// A scalar of an element of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Offset from the element's first byte.
    pub at: usize,
    pub scalar: Scalar,
    pub big_endian: bool,
}

pub(super) fn malformed(why: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::NPY_HEADER, format!("not a well-formed .npy file: {}", why.into()))
        .help("write the file with `numpy.save`")
}

/// Start and end of the header's text: `(start, end)`.
fn header_range(file: &[u8], file_len: u64) -> Result<(usize, usize), Diagnostic> {
    if file.len() < 10 || &file[..6] != MAGIC {
        return Err(malformed("it does not start with the format's magic bytes"));
    }
    let (start, len) = match file[6] {
        1 => (10, u64::from(u16::from_le_bytes([file[8], file[9]]))),
        2 | 3 if file.len() >= 12 => {
            (12, u64::from(u32::from_le_bytes([file[8], file[9], file[10], file[11]])))
        }
        2 | 3 => return Err(malformed("it ends inside the header's length field")),
        v => return Err(malformed(format!("version {v}.{} is unknown", file[7]))),
    };
    let end = start as u64 + len;
    if end > file_len {
        return Err(malformed(format!("the header's {len} bytes reach beyond the file's end")));
    }
    if len > MAX_HEADER as u64 {
        return Err(malformed(format!("a header of {len} bytes")));
    }
    Ok((start, end as usize))
}

/// How many bytes of the file hold everything up to the end of the header (at least those given).
pub(super) fn header_end(start: &[u8], file_len: u64) -> Result<usize, Diagnostic> {
    Ok(header_range(start, file_len)?.1.max(start.len()))
}

/// Parses the header of a file of `file_len` bytes, of which `file` holds at least the header.
///
/// # Errors
/// `E0804` when it is damaged, `E0805` for element types that no kernel takes.
pub fn parse_header(file: &[u8], file_len: u64) -> Result<Header, Diagnostic> {
    let (start, end) = header_range(file, file_len)?;
    let text = file.get(start..end).ok_or_else(|| malformed("it ends inside the header"))?;
    let text = std::str::from_utf8(text).map_err(|_| malformed("the header is not text"))?;
    let mut p = Parser { rest: text };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    p.expect('{')?;
    while !p.eat('}') {
        let key = p.string()?;
        p.expect(':')?;
        let slot_taken = match key {
            "descr" => descr.replace(p.element(0)?).is_some(),
            "fortran_order" => fortran.replace(p.boolean()?).is_some(),
            "shape" => shape.replace(p.shape()?).is_some(),
            other => return Err(malformed(format!("the header has an unknown key `{}`", shorten(other)))),
        };
        if slot_taken {
            return Err(malformed(format!("the header has `{key}` twice")));
        }
        if !p.eat(',') {
            p.expect('}')?;
            break;
        }
    }
    if !p.rest.trim().is_empty() {
        return Err(malformed("there is trailing text after the header's dictionary"));
    }
    let missing = |k: &str| malformed(format!("the header has no `{k}`"));
    Ok(Header {
        elem: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
        data: end,
    })
}

fn unsupported(what: &str) -> Diagnostic {
    Diagnostic::error(codes::NPY_DTYPE, format!("the file contains {what}, which no kernel accepts")).help(
        "save an array of bool, i1…i8, u1…u8, f2, f4, f8, c8, c16, or records of these, e.g. with `a.astype('f4')`",
    )
}

/// An element that is a complex number: two floats, one after the other.
fn complex(descr: &str) -> Option<Elem> {
    let (order, bytes) = match descr.strip_prefix(['<', '>', '=']) {
        Some(rest) => (&descr[..1], rest.strip_prefix('c')?),
        None => ("=", descr.strip_prefix('c')?),
    };
    let part = match bytes {
        "8" => Scalar::F32,
        "16" => Scalar::F64,
        _ => return None,
    };
    let big_endian = order == ">" || (order == "=" && cfg!(target_endian = "big"));
    let size = part.bytes() as usize;
    let leaves = vec![Leaf { at: 0, scalar: part, big_endian }, Leaf { at: size, scalar: part, big_endian }];
    Some(Elem { ty: Type::complex(part)?, bytes: 2 * size, leaves })
}

/// A scalar of a file: its type and whether it is big-endian.
fn parse_scalar(descr: &str) -> Result<(Scalar, bool), Diagnostic> {
    let (order, kind) = match descr.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &descr[1..]),
        _ => ('=', descr),
    };
    let big = order == '>' || (order == '=' && cfg!(target_endian = "big"));
    let scalar = match kind {
        "b1" | "?" => Scalar::Bool,
        "i1" => Scalar::I8,
        "i2" => Scalar::I16,
        "i4" => Scalar::I32,
        "i8" => Scalar::I64,
        "u1" => Scalar::U8,
        "u2" => Scalar::U16,
        "u4" => Scalar::U32,
        "u8" => Scalar::U64,
        "f2" => Scalar::F16,
        "f4" => Scalar::F32,
        "f8" => Scalar::F64,
        "V2" => Scalar::Bf16,
        k => {
            return Err(match k.chars().next() {
                Some('O') => unsupported("Python objects"),
                Some('V') => unsupported("raw records"),
                Some('S' | 'U' | 'a') => unsupported("text"),
                Some('M' | 'm') => unsupported("dates or durations"),
                Some('c') => unsupported("complex numbers of other parts than f4 and f8"),
                _ => unsupported(&format!("elements of dtype `{}`", shorten(descr))),
            });
        }
    };
    Ok((scalar, big))
}

fn shorten(s: &str) -> String {
    let mut out: String = s.chars().take(24).collect();
    if s.chars().count() > 24 {
        out.push('…');
    }
    out.escape_debug().to_string()
}

/// The few Python literals that a header consists of.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.rest = &self.rest[c.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<(), Diagnostic> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(malformed(format!("`{c}` expected at `{}`", shorten(self.rest))))
        }
    }

    fn string(&mut self) -> Result<&'a str, Diagnostic> {
        let quote = self.peek().filter(|c| matches!(c, '\'' | '"'));
        let Some(quote) = quote else {
            return Err(malformed(format!("a string expected at `{}`", shorten(self.rest))));
        };
        let body = &self.rest[1..];
        let end = body.find(quote).ok_or_else(|| malformed("an unterminated string"))?;
        self.rest = &body[end + 1..];
        Ok(&body[..end])
    }

    /// The text of a dtype, or a list of fields: `[('v', '<f4'), ('', '|V4'), ('i', '<i8')]`, where a field without
    /// a name is padding.
    fn element(&mut self, depth: usize) -> Result<Elem, Diagnostic> {
        if !self.eat('[') {
            let text = self.string()?;
            if let Some(complex) = complex(text) {
                return Ok(complex);
            }
            let (s, big_endian) = parse_scalar(text)?;
            let leaves = vec![Leaf { at: 0, scalar: s, big_endian }];
            return Ok(Elem { ty: s.into(), bytes: s.bytes() as usize, leaves });
        }
        if depth > MAX_DEPTH {
            return Err(unsupported(&format!("records nested more than {MAX_DEPTH} deep")));
        }
        let (mut fields, mut bytes, mut leaves) = (Vec::<(Name, Type)>::new(), 0usize, Vec::new());
        while !self.eat(']') {
            self.expect('(')?;
            if self.peek() == Some('(') {
                return Err(unsupported("records whose fields have titles"));
            }
            let name = self.string()?;
            self.expect(',')?;
            let part = if name.is_empty() { self.padding()? } else { self.element(depth + 1)? };
            if self.eat(',') && self.peek().is_some_and(|c| c == '(' || c.is_ascii_digit()) {
                return Err(unsupported("records with arrays as fields"));
            }
            self.expect(')')?;
            let shifted = part.leaves.into_iter().map(|l| Leaf { at: l.at + bytes, ..l });
            leaves.extend(shifted);
            bytes = bytes
                .checked_add(part.bytes)
                .filter(|b| *b <= MAX_HEADER)
                .ok_or_else(|| unsupported(&format!("records of more than {MAX_HEADER} bytes")))?;
            if !name.is_empty() {
                if fields.iter().any(|f| *f.0 == *name) {
                    return Err(malformed(format!("a record has two fields `{}`", shorten(name))));
                }
                fields.push((name.into(), part.ty));
            }
            if !self.eat(',') {
                self.expect(']')?;
                break;
            }
        }
        if leaves.is_empty() {
            return Err(unsupported("records without fields"));
        }
        let ty = Type::Struct(Arc::new(StructType { name: "record".into(), fields }));
        Ok(Elem { ty, bytes, leaves })
    }

    /// `|V4`: so many bytes that mean nothing.
    fn padding(&mut self) -> Result<Elem, Diagnostic> {
        let text = self.string()?;
        let bytes = text.trim_start_matches(['|', '<', '>', '=']).strip_prefix('V');
        let bytes = bytes.and_then(|n| n.parse().ok()).filter(|n| *n <= MAX_HEADER);
        let bytes = bytes.ok_or_else(|| malformed(format!("a field without a name: `{}`", shorten(text))))?;
        let nothing = Type::Tuple(Arc::from(Vec::new()));
        Ok(Elem { ty: nothing, bytes, leaves: Vec::new() })
    }

    fn boolean(&mut self) -> Result<bool, Diagnostic> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(malformed(format!("`True` or `False` expected at `{}`", shorten(self.rest))))
    }

    fn shape(&mut self) -> Result<Vec<i64>, Diagnostic> {
        self.expect('(')?;
        let mut out = Vec::new();
        while !self.eat(')') {
            self.peek();
            let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let text = &self.rest[..digits];
            let extent = text
                .parse::<i64>()
                .map_err(|_| malformed(format!("an extent expected at `{}`", shorten(self.rest))))?;
            self.rest = &self.rest[digits..];
            // Python 2 wrote long integers with a suffix.
            self.rest = self.rest.strip_prefix('L').unwrap_or(self.rest);
            out.push(extent);
            if out.len() > 64 {
                return Err(malformed("more than 64 dimensions"));
            }
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(out)
    }
}

/// The dtype of a type as NumPy writes it; `None` for what has none.
pub(super) fn descr(ty: &Type) -> Option<String> {
    Some(match ty {
        Type::Scalar(s) => format!("'{}'", kind(*s)),
        _ if let Some(part) = ty.complex_part() => format!("'<c{}'", 2 * part.bytes()),
        Type::Tuple(_) | Type::Struct(_) => {
            let names: Vec<String> = match ty {
                Type::Struct(s) => s.fields.iter().map(|f| f.0.to_string()).collect(),
                _ => (0..ty.fields().len()).map(|n| format!("f{n}")).collect(),
            };
            let (mut out, mut at) = (Vec::new(), 0);
            let pad = |to: u64, at: &mut u64, out: &mut Vec<String>| {
                if to > *at {
                    out.push(format!("('', '|V{}')", to - *at));
                }
                *at = to;
            };
            for ((name, field), offset) in names.iter().zip(ty.fields()).zip(ty.offsets()) {
                pad(offset, &mut at, &mut out);
                out.push(format!("('{name}', {})", descr(&field)?));
                at += field.bytes();
            }
            pad(ty.bytes(), &mut at, &mut out);
            format!("[{}]", out.join(", "))
        }
        Type::Array(..) | Type::Vector(..) => return None,
    })
}

fn kind(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "|b1",
        Scalar::I8 => "|i1",
        Scalar::I16 => "<i2",
        Scalar::I32 => "<i4",
        Scalar::I64 | Scalar::Index => "<i8",
        Scalar::U8 => "|u1",
        Scalar::U16 => "<u2",
        Scalar::U32 => "<u4",
        Scalar::U64 => "<u8",
        Scalar::F16 => "<f2",
        Scalar::Bf16 => "<V2",
        Scalar::F32 => "<f4",
        Scalar::F64 => "<f8",
    }
}
