//! `.npy` files (NumPy's format, versions 1.0 to 3.0).
//!
//! Both byte orders and both element orders are read; Fortran order is kept as strides. Nothing in
//! a header is trusted: lengths are compared with the file before memory is taken. `bf16` is
//! written as `<V2`, as NumPy with `ml_dtypes` does, and two-byte records without fields are read
//! as `bf16`. `index` is written as `<i8`. Structs are structured dtypes with the same fields, however
//! these are laid out in the file; tuples have the fields `f0`, `f1`, ….

mod header;

use crate::array::{Array, count};
use crate::codes;
pub use header::{Elem, Header, Leaf, parse_header};
use header::{MAGIC, descr, header_end, malformed};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::leaf_offsets;
use lathe_ir::{Scalar, Type};
use lathe_system::files;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// Reads a file.
///
/// # Errors
/// `E0803` to `E0806`, `E0801` and `E0802`; the file's name is in the message.
pub fn read(path: &Path) -> Result<Array, Diagnostic> {
    let named = |d: Diagnostic| Diagnostic { message: format!("`{}`: {}", path.display(), d.message), ..d };
    let io = |e: std::io::Error| {
        Diagnostic::error(codes::NPY_READ, format!("`{}` cannot be read: {e}", path.display()))
    };
    let mut file = files::open(path).map_err(io)?;
    let meta = file.metadata().map_err(io)?;
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
    let mut data = BufReader::new(start[header.data..].chain(file));
    fill(&mut a, &header, &mut data).map_err(io)?;
    Ok(if header.fortran_order { a.into_column_major() } else { a })
}

/// Reads a file that is in memory.
///
/// # Errors
/// As [`read`], without a name.
pub fn from_bytes(file: &[u8]) -> Result<Array, Diagnostic> {
    let header = parse_header(file, file.len() as u64)?;
    let mut a = allocate(&header, file.len() as u64)?;
    // The file's length was compared with what is read.
    fill(&mut a, &header, &mut &file[header.data..]).map_err(|e| malformed(e.to_string()))?;
    Ok(if header.fortran_order { a.into_column_major() } else { a })
}

/// An array for the elements that follow a header.
fn allocate(h: &Header, file_len: u64) -> Result<Array, Diagnostic> {
    let a = count(&h.elem.ty, &h.shape)?;
    let need = (a as u64).saturating_mul(h.elem.bytes as u64);
    let have = file_len - h.data as u64;
    if have != need {
        let what = if have < need { "is truncated" } else { "is longer than its header says" };
        return Err(Diagnostic::error(
            codes::NPY_LENGTH,
            format!(
                "the file {what}: {} of shape {:?} needs {need} bytes, but {have} follow the header",
                h.elem.ty, h.shape
            ),
        )
        .help("write the file again"));
    }
    Array::zeros(h.elem.ty.clone(), &h.shape)
}

/// Reads the elements, whose number is known to be right.
fn fill(a: &mut Array, h: &Header, from: &mut impl Read) -> std::io::Result<()> {
    let as_is = matches!(h.elem.ty, Type::Scalar(_));
    if as_is {
        from.read_exact(a.bytes_mut())?;
    } else {
        // Records of a file have no holes, or others than ours.
        let places = leaf_offsets(&h.elem.ty);
        let bytes = h.elem.ty.bytes() as usize;
        let mut record = vec![0u8; h.elem.bytes];
        for cell in a.bytes_mut().chunks_exact_mut(bytes) {
            from.read_exact(&mut record)?;
            for (leaf, (scalar, offset)) in h.elem.leaves.iter().zip(&places) {
                let n = scalar.bytes() as usize;
                let at = *offset as usize;
                cell[at..at + n].copy_from_slice(&record[leaf.at..leaf.at + n]);
            }
        }
    }
    // In this machine's order, and truth as 0 or 1.
    let places = leaf_offsets(&h.elem.ty);
    let foreign = |l: &Leaf| l.big_endian != cfg!(target_endian = "big") && l.scalar.bytes() > 1;
    if h.elem.leaves.iter().any(|l| foreign(l) || l.scalar == Scalar::Bool) {
        let bytes = h.elem.ty.bytes() as usize;
        for cell in a.bytes_mut().chunks_exact_mut(bytes) {
            for (leaf, (scalar, offset)) in h.elem.leaves.iter().zip(&places) {
                let value = &mut cell[*offset as usize..*offset as usize + scalar.bytes() as usize];
                if foreign(leaf) {
                    value.reverse();
                }
                if *scalar == Scalar::Bool {
                    value[0] = u8::from(value[0] != 0);
                }
            }
        }
    }
    Ok(())
}

/// The whole file as bytes in front of the data.
fn header_bytes(a: &Array, fortran: bool) -> Result<Vec<u8>, Diagnostic> {
    let kind = descr(a.ty()).ok_or_else(|| {
        Diagnostic::error(
            codes::NPY_DTYPE,
            format!(
                "an array of `{}` cannot be written as .npy, which holds scalars and records here",
                a.ty()
            ),
        )
        .help("store the components in outputs of their own")
    })?;
    let mut shape = String::new();
    for e in a.shape() {
        shape.push_str(&format!("{e}, "));
    }
    let shape = if a.shape().len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let order = if fortran { "True" } else { "False" };
    let text = format!("{{'descr': {kind}, 'fortran_order': {order}, 'shape': ({shape}), }}");
    // Version 1.0 counts the header's length in 16 bits; 64 dimensions stay far below, records may not.
    if text.len() > usize::from(u16::MAX) - 64 {
        return Err(Diagnostic::error(
            codes::NPY_DTYPE,
            format!("`{}` has too many fields for .npy", a.ty()),
        ));
    }
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
        let places = leaf_offsets(a.ty());
        for cell in copy.bytes_mut().chunks_exact_mut(a.ty().bytes() as usize) {
            for (scalar, at) in &places {
                cell[*at as usize..(*at + scalar.bytes()) as usize].reverse();
            }
        }
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
