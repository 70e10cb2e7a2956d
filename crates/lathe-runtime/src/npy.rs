//! `.npy` files (NumPy's format, versions 1.0 to 3.0).
//!
//! Both byte orders and both element orders are read; Fortran order is kept as strides. Nothing in
//! a header is trusted: lengths are compared with the file before memory is taken. `bf16` is
//! written as `<V2`, as NumPy with `ml_dtypes` does, and two-byte records without fields are read
//! as `bf16`. `index` is written as `<i8`.

use crate::array::{Array, count};
use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Scalar, Type};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header that is read: NumPy itself stops at 10,000 characters unless told otherwise.
const MAX_HEADER: usize = 1 << 20;

/// What the header of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub scalar: Scalar,
    pub big_endian: bool,
    pub fortran_order: bool,
    pub shape: Vec<i64>,
    /// Offset of the first element in the file.
    pub data: usize,
}

/// Reads a file.
///
/// # Errors
/// `E0803` to `E0806`, `E0801` and `E0802`; the file's name is in the message.
pub fn read(path: &Path) -> Result<Array, Diagnostic> {
    let named = |d: Diagnostic| Diagnostic { message: format!("`{}`: {}", path.display(), d.message), ..d };
    let io = |e: std::io::Error| {
        Diagnostic::error(codes::NPY_READ, format!("`{}` cannot be read: {e}", path.display()))
    };
    let mut file = File::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if !meta.is_file() {
        return Err(Diagnostic::error(
            codes::NPY_READ,
            format!("`{}` is not a regular file", path.display()),
        ));
    }
    let len = meta.len();
    let mut start = vec![0u8; usize::try_from(len).unwrap_or(usize::MAX).min(12)];
    file.read_exact(&mut start).map_err(io)?;
    let end = header_end(&start, len).map_err(named)?;
    start.resize(end, 0);
    let have = (len as usize).min(12);
    file.read_exact(&mut start[have..]).map_err(io)?;
    let header = parse_header(&start, len).map_err(named)?;
    let mut a = allocate(&header, len).map_err(named)?;
    // The first bytes of the data may already have been read with a very short header.
    let early = start[header.data..].to_vec();
    let n = early.len().min(a.bytes().len());
    a.bytes_mut()[..n].copy_from_slice(&early[..n]);
    file.read_exact(&mut a.bytes_mut()[n..]).map_err(io)?;
    Ok(finish(a, &header))
}

/// Reads a file that is in memory.
///
/// # Errors
/// As [`read`], without a name.
pub fn from_bytes(file: &[u8]) -> Result<Array, Diagnostic> {
    let header = parse_header(file, file.len() as u64)?;
    let mut a = allocate(&header, file.len() as u64)?;
    a.bytes_mut().copy_from_slice(&file[header.data..]);
    Ok(finish(a, &header))
}

fn allocate(h: &Header, file_len: u64) -> Result<Array, Diagnostic> {
    let ty = Type::Scalar(h.scalar);
    let need = count(&ty, &h.shape)? as u64 * ty.bytes();
    let have = file_len - h.data as u64;
    if have != need {
        let what = if have < need { "is truncated" } else { "is longer than its header says" };
        return Err(Diagnostic::error(
            codes::NPY_LENGTH,
            format!(
                "the file {what}: {} of shape {:?} is {need} bytes, {have} follow the header",
                h.scalar, h.shape
            ),
        )
        .help("write the file again"));
    }
    Array::zeros(ty, &h.shape)
}

/// Puts the bytes in this machine's order and applies Fortran order.
fn finish(mut a: Array, h: &Header) -> Array {
    let n = h.scalar.bytes() as usize;
    if h.big_endian != cfg!(target_endian = "big") && n > 1 {
        a.bytes_mut().chunks_exact_mut(n).for_each(<[u8]>::reverse);
    }
    if h.scalar == Scalar::Bool {
        a.bytes_mut().iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    if h.fortran_order { a.into_column_major() } else { a }
}

fn malformed(why: impl Into<String>) -> Diagnostic {
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
        2 | 3 => return Err(malformed("it ends within the header's length")),
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
fn header_end(start: &[u8], file_len: u64) -> Result<usize, Diagnostic> {
    Ok(header_range(start, file_len)?.1.max(start.len()))
}

/// Parses the header of a file of `file_len` bytes, of which `file` holds at least the header.
///
/// # Errors
/// `E0804` when it is damaged, `E0805` for element types that no kernel takes.
pub fn parse_header(file: &[u8], file_len: u64) -> Result<Header, Diagnostic> {
    let (start, end) = header_range(file, file_len)?;
    let text = file.get(start..end).ok_or_else(|| malformed("it ends within the header"))?;
    let text = std::str::from_utf8(text).map_err(|_| malformed("the header is not text"))?;
    let mut p = Parser { rest: text };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    p.expect('{')?;
    while !p.eat('}') {
        let key = p.string()?;
        p.expect(':')?;
        let slot_taken = match key {
            "descr" => {
                if p.peek() == Some('[') {
                    return Err(unsupported("records (a structured dtype)"));
                }
                descr.replace(p.string()?).is_some()
            }
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
        return Err(malformed("something follows the header's dictionary"));
    }
    let missing = |k: &str| malformed(format!("the header has no `{k}`"));
    let (scalar, big_endian) = parse_descr(descr.ok_or_else(|| missing("descr"))?)?;
    Ok(Header {
        scalar,
        big_endian,
        fortran_order: fortran.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
        data: end,
    })
}

fn unsupported(what: &str) -> Diagnostic {
    Diagnostic::error(codes::NPY_DTYPE, format!("the file holds {what}, which no kernel takes"))
        .help("save an array of bool, i1…i8, u1…u8, f2, f4 or f8, e.g. with `a.astype('f4')`")
}

/// Element type and whether it is big-endian.
fn parse_descr(descr: &str) -> Result<(Scalar, bool), Diagnostic> {
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
                Some('c') => unsupported("complex numbers"),
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
        let end = body.find(quote).ok_or_else(|| malformed("a string without end"))?;
        self.rest = &body[end + 1..];
        Ok(&body[..end])
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

/// The whole file as bytes in front of the data.
fn header_bytes(a: &Array, fortran: bool) -> Result<Vec<u8>, Diagnostic> {
    let kind = match a.ty().scalar() {
        Some(Scalar::Bool) => "|b1",
        Some(Scalar::I8) => "|i1",
        Some(Scalar::I16) => "<i2",
        Some(Scalar::I32) => "<i4",
        Some(Scalar::I64 | Scalar::Index) => "<i8",
        Some(Scalar::U8) => "|u1",
        Some(Scalar::U16) => "<u2",
        Some(Scalar::U32) => "<u4",
        Some(Scalar::U64) => "<u8",
        Some(Scalar::F16) => "<f2",
        Some(Scalar::Bf16) => "<V2",
        Some(Scalar::F32) => "<f4",
        Some(Scalar::F64) => "<f8",
        None => {
            return Err(Diagnostic::error(
                codes::NPY_DTYPE,
                format!("an array of `{}` cannot be written as .npy, which holds plain scalars here", a.ty()),
            )
            .help("store the components in outputs of their own"));
        }
    };
    let mut shape = String::new();
    for e in a.shape() {
        shape.push_str(&format!("{e}, "));
    }
    let shape = if a.shape().len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let order = if fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({shape}), }}");
    // Version 1.0 counts the header's length in 16 bits; 64 dimensions stay far below.
    let end = (10 + text.len() + 1).next_multiple_of(64);
    let mut out = Vec::with_capacity(end);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&((end - 10) as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.resize(end - 1, b' ');
    out.push(b'\n');
    Ok(out)
}

/// Writes an array into any sink.
///
/// # Errors
/// `E0805` for aggregates, `E0807` when the sink fails.
pub fn write_to(a: &Array, to: &mut impl Write) -> Result<(), Diagnostic> {
    let io =
        |e: std::io::Error| Diagnostic::error(codes::NPY_WRITE, format!("the data cannot be written: {e}"));
    let fortran = !a.is_row_major() && a.is_column_major();
    // Dimensions of extent 1 may have any stride, so memory may be larger than the elements.
    let dense = a.bytes().len() == a.len() * a.ty().bytes() as usize;
    let fortran = fortran && dense;
    to.write_all(&header_bytes(a, fortran)?).map_err(io)?;
    if cfg!(target_endian = "little") && dense && (fortran || a.is_row_major()) {
        return to.write_all(a.bytes()).map_err(io);
    }
    let mut copy = if fortran { a.duplicate()? } else { a.to_row_major()? };
    if cfg!(target_endian = "big") {
        let n = a.ty().bytes() as usize;
        copy.bytes_mut().chunks_exact_mut(n).for_each(<[u8]>::reverse);
    }
    to.write_all(copy.bytes()).map_err(io)
}

/// Writes a file, whole or not at all: the data goes to a temporary file in the same folder, which
/// then takes the name; on failure a file of that name stays as it was.
///
/// # Errors
/// `E0805` for aggregates, `E0807` when the system refuses.
pub fn write(path: &Path, a: &Array) -> Result<(), Diagnostic> {
    let refuse = |why: String| {
        Diagnostic::error(codes::NPY_WRITE, format!("`{}` cannot be written: {why}", path.display()))
            .note("a file of that name, if there was one, is unchanged")
    };
    if path.exists() && !path.is_file() {
        return Err(refuse("it exists and is not a regular file".to_string()));
    }
    // Through a symbolic link, so that the link itself stays.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(meta) = target.metadata()
        && meta.permissions().readonly()
    {
        return Err(refuse("it is read-only".to_string()));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".lathe-").suffix(".npy");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temp = builder.tempfile_in(folder).map_err(|e| refuse(e.to_string()))?;
    {
        let mut out = std::io::BufWriter::new(temp.as_file_mut());
        write_to(a, &mut out).map_err(|d| if d.code == codes::NPY_DTYPE { d } else { refuse(d.message) })?;
        out.flush().map_err(|e| refuse(e.to_string()))?;
    }
    temp.persist(&target).map_err(|e| refuse(e.error.to_string()))?;
    Ok(())
}
