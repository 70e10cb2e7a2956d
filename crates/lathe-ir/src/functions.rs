//! The functions of a module by name. All copies of a module have one table until one of them is changed, so that a file of
//! thousands of kernels is not copied for each of them.

use crate::func::Function;
use crate::types::Name;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Functions by name, shared by copies until one is changed.
#[derive(Clone, Debug, Default)]
pub struct Functions(Arc<BTreeMap<Name, Function>>);

impl PartialEq for Functions {
    fn eq(&self, o: &Functions) -> bool {
        Arc::ptr_eq(&self.0, &o.0) || self.0 == o.0
    }
}

impl Deref for Functions {
    type Target = BTreeMap<Name, Function>;

    fn deref(&self) -> &BTreeMap<Name, Function> {
        &self.0
    }
}

impl DerefMut for Functions {
    fn deref_mut(&mut self) -> &mut BTreeMap<Name, Function> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<BTreeMap<Name, Function>> for Functions {
    fn from(all: BTreeMap<Name, Function>) -> Functions {
        Functions(Arc::new(all))
    }
}

impl<const N: usize> From<[(Name, Function); N]> for Functions {
    fn from(all: [(Name, Function); N]) -> Functions {
        BTreeMap::from(all).into()
    }
}

impl FromIterator<(Name, Function)> for Functions {
    fn from_iter<I: IntoIterator<Item = (Name, Function)>>(all: I) -> Functions {
        BTreeMap::from_iter(all).into()
    }
}

impl IntoIterator for Functions {
    type Item = (Name, Function);
    type IntoIter = std::collections::btree_map::IntoIter<Name, Function>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Functions {
    type Item = (&'a Name, &'a Function);
    type IntoIter = std::collections::btree_map::Iter<'a, Name, Function>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut Functions {
    type Item = (&'a Name, &'a mut Function);
    type IntoIter = std::collections::btree_map::IterMut<'a, Name, Function>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::make_mut(&mut self.0).iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use crate::module::Module;
    use crate::text::parse_module;
    use lathe_diagnostics::FileId;

    #[test]
    fn copies_share_their_functions_until_one_is_changed() {
        let text =
            "func f(N)(x: in f32[N], y: out f32[N]) stage plain { for i in 0..N { 'y'[i]: y[i] = x[i] } }";
        let one = parse_module(FileId(0), text).expect("a module");
        let mut two: Module = one.clone();
        assert!(std::ptr::eq(&one.functions["f"], &two.functions["f"]));
        two.functions.remove("f");
        assert!(one.functions.contains_key("f") && two.functions.is_empty());
        assert_ne!(one, two);
    }
}
