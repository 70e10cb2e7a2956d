//! Compiled code that is not loaded yet: what can be kept in a file and loaded again.
//!
//! The file form begins with a magic number, the version of this format and that of the ABI, the engine, and what
//! the code depends on besides the tree. If any of these differs from the reader's, the object is rejected,
//! never misread.

use crate::codes;
use lathe_abi::CheckKind;
use lathe_diagnostics::Diagnostic;
use std::time::Duration;

const MAGIC: &[u8; 8] = b"LATHEOBJ";
/// The version of the file form.
const VERSION: u32 = 1;

/// Code of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The engine that made it, which alone loads it.
    pub engine: String,
    /// What the code depends on besides the tree and the options: see [`crate::Engine::fingerprint`].
    pub fingerprint: String,
    /// The name that the entry has in the code.
    pub symbol: String,
    /// The meaning of the numbers that the kernel returns; number 1 is the first.
    pub checks: Vec<CheckKind>,
    pub bytes: Vec<u8>,
    /// Wall-clock time of every stage of the compilation, in order; not kept in files.
    pub times: Vec<(String, Duration)>,
}

impl Object {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Vec::from(*MAGIC);
        number(&mut w, u64::from(VERSION));
        number(&mut w, u64::from(lathe_abi::VERSION));
        text(&mut w, &self.engine);
        text(&mut w, &self.fingerprint);
        text(&mut w, &self.symbol);
        number(&mut w, self.checks.len() as u64);
        for c in &self.checks {
            check(&mut w, c);
        }
        number(&mut w, self.bytes.len() as u64);
        w.extend(&self.bytes);
        w
    }

    /// Reads what [`Object::to_bytes`] wrote.
    ///
    /// # Errors
    /// `E0705` for bytes of another kind, version or ABI, and for cut or overlong ones.
    pub fn from_bytes(bytes: &[u8]) -> Result<Object, Diagnostic> {
        let refuse =
            |why: String| Diagnostic::error(codes::OBJECT, format!("this is not a compiled kernel: {why}"));
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(refuse("it does not have the right header".to_string()));
        };
        let mut r = Reader { rest };
        let cut = || refuse("it is truncated".to_string());
        let version = r.number().ok_or_else(cut)?;
        if version != u64::from(VERSION) {
            return Err(refuse(format!("its format is version {version}, not {VERSION}")));
        }
        let abi = r.number().ok_or_else(cut)?;
        if abi != u64::from(lathe_abi::VERSION) {
            return Err(refuse(format!("its interface is version {abi}, not {}", lathe_abi::VERSION)));
        }
        let object = r.object().ok_or_else(cut)?;
        if r.rest.is_empty() { Ok(object) } else { Err(refuse("something follows it".to_string())) }
    }
}

fn number(w: &mut Vec<u8>, v: u64) {
    w.extend(v.to_le_bytes());
}

fn text(w: &mut Vec<u8>, t: &str) {
    number(w, t.len() as u64);
    w.extend(t.as_bytes());
}

fn check(w: &mut Vec<u8>, c: &CheckKind) {
    let (tag, numbers) = match c {
        CheckKind::Dtype { param } => (0, vec![*param]),
        CheckKind::Rank { param } => (1, vec![*param]),
        CheckKind::Shape { param, dim } => (2, vec![*param, *dim]),
        CheckKind::Overlap { a, b } => (3, vec![*a, *b]),
        CheckKind::Size { param, dim } => (4, vec![*param, *dim]),
        CheckKind::User { code, message } => {
            number(w, 5);
            text(w, code);
            return text(w, message);
        }
        CheckKind::External { name } => {
            number(w, 6);
            return text(w, name);
        }
    };
    number(w, tag);
    numbers.into_iter().for_each(|n| number(w, n as u64));
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(n).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn position(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        let n = self.number()?;
        String::from_utf8(self.take(n)?.to_vec()).ok()
    }

    fn check(&mut self) -> Option<CheckKind> {
        Some(match self.number()? {
            0 => CheckKind::Dtype { param: self.position()? },
            1 => CheckKind::Rank { param: self.position()? },
            2 => CheckKind::Shape { param: self.position()?, dim: self.position()? },
            3 => CheckKind::Overlap { a: self.position()?, b: self.position()? },
            4 => CheckKind::Size { param: self.position()?, dim: self.position()? },
            5 => CheckKind::User { code: self.text()?, message: self.text()? },
            6 => CheckKind::External { name: self.text()? },
            _ => return None,
        })
    }

    fn object(&mut self) -> Option<Object> {
        let (engine, fingerprint, symbol) = (self.text()?, self.text()?, self.text()?);
        let n = self.number()?;
        let mut checks = Vec::new();
        for _ in 0..n {
            checks.push(self.check()?);
        }
        let n = self.number()?;
        let bytes = self.take(n)?.to_vec();
        Some(Object { engine, fingerprint, symbol, checks, bytes, times: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Object {
        Object {
            engine: "llvm".to_string(),
            fingerprint: "LLVM 22 znver5 +avx2".to_string(),
            symbol: "gemm".to_string(),
            checks: vec![
                CheckKind::Dtype { param: 0 },
                CheckKind::Rank { param: 1 },
                CheckKind::Shape { param: 2, dim: 3 },
                CheckKind::Overlap { a: 0, b: 2 },
                CheckKind::Size { param: 1, dim: 0 },
                CheckKind::User { code: "E9".to_string(), message: "größer".to_string() },
                CheckKind::External { name: "ramp".to_string() },
            ],
            bytes: (0..=255).collect(),
            times: Vec::new(),
        }
    }

    #[test]
    fn objects_are_read_as_they_were_written() {
        let o = object();
        assert_eq!(Object::from_bytes(&o.to_bytes()), Ok(o));
    }

    #[test]
    fn other_versions_and_damaged_files_are_refused() {
        let bytes = object().to_bytes();
        for cut in 0..bytes.len() {
            assert_eq!(Object::from_bytes(&bytes[..cut]).unwrap_err().code, codes::OBJECT);
        }
        for at in [0, 8, 16] {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            let refused = Object::from_bytes(&other).unwrap_err();
            assert!(at == 0 || refused.message.contains("version"), "{refused}");
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(Object::from_bytes(&long).is_err());
        // A number of checks, or a length, beyond anything.
        let mut huge = bytes;
        let at = 24 + 8 + 4 + 8 + 20 + 8 + 4;
        huge[at..at + 8].fill(0xff);
        assert!(Object::from_bytes(&huge).is_err());
    }
}
