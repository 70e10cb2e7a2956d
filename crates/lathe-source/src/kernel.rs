//! The whole file: prologue, the bodies for unit and for any strides, and what they need.

use crate::cc::capabilities;
use crate::emit::{Buf, Emitter, Place, Result, Var, lift};
use crate::header::header;
use crate::helpers::memory_type;
use crate::writer::bare;
use crate::{CSource, Style};
use lathe_abi::CheckKind;
use lathe_engine::{Entry, Field, accept, check_table};
use lathe_ir::lower::inscan::expand_function;
use lathe_ir::{Function, Mode, Module, ParamKind, Scalar, visit};

/// How a root name is read from the arguments.
struct Root {
    name: String,
    value: String,
}

/// Writes a function as C. The kernel has the name [`crate::symbol`], the ABI of `lathe-abi`, and the
/// same checks as the LLVM engine.
///
/// # Errors
/// `E0701` naming a construct that the engine does not take, `E0752` on ill-formed trees.
pub fn emit_c(module: &Module, func: &Function, style: &Style) -> Result<CSource> {
    let table = {
        accept("c", capabilities(), module, func)?;
        check_table(module, func).map_err(lift)?
    };
    let func = &lathe_lower::lower(module, &expand_function(module, func)).map_err(lift)?;
    let mut e = Emitter::new(module, func, &table);
    e.lane_loops_only = style.lane_loops_only;
    let entry = Entry::of(&table, func);
    e.next_id = entry.next_id;
    let roots = bind_roots(&mut e, &entry)?;
    let strided = func.params.iter().any(|p| p.array().is_some_and(|b| !b.extents.is_empty()));
    let mut bodies = Vec::new();
    let kinds: &[(&str, bool)] = if strided { &[("unit", true), ("any", false)] } else { &[("body", true)] };
    for (suffix, unit) in kinds {
        let hint = format!("{}_{suffix}", e.base);
        let name = e.names.fresh(&hint);
        bind_params(&mut e, &roots, *unit)?;
        body(&mut e, &roots, &name)?;
        bodies.push(name);
    }
    let prologue = prologue(&mut e, &entry, &roots, &bodies)?;
    let header = header(func)?;
    let source = assemble(&e, &header, &prologue);
    Ok(CSource { source, header, checks: table.entries })
}

/// Names sizes and scalars once; they mean the same in every C function.
fn bind_roots(e: &mut Emitter, entry: &Entry) -> Result<Vec<Root>> {
    let mut roots = Vec::new();
    let f = e.function;
    for (id, (at, field)) in &entry.fields {
        let name = match field {
            Field::Dtype => format!("args[{at}].dtype"),
            Field::Rank => format!("args[{at}].rank"),
            Field::ElemBytes => format!("(int64_t)args[{at}].elem_bytes"),
            Field::Address => format!("(int64_t)args[{at}].data"),
            Field::Extent(d) => format!("args[{at}].shape[{d}]"),
            Field::Stride(d) => format!("args[{at}].strides[{d}]"),
        };
        e.vars.insert(*id, Var { name, ty: Scalar::Index, frame: 0, lanes: false });
    }
    e.push_frame(0);
    let sizes = entry.values.iter().take(entry.sizes);
    let sizes = sizes.map(|(b, value)| {
        let value = e.uniform(value)?;
        e.vars.insert(b.id, Var { name: value.clone(), ty: b.ty, frame: 0, lanes: false });
        Ok((b, value))
    });
    let sizes: Vec<_> = sizes.collect::<Result<_>>()?;
    e.frames.pop();
    for (b, value) in sizes.into_iter().filter(|(b, _)| f.sizes.contains(b)) {
        let name = e.names.fresh(&b.name);
        roots.push(Root { name: name.clone(), value: bare(&value).to_string() });
        e.vars.insert(b.id, Var { name, ty: b.ty, frame: 0, lanes: false });
    }
    for (at, p) in f.params.iter().enumerate() {
        if let ParamKind::Scalar(b) = &p.kind {
            let name = e.names.fresh(&b.name);
            let memory = crate::helpers::memory_type(b.ty);
            let value = format!("*(const {memory} *)args[{at}].data");
            roots.push(Root { name: name.clone(), value });
            e.vars.insert(b.id, Var { name, ty: b.ty, frame: 0, lanes: false });
        }
    }
    for (at, p) in f.params.iter().enumerate() {
        if let ParamKind::Array(b) = &p.kind {
            let name = e.names.fresh(&b.name);
            roots.push(Root { name: name.clone(), value: format!("args[{at}].data") });
            for d in 0..b.extents.len() {
                let hint = format!("{}_s{d}", b.name);
                let name = e.names.fresh(&hint);
                roots.push(Root { name, value: format!("args[{at}].strides[{d}]") });
            }
        }
    }
    Ok(roots)
}

/// Binds array parameters for a body whose innermost strides are 1, or any.
fn bind_params(e: &mut Emitter, roots: &[Root], unit: bool) -> Result<()> {
    for (at, p) in e.function.params.iter().enumerate() {
        let ParamKind::Array(b) = &p.kind else { continue };
        let of =
            |value: String| roots.iter().find(|r| r.value == value).map_or(String::new(), |r| r.name.clone());
        let rank = b.extents.len();
        let strides =
            (0..rank)
                .map(|d| {
                    if unit && d + 1 == rank {
                        "1".to_string()
                    } else {
                        of(format!("args[{at}].strides[{d}]"))
                    }
                })
                .collect();
        let storage = Place::Param { strides, restrict: p.alias.is_none(), constant: p.mode == Mode::In };
        let name = of(format!("args[{at}].data"));
        e.bufs.insert(b.id, Buf { decl: b.clone(), name, frame: 0, storage });
    }
    Ok(())
}

/// One body as a function of its own, whose first lines read what it uses from the arguments.
fn body(e: &mut Emitter, roots: &[Root], name: &str) -> Result<()> {
    e.push_frame(0);
    e.push_frame(1);
    let root = e.function.body.clone();
    e.stmt(&root)?;
    let frame = e.frames.pop();
    e.frames.pop();
    let Some(frame) = frame else { return Ok(()) };
    let text = frame.out.finish();
    let mut out = format!("static int32_t {name}(const lathe_runtime *rt, const lathe_array *args) {{\n");
    out.push_str("    (void)rt;\n    (void)args;\n");
    for r in roots {
        if let Some(declaration) = frame.captures.get(&r.name) {
            out.push_str(&format!("    {declaration} = {};\n", r.value));
        }
    }
    out.push_str(&text);
    if text.contains("lathe_stream") {
        out.push_str("    lathe_stream_end();\n");
    }
    out.push_str("    return LATHE_OK;\n}\n");
    e.functions.push(out);
    Ok(())
}

/// The kernel: checks in the order of their numbers, then the body that fits the strides.
fn prologue(e: &mut Emitter, entry: &Entry, roots: &[Root], bodies: &[String]) -> Result<String> {
    e.push_frame(0);
    e.frame().out.deepen();
    e.line("if (rt->version != LATHE_ABI_VERSION) return LATHE_OTHER_ABI;");
    let mut sizes_read = false;
    for ((check, fails), number) in e.table.entries.iter().zip(&entry.fails).zip(1..) {
        let Some(fails) = fails else { continue };
        match check {
            CheckKind::Dtype { param } => e.line(format!("/* {} */", e.function.params[*param].name())),
            CheckKind::Rank { .. } | CheckKind::Size { .. } => {}
            CheckKind::External { .. } => {}
            CheckKind::Shape { .. } | CheckKind::Overlap { .. } | CheckKind::User { .. } => {
                if !std::mem::replace(&mut sizes_read, true) {
                    read_roots(e, roots)?;
                }
            }
        }
        for (b, value) in entry.values.iter().filter(|x| visit::vars_of(fails).contains(&x.0.id)) {
            if !e.vars.contains_key(&b.id) {
                let value = e.uniform(value)?;
                let name = e.names.fresh(&b.name);
                e.line(format!("const int64_t {name} = {};", bare(&value)));
                e.vars.insert(b.id, Var { name, ty: b.ty, frame: 0, lanes: false });
            }
        }
        e.begin(&[]);
        let fails = e.uniform(fails)?;
        e.line(format!("if ({}) return {number};", bare(&fails)));
    }
    if let [unit, any] = bodies {
        let test = e.uniform(&entry.unit)?;
        e.line(format!("if ({}) return {unit}(rt, args);", bare(&test)));
        e.line(format!("return {any}(rt, args);"));
    } else if let Some(only) = bodies.first() {
        e.line(format!("return {only}(rt, args);"));
    }
    let text = e.frames.pop().map(|f| f.out.finish()).unwrap_or_default();
    Ok(format!("int32_t {}(const lathe_runtime *rt, const lathe_array *args) {{\n{text}}}\n", e.base))
}

/// Reads sizes and scalars, for the checks that need them.
fn read_roots(e: &mut Emitter, roots: &[Root]) -> Result<()> {
    let mut lines = Vec::new();
    for v in e.vars.values() {
        if let Some(r) = roots.iter().find(|r| r.name == v.name) {
            lines.push(format!("const {} {} = {};", memory_type(v.ty), r.name, r.value));
        }
    }
    lines.sort();
    for l in lines {
        e.line(l);
    }
    Ok(())
}

fn assemble(e: &Emitter, header: &str, prologue: &str) -> String {
    let mut out = format!(
        "/*\n * `{}`, generated by Lathe. Needs nothing but the C library.\n *\n \
         * cc -std=gnu11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp -DLATHE_STANDALONE -c {}.c\n *\n \
         * Products and sums are contracted only where the source says so, hence -ffp-contract=off; with\n \
         * LATHE_STANDALONE the file brings a runtime and `{}_call`, which takes descriptors alone.\n */\n",
        e.function.name, e.base, e.base
    );
    out.push_str(header);
    out.push_str(
        "\n#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n#endif\n\
         #if defined(__GNUC__)\n\
         #pragma GCC diagnostic ignored \"-Wunused-variable\"\n\
         #pragma GCC diagnostic ignored \"-Wunused-but-set-variable\"\n\
         #if !defined(__clang__)\n\
         #pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n\
         #pragma GCC diagnostic ignored \"-Waggressive-loop-optimizations\"\n\
         #endif\n#endif\n",
    );
    // GCC 12 takes a wrong mask for AVX-512 where a condition has elements of another width than what it chooses.
    out.push_str(
        "#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512BW__)\n\
         #pragma GCC optimize(\"no-tree-loop-if-convert\")\n\
         #endif\n",
    );
    let parts = [e.typedefs.iter().map(|t| format!("{}\n", t.2)).collect::<String>(), e.helpers.text()];
    for p in parts.iter().filter(|p| !p.is_empty()) {
        out.push('\n');
        out.push_str(p);
    }
    for f in &e.functions {
        out.push('\n');
        out.push_str(f);
    }
    out.push('\n');
    out.push_str(prologue);
    out
}
