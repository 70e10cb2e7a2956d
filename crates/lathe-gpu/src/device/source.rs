//! What kernels a source in CUDA C or OpenCL C has, read from its words: enough to find a name and to count arguments.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_source::device::Language;

/// A word, a number, a string, or a character of a source, and what stands before it: blanks, comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub before: &'a str,
    pub text: &'a str,
}

impl Token<'_> {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }
}

/// The tokens of a source. A line of the preprocessor is one token.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        at = blanks(source, at);
        let begin = at;
        if at >= bytes.len() {
            out.push(Token { before: &source[start..], text: "" });
            break;
        }
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        match bytes[at] {
            b'#' if source[..at].rsplit('\n').next().is_none_or(|l| l.trim().is_empty()) => {
                // To the end of the line, and of lines that it continues on.
                while at < bytes.len() && (bytes[at] != b'\n' || bytes[at - 1] == b'\\') {
                    at += 1;
                }
            }
            q @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != q && bytes[at] != b'\n' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
            }
            b if word(b) => {
                let number = b.is_ascii_digit();
                while at < bytes.len() && (word(bytes[at]) || number && bytes[at] == b'.') {
                    at += 1;
                }
            }
            _ => at += source[at..].chars().next().map_or(1, char::len_utf8),
        }
        while !source.is_char_boundary(at) {
            at += 1;
        }
        out.push(Token { before: &source[start..begin], text: &source[begin..at] });
    }
    out
}

/// Behind blanks and comments.
fn blanks(source: &str, mut at: usize) -> usize {
    loop {
        let rest = &source[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find('\n').unwrap_or(trimmed.len());
        } else if trimmed.starts_with("/*") {
            at += trimmed.find("*/").map_or(trimmed.len(), |n| n + 2);
        } else {
            return at;
        }
    }
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// A pointer to elements in memory of the device.
    pub pointer: bool,
    /// A pointer to memory of the block, which the launch gives a size.
    pub local: bool,
    /// Bytes of a scalar whose type is known.
    pub bytes: Option<usize>,
    /// The words of a scalar's type, without those that say only where it lies: `unsigned int`.
    pub ty: String,
}

/// A kernel of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub parameters: Vec<Parameter>,
}

/// The kernels that a source defines, in order.
pub fn kernels(source: &str, language: Language) -> Vec<Found> {
    let all = tokens(source);
    let marks: &[&str] = match language {
        Language::Cuda => &["__global__"],
        Language::OpenCl => &["__kernel", "kernel"],
    };
    let mut out: Vec<Found> = Vec::new();
    for (n, _) in all.iter().enumerate().filter(|(_, t)| marks.contains(&t.text)) {
        if let Some(found) = definition(&all[n + 1..])
            && !out.iter().any(|f| f.name == found.name)
        {
            out.push(found);
        }
    }
    out
}

/// The end of what an opening bracket at the beginning opens.
pub(super) fn closing(all: &[Token]) -> Option<usize> {
    let mut depth = 0;
    for (n, t) in all.iter().enumerate() {
        match t.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(n);
        }
    }
    None
}

/// A definition behind the word that says that it is a kernel: attributes, `void`, its name, parameters and a body.
fn definition(all: &[Token]) -> Option<Found> {
    let mut n = 0;
    while n + 1 < all.len() && n < 64 {
        let (word, next) = (&all[n], &all[n + 1]);
        if word.is_word() && next.text == "(" {
            let end = n + 1 + closing(&all[n + 1..])?;
            let attribute = word.text.starts_with("__") && all.get(end + 1)?.text != "{";
            if attribute {
                n = end + 1;
                continue;
            }
            let body = all.get(end + 1)?.text == "{";
            let parameters = parameters(&all[n + 2..end]);
            return body.then(|| Found { name: word.text.to_string(), parameters });
        }
        if !word.is_word() {
            return None;
        }
        n += 1;
    }
    None
}

fn parameters(all: &[Token]) -> Vec<Parameter> {
    let (mut out, mut depth, mut one) = (Vec::new(), 0, Vec::new());
    for t in all {
        match t.text {
            "(" | "[" | "<" => depth += 1,
            ")" | "]" | ">" => depth -= 1,
            "," if depth == 0 => {
                out.extend(parameter(&one));
                one.clear();
                continue;
            }
            _ => {}
        }
        one.push(t.text);
    }
    out.extend(parameter(&one));
    out
}

fn parameter(words: &[&str]) -> Option<Parameter> {
    let is_word = |w: &&&str| w.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let name = words.iter().rfind(is_word)?;
    if words == ["void"] {
        return None;
    }
    let pointer = words.contains(&"*") || words.contains(&"[");
    let local = words.contains(&"__local") || words.contains(&"local");
    let ignored =
        ["const", "volatile", "restrict", "__restrict__", "__private", "private", "__grid_constant__"];
    let ty: Vec<&str> =
        words.iter().take_while(|w| *w != name).copied().filter(|w| !ignored.contains(w)).collect();
    Some(Parameter {
        name: (*name).to_string(),
        pointer,
        local,
        bytes: if pointer { None } else { bytes_of(&ty) },
        ty: if pointer { String::new() } else { ty.join(" ") },
    })
}

/// The size of a type that both languages have, by its words.
fn bytes_of(ty: &[&str]) -> Option<usize> {
    let (signs, rest): (Vec<&str>, Vec<&str>) = ty.iter().partition(|w| ["unsigned", "signed"].contains(w));
    let of = |word: &str| match word {
        "bool" | "char" | "uchar" | "int8_t" | "uint8_t" => Some(1),
        "short" | "ushort" | "half" | "int16_t" | "uint16_t" => Some(2),
        "int" | "uint" | "float" | "int32_t" | "uint32_t" => Some(4),
        "long" | "ulong" | "double" | "size_t" | "int64_t" | "uint64_t" | "longlong" | "ulonglong" => Some(8),
        _ => None,
    };
    match rest.as_slice() {
        [] if !signs.is_empty() => Some(4),
        ["long", "long"] | ["long", "long", "int"] | ["long", "int"] => Some(8),
        ["short", "int"] => Some(2),
        [one] => of(one).or_else(|| {
            let split = one.len().checked_sub(1)?;
            let count: usize = one.get(split..)?.parse().ok()?;
            [2, 4].contains(&count).then(|| of(&one[..split]).map(|b| b * count))?
        }),
        _ => None,
    }
}

/// The kernel of a name, or the only one.
///
/// # Errors
/// `E0848` where there is none, or several and no name.
pub fn find(source: &str, language: Language, name: Option<&str>) -> Result<Found, Diagnostic> {
    let mut all = kernels(source, language);
    let names: Vec<String> = all.iter().map(|f| format!("`{}`", f.name)).collect();
    let names = if names.is_empty() { "no kernel".to_string() } else { names.join(", ") };
    let refuse =
        |text: String| Err(Diagnostic::error(codes::KERNEL_NAME, text).note(format!("it has {names}")));
    match name {
        Some(name) => match all.iter().position(|f| f.name == name) {
            Some(n) => Ok(all.swap_remove(n)),
            None => refuse(format!("the source has no kernel `{name}`")),
        },
        None if all.len() == 1 => Ok(all.swap_remove(0)),
        None => refuse(format!("the source has {} kernels, and no name was given", all.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_source() {
        let text = "#define A \\\n 1\nf(/* a ( */ \"b\\\" (\", 'c') // d\n = 1.5f;é ";
        let all = tokens(text);
        assert_eq!(all.iter().map(|t| format!("{}{}", t.before, t.text)).collect::<String>(), text);
        assert!(all.iter().any(|t| t.text == "1.5f") && all[0].text.starts_with("#define"));
        tokens("\"\\");
        tokens("/*");
    }

    #[test]
    fn kernels_are_found_by_their_names() {
        let cuda = "// __global__ void no() {}\nextern \"C\" __global__ void __launch_bounds__(256, 2) f(float *__restrict__ y, \
                    const float *x, unsigned n, unsigned long long m, float4 v, my t) { g<<<1>>>(); }\n\
                    __global__ void later(int *p);\n__device__ float h(float x) { return x; }";
        let f = find(cuda, Language::Cuda, None).expect("one kernel");
        let bytes: Vec<_> = f.parameters.iter().map(|p| (p.name.as_str(), p.pointer, p.bytes)).collect();
        assert_eq!(f.name, "f");
        let (n, m) = (("n", false, Some(4)), ("m", false, Some(8)));
        assert_eq!(
            bytes,
            [("y", true, None), ("x", true, None), n, m, ("v", false, Some(16)), ("t", false, None)]
        );
        let cl = "__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void a(__global int *p, __local float *s) {}\n\
                  kernel void b(void) {}";
        assert_eq!(find(cl, Language::OpenCl, None).unwrap_err().code, codes::KERNEL_NAME);
        let a = find(cl, Language::OpenCl, Some("a")).expect("the first");
        assert!(a.parameters[1].local && !a.parameters[0].local);
        assert!(find(cl, Language::OpenCl, Some("b")).expect("the second").parameters.is_empty());
        assert_eq!(find(cl, Language::OpenCl, Some("c")).unwrap_err().code, codes::KERNEL_NAME);
        assert_eq!(find("", Language::Cuda, None).unwrap_err().code, codes::KERNEL_NAME);
    }
}
