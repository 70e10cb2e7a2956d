//! What is different between CUDA C and OpenCL C: words, address spaces, names of functions.

/// The language of a kernel's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// For NVRTC and nvcc.
    Cuda,
    /// OpenCL C 1.2.
    OpenCl,
}

/// Integer types and limits by the names that the printer uses.
const CUDA_TYPES: &str = "\
#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#define UINT64_C(x) x##ULL
#else
#include <stdint.h>
#endif
";

const OPENCL_TYPES: &str = "\
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define INT64_C(x) x##L
#define UINT64_C(x) x##UL
";

const LIMITS: &str = "\
#ifndef INT64_MAX
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MAX INT64_C(9223372036854775807)
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX UINT64_C(18446744073709551615)
#endif
";

impl Language {
    /// As users write it.
    pub fn word(self) -> &'static str {
        match self {
            Language::Cuda => "cuda",
            Language::OpenCl => "opencl",
        }
    }

    /// What stands at the beginning of every file.
    pub fn preamble(self, doubles: bool) -> String {
        match self {
            Language::Cuda => format!("{CUDA_TYPES}{LIMITS}"),
            Language::OpenCl => {
                let fp64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
                let fp64 = if doubles { fp64 } else { "" };
                format!("{fp64}#pragma OPENCL FP_CONTRACT OFF\n{OPENCL_TYPES}{LIMITS}")
            }
        }
    }

    pub fn barrier(self) -> &'static str {
        match self {
            Language::Cuda => "__syncthreads();",
            Language::OpenCl => "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        }
    }

    /// How many blocks there are.
    pub fn blocks(self) -> &'static str {
        match self {
            Language::Cuda => "gridDim.x",
            Language::OpenCl => "get_num_groups(0)",
        }
    }

    /// What a thread did before is seen before what it does afterwards.
    pub fn fence(self) -> &'static str {
        match self {
            Language::Cuda => "__threadfence();",
            Language::OpenCl => "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        }
    }

    /// The number of the block, and of the thread in it.
    pub fn numbers(self) -> (&'static str, &'static str) {
        match self {
            Language::Cuda => ("blockIdx.x", "threadIdx.x"),
            Language::OpenCl => ("get_group_id(0)", "get_local_id(0)"),
        }
    }

    /// The beginning of a kernel with that many threads in a block and blocks in a cluster; of these, a multiprocessor is to
    /// hold `resident` at a time.
    pub fn kernel(self, threads: i64, cluster: i64, resident: Option<i64>) -> String {
        match self {
            Language::Cuda => {
                let cluster =
                    if cluster > 1 { format!("__cluster_dims__({cluster}, 1, 1) ") } else { String::new() };
                let bounds = resident.map_or(threads.to_string(), |n| format!("{threads}, {n}"));
                format!("extern \"C\" __global__ void {cluster}__launch_bounds__({bounds})")
            }
            Language::OpenCl => {
                format!("__kernel __attribute__((reqd_work_group_size({threads}, 1, 1))) void")
            }
        }
    }

    /// A pointer to an array in global memory. `alone`: nothing else points there.
    pub fn pointer(self, elem: &str, constant: bool, alone: bool) -> String {
        let constant = if constant { "const " } else { "" };
        match self {
            Language::Cuda => format!("{constant}{elem} *{}", if alone { "__restrict__ " } else { "" }),
            Language::OpenCl => {
                format!("__global {constant}{elem} *{}", if alone { "restrict " } else { "" })
            }
        }
    }

    /// A buffer of the block or of the thread.
    pub fn array(self, elem: &str, name: &str, n: i64, shared: bool) -> String {
        match (self, shared) {
            (Language::Cuda, true) => format!("__shared__ __align__(16) {elem} {name}[{n}];"),
            (Language::Cuda, false) => format!("{elem} {name}[{n}];"),
            (Language::OpenCl, true) => format!("__local {elem} {name}[{n}] __attribute__((aligned(16)));"),
            (Language::OpenCl, false) => format!("{elem} {name}[{n}];"),
        }
    }

    /// The function by which a kernel says that the call has failed; the first number is kept.
    pub fn fail(self) -> &'static str {
        match self {
            Language::Cuda => {
                "static __device__ void lathe_fail(int32_t *status, int32_t number) {\n    \
                 atomicCAS(status, 0, number);\n}\n"
            }
            Language::OpenCl => {
                "static void lathe_fail(__global int32_t *status, int32_t number) {\n    \
                 atomic_cmpxchg((volatile __global int *)status, 0, number);\n}\n"
            }
        }
    }

    /// Text of the printer with the language's names in place of the builtin functions of C compilers.
    pub fn adapt(self, text: &str) -> String {
        let text = match self {
            Language::Cuda => text.replace("static inline ", "static __device__ __forceinline__ "),
            Language::OpenCl => text.to_string(),
        };
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("__builtin_") {
            out.push_str(&rest[..at]);
            let after = &rest[at + "__builtin_".len()..];
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            match self.constant(name) {
                // `inff()`, `nanf("")`: the arguments go.
                Some(value) => {
                    out.push_str(value);
                    rest = tail.find(')').map_or("", |close| &tail[close + 1..]);
                }
                None => {
                    out.push_str(self.function(name).unwrap_or(name));
                    rest = tail;
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn constant(self, name: &str) -> Option<&'static str> {
        Some(match (self, name) {
            (Language::Cuda, "inff") => "__int_as_float(0x7f800000)",
            (Language::Cuda, "nanf") => "__int_as_float(0x7fc00000)",
            (Language::Cuda, "inf") => "__longlong_as_double(0x7ff0000000000000LL)",
            (Language::Cuda, "nan") => "__longlong_as_double(0x7ff8000000000000LL)",
            (Language::OpenCl, "inff") => "INFINITY",
            (Language::OpenCl, "nanf") => "NAN",
            (Language::OpenCl, "inf") => "((double)INFINITY)",
            (Language::OpenCl, "nan") => "((double)NAN)",
            _ => return None,
        })
    }

    fn function(self, name: &str) -> Option<&'static str> {
        Some(match (self, name) {
            (Language::Cuda, "sqrtf") => "__fsqrt_rn",
            (Language::Cuda, "sqrt") => "__dsqrt_rn",
            (Language::Cuda, "fmaf") => "__fmaf_rn",
            (Language::Cuda, "fma") => "__fma_rn",
            (Language::OpenCl, _) => {
                let plain = ["fabs", "sqrt", "fma", "floor", "ceil", "rint", "trunc"];
                return plain.into_iter().find(|p| name.strip_suffix('f') == Some(p));
            }
            (Language::Cuda, _) => return None,
        })
    }
}
