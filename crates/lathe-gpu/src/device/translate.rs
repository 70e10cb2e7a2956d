//! Simple kernels from CUDA C to OpenCL C and back, word by word; what has no counterpart is refused by its name.
//!
//! What is mapped: qualifiers and the address spaces of parameters, numbers of threads and blocks, barriers and fences,
//! atomics on integers, constructors of vectors, names of math functions (Rasch, section 3.4, whose proof of concept has
//! the same extent).

use super::source::{Token, closing, tokens};
use crate::codes;
use lathe_diagnostics::Diagnostic;

/// Words of CUDA C and of OpenCL C that mean the same where nothing else is said: functions of one argument list.
const SAME: &[(&str, &str)] = &[
    ("sinf", "sin"),
    ("cosf", "cos"),
    ("tanf", "tan"),
    ("asinf", "asin"),
    ("acosf", "acos"),
    ("atanf", "atan"),
    ("atan2f", "atan2"),
    ("sinhf", "sinh"),
    ("coshf", "cosh"),
    ("tanhf", "tanh"),
    ("expf", "exp"),
    ("exp2f", "exp2"),
    ("logf", "log"),
    ("log2f", "log2"),
    ("log10f", "log10"),
    ("sqrtf", "sqrt"),
    ("rsqrtf", "rsqrt"),
    ("cbrtf", "cbrt"),
    ("powf", "pow"),
    ("fabsf", "fabs"),
    ("fminf", "fmin"),
    ("fmaxf", "fmax"),
    ("fmodf", "fmod"),
    ("floorf", "floor"),
    ("ceilf", "ceil"),
    ("roundf", "round"),
    ("truncf", "trunc"),
    ("rintf", "rint"),
    ("fmaf", "fma"),
    ("erff", "erf"),
    ("hypotf", "hypot"),
    ("copysignf", "copysign"),
    ("expm1f", "expm1"),
    ("log1pf", "log1p"),
    ("__expf", "native_exp"),
    ("__logf", "native_log"),
    ("__sinf", "native_sin"),
    ("__cosf", "native_cos"),
    ("__powf", "native_powr"),
    ("__fdividef", "native_divide"),
    ("__popc", "popcount"),
    ("__clz", "clz"),
    ("__float_as_int", "as_int"),
    ("__int_as_float", "as_float"),
    ("__float_as_uint", "as_uint"),
    ("atomicAdd", "atomic_add"),
    ("atomicSub", "atomic_sub"),
    ("atomicMin", "atomic_min"),
    ("atomicMax", "atomic_max"),
    ("atomicAnd", "atomic_and"),
    ("atomicOr", "atomic_or"),
    ("atomicXor", "atomic_xor"),
    ("atomicExch", "atomic_xchg"),
    ("atomicCAS", "atomic_cmpxchg"),
    ("__restrict__", "restrict"),
    ("__threadfence_block", "mem_fence"),
];

/// Words that stand for a number of this launch, in CUDA with a dimension behind.
const NUMBERS: &[(&str, &str)] = &[
    ("threadIdx", "get_local_id"),
    ("blockIdx", "get_group_id"),
    ("blockDim", "get_local_size"),
    ("gridDim", "get_num_groups"),
];

const SCALARS: &[&str] = &[
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "float",
    "double",
    "longlong",
    "ulonglong",
];

/// Words of CUDA C++ without a counterpart.
const NOT_FROM_CUDA: &[&str] = &[
    "template",
    "class",
    "auto",
    "new",
    "delete",
    "namespace",
    "using",
    "typename",
    "reinterpret_cast",
    "static_cast",
    "const_cast",
    "lambda",
    "operator",
    "cooperative_groups",
    "asm",
    "warpSize",
    "tex1Dfetch",
    "tex2D",
    "tex1D",
    "tex3D",
    "cudaTextureObject_t",
    "surf2Dread",
    "__managed__",
    "atomicInc",
    "atomicDec",
    "curandState",
    "printf",
    "assert",
    "__half",
    "half2",
    "__nv_bfloat16",
    "goto",
    "constexpr",
    "nullptr",
    "malloc",
    "free",
    "clock",
    "clock64",
];

/// Words of OpenCL C without a counterpart.
const NOT_FROM_OPENCL: &[&str] = &[
    "image1d_t",
    "image2d_t",
    "image3d_t",
    "sampler_t",
    "pipe",
    "get_work_dim",
    "async_work_group_copy",
    "async_work_group_strided_copy",
    "wait_group_events",
    "prefetch",
    "shuffle",
    "shuffle2",
    "mix",
    "step",
    "smoothstep",
    "select",
    "bitselect",
    "half",
    "printf",
    "get_enqueued_local_size",
    "ndrange_t",
    "clk_event_t",
    "queue_t",
    "reserve_id_t",
    "event_t",
    "goto",
    "generic",
    "__generic",
    "vec_step",
    "mul24",
    "mad24",
    "mul_hi",
    "rotate",
    "hadd",
    "nextafter",
    "remquo",
    "fract",
    "isequal",
    "any",
    "all",
];

const NOT_STARTS_CUDA: &[&str] =
    &["__shfl", "__ballot", "__any", "__all", "__match", "__reduce", "__ldg", "__nanosleep", "wmma"];
const NOT_STARTS_OPENCL: &[&str] = &[
    "vload",
    "vstore",
    "convert_",
    "work_group_",
    "sub_group_",
    "read_image",
    "write_image",
    "get_image",
    "atomic_load",
    "atomic_store",
    "atomic_fetch",
    "atomic_compare",
    "as_uchar",
    "as_char",
    "as_short",
    "as_ushort",
    "as_long",
    "as_ulong",
    "as_double",
    "as_float2",
    "as_float4",
    "as_int2",
    "as_int4",
];

fn refuse(word: &str, to: &str) -> Diagnostic {
    Diagnostic::error(codes::TRANSLATION, format!("`{word}` is not translated to {to}"))
        .help("write the kernel in the language of the device, or without it")
}

/// Whether a word is a type of vectors: its scalar and how many.
fn vector(word: &str) -> Option<(&str, usize)> {
    let digits = word.find(|c: char| c.is_ascii_digit())?;
    let count = word[digits..].parse().ok()?;
    (SCALARS.contains(&&word[..digits]) && [2, 3, 4].contains(&count)).then_some((&word[..digits], count))
}

fn dimension(word: &str) -> Option<usize> {
    ["x", "y", "z"].iter().position(|d| *d == word)
}

/// A kernel in CUDA C as OpenCL C.
///
/// # Errors
/// `E0849` naming what has no counterpart.
pub fn to_opencl(source: &str) -> Result<String, Diagnostic> {
    const TO: &str = "OpenCL C";
    let all = tokens(source);
    let mut out = String::from(
        "typedef char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n\
         typedef uchar uint8_t; typedef ushort uint16_t; typedef uint uint32_t; typedef ulong uint64_t;\n",
    );
    let (mut n, mut kernel, mut depth) = (0, false, 0i32);
    // The closing bracket of the parameters of a kernel.
    let mut parameters = 0;
    while n < all.len() {
        let t = &all[n];
        let at = |k: usize| all.get(n + k).map_or("", |t| t.text);
        if t.text.starts_with('#') {
            if t.text.contains("include") || t.text.contains("__CUDA_ARCH__") {
                return Err(refuse(t.text.trim(), TO));
            }
            push(&mut out, t, t.text);
            n += 1;
            continue;
        }
        if NOT_FROM_CUDA.contains(&t.text) || NOT_STARTS_CUDA.iter().any(|s| t.text.starts_with(s)) {
            return Err(refuse(t.text, TO));
        }
        if t.text == ":" && at(1) == ":" {
            return Err(refuse("::", TO));
        }
        match t.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if t.text == "extern" && at(1) == "\"C\"" {
            if at(2) == "{" {
                return Err(refuse("extern \"C\" {", TO));
            }
            n += 2;
            continue;
        }
        if t.text == "extern" && at(1) == "__shared__" {
            return Err(refuse("extern __shared__", TO));
        }
        if let Some((_, theirs)) = NUMBERS.iter().find(|w| w.0 == t.text) {
            let d = if at(1) == "." { dimension(at(2)) } else { None };
            let Some(d) = d else { return Err(refuse(t.text, TO)) };
            push(&mut out, t, &format!("((uint){theirs}({d}))"));
            n += 3;
            continue;
        }
        let text = match t.text {
            "__global__" => {
                kernel = true;
                "__kernel"
            }
            "__shared__" => "__local",
            "__constant__" => return Err(refuse("__constant__", TO)),
            "__device__" | "__forceinline__" | "__noinline__" | "__host__" => "",
            "inline" | "static" if depth == 0 => "",
            "__launch_bounds__" => {
                n += 1 + closing(&all[n + 1..]).ok_or_else(|| refuse("__launch_bounds__", TO))? + 1;
                continue;
            }
            "__syncthreads" if at(1) == "(" && at(2) == ")" => {
                push(&mut out, t, "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)");
                n += 3;
                continue;
            }
            "__threadfence" | "__threadfence_block" if at(1) == "(" && at(2) == ")" => {
                push(&mut out, t, "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)");
                n += 3;
                continue;
            }
            "long" if at(1) == "long" => {
                n += 1;
                "long"
            }
            "(" if kernel && parameters == 0 && n > 0 && all[n - 1].is_word() => {
                parameters = n + closing(&all[n..]).ok_or_else(|| refuse("(", TO))?;
                kernel = false;
                let (list, end) = (&all[n + 1..parameters], &all[parameters]);
                push(&mut out, t, "(");
                push_parameters(&mut out, list)?;
                push(&mut out, end, ")");
                n = parameters + 1;
                parameters = 0;
                continue;
            }
            word if word.starts_with("make_") => {
                let ty = &word["make_".len()..];
                if vector(ty).is_none() {
                    return Err(refuse(word, TO));
                }
                push(&mut out, t, &format!("({ty})"));
                n += 1;
                continue;
            }
            // Pointers in functions would need to say where they point.
            "*" if is_declarator(&all, n) => {
                return Err(refuse(&format!("pointer `{}`", at(1)), TO));
            }
            word => match SAME.iter().find(|w| w.0 == word) {
                Some(same) => same.1,
                None => word,
            },
        };
        push(&mut out, t, text);
        n += 1;
    }
    Ok(out)
}

/// Whether a `*` is part of the declaration of a pointer: behind a type, before a name.
fn is_declarator(all: &[Token], n: usize) -> bool {
    let types = [
        "void", "bool", "unsigned", "size_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t",
        "uint16_t", "uint32_t", "uint64_t",
    ];
    let before = n.checked_sub(1).map_or("", |k| all[k].text);
    let named = all.get(n + 1).is_some_and(Token::is_word);
    named && (types.contains(&before) || SCALARS.contains(&before) || vector(before).is_some())
}

/// Parameters of a kernel: pointers are to global memory.
fn push_parameters(out: &mut String, list: &[Token]) -> Result<(), Diagnostic> {
    for (k, one) in list.split(|t| t.text == ",").enumerate() {
        if k > 0 {
            out.push(',');
        }
        if one.iter().any(|t| t.text == "&" || t.text == "<") {
            return Err(refuse("&", "OpenCL C"));
        }
        if one.iter().filter(|t| t.text == "*").count() > 1 {
            return Err(refuse("**", "OpenCL C"));
        }
        let pointer = one.iter().any(|t| t.text == "*" || t.text == "[");
        if pointer {
            out.push_str(" __global ");
        }
        let mut skip = false;
        for (n, t) in one.iter().enumerate() {
            if std::mem::take(&mut skip) {
                continue;
            }
            let next = one.get(n + 1).map_or("", |t| t.text);
            let text = match t.text {
                "long" if next == "long" => {
                    skip = true;
                    "long"
                }
                "bool" => "uchar",
                "size_t" => "ulong",
                word => SAME.iter().find(|w| w.0 == word).map_or(word, |w| w.1),
            };
            push(out, t, text);
        }
    }
    Ok(())
}

fn push(out: &mut String, t: &Token, text: &str) {
    out.push_str(t.before);
    // What replaces one word must not run into its neighbours.
    out.push_str(text);
}

/// A kernel in OpenCL C as CUDA C.
///
/// # Errors
/// `E0849` naming what has no counterpart.
pub fn to_cuda(source: &str) -> Result<String, Diagnostic> {
    const TO: &str = "CUDA C";
    let all = tokens(source);
    let mut out = String::from(
        "typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;\n",
    );
    let (mut n, mut depth, mut brackets) = (0, 0i32, 0i32);
    while n < all.len() {
        let t = &all[n];
        let at = |k: usize| all.get(n + k).map_or("", |t| t.text);
        if t.text.starts_with('#') {
            if t.text.contains("include") {
                return Err(refuse(t.text.trim(), TO));
            }
            let pragma = t.text.contains("pragma") && t.text.contains("OPENCL");
            push(&mut out, t, if pragma { "" } else { t.text });
            n += 1;
            continue;
        }
        if NOT_FROM_OPENCL.contains(&t.text) || NOT_STARTS_OPENCL.iter().any(|s| t.text.starts_with(s)) {
            return Err(refuse(t.text, TO));
        }
        match t.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            "(" => brackets += 1,
            ")" => brackets -= 1,
            _ => {}
        }
        // Parts of vectors by number or in groups.
        let part = |w: &str| {
            let group = w.len() > 1 && w.chars().all(|c| "xyzw".contains(c));
            let numbered = w.starts_with('s') && w.len() > 1 && w[1..].chars().all(|c| c.is_ascii_hexdigit());
            group || numbered || ["lo", "hi", "even", "odd"].contains(&w)
        };
        if t.text == "." && part(at(1)) {
            return Err(refuse(&format!(".{}", at(1)), TO));
        }
        if let Some(number) = numbers_of_opencl(t.text) {
            let d = if at(1) == "(" && at(3) == ")" {
                at(2).parse::<usize>().ok().filter(|d| *d < 3)
            } else {
                None
            };
            let Some(d) = d else { return Err(refuse(t.text, TO)) };
            push(&mut out, t, &number.replace('?', ["x", "y", "z"][d]));
            n += 4;
            continue;
        }
        let text = match t.text {
            "__kernel" | "kernel" => "extern \"C\" __global__",
            "__global" | "global" | "__private" | "private" => "",
            "__local" | "local" if depth == 0 && brackets > 0 => {
                return Err(refuse(&format!("{} parameter", t.text), TO));
            }
            // A pointer to such memory is a pointer.
            "__local" | "local"
                if all[n..]
                    .iter()
                    .take_while(|t| ![";", "[", "="].contains(&t.text))
                    .any(|t| t.text == "*") =>
            {
                ""
            }
            "__local" | "local" => "__shared__",
            "__constant" | "constant" if brackets > 0 => "const",
            "__constant" | "constant" => "__constant__",
            "__attribute__" => {
                n += 1 + closing(&all[n + 1..]).ok_or_else(|| refuse("__attribute__", TO))? + 1;
                continue;
            }
            "barrier" | "work_group_barrier" if at(1) == "(" => {
                push(&mut out, t, "__syncthreads()");
                n += 1 + closing(&all[n + 1..]).ok_or_else(|| refuse("barrier", TO))? + 1;
                continue;
            }
            "mem_fence" | "read_mem_fence" | "write_mem_fence" if at(1) == "(" => {
                push(&mut out, t, "__threadfence()");
                n += 1 + closing(&all[n + 1..]).ok_or_else(|| refuse("mem_fence", TO))? + 1;
                continue;
            }
            "atomic_inc" | "atom_inc" | "atomic_dec" | "atom_dec" if at(1) == "(" => {
                let end = n + 1 + closing(&all[n + 1..]).ok_or_else(|| refuse("atomic_inc", TO))?;
                let f = if t.text.ends_with("inc") { "atomicAdd" } else { "atomicSub" };
                let argument: String =
                    all[n + 2..end].iter().map(|t| format!("{}{}", t.before, t.text)).collect();
                push(&mut out, t, &format!("{f}({}, 1)", to_cuda_part(&argument)?));
                n = end + 1;
                continue;
            }
            "(" if at(2) == ")" && vector(at(1)).is_some() && at(3) == "(" => {
                push(&mut out, t, &format!("make_{}", at(1)));
                n += 3;
                brackets -= 1;
                continue;
            }
            "inline" | "static" if depth == 0 => "",
            word if depth == 0 && brackets == 0 && is_function(&all, n) => {
                // Every function beside kernels runs on the device.
                let kernel = all[..n].iter().rev().take_while(|t| ![";", "}"].contains(&t.text));
                if !kernel.clone().any(|t| ["__kernel", "kernel"].contains(&t.text)) {
                    out.push_str("\n__device__ ");
                }
                word
            }
            "mad" => "fma",
            "atom_add" => "atomicAdd",
            word if word.starts_with("native_") => {
                let plain = &word["native_".len()..];
                match SAME.iter().find(|w| w.1 == word) {
                    Some(same) => same.0,
                    None if ["sqrt", "rsqrt", "exp2", "log2", "log10", "tan"].contains(&plain) => plain,
                    None => return Err(refuse(word, TO)),
                }
            }
            word if word.starts_with("atomic_")
                || ["restrict", "popcount", "clz"].contains(&word)
                || word.starts_with("as_") =>
            {
                SAME.iter().find(|w| w.1 == word).map(|w| w.0).ok_or_else(|| refuse(word, TO))?
            }
            word => word,
        };
        push(&mut out, t, text);
        n += 1;
    }
    Ok(out)
}

/// A part of a kernel: without what stands before files.
fn to_cuda_part(source: &str) -> Result<String, Diagnostic> {
    let whole = to_cuda(source)?;
    Ok(whole.split_once('\n').map_or(whole.clone(), |w| w.1.to_string()))
}

/// The type at the beginning of a function's definition, whose body follows its parameters.
fn is_function(all: &[Token], n: usize) -> bool {
    let begins = n == 0 || [";", "}"].contains(&all[n - 1].text) || all[n - 1].text.starts_with('#');
    let words = all[n..].iter().take_while(|t| t.is_word() || t.text == "*").count();
    let open = n + words;
    begins
        && words >= 2
        && all.get(open).is_some_and(|t| t.text == "(")
        && closing(&all[open..]).is_some_and(|end| all.get(open + end + 1).is_some_and(|t| t.text == "{"))
}

fn numbers_of_opencl(word: &str) -> Option<String> {
    Some(match word {
        "get_global_id" => "((size_t)blockIdx.? * blockDim.? + threadIdx.?)".to_string(),
        "get_global_size" => "((size_t)gridDim.? * blockDim.?)".to_string(),
        "get_global_offset" => "((size_t)0)".to_string(),
        other => {
            let ours = NUMBERS.iter().find(|w| w.1 == other)?.0;
            format!("((size_t){ours}.?)")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> &str {
        text.split_once(";\n").map_or(text, |t| t.1)
    }

    #[test]
    fn what_has_no_counterpart_is_refused_by_its_name() {
        for (cuda, name) in [
            ("template <class T> __global__ void f(T *x) {}", "template"),
            ("__global__ void f(float *x) { x[0] = __shfl_down_sync(~0u, x[0], 1); }", "__shfl_down_sync"),
            ("__global__ void f(float *x) { extern __shared__ float s[]; }", "extern __shared__"),
            ("__global__ void f(float *x) { float *y = x + 1; *y = 0; }", "pointer `y`"),
            ("__global__ void f(float *x) { std::swap(x[0], x[1]); }", "::"),
            ("#include <mma.h>\n__global__ void f(float *x) {}", "#include <mma.h>"),
            ("__global__ void f(const dim &x) {}", "&"),
            ("__global__ void f(int *x) { dim3 d = threadIdx; }", "threadIdx"),
        ] {
            let d = to_opencl(cuda).expect_err(cuda);
            assert!(d.code == codes::TRANSLATION && d.message.contains(name), "{d}");
        }
        for (cl, name) in [
            ("__kernel void f(read_only image2d_t i) {}", "image2d_t"),
            ("__kernel void f(__global float4 *x) { x[0].s3 = 1; }", ".s3"),
            ("__kernel void f(__global float *x) { vstore4(vload4(0, x), 1, x); }", "vstore4"),
            ("__kernel void f(__global float *x, __local float *s) {}", "__local parameter"),
            ("__kernel void f(__global float *x, int d) { x[get_global_id(d)] = 0; }", "get_global_id"),
            ("__kernel void f(__global int *x) { x[0] = convert_int(x[1]); }", "convert_int"),
        ] {
            let d = to_cuda(cl).expect_err(cl);
            assert!(d.code == codes::TRANSLATION && d.message.contains(name), "{d}");
        }
    }

    #[test]
    fn words_are_mapped() {
        let cuda = "extern \"C\" __global__ void __launch_bounds__(64) f(float *__restrict__ y, const long long n) {\n  __shared__ float s[64];\n  \
                    s[threadIdx.x] = expf(y[blockIdx.x * blockDim.x + threadIdx.x]); /* a */ __syncthreads();\n}";
        let want = " __kernel void f( __global float *restrict y, const long n) {\n  __local float s[64];\n  \
                    s[((uint)get_local_id(0))] = exp(y[((uint)get_group_id(0)) * ((uint)get_local_size(0)) + \
                    ((uint)get_local_id(0))]); /* a */ barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n}";
        let squeezed = |t: &str| t.split_whitespace().collect::<Vec<_>>().join(" ");
        let got = to_opencl(cuda).expect("simple");
        assert!(squeezed(&got).ends_with(&squeezed(want)), "{got}");
        let cl = "float g(float x) { return mad(x, 2.0f, 1.0f); }\n__kernel void f(__global int *restrict n, __global float4 *v) {\n  \
                  __local int s[4]; atomic_inc(&n[get_group_id(1)]); barrier(CLK_LOCAL_MEM_FENCE); v[get_local_id(0)] = (float4)(1, 2, 3, 4);\n}";
        let got = to_cuda(cl).expect("simple");
        for part in [
            "__device__ float g",
            "fma(x",
            "extern \"C\" __global__ void f( int *__restrict__ n",
            "__shared__ int s[4]",
            "atomicAdd(&n[((size_t)blockIdx.y)], 1)",
            "__syncthreads();",
            "make_float4(1, 2",
        ] {
            assert!(squeezed(body(&got)).contains(&squeezed(part)), "{part} in {got}");
        }
    }
}
