//! Values that are found once for each key, whoever asks for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was found, by key; whoever finds something keeps its place locked meanwhile.
pub(crate) struct Found<T>(Mutex<BTreeMap<Vec<String>, Place<T>>>);

type Place<T> = Arc<Mutex<Option<T>>>;

impl<T> Default for Found<T> {
    fn default() -> Found<T> {
        Found(Mutex::default())
    }
}

impl<T> Found<T> {
    pub fn place(&self, key: Vec<String>) -> Place<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(key).or_default())
    }
}
