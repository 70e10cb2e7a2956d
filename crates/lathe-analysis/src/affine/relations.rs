//! Units and dependences as isl's sets and relations. They are made from matrices: isl takes longer to read them as text than to
//! find a schedule.

use super::dependences::Dependence;
use super::parameters::{LEAST_SIZE, Names, large};
use super::{Context, Unit};
use crate::isl_set::matrix;
use crate::system::{Col, Conj};
use isl_rs::{
    BasicMap, BasicSet, Context as Isl, DimType, LibISLError, Map, ScheduleConstraints, Set, Space, UnionMap,
    UnionSet,
};
use std::collections::HashMap;

/// A question to isl's scheduler: conjunctions as rows of numbers.
pub(super) struct Question<'a> {
    names: &'a Names,
    units: &'a [Unit],
    dependences: &'a [Dependence],
    context: Rows,
    domains: Vec<Rows>,
    /// The parts of each dependence.
    pairs: Vec<Vec<Rows>>,
}

/// A conjunction: numbers of parameters, then of iterators, then of existential unknowns, then constants.
struct Rows {
    eqs: Vec<Vec<i64>>,
    ineqs: Vec<Vec<i64>>,
    iterators: usize,
    existential: usize,
    parameters: usize,
}

impl Rows {
    fn of(names: &Names, own: &[&[Col]], cons: &Conj) -> Rows {
        let parameters = names.parameters();
        let mut places: HashMap<Col, usize> = names.outer.keys().copied().zip(0..).collect();
        places.extend(own.iter().flat_map(|columns| columns.iter().copied()).zip(parameters..));
        let iterators = own.iter().map(|columns| columns.len()).sum();
        let mut free: Vec<Col> = cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0)).collect();
        free.retain(|c| !places.contains_key(c));
        free.sort_unstable();
        free.dedup();
        let existential = free.len();
        places.extend(free.into_iter().zip(parameters + iterators..));
        let mut out = Rows { eqs: Vec::new(), ineqs: Vec::new(), iterators, existential, parameters };
        for c in cons.iter().filter(|c| !large(c)) {
            let mut row = vec![0; out.width()];
            for (col, k) in &c.lin.terms {
                row[places[col]] = *k;
            }
            let (constant, size) = names.number(c.lin.constant);
            row[out.width() - 1] = constant;
            if let Some((n, sign)) = size {
                row[names.outer.len() + n] = sign;
            }
            if c.eq { &mut out.eqs } else { &mut out.ineqs }.push(row);
        }
        out
    }

    fn width(&self) -> usize {
        self.parameters + self.iterators + self.existential + 1
    }

    fn write(&self, out: &mut Vec<i64>) {
        out.extend([self.eqs.len(), self.ineqs.len(), self.iterators, self.existential].map(|n| n as i64));
        self.eqs.iter().chain(&self.ineqs).for_each(|row| out.extend(row));
    }

    fn matrices(&self, ctx: &Isl) -> Result<[isl_rs::Mat; 2], LibISLError> {
        Ok([matrix(ctx, &self.eqs, self.width())?, matrix(ctx, &self.ineqs, self.width())?])
    }

    fn set(&self, ctx: &Isl, names: &Names) -> Result<Set, LibISLError> {
        let [eqs, ineqs] = self.matrices(ctx)?;
        let (kept, free) = (self.iterators as u32, self.existential as u32);
        let space = named(names, Space::set_alloc(ctx, self.parameters as u32, kept + free)?)?;
        let (p, s, d, c) = (DimType::Param, DimType::Set, DimType::Div, DimType::Cst);
        let set = BasicSet::from_constraint_matrices(space, eqs, ineqs, p, s, d, c)?.to_set()?;
        if free == 0 { Ok(set) } else { set.project_out(DimType::Set, kept, free) }
    }

    /// A relation whose first so many iterators are those of the earlier instance.
    fn map(&self, ctx: &Isl, names: &Names, first: usize) -> Result<Map, LibISLError> {
        let [eqs, ineqs] = self.matrices(ctx)?;
        let (n, m) = (first as u32, (self.iterators - first) as u32);
        let free = self.existential as u32;
        let space = named(names, Space::alloc(ctx, self.parameters as u32, n, m + free)?)?;
        let (p, x, y, d, c) = (DimType::Param, DimType::In, DimType::Out, DimType::Div, DimType::Cst);
        let map = BasicMap::from_constraint_matrices(space, eqs, ineqs, p, x, y, d, c)?;
        let map = Map::from_basic_map(map)?;
        if free == 0 { Ok(map) } else { map.project_out(DimType::Out, m, free) }
    }
}

/// A space whose parameters have names.
fn named(names: &Names, mut space: Space) -> Result<Space, LibISLError> {
    for n in 0..names.parameters() {
        space = space.set_dim_name(DimType::Param, n as u32, &names.parameter(n))?;
    }
    Ok(space)
}

fn tuple(unit: usize) -> String {
    format!("S{unit}")
}

impl<'a> Question<'a> {
    pub fn of(
        names: &'a Names,
        context: &Context,
        units: &'a [Unit],
        dependences: &'a [Dependence],
    ) -> Question<'a> {
        let domain = |u: &Unit| Rows::of(names, &[&u.columns], &u.domain);
        let parts = |d: &Dependence| {
            d.when.iter().map(|c| Rows::of(names, &[&d.columns.0, &d.columns.1], c)).collect()
        };
        let mut context = Rows::of(names, &[], &context.cons);
        for k in 0..names.sizes.len() {
            let mut row = vec![0; context.width()];
            row[names.outer.len() + k] = 1;
            row[context.width() - 1] = -LEAST_SIZE;
            context.ineqs.push(row);
        }
        Question {
            names,
            units,
            dependences,
            context,
            domains: units.iter().map(domain).collect(),
            pairs: dependences.iter().map(parts).collect(),
        }
    }

    /// All that is asked, and what the answer speaks of.
    pub fn key(&self) -> Vec<i64> {
        let names = self.names;
        let mut out = vec![names.outer.len() as i64];
        out.extend(names.outer.iter().flat_map(|(col, v)| [i64::from(*col), i64::from(v.0)]));
        out.push(names.sizes.len() as i64);
        out.extend(&names.sizes);
        self.context.write(&mut out);
        out.push(self.units.len() as i64);
        for (u, rows) in self.units.iter().zip(&self.domains) {
            out.extend(u.iters.iter().map(|b| i64::from(b.id.0)));
            rows.write(&mut out);
        }
        for (d, parts) in self.dependences.iter().zip(&self.pairs) {
            out.extend([d.from, d.to, d.columns.0.len(), parts.len()].map(|n| n as i64));
            out.extend([i64::from(d.licensed), i64::from(d.flow)]);
            parts.iter().for_each(|rows| rows.write(&mut out));
        }
        out
    }

    /// What a schedule must respect, and what it should bring together.
    pub fn constraints(&self, ctx: &Isl) -> Result<ScheduleConstraints, LibISLError> {
        let pairs: Vec<Vec<Map>> = self
            .dependences
            .iter()
            .zip(&self.pairs)
            .map(|(d, parts)| {
                let map = |rows: &Rows| {
                    rows.map(ctx, self.names, d.columns.0.len())?
                        .set_tuple_name(DimType::In, &tuple(d.from))?
                        .set_tuple_name(DimType::Out, &tuple(d.to))
                };
                parts.iter().map(map).collect()
            })
            .collect::<Result<_, _>>()?;
        let union = |keep: &dyn Fn(&Dependence) -> bool| -> Result<UnionMap, LibISLError> {
            let mut out = UnionMap::empty(self.nowhere(ctx)?)?;
            for part in
                self.dependences.iter().zip(&pairs).filter(|(d, _)| keep(d)).flat_map(|(_, parts)| parts)
            {
                out = out.add_map(part.copy()?)?;
            }
            Ok(out)
        };
        let mut domain = UnionSet::empty(self.nowhere(ctx)?)?;
        for (n, rows) in self.domains.iter().enumerate() {
            domain = domain.add_set(rows.set(ctx, self.names)?.set_tuple_name(&tuple(n))?)?;
        }
        ScheduleConstraints::on_domain(domain)?
            .set_context(self.context.set(ctx, self.names)?.params()?)?
            .set_validity(union(&|d| !d.licensed)?)?
            .set_coincidence(union(&|_| true)?)?
            .set_proximity(union(&|d| d.flow || d.licensed)?)
    }

    fn nowhere(&self, ctx: &Isl) -> Result<Space, LibISLError> {
        named(self.names, Space::params_alloc(ctx, self.names.parameters() as u32)?)
    }
}
