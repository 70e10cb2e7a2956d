//! The machine of the file tests: its vectors have 16 bytes.

use lathe_ir::Scalar;
use lathe_space::Value;

/// `vector(T)`, and nothing else.
pub fn facts(name: &str) -> Option<Value> {
    let element = name.strip_prefix("vector(")?.strip_suffix(')')?;
    Some(Value::Int(16 / Scalar::from_name(element)?.bytes() as i64))
}
