//! Printing items other than functions: globals, external functions, declared effects.

use super::print::Printer;
use super::print_stmt::op_name;
use super::scope::{name_text, type_text};
use crate::buffer::Space;
use crate::func::ParamKind;
use crate::module::{External, Global, Init};
use crate::summary::{Base, Summary, TouchMode};
use std::fmt::Write;

impl Printer {
    pub(super) fn global(&mut self, g: &Global) {
        let extents: Vec<String> = g.extents.iter().map(u64::to_string).collect();
        let (name, elem) = (name_text(&g.name), type_text(&g.elem));
        let _ = write!(self.out, "global {name}: {elem}[{}]", extents.join(", "));
        if g.space != Space::Host {
            let _ = write!(self.out, " {}", g.space.name());
        }
        if let Some(class) = &g.alias {
            let _ = write!(self.out, " alias {}", name_text(class));
        }
        match &g.init {
            Init::Undefined => {}
            Init::Zero => self.out.push_str(" = zero"),
            Init::Values(values) => {
                self.shared.clear();
                self.out.push_str(" = {");
                self.list(values);
                self.out.push('}');
            }
        }
        self.out.push('\n');
    }

    pub(super) fn derivative(&mut self, of: &str, rule: &str) {
        let _ = writeln!(self.out, "derivative {} = {}", name_text(of), name_text(rule));
    }

    pub(super) fn external(&mut self, x: &External) {
        let _ = write!(self.out, "extern {}", name_text(&x.name));
        self.signature(&x.sizes, &x.params);
        if let Some(t) = &x.result {
            let _ = write!(self.out, " -> {}", type_text(t));
        }
        self.summary(&x.summary);
        if let Some(f) = &x.meaning {
            let _ = write!(self.out, " meaning {}", name_text(f));
        }
        self.out.push('\n');
        self.leave_signature(&x.sizes, &x.params);
    }

    /// `(sizes)(params)`, which are in scope afterwards.
    pub(super) fn signature(&mut self, sizes: &[crate::ids::Binder], params: &[crate::func::Param]) {
        self.next = 0;
        self.out.push('(');
        for (i, b) in sizes.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.binder(b);
            self.scope.bind_var(b);
        }
        self.out.push_str(")(");
        for (i, p) in params.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.param(p);
        }
        self.out.push(')');
    }

    pub(super) fn leave_signature(&mut self, sizes: &[crate::ids::Binder], params: &[crate::func::Param]) {
        for p in params.iter().rev() {
            match &p.kind {
                ParamKind::Array(b) => self.scope.unbind_buf(b.id),
                ParamKind::Scalar(b) => self.scope.unbind_var(b.id),
            }
        }
        sizes.iter().rev().for_each(|b| self.scope.unbind_var(b.id));
    }

    pub(super) fn summary(&mut self, s: &Summary) {
        self.shared.clear();
        self.out.push_str(" effects (");
        for (i, t) in s.touches.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            match &t.mode {
                TouchMode::Read => self.out.push_str("read "),
                TouchMode::Write => self.out.push_str("write "),
                TouchMode::Reduce(op) => {
                    let _ = write!(self.out, "reduce({}) ", op_name(op));
                }
            }
            let base = match &t.base {
                Base::Param(b) => self.scope.buf_text(*b),
                Base::Global(name) => format!("global({})", name_text(name)),
                Base::Class(name) => format!("class({})", name_text(name)),
            };
            self.out.push_str(&base);
            if let Some(region) = &t.region {
                self.out.push('[');
                for (d, (lo, hi)) in region.iter().enumerate() {
                    if d > 0 {
                        self.out.push_str(", ");
                    }
                    self.expr(lo, 0);
                    self.out.push_str("..");
                    self.expr(hi, 0);
                }
                self.out.push(']');
            }
        }
        for (i, name) in s.effects.names().enumerate() {
            let comma = if i > 0 || !s.touches.is_empty() { ", " } else { "" };
            let _ = write!(self.out, "{comma}{name}");
        }
        self.out.push(')');
    }
}
