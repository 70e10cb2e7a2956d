//! Adjoints of calls: calls of the derivative that the module gives.

use super::Reverse;
use crate::arrays::{allocated, copy_array, zero_array};
use crate::calls::{Call, Passed, like, whole};
use crate::codes::{self, refuse};
use crate::node::Leaf;
use crate::reverse::restore::When;
use crate::{Mode, is_differentiable, shadow_name};
use lathe_diagnostics::Diagnostic;
use lathe_ir::stmt::Arg;
use lathe_ir::{Access, Buffer, ExprKind, Mode as ParamMode, Space, Stmt, StmtKind, View};
use std::collections::HashMap;
use std::sync::Arc;

impl Reverse<'_> {
    /// `f(x, y)`: its derivative gives the cotangents of what it reads.
    pub fn back_call(&mut self, l: &Leaf, c: &Call) -> Result<Option<Stmt>, Diagnostic> {
        let places = &l.site.places;
        let Some(rule) = &c.rule else {
            let text = format!("no derivative of `{}` is known in reverse mode", c.of.name);
            return Err(refuse(codes::UNSUPPORTED, text, places)
                .help(format!("give one: `derivative {} = …`", c.of.name)));
        };
        let mut given: HashMap<String, Arg> = HashMap::new();
        let (mut locals, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (p, a) in c.of.params.iter().zip(&c.args) {
            let bar = match a {
                Passed::Value(e) => {
                    let value = self.restore(&l.site, &[], e, None, When::Back)?;
                    given.insert(p.name().to_string(), Arg::Value(value));
                    match e.kind() {
                        ExprKind::Load(a) => a.view.buffer(),
                        _ => None,
                    }
                }
                Passed::Array { now, before } => {
                    if p.mode != ParamMode::Out {
                        self.still(l, &whole(before), When::Back)?;
                        given.insert(p.name().to_string(), view(before));
                    }
                    Some(now.id)
                }
            };
            if !is_differentiable(p) {
                continue;
            }
            let bar = bar.and_then(|b| self.bars.get(&b)).cloned();
            let (elem, extents) = like(p, a);
            let (starts, comes_back) = (p.mode != ParamMode::In, p.mode != ParamMode::Out);
            let name = shadow_name(&c.of, p.name(), Mode::Reverse);
            let to = match &bar {
                Some(bar) if bar.elem == elem => bar.clone(),
                _ => {
                    let space = if extents.is_empty() { Space::Register } else { Space::Host };
                    let id = self.func.fresh_buf();
                    let label = format!("{}.{name}", c.of.name);
                    let own = Buffer::local(id, label, elem, extents, space);
                    if starts {
                        before.push(match &bar {
                            Some(bar) => copy_array(bar, &own, &mut self.func),
                            None => zero_array(&own, &mut self.func),
                        });
                    }
                    if let Some(bar) = bar.filter(|_| comes_back) {
                        after.push(copy_array(&own, &bar, &mut self.func));
                    }
                    locals.push(own.clone());
                    own
                }
            };
            given.insert(name, view(&to));
        }
        let args = rule.params.iter().filter_map(|p| given.get(&**p.name()).cloned()).collect();
        let call = Stmt::of(StmtKind::Call { function: rule.name.clone(), args });
        let all = Stmt::seq(before.into_iter().chain([call]).chain(after)).with_places(places.clone());
        Ok(Some(allocated(locals, all)))
    }

    /// Notes that a whole array is needed, which nothing has overwritten by then.
    pub fn still(&mut self, l: &Leaf, a: &Access, when: When) -> Result<(), Diagnostic> {
        if self.overwritten(&l.site, a, when).is_none() {
            return Ok(());
        }
        let text = format!("the argument `{}` is overwritten", self.name(a));
        Err(refuse(codes::UNSUPPORTED, text, &l.site.places))
    }
}

fn view(b: &Arc<Buffer>) -> Arg {
    Arg::View(View::Buffer(b.id))
}
