//! One value per parameter.

use crate::bind::Values;
use crate::expr::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;
use std::sync::Arc;

/// A value for each parameter of a space, in the order of declaration. Prints as `a = 1, b = 2`; serializes as
/// a map from names to values, which [`super::Space::read`] reads back.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    names: Arc<[String]>,
    values: Vec<Value>,
}

impl Configuration {
    /// `names` and `values` in the order of declaration, equally many.
    pub(crate) fn new(names: Arc<[String]>, values: Vec<Value>) -> Configuration {
        Configuration { names, values }
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The values, in the order of declaration.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        let at = self.names.iter().position(|n| n == name)?;
        self.values.get(at)
    }

    /// Name and value, in the order of declaration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.names.iter().map(String::as_str).zip(&self.values)
    }

    /// As strategies bind them.
    pub fn to_values(&self) -> Values {
        self.iter().map(|(n, v)| (n.to_string(), v.clone())).collect()
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.iter().enumerate() {
            write!(f, "{}{name} = {value}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl Serialize for Configuration {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.values.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
