//! The scalars of structs, and statements over all elements of an array.

use lathe_ir::names::around;
use lathe_ir::{
    Access, Buffer, Combine, Compute, Dim, Expr, Function, Label, Name, Param, Scalar, Stmt, StmtKind, Store,
    Type, build,
};

/// A scalar of a struct.
#[derive(Clone)]
pub struct Leaf {
    /// Which component of which.
    pub path: Vec<u32>,
    /// What the components are called: `at.x`.
    pub name: String,
    pub ty: Scalar,
}

impl Leaf {
    pub fn of(&self, name: &str) -> String {
        around(name, &self.name)
    }
}

pub fn is_whole(t: &Type) -> bool {
    t.scalar().is_none()
}

/// Whether a parameter holds structs.
pub fn is_struct(p: &Param) -> bool {
    p.array().is_some_and(|b| is_whole(&b.elem))
}

/// Whether a type holds floats, itself or among its parts.
pub fn has_floats(t: &Type) -> bool {
    t.leaves().into_iter().any(Scalar::is_float)
}

/// The scalars of a type, depth first.
pub fn leaves(t: &Type) -> Vec<Leaf> {
    fn go(t: &Type, path: &mut Vec<u32>, name: &str, out: &mut Vec<Leaf>) {
        if let Some(ty) = t.scalar() {
            out.push(Leaf { path: path.clone(), name: name.to_string(), ty });
            return;
        }
        for (n, part) in (0..).zip(t.fields()) {
            let own = match t {
                Type::Struct(s) => s.fields[n as usize].0.to_string(),
                _ => n.to_string(),
            };
            path.push(n);
            go(&part, path, &if name.is_empty() { own } else { around(name, own) }, out);
            path.pop();
        }
    }
    let mut out = Vec::new();
    go(t, &mut Vec::new(), "", &mut out);
    out
}

/// A value of a type, from its scalars.
pub fn assembled(t: &Type, parts: &mut impl Iterator<Item = Expr>) -> Option<Expr> {
    if t.scalar().is_some() {
        return parts.next();
    }
    let fields = t.fields().iter().map(|f| assembled(f, parts)).collect::<Option<Vec<_>>>()?;
    Some(build::aggregate(t.clone(), fields))
}

pub fn element(b: &Buffer, at: &[Expr]) -> Access {
    Access::buffer(b.id, b.elem.clone(), at.to_vec())
}

/// A statement for each element of an array, in index notation: what is stored, and where.
pub fn over(f: &mut Function, label: &str, shape: &Buffer, what: impl Fn(&[Expr]) -> (Access, Expr)) -> Stmt {
    let dims: Vec<Dim> = (shape.extents.iter().enumerate())
        .map(|(n, hi)| {
            let binder = f.fresh_var(format!("i{n}"), Scalar::Index);
            Dim { binder, lo: build::index(0), hi: hi.clone(), combine: Combine::Concat }
        })
        .collect();
    let at: Vec<Expr> = dims.iter().map(|d| build::var(&d.binder)).collect();
    let (target, value) = what(&at);
    let label = Label::new(label);
    let kind = if dims.is_empty() {
        StmtKind::Store(Store::new(label, Vec::new(), target, value))
    } else {
        let (targets, values) = (vec![target], vec![value]);
        StmtKind::Compute(Compute { label, dims, targets, values, guard: None, update: None })
    };
    Stmt::new(kind, lathe_diagnostics::Places::none())
}

pub fn component(e: Expr, path: &[u32]) -> Expr {
    path.iter().fold(e, |e, i| build::field(e, *i))
}

/// What the function over parts of a function is called.
pub fn named(function: &Name) -> Name {
    format!("{function}.parts").as_str().into()
}
