//! Calls: the called function's body is written in place of the call, its arrays as pointers with
//! strides of their own.

use crate::emit::{Buf, Emitter, Place, Result, Val, Var, ill_formed, unsupported};
use crate::expr::bare;
use crate::helpers::value_type;
use lathe_diagnostics::Places;
use lathe_ir::stmt::Arg;
use lathe_ir::{BufId, Buffer, Expr, Function, Mode, Param, ParamKind, Scalar, VarId, View};
use lathe_poly::Ranges;
use std::collections::HashMap;
use std::sync::Arc;

/// What the called function has in scope when it begins.
#[derive(Default)]
struct Scope {
    vars: HashMap<VarId, Var>,
    bufs: HashMap<BufId, Buf>,
}

/// An array that the caller can name.
struct Seen {
    /// C text of the address of the element with all subscripts 0.
    address: String,
    /// C text of the strides.
    strides: Vec<String>,
    /// C text of the extents, where they are known.
    extents: Vec<Option<String>>,
}

impl Emitter<'_> {
    /// A pure function's value.
    pub fn call_value(&mut self, name: &str, args: &[Expr]) -> Result<Val> {
        let f = self.callee(name, args.len(), &Places::none())?;
        let Some(result) = f.result.clone() else { return Err(ill_formed(format!("`{name}` has no value"))) };
        let mut scope = Scope::default();
        for (p, a) in f.params.iter().zip(args) {
            self.pass_value(p, a, &mut scope)?;
        }
        self.inside(&f, scope, &Places::none(), |e| {
            e.stmt(&f.body)?;
            e.begin(&[&result]);
            let v = e.expr(&result)?;
            e.named(v, result.ty())
        })
    }

    /// A call for its effects on the arrays that it is given.
    pub fn call_statement(&mut self, name: &str, args: &[Arg], places: &Places) -> Result<()> {
        if self.lanes.is_some() {
            return Err(crate::vector::fallback());
        }
        let f = self.callee(name, args.len(), places)?;
        let mut scope = Scope::default();
        self.begin(&[]);
        self.open("{");
        for (p, a) in f.params.iter().zip(args) {
            match (a, p.array()) {
                (Arg::Value(x), _) => self.pass_value(p, x, &mut scope)?,
                (Arg::View(v), Some(formal)) => self.pass_view(p, formal, v, &mut scope, places)?,
                (Arg::View(_), None) => {
                    return Err(ill_formed(format!("an array for the scalar `{}` of `{name}`", p.name())));
                }
            }
        }
        self.inside(&f, scope, places, |e| e.stmt(&f.body))?;
        self.close("}");
        Ok(())
    }

    fn callee(&self, name: &str, args: usize, places: &Places) -> Result<Function> {
        let f = self.module.functions.get(name).ok_or_else(|| ill_formed(format!("no function `{name}`")))?;
        if self.inlining.iter().any(|n| n == name) {
            return Err(unsupported(format!("the recursive function `{name}`"), places));
        }
        if f.params.len() != args {
            return Err(ill_formed(format!("`{name}` called with {args} arguments")));
        }
        Ok(f.clone())
    }

    fn pass_value(&mut self, p: &Param, a: &Expr, scope: &mut Scope) -> Result<()> {
        let frame = self.frames.len() - 1;
        match &p.kind {
            ParamKind::Scalar(b) => {
                let v = self.expr(a)?;
                let lanes = v.lanes;
                let v = self.named(v, a.ty())?;
                scope.vars.insert(b.id, Var { name: v.text, ty: b.ty, frame, lanes });
            }
            ParamKind::Array(b) if b.extents.is_empty() && p.mode == Mode::In => {
                let v = self.uniform(a)?;
                let v = self.memory_form(&b.elem, &v);
                let (t, name) = (self.element_type(&b.elem)?, self.names.fresh(&b.name));
                self.line(format!("const {t} {name}[1] = {{{}}};", bare(&v)));
                let storage = Place::Param { strides: Vec::new(), restrict: false, constant: true };
                scope.bufs.insert(b.id, Buf { decl: b.clone(), name, frame, storage });
            }
            ParamKind::Array(b) => return Err(ill_formed(format!("a value for the array `{}`", b.name))),
        }
        Ok(())
    }

    fn pass_view(
        &mut self,
        p: &Param,
        formal: &Arc<Buffer>,
        v: &View,
        scope: &mut Scope,
        places: &Places,
    ) -> Result<()> {
        let frame = self.frames.len() - 1;
        let seen = self.see(v, places)?;
        let (t, name) = (self.element_type(&formal.elem)?, self.names.fresh(&formal.name));
        let constant = p.mode == Mode::In;
        self.line(format!("{}{t} *{name} = {};", if constant { "const " } else { "" }, seen.address));
        let mut strides = Vec::new();
        for (d, s) in seen.strides.iter().enumerate() {
            strides.push(if s == "1" {
                s.clone()
            } else {
                self.constant(&format!("{}_s{d}", formal.name), s)
            });
        }
        for (x, extent) in formal.extents.iter().zip(seen.extents) {
            if let (Some(id), Some(extent)) = (x.as_var(), extent)
                && !scope.vars.contains_key(&id)
            {
                let name = self.constant(&format!("{}_size", formal.name), &extent);
                scope.vars.insert(id, Var { name, ty: Scalar::Index, frame, lanes: false });
            }
        }
        let storage = Place::Param { strides, restrict: false, constant };
        scope.bufs.insert(formal.id, Buf { decl: formal.clone(), name, frame, storage });
        Ok(())
    }

    fn constant(&mut self, hint: &str, value: &str) -> String {
        let name = self.names.fresh(hint);
        self.line(format!("const {} {name} = {};", value_type(Scalar::Index), bare(value)));
        name
    }

    /// Address, strides and extents of a view.
    fn see(&mut self, v: &View, places: &Places) -> Result<Seen> {
        match v {
            View::Buffer(id) => {
                let b = self.buf(*id)?;
                let strides = match &b.storage {
                    Place::Param { strides, .. } => strides.iter().map(|s| self.stride(&b, s)).collect(),
                    Place::Local { strides } if b.decl.layout.is_row_major() => {
                        strides.iter().map(|s| self.uniform(s)).collect::<Result<_>>()?
                    }
                    Place::Local { .. } => {
                        let what = format!("`{}`, which has a layout, as an argument,", b.decl.name);
                        return Err(unsupported(what, places).help("inline the called function first"));
                    }
                    Place::Registers { .. } => return Err(crate::registers::not_in_registers()),
                };
                // The extents of a parameter of a function being inlined are over that function's sizes,
                // which are in scope here.
                let extents =
                    b.decl.extents.iter().map(|x| self.uniform(x).map(Some)).collect::<Result<_>>()?;
                Ok(Seen { address: b.name, strides, extents })
            }
            View::Slice { base, offsets, steps } => {
                let base = self.see(base, places)?;
                let mut address = base.address;
                for (o, s) in offsets.iter().zip(&base.strides) {
                    let o = self.uniform(o)?;
                    address = format!("{address} + {o} * {s}");
                }
                let scaled = |(s, step): (&String, &i64)| {
                    if *step == 1 { s.clone() } else { format!("({s} * {step})") }
                };
                let strides = base.strides.iter().zip(steps).map(scaled).collect();
                Ok(Seen { address, strides, extents: vec![None; steps.len()] })
            }
            _ => {
                Err(unsupported("this view as an argument", places).help("inline the called function first"))
            }
        }
    }

    /// Writes code of a called function. Its identities are its own: nothing of the caller is in scope.
    fn inside<T>(
        &mut self,
        f: &Function,
        scope: Scope,
        places: &Places,
        write: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if let Some(size) = f.sizes.iter().find(|s| !scope.vars.contains_key(&s.id)) {
            let what = format!("the call of `{}`, which does not tell its size `{}`,", f.name, size.name);
            return Err(unsupported(what, places).help("inline the called function first"));
        }
        let vars = std::mem::replace(&mut self.vars, scope.vars);
        let bufs = std::mem::replace(&mut self.bufs, scope.bufs);
        let ranges = std::mem::replace(&mut self.ranges, Ranges::of_function(f));
        let frame = self.frame();
        let layers = frame.memo.len();
        let memo = std::mem::replace(&mut frame.memo, vec![HashMap::new(); layers]);
        let uses = std::mem::take(&mut frame.uses);
        self.inlining.push(f.name.to_string());
        let written = write(self);
        self.inlining.pop();
        self.frame().memo = memo;
        self.frame().uses = uses;
        (self.vars, self.bufs, self.ranges) = (vars, bufs, ranges);
        written
    }
}
