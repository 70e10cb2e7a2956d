//! Which values a level allows below given values of its context.

use super::def::SpaceDef;
use super::domain::Domain;
use super::groups::Condition;
use super::plan::PlanLevel;
use crate::expr::Value;

/// The conditions of one level.
pub(crate) struct Expander<'a> {
    def: &'a SpaceDef,
    domains: &'a [Domain],
    param: usize,
    /// The parameters of the context.
    context: Vec<usize>,
    tests: Vec<&'a Condition>,
}

/// Memory that is used again for each node.
#[derive(Default)]
pub(crate) struct Scratch {}

impl<'a> Expander<'a> {
    pub fn new(
        def: &'a SpaceDef,
        domains: &'a [Domain],
        plan: &[PlanLevel],
        l: usize,
        conditions: &'a [Condition],
    ) -> Expander<'a> {
        let level = &plan[l];
        Expander {
            def,
            domains,
            param: level.param,
            context: level.context.iter().map(|a| plan[*a].param).collect(),
            tests: level.tests.iter().map(|c| &conditions[*c]).collect(),
        }
    }

    /// Appends the allowed values to `values`. One that only fails to be excluded because a condition cannot be
    /// evaluated is allowed, and its place in `values` appended to `failed`. Returns how many were tried.
    pub fn expand(
        &self,
        key: &[u32],
        _scratch: &mut Scratch,
        values: &mut Vec<u32>,
        failed: &mut Vec<u32>,
    ) -> u64 {
        let n = self.domains[self.param].len();
        for v in 0..n {
            let env = |name: &str| self.lookup(name, key, v);
            let mut error = false;
            let excluded = self.tests.iter().any(|c| {
                let own = &self.def.params[c.owner].name;
                match c.constraint.holds(own, &env) {
                    Ok(holds) => !holds,
                    Err(_) => {
                        error = true;
                        false
                    }
                }
            });
            if !excluded {
                if error {
                    failed.push(values.len() as u32);
                }
                values.push(v);
            }
        }
        u64::from(n)
    }

    fn lookup(&self, name: &str, key: &[u32], v: u32) -> Option<Value> {
        let value = |p: usize, i: u32| self.domains[p].value(i);
        if self.def.params[self.param].name == name {
            return Some(value(self.param, v));
        }
        let at = self.context.iter().position(|p| self.def.params[*p].name == name);
        match at {
            Some(i) => Some(value(self.context[i], key[i])),
            None => self.def.constants.get(name).cloned(),
        }
    }
}
