//! What a kernel is given: numbers and arrays, random or from a text file, by the types of their directives.

use super::{codes, number};
use lathe_diagnostics::Diagnostic;
use lathe_runtime::device::{Argument, Buffer, Devices, Element, read_write};
use lathe_space::formats::Input;
use lathe_space::{Value, Values};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;

/// An argument that is made.
pub(super) enum Given {
    Scalar(Argument),
    Array(Box<dyn Array>),
}

/// An array on the device, and what it holds before every run.
pub(super) trait Array: Send + Sync {
    fn argument(&self) -> Argument;
    /// # Errors
    /// As `Buffer::set`.
    fn reset(&self) -> Result<(), Diagnostic>;
    /// # Errors
    /// As `Buffer::to_vec`.
    fn numbers(&self) -> Result<Vec<f64>, Diagnostic>;
}

struct Held<T: Element> {
    buffer: Buffer<T>,
    data: Vec<T>,
}

impl<T: Number> Array for Held<T> {
    fn argument(&self) -> Argument {
        read_write(&self.buffer)
    }

    fn reset(&self) -> Result<(), Diagnostic> {
        self.buffer.set(0, &self.data)
    }

    fn numbers(&self) -> Result<Vec<f64>, Diagnostic> {
        Ok(self.buffer.to_vec()?.into_iter().map(T::number).collect())
    }
}

/// A type of elements.
trait Number: Element {
    /// Integers from 1 to 10, floats above 0 and up to 1: as ATF has them.
    fn random(rng: &mut ChaCha8Rng) -> Self;
    fn read(text: &str) -> Option<Self>;
    fn of(value: &Value) -> Option<Self>;
    fn number(self) -> f64;
    fn bytes(self) -> Vec<u8>;
}

macro_rules! numbers {
    ($($t:ty, $random:expr, $of:expr;)*) => {
        $(impl Number for $t {
            fn random(rng: &mut ChaCha8Rng) -> $t {
                $random(rng)
            }
            fn read(text: &str) -> Option<$t> {
                text.parse().ok()
            }
            fn of(value: &Value) -> Option<$t> {
                $of(value)
            }
            fn number(self) -> f64 {
                self as f64
            }
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        })*
    };
}

fn whole<T: TryFrom<i64>>(v: &Value) -> Option<T> {
    match v {
        Value::Int(n) => T::try_from(*n).ok(),
        Value::Bool(b) => T::try_from(i64::from(*b)).ok(),
        _ => None,
    }
}

fn real(v: &Value) -> Option<f64> {
    match v {
        Value::Int(n) => Some(*n as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

numbers! {
    i8, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    u8, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    i16, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    u16, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    i32, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    u32, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    i64, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    u64, |r: &mut ChaCha8Rng| r.gen_range(1..=10), whole;
    f32, |r: &mut ChaCha8Rng| 1.0 - r.gen_range(0.0..1.0), |v| real(v).map(|f| f as f32);
    f64, |r: &mut ChaCha8Rng| 1.0 - r.gen_range(0.0..1.0), real;
}

/// The arguments of a configuration.
///
/// # Errors
/// `E1087` for types that are not known, sizes that are none, and files that do not hold numbers of their type.
pub(super) fn make(
    inputs: &[Input],
    values: &Values,
    devices: &Devices,
    folder: &Path,
    seed: u64,
) -> Result<Vec<Given>, Diagnostic> {
    inputs
        .iter()
        .enumerate()
        .map(|(n, i)| one(i, values, devices, folder, seed ^ ((n as u64 + 1) << 32)))
        .collect()
}

fn one(
    input: &Input,
    values: &Values,
    devices: &Devices,
    folder: &Path,
    seed: u64,
) -> Result<Given, Diagnostic> {
    let (Input::Scalar { ty, .. } | Input::Buffer { ty, .. } | Input::BufferFile { ty, .. }) = input;
    let (base, lanes) = lanes(ty);
    let make = match base.as_str() {
        "char" | "int8_t" | "signed char" => typed::<i8>,
        "uchar" | "uint8_t" | "unsigned char" => typed::<u8>,
        "short" | "int16_t" => typed::<i16>,
        "ushort" | "uint16_t" | "unsigned short" => typed::<u16>,
        "int" | "int32_t" => typed::<i32>,
        "uint" | "uint32_t" | "unsigned" | "unsigned int" => typed::<u32>,
        "long" | "int64_t" | "long long" | "longlong" => typed::<i64>,
        "ulong" | "uint64_t" | "unsigned long" | "unsigned long long" | "ulonglong" | "size_t" => {
            typed::<u64>
        }
        "float" => typed::<f32>,
        "double" => typed::<f64>,
        _ => {
            let d = Diagnostic::error(codes::FORM, format!("an input has the unknown type `{ty}`"));
            return Err(d.help("char, short, int, long, their unsigned forms, float, double, and these with 2, 4, 8 or 16 lanes"));
        }
    };
    make(input, lanes, values, devices, folder, &mut ChaCha8Rng::seed_from_u64(seed))
}

/// A type without what says nothing of its size, and how many numbers it has: `float4`.
fn lanes(ty: &str) -> (String, usize) {
    let words: Vec<&str> = ty.split_whitespace().filter(|w| *w != "const").collect();
    let text = words.join(" ");
    let text = text.strip_prefix("std::").unwrap_or(&text);
    let text = text.strip_prefix("cl_").unwrap_or(text);
    for n in [16, 8, 4, 2] {
        if let Some(base) =
            text.strip_suffix(&n.to_string()).filter(|b| !b.ends_with(|c: char| c.is_ascii_digit()))
        {
            return (base.to_string(), n);
        }
    }
    (text.to_string(), 1)
}

fn typed<T: Number>(
    input: &Input,
    lanes: usize,
    values: &Values,
    devices: &Devices,
    folder: &Path,
    rng: &mut ChaCha8Rng,
) -> Result<Given, Diagnostic> {
    let wrong = |text: String| Diagnostic::error(codes::FORM, text);
    let data: Vec<T> = match input {
        Input::Scalar { ty, value } => {
            let one = match value {
                None => (0..lanes).flat_map(|_| T::random(rng).bytes()).collect::<Vec<u8>>(),
                Some(e) => {
                    let v =
                        number(e, values).map_err(|why| wrong(format!("a scalar of type `{ty}`: {why}")))?;
                    let v = T::of(&v).ok_or_else(|| wrong(format!("`{v}` is not a value of type `{ty}`")))?;
                    v.bytes().repeat(lanes)
                }
            };
            // What an argument has room for.
            if one.len() > 32 {
                return Err(wrong(format!("scalars of type `{ty}` are too large")));
            }
            return Ok(Given::Scalar(Argument::scalar(&one, None)));
        }
        Input::Buffer { ty, size } => {
            let n = match number(size, values) {
                Ok(Value::Int(n)) => usize::try_from(n).ok().and_then(|n| n.checked_mul(lanes)),
                Ok(_) => None,
                Err(why) => return Err(wrong(format!("the size of a buffer of type `{ty}`: {why}"))),
            };
            let n = n.filter(|n| *n > 0 && n.checked_mul(size_of::<T>()).is_some_and(fits));
            let n =
                n.ok_or_else(|| wrong(format!("`{size}` is not the size of a buffer of type `{ty}` here")))?;
            (0..n).map(|_| T::random(rng)).collect()
        }
        Input::BufferFile { ty, path } => {
            let file = folder.join(path);
            let bad = |why: String| wrong(format!("`{}` as a buffer of type `{ty}`: {why}", file.display()));
            let text = lathe_system::files::read_text(&file, lathe_system::files::DATA)
                .map_err(|e| bad(e.to_string()))?;
            let read = |w: &str| T::read(w).ok_or_else(|| bad(format!("`{w}` is not such a number")));
            let data: Vec<T> = text.split_whitespace().map(read).collect::<Result<_, _>>()?;
            if data.is_empty() || !data.len().is_multiple_of(lanes) {
                return Err(bad(format!("it has {} numbers", data.len())));
            }
            data
        }
    };
    let buffer = Buffer::from_slice(devices, &data)?;
    Ok(Given::Array(Box::new(Held { buffer, data })))
}

/// Twice the bytes of a buffer are on the host: more than there is free would end the process.
fn fits(bytes: usize) -> bool {
    lathe_runtime::available_memory().is_none_or(|free| (bytes as u64) < free / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checklist_29_types_and_random_values() {
        let of = |t: &str| lanes(t);
        assert_eq!(of("const float"), ("float".into(), 1));
        assert_eq!(of("cl_float16"), ("float".into(), 16));
        assert_eq!(of("unsigned int"), ("unsigned int".into(), 1));
        assert_eq!(of("std::int32_t"), ("int32_t".into(), 1));
        assert_eq!(of("uint2"), ("uint".into(), 2));
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        for _ in 0..1000 {
            let (f, i) = (f32::random(rng), i8::random(rng));
            assert!(f > 0.0 && f <= 1.0 && (1..=10).contains(&i));
        }
        assert_eq!((u8::of(&Value::Int(256)), i8::of(&Value::Int(-128))), (None, Some(-128)));
        assert_eq!((i32::of(&Value::Float(1.5)), f64::of(&Value::Int(2))), (None, Some(2.0)));
    }
}
