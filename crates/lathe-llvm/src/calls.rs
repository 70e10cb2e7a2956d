//! Calls: the called function's body is written in place of the call.

use crate::emit::{Buf, Emitter, Result, defect, unsupported};
use crate::value::{Leaf, Val};
use lathe_diagnostics::Places;
use lathe_ir::stmt::Arg;
use lathe_ir::{Expr, Function, Mode, Name, ParamKind, View};
use lathe_poly::Ranges;
use std::collections::HashMap;

/// What a parameter stands for in one call.
enum Actual {
    Value(Val),
    Array(Buf),
}

/// A pure function's value.
pub fn value(e: &mut Emitter, name: &Name, args: &[Expr]) -> Result<Val> {
    let f = callee(e, name, args.len(), &Places::none())?;
    let Some(result) = &f.result else { return Err(defect(format!("`{name}` has no value"))) };
    let actuals = args.iter().map(|a| e.expr(a).map(Actual::Value)).collect::<Result<Vec<_>>>()?;
    within(e, f, actuals, HashMap::new(), &Places::none(), |e| {
        e.stmt(&f.body)?;
        e.forget();
        e.expr(result)
    })
}

/// A call for its effects on the arrays that it is given.
pub fn statement(e: &mut Emitter, name: &Name, args: &[Arg], places: &Places) -> Result<()> {
    let f = callee(e, name, args.len(), places)?;
    let mut sizes = HashMap::new();
    let mut actuals = Vec::new();
    for (p, a) in f.params.iter().zip(args) {
        actuals.push(match a {
            Arg::Value(x) => Actual::Value(e.expr(x)?),
            Arg::View(v) => {
                let Some(formal) = p.array() else {
                    return Err(defect(format!("an array for the scalar `{}` of `{name}`", p.name())));
                };
                let (buf, extents) = view(e, v, places)?;
                // A size is the extent that it stands for alone.
                for (x, extent) in formal.extents.iter().zip(extents) {
                    if let (Some(id), Some(extent)) = (x.as_var(), extent) {
                        sizes.entry(id).or_insert(extent);
                    }
                }
                Actual::Array(Buf { decl: formal.clone(), ..buf })
            }
        });
    }
    within(e, f, actuals, sizes, places, |e| e.stmt(&f.body))
}

fn callee<'a>(e: &Emitter<'a>, name: &Name, args: usize, places: &Places) -> Result<&'a Function> {
    let f = e.module.functions.get(name).ok_or_else(|| defect(format!("no function `{name}`")))?;
    if e.calls.contains(name) {
        return Err(unsupported(&format!("the recursive function `{name}`"), places));
    }
    if f.params.len() != args {
        return Err(defect(format!("`{name}` called with {args} arguments")));
    }
    Ok(f)
}

/// A view as a buffer of its own, and its extents where they are known.
fn view(e: &mut Emitter, v: &View, places: &Places) -> Result<(Buf, Vec<Option<Leaf>>)> {
    match v {
        View::Buffer(id) => {
            let buf = e.frame.bufs.get(id).cloned();
            let buf = buf.ok_or_else(|| defect(format!("buffer #{} is not bound here", id.0)))?;
            if !buf.decl.layout.is_row_major() || buf.per_lane.is_some() {
                let what = format!("`{}`, which has a layout, as an argument", buf.decl.name);
                return Err(unsupported(&what, places).help("inline the called function first"));
            }
            let decl = buf.decl.clone();
            let extents = decl.extents.iter().map(|x| e.scalar(x).map(Some)).collect::<Result<Vec<_>>>()?;
            Ok((buf, extents))
        }
        View::Slice { base, offsets, steps } => {
            let (mut buf, _) = view(e, base, places)?;
            let ir = e.ir;
            let mut first = ir.i64(0);
            for (o, stride) in offsets.iter().zip(&buf.strides) {
                let o = e.uniform(o, "the start of a slice", places)?;
                first = ir.add_index(first, ir.mul_index(o, *stride));
            }
            let bytes = ir.mul_index(first, ir.i64(buf.decl.elem.bytes() as i64));
            buf.ptr = ir.element(ir.int_ty(8), buf.ptr, bytes);
            buf.private = false;
            for (stride, step) in buf.strides.iter_mut().zip(steps) {
                *stride = ir.mul_index(*stride, ir.i64(*step));
            }
            Ok((buf, vec![None; steps.len()]))
        }
        _ => Err(unsupported("this view as an argument", places).help("inline the called function first")),
    }
}

/// Emits code of a called function. Its identities are its own, so nothing of the caller is in scope.
fn within<T>(
    e: &mut Emitter,
    f: &Function,
    actuals: Vec<Actual>,
    sizes: HashMap<lathe_ir::VarId, Leaf>,
    places: &Places,
    emit: impl FnOnce(&mut Emitter) -> Result<T>,
) -> Result<T> {
    let (mut vars, mut bufs, mut values) = (sizes, HashMap::new(), HashMap::new());
    for size in &f.sizes {
        if !vars.contains_key(&size.id) {
            let what = format!("the call of `{}`, which does not tell its size `{}`", f.name, size.name);
            return Err(unsupported(&what, places).help("inline the called function first"));
        }
    }
    for (p, actual) in f.params.iter().zip(actuals) {
        match (&p.kind, actual) {
            (ParamKind::Scalar(b), Actual::Value(v)) => {
                let leaf = v.first().copied().ok_or_else(|| defect("an argument without a value"))?;
                vars.insert(b.id, leaf);
            }
            (ParamKind::Array(b), Actual::Value(v)) if b.extents.is_empty() && p.mode == Mode::In => {
                values.insert(b.id, v);
            }
            (ParamKind::Array(b), Actual::Array(buf)) => {
                bufs.insert(b.id, buf);
            }
            _ => return Err(defect(format!("an argument of `{}` is of another kind", f.name))),
        }
    }
    let frame = &mut e.frame;
    let outer = (
        std::mem::replace(&mut frame.vars, vars),
        std::mem::replace(&mut frame.bufs, bufs),
        std::mem::replace(&mut frame.values, values),
        std::mem::replace(&mut frame.memo, vec![HashMap::new()]),
    );
    let ranges = std::mem::replace(&mut e.ranges, Ranges::of_function(f));
    e.physical.clear();
    e.calls.push(f.name.clone());
    let out = emit(e);
    e.calls.pop();
    e.physical.clear();
    e.ranges = ranges;
    (e.frame.vars, e.frame.bufs, e.frame.values, e.frame.memo) = outer;
    out
}
