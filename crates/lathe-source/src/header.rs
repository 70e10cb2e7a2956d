//! The declarations that a caller in C needs, of either engine's code.

use crate::codes;
use crate::names::{Names, sanitize};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Function, ParamKind};

/// The types of the ABI; the guard lets several headers meet in one file.
const ABI: &str = r#"#ifndef LATHE_ABI
#define LATHE_ABI

#include <stdint.h>

/* The version of these declarations; a kernel of another one returns LATHE_OTHER_ABI. */
#define LATHE_ABI_VERSION @VERSION@

/* One array argument; scalars are arrays of rank 0. */
typedef struct {
    void *data;             /* the element with all subscripts 0 */
    const int64_t *shape;   /* rank extents */
    const int64_t *strides; /* rank strides, in elements; may be negative or zero */
    uint32_t dtype;         /* LATHE_BOOL ... LATHE_C128, or LATHE_AGGREGATE */
    uint32_t rank;
    uint64_t elem_bytes;
} lathe_array;

enum {
    LATHE_BOOL = 0, LATHE_I8 = 1, LATHE_I16 = 2, LATHE_I32 = 3, LATHE_I64 = 4, LATHE_U8 = 5, LATHE_U16 = 6,
    LATHE_U32 = 7, LATHE_U64 = 8, LATHE_INDEX = 9, LATHE_F16 = 10, LATHE_BF16 = 11, LATHE_F32 = 12,
    LATHE_F64 = 13, LATHE_C64 = 14, LATHE_C128 = 15, LATHE_AGGREGATE = 255
};

/* What a kernel returns: 0, the 1-based number of a failed check, or one of these. */
enum {
    LATHE_OK = 0, LATHE_OUT_OF_MEMORY = -1, LATHE_DIVISION_BY_ZERO = -2, LATHE_SIZE_OVERFLOW = -3,
    LATHE_STRIDES = -4, LATHE_OTHER_ABI = -5
};

/* Runs the iterations begin..end of a parallel loop. */
typedef int32_t (*lathe_body)(void *env, int64_t begin, int64_t end);

/* What a kernel asks of its surroundings. */
typedef struct lathe_runtime lathe_runtime;

/* A kernel, or an external function that kernels call: an array for each parameter, results in place; 0 is success. */
typedef int32_t (*lathe_function)(const lathe_runtime *rt, const lathe_array *args);

struct lathe_runtime {
    uint64_t version; /* LATHE_ABI_VERSION */
    void *ctx;
    /* Runs body over 0..count, split in any way; returns the first status that is not 0, else 0. */
    int32_t (*parallel_for)(void *ctx, int64_t count, lathe_body body, void *env);
    /* Memory aligned to 64 bytes, or a null pointer. */
    void *(*alloc)(void *ctx, uint64_t bytes);
    void (*free)(void *ctx, void *memory);
    /* Lets an iteration wait a moment for an earlier one, which has begun. 0, or a status that ends the waiting. */
    int32_t (*wait)(void *ctx);
    /* The external functions of the kernel, in the order in which its checks name them; null where it calls none. */
    const lathe_function *externals;
};

#ifdef LATHE_STANDALONE
/* A runtime of its own: OpenMP where the compiler has it, else one thread. */
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _OPENMP
#include <sched.h>
#endif

static inline int32_t lathe_default_parallel_for(void *ctx, int64_t count, lathe_body body, void *env) {
    (void)ctx;
#ifdef _OPENMP
    int32_t status = 0;
    int64_t first = count;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < count; i++) {
        int32_t s = body(env, i, i + 1);
        if (s != 0) {
#pragma omp critical(lathe_status)
            if (i < first) {
                first = i;
                status = s;
            }
        }
    }
    return status;
#else
    return count > 0 ? body(env, 0, count) : 0;
#endif
}

static inline void *lathe_default_alloc(void *ctx, uint64_t bytes) {
    (void)ctx;
    if (bytes > (UINT64_MAX >> 1)) return 0;
#ifdef MADV_HUGEPAGE
    /* Large blocks are new memory in each call, and all threads wait for its pages: huge ones are far fewer. */
    const uint64_t huge = 2 << 20;
    if (bytes >= huge) {
        const size_t whole = (size_t)((bytes + huge - 1) / huge * huge);
        void *memory = aligned_alloc((size_t)huge, whole);
        if (memory) (void)madvise(memory, whole, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return aligned_alloc(64, (size_t)((bytes + 64) / 64 * 64));
}

static inline void lathe_default_free(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

static inline int32_t lathe_default_wait(void *ctx) {
    (void)ctx;
#ifdef _OPENMP
    sched_yield();
#endif
    return 0;
}

static inline lathe_runtime lathe_default_runtime(void) {
    lathe_runtime rt = {LATHE_ABI_VERSION, 0, lathe_default_parallel_for, lathe_default_alloc, lathe_default_free,
                        lathe_default_wait, 0};
    return rt;
}
#endif

#endif
"#;

/// The C name of a function's kernel.
pub fn symbol(func: &Function) -> String {
    Names::default().fresh_symbol(&func.name)
}

/// A parameter as the language writes it, sizes by name.
fn declaration(func: &Function, at: usize) -> String {
    let Some(p) = func.params.get(at) else { return String::new() };
    let text = match &p.kind {
        ParamKind::Scalar(b) => format!("{}: {}", b.name, b.ty),
        ParamKind::Array(b) if b.extents.is_empty() => format!("{}: {}", b.name, b.elem),
        ParamKind::Array(b) => {
            let extents: Vec<String> = b
                .extents
                .iter()
                .map(|e| match (e.as_int(), e.as_var()) {
                    (Some(n), _) => n.to_string(),
                    (_, Some(v)) => {
                        func.sizes.iter().find(|s| s.id == v).map_or("?".to_string(), |s| s.name.to_string())
                    }
                    _ => "(an expression)".to_string(),
                })
                .collect();
            format!("{}: {}[{}]", b.name, b.elem, extents.join(", "))
        }
    };
    format!("{} {text}", p.mode.name())
}

/// The header of a kernel, whichever engine made its code. With `LATHE_STANDALONE` defined before it
/// is included, it also holds a runtime, and `NAME_call` to call the kernel with descriptors alone.
///
/// # Errors
/// `E0751` when the function's name has no letter that C allows.
pub fn header(func: &Function) -> Result<String, Diagnostic> {
    if !func.name.chars().any(|c| c.is_ascii_alphanumeric()) {
        return Err(Diagnostic::error(
            codes::NAME,
            format!("the name `{}` cannot be written as C", func.name),
        ));
    }
    let name = symbol(func);
    let mut taken = Names::default();
    // A parameter of the kernel's name would hide it.
    taken.fresh_symbol(&func.name);
    let params: Vec<String> = func.params.iter().map(|p| taken.fresh(p.name())).collect();
    let mut out = ABI.replace("@VERSION@", &lathe_abi::VERSION.to_string());
    out.push_str("\n/*\n");
    for at in 0..params.len() {
        out.push_str(&format!(" * args[{at}]  {}\n", declaration(func, at).replace("*/", "* /")));
    }
    out.push_str(" */\n");
    let cpp = "#ifdef __cplusplus\nextern \"C\"\n#endif\n";
    out.push_str(&format!("{cpp}int32_t {name}(const lathe_runtime *rt, const lathe_array *args);\n"));
    let list: Vec<String> = params.iter().map(|p| format!("const lathe_array *{p}")).collect();
    let list = if list.is_empty() { "void".to_string() } else { list.join(", ") };
    let values: Vec<String> = params.iter().map(|p| format!("*{p}")).collect();
    let values = if values.is_empty() { "{0}".to_string() } else { values.join(", ") };
    let guard = format!("{}_CALL", sanitize(&func.name).to_uppercase());
    out.push_str(&format!(
        "\n#if defined(LATHE_STANDALONE) && !defined({guard})\n#define {guard}\n\
         __attribute__((unused)) static inline int32_t {name}_call({list}) {{\n    \
         const lathe_runtime runtime = lathe_default_runtime();\n    \
         const lathe_array arguments[] = {{{values}}};\n    \
         return {name}(&runtime, arguments);\n}}\n#endif\n"
    ));
    Ok(out)
}
