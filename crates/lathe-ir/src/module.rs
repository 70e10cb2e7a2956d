//! Modules, and their items besides functions: globals, combine operators, external functions.

use crate::buffer::Space;
use crate::expr::{Expr, ExprKind};
use crate::func::{Function, Param};
use crate::functions::Functions;
use crate::ids::{Binder, BufId};
use crate::stmt::StmtKind;
use crate::summary::Summary;
use crate::types::{Name, StructType, Type};
use crate::visit::{walk, walk_expr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A user's combine operator: `a ⊕ b` for two values of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct CombineOp {
    pub name: Name,
    pub ty: Type,
    /// 0-dimensional buffers that `body` loads the operands from.
    pub a: BufId,
    pub b: BufId,
    pub body: Expr,
    pub associative: bool,
    pub commutative: bool,
    /// `None`: a reduction over nothing is an error, and starts from the first element.
    pub identity: Option<Expr>,
}

/// What a global holds before the first call.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    Undefined,
    /// All bits zero.
    Zero,
    /// One constant per element, in row-major order.
    Values(Vec<Expr>),
}

/// An array of the module, that outlives calls. In [`Space::Constant`] nothing writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    pub name: Name,
    pub elem: Type,
    pub extents: Vec<u64>,
    pub space: Space,
    pub init: Init,
    /// Pointers of this class may point into it.
    pub alias: Option<Name>,
}

impl Global {
    /// How many elements it has; `None` if that does not fit 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.extents.iter().try_fold(1u64, |n, e| n.checked_mul(*e))
    }
}

/// A function that is defined elsewhere: all that is known is what it declares.
#[derive(Clone, Debug, PartialEq)]
pub struct External {
    pub name: Name,
    pub sizes: Vec<Binder>,
    pub params: Vec<Param>,
    /// If set, it can be called in expressions, and has scalar parameters only.
    pub result: Option<Type>,
    pub summary: Summary,
    /// A function of the module that computes the same: what the interpreter runs in its place.
    pub meaning: Option<Name>,
}

/// What a caller sees of a function.
#[derive(Clone, Copy, Debug)]
pub struct Callee<'m> {
    pub name: &'m Name,
    pub sizes: &'m [Binder],
    pub params: &'m [Param],
    pub result: Option<&'m Type>,
    /// Its declared effects.
    pub summary: Option<&'m Summary>,
}

/// What a `.tree` file holds, and what a `.lathe` file's programs become.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    pub structs: BTreeMap<Name, Arc<StructType>>,
    pub globals: BTreeMap<Name, Global>,
    pub ops: BTreeMap<Name, CombineOp>,
    pub externals: BTreeMap<Name, External>,
    pub functions: Functions,
    /// Functions that compute the derivatives of others, by what they are derivatives of.
    pub derivatives: BTreeMap<Name, Vec<Name>>,
}

impl Module {
    /// The functions that one of them calls, at any depth.
    pub fn reached(&self, func: &Function) -> BTreeMap<Name, Function> {
        let mut out = BTreeMap::new();
        let mut open = vec![func.clone()];
        while let Some(f) = open.pop() {
            let mut call = |name: &str| {
                if let Some((n, f)) = self.functions.get_key_value(name)
                    && out.insert(n.clone(), f.clone()).is_none()
                {
                    open.push(f.clone());
                }
            };
            walk(&f.body, &mut |s, _| {
                if let StmtKind::Call { function, .. } = s.kind() {
                    call(function);
                }
                for e in s.exprs() {
                    walk_expr(e, &mut |e| {
                        if let ExprKind::Call(name, _) = e.kind() {
                            call(name);
                        }
                    });
                }
                true
            });
        }
        out
    }

    /// The function, or the external one, of a name.
    pub fn callee(&self, name: &str) -> Option<Callee<'_>> {
        if let Some(f) = self.functions.get(name) {
            let result = f.result.as_ref().map(Expr::ty);
            let (name, summary) = (&f.name, f.summary.as_ref());
            return Some(Callee { name, sizes: &f.sizes, params: &f.params, result, summary });
        }
        let x = self.externals.get(name)?;
        let (result, summary) = (x.result.as_ref(), Some(&x.summary));
        Some(Callee { name: &x.name, sizes: &x.sizes, params: &x.params, result, summary })
    }

    /// The functions that another one calls, or that an external one stands for.
    pub fn called(&self) -> BTreeSet<Name> {
        let meanings = self.externals.values().filter_map(|x| x.meaning.clone());
        let mut out: BTreeSet<Name> = meanings.collect();
        for (caller, f) in &self.functions {
            let mut add = |name: &Name| {
                if name != caller {
                    out.insert(name.clone());
                }
            };
            let mut values = |e: &Expr| {
                walk_expr(e, &mut |e| {
                    if let ExprKind::Call(name, _) = e.kind() {
                        add(name);
                    }
                });
            };
            f.result.iter().for_each(&mut values);
            walk(&f.body, &mut |s, _| {
                s.evaluated().into_iter().for_each(&mut values);
                true
            });
            walk(&f.body, &mut |s, _| {
                if let StmtKind::Call { function, .. } = s.kind() {
                    add(function);
                }
                true
            });
        }
        out
    }
}
