//! C identifiers for names of the tree.

use std::collections::HashSet;

/// Words that no generated name may be: keywords, what the headers define, and our own locals.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "asm", "typeof", "bool", "true", "false", "NULL", "main", "rt", "args", "env",
    "env_", "begin", "end", "linux", "unix", "i386", "errno", "stdin", "stdout", "stderr", "assert", "lane",
];

/// What the headers of emitted code define as types and macros, beside words of the language.
#[rustfmt::skip]
const DEFINED: &[&str] = &[
    "BIG_ENDIAN", "BYTE_ORDER", "EXIT_FAILURE", "EXIT_SUCCESS", "FD_CLR", "FD_ISSET", "FD_SET", "FD_SETSIZE",
    "FD_ZERO", "LITTLE_ENDIAN", "MB_CUR_MAX", "NFDBITS", "PDP_ENDIAN", "PTRDIFF_MAX", "PTRDIFF_MIN", "RAND_MAX",
    "SIG_ATOMIC_MAX", "SIG_ATOMIC_MIN", "SIZE_MAX", "WCHAR_MAX", "WCHAR_MIN", "WCONTINUED", "WEXITED",
    "WEXITSTATUS", "WIFCONTINUED", "WIFEXITED", "WIFSIGNALED", "WIFSTOPPED", "WINT_MAX", "WINT_MIN", "WNOHANG",
    "WNOWAIT", "WSTOPPED", "WSTOPSIG", "WTERMSIG", "WUNTRACED", "aligned_alloc", "alloca", "be16toh", "be32toh",
    "be64toh", "blkcnt_t", "blksize_t", "caddr_t", "clock_t", "clockid_t", "daddr_t", "dev_t", "div_t", "fd_mask",
    "fd_set", "free", "fsblkcnt_t", "fsfilcnt_t", "fsid_t", "gid_t", "htobe16", "htobe32", "htobe64", "htole16",
    "htole32", "htole64", "id_t", "ino_t", "key_t", "ldiv_t", "le16toh", "le32toh", "le64toh", "lldiv_t", "loff_t",
    "max_align_t", "mode_t", "nlink_t", "off_t", "offsetof", "pid_t", "ptrdiff_t", "quad_t", "register_t",
    "sigset_t", "size_t", "ssize_t", "suseconds_t", "time_t", "timer_t", "u_char", "u_int", "u_int16_t", "u_int32_t",
    "u_int64_t", "u_int8_t", "u_long", "u_quad_t", "u_short", "uid_t", "uint", "ulong", "ushort", "wchar_t",
];

/// How those of `sys/mman.h` begin.
const OF_MEMORY: &[&str] =
    &["MADV_", "MAP_", "MCL_", "MFD_", "MLOCK_", "MREMAP_", "MS_", "PKEY_", "POSIX_MADV_", "PROT_"];

/// The same for integers of given widths: `int8_t`, `uint_fast16_t`, `INT64_C`, `UINTPTR_MAX`, ….
fn is_integer_type(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let Some(rest) = lower.strip_prefix("int").or_else(|| lower.strip_prefix("uint")) else { return false };
    let one = |end: &str, upper: bool| {
        let case = if upper { name.to_ascii_uppercase() } else { lower.clone() };
        let of = |rest: &str| {
            let width = rest.strip_prefix("_fast").or(rest.strip_prefix("_least")).unwrap_or(rest);
            matches!(width, "8" | "16" | "32" | "64" | "max" | "ptr")
        };
        case == name && rest.strip_suffix(end).is_some_and(of)
    };
    one("_t", false) || one("_max", true) || one("_min", true) || one("_c", true)
}

/// Functions of C libraries (those that the headers of glibc 2.36 declare). A kernel of such a name would be called
/// instead of them, by our own code first of all.
const FUNCTIONS: &str = include_str!("c_functions.txt");

/// Words of CUDA C++ and OpenCL C, in which they are keywords, or names of what every kernel sees.
const DEVICE_RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "catch",
    "class",
    "constexpr",
    "delete",
    "explicit",
    "export",
    "false",
    "friend",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "template",
    "this",
    "throw",
    "try",
    "typeid",
    "typename",
    "using",
    "virtual",
    "wchar_t",
    "xor",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "asm",
    "kernel",
    "global",
    "local",
    "constant",
    "half",
    "uchar",
    "ushort",
    "uint",
    "ulong",
    "image2d_t",
    "event_t",
    "sampler_t",
    "size_t",
    "ptrdiff_t",
    "bitand",
    "bitor",
    "compl",
    "read_only",
    "write_only",
    "read_write",
    "decltype",
    "static_assert",
    "INFINITY",
    "NAN",
    "pipe",
    "uniform",
    "atom_add",
    "atom_cmpxchg",
    "atom_xchg",
    "atomicAdd",
    "atomicCAS",
    "atomicExch",
    "atomicMax",
    "atomicMin",
    "atomic_add",
    "atomic_cmpxchg",
    "atomic_max",
    "atomic_min",
    "atomic_xchg",
    "mem_fence",
];

/// Hands out identifiers, each once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// For code of devices, whose languages have more words.
    pub fn of_devices() -> Names {
        Names { taken: DEVICE_RESERVED.iter().map(|w| w.to_string()).collect() }
    }

    /// Never gives the name out again.
    pub fn take(&mut self, name: &str) {
        self.taken.insert(name.to_string());
    }
}

/// The letters of a name that C allows: `i.o` becomes `i_o`, `copy(A)` becomes `copy_A`.
pub fn sanitize(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    let out = out.trim_end_matches('_');
    match out.chars().next() {
        None => "x".to_string(),
        Some('0'..='9' | '_') => format!("x{out}"),
        Some(_) => out.to_string(),
    }
}

impl Names {
    /// An identifier like the name, with a number where that is taken already.
    pub fn fresh(&mut self, name: &str) -> String {
        self.numbered(sanitize(name), false)
    }

    /// As [`Names::fresh`], for what others can link to.
    pub fn fresh_symbol(&mut self, name: &str) -> String {
        let base = sanitize(name);
        let taken = FUNCTIONS.lines().any(|f| f == base);
        self.numbered(base, taken)
    }

    fn numbered(&mut self, base: String, taken: bool) -> String {
        let reserved = taken
            || RESERVED.contains(&base.as_str())
            || DEFINED.contains(&base.as_str())
            || OF_MEMORY.iter().any(|start| base.starts_with(start))
            || is_integer_type(&base)
            || (base.starts_with("pthread_") && base.ends_with("_t"))
            || base.starts_with("lathe_")
            || base.starts_with("LATHE_")
            || base.starts_with("omp_");
        let mut candidate = base.clone();
        let mut n = 1;
        while (n == 1 && reserved) || self.taken.contains(&candidate) {
            n += 1;
            candidate = format!("{base}_{n}");
        }
        self.taken.insert(candidate.clone());
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_c_and_unique() {
        let mut n = Names::default();
        assert_eq!(n.fresh("i.o"), "i_o");
        assert_eq!(n.fresh("i.o"), "i_o_2");
        assert_eq!(n.fresh("for"), "for_2");
        assert_eq!(n.fresh("copy(A)"), "copy_A");
        assert_eq!(n.fresh("3"), "x3");
        assert_eq!(n.fresh("é"), "x");
        assert_eq!(n.fresh("int64_t"), "int64_t_2");
        assert_eq!(n.fresh("h_t"), "h_t");
        assert_eq!(n.fresh("PROT_READ"), "PROT_READ_2");
        // A variable may hide a function that is not used; a kernel would replace it.
        assert_eq!(Names::default().fresh("exp"), "exp");
        assert_eq!((n.fresh_symbol("exp"), n.fresh_symbol("gemm")), ("exp_2".into(), "gemm".into()));
    }

    /// Everything that the headers of emitted code define is known, as this machine has them.
    #[test]
    fn no_name_is_one_of_the_headers() {
        let dir = std::env::temp_dir().join(format!("lathe-names-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("h.c");
        let headers = ["stdint.h", "stddef.h", "stdlib.h"].map(|h| format!("#include <{h}>\n")).concat();
        std::fs::write(&file, headers).unwrap();
        let cc = |args: &[&str]| {
            let out = std::process::Command::new("cc").args(args).arg(&file).output().expect("a C compiler");
            assert!(out.status.success());
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        let macros = cc(&["-std=gnu11", "-E", "-dM"]);
        let macros =
            macros.lines().filter_map(|l| l.split_whitespace().nth(1)?.split('(').next().map(str::to_string));
        // Without what stands in braces: names of members are their own.
        let (mut text, mut depth) = (String::new(), 0);
        for c in cc(&["-std=gnu11", "-E", "-P"]).chars() {
            depth -= i32::from(c == '}');
            if depth == 0 {
                text.push(if c.is_whitespace() { ' ' } else { c });
            }
            depth += i32::from(c == '{');
        }
        let types = text.split(';').filter(|s| s.trim_start().starts_with("typedef"));
        let types = types.filter_map(|s| s.split_whitespace().last().map(str::to_string));
        let mut seen = 0;
        for name in macros.chain(types).filter(|n| sanitize(n) == *n) {
            assert_ne!(Names::default().fresh(&name), name);
            seen += 1;
        }
        assert!(seen > 80, "{seen}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
