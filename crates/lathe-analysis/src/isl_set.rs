//! The questions that isl answers. One context per thread, under a budget of operations; but for matrices, no isl object
//! leaves this file.

use crate::answers::{Answer, Kept, answers};
use crate::budget::{left, need, spend};
use crate::system::{Con, Conj};
use isl_rs::{BasicSet, Context, DimType, LibISLError, Mat, Set, Space, Val};

/// Operations that one question may take.
const BUDGET: u64 = 4_000_000;
/// Numbers in a system of usual size. Operations on larger ones take longer, for the numbers and for their digits.
const USUAL: usize = 64 * 64;
/// `ISL_ON_ERROR_CONTINUE`: errors are returned, not printed.
const ON_ERROR_CONTINUE: i32 = 1;

thread_local! {
    static CONTEXT: Context = {
        let ctx = Context::alloc();
        // The option exists in every isl; its setter cannot fail for a valid context.
        let _ = isl_rs::Options::set_on_error(&ctx, ON_ERROR_CONTINUE);
        ctx.set_max_operations(BUDGET);
        ctx
    };
}

/// What a question to isl counts as ([`crate::within_work`]).
const ASKED: u64 = 1_000;
/// One operation is a step of the simplex method on a whole system: it counts as one for so many of its numbers.
const NUMBERS: u64 = 16;

/// Budgets of a question, as parts of its whole one. isl does not say how many operations a question took, so that those
/// that take many are asked again with more, and count as much as they were refused before.
const PARTS: [u64; 7] = [4096, 1024, 256, 64, 16, 4, 1];

/// Answers a question about some systems within the budget. It counts as much, and is answered alike, whether or not it was
/// asked before, so that nothing depends on what else was.
fn within_budget(
    key: Vec<i64>,
    about: &[&[Conj]],
    question: impl Fn(&Context) -> Result<Option<Vec<i64>>, LibISLError>,
) -> Answer {
    let (before, all) = (left(), answers());
    if let Some(known) = all.point(&key).filter(|k| k.needed <= before) {
        need(known.needed);
        spend(known.work);
        return known.answer;
    }
    all.count();
    let mut needed = Some(0);
    let answer = in_parts(about, question, &mut needed);
    if let Some(needed) = needed {
        all.keep_point(key, Kept { answer: answer.clone(), work: before - left(), needed });
    }
    answer
}

/// Asks with larger and larger budgets. `needed` becomes what must be left so that the answer is the same with more; `None`
/// where isl was stopped for what was left.
fn in_parts(
    about: &[&[Conj]],
    question: impl Fn(&Context) -> Result<Option<Vec<i64>>, LibISLError>,
    needed: &mut Option<u64>,
) -> Answer {
    let before = left();
    let numbers = about.iter().flat_map(|all| all.iter()).map(|cons| cons.len() * columns_of(cons).len());
    let numbers = numbers.max().unwrap_or(0);
    let times = 1 + ((numbers / USUAL) as u64).saturating_pow(2);
    let numbers = numbers.max(1) as u64;
    if !spend(ASKED.saturating_mul(times)) {
        *needed = None;
        return None;
    }
    for part in PARTS {
        // No question takes more than what is left.
        let most = left().saturating_mul(NUMBERS) / numbers;
        let operations = (BUDGET / times / part).min(most.max(1));
        let enough = (operations + 1).saturating_mul(numbers) / NUMBERS + 1;
        need(if most > operations { enough } else { left() });
        *needed = needed.filter(|_| most > operations).map(|_| before - left() + enough);
        let answer = within(operations, &question);
        // One that is answered took less, mostly hardly anything.
        let counted = match &answer {
            Some(_) if part == PARTS[0] => 0,
            Some(_) => operations / 2,
            None => operations,
        };
        let more = spend(counted.saturating_mul(numbers) / NUMBERS) && most > operations;
        if answer.is_some() || !more {
            return answer;
        }
    }
    None
}

/// As [`within_budget`], for another budget of operations.
pub(crate) fn within<T>(budget: u64, question: impl FnOnce(&Context) -> Result<T, LibISLError>) -> Option<T> {
    CONTEXT.with(|ctx| {
        ctx.reset_operations();
        ctx.set_max_operations(budget);
        let answer = question(ctx);
        ctx.set_max_operations(BUDGET);
        ctx.reset_error();
        answer.ok()
    })
}

/// The unknowns that occur, in order.
fn columns_of(cons: &[Con]) -> Vec<u32> {
    let mut columns: Vec<u32> = cons.iter().flat_map(|c| c.lin.terms.iter().map(|t| t.0)).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// An integer point of a conjunction: `Some(Some(values))` of the unknowns that occur, `Some(None)` if
/// there is none, `None` if isl gave up.
pub(crate) fn sample(cons: &Conj) -> Option<Option<Vec<(u32, i64)>>> {
    let columns = columns_of(cons);
    let mut key = vec![-1];
    write(cons, &columns, &mut key);
    let found = within_budget(key, &[std::slice::from_ref(cons)], |ctx| {
        let set = basic_set(ctx, cons, &columns)?;
        point_of(set.to_set()?, columns.len())
    })?;
    Some(found.map(|p| columns.into_iter().zip(p).collect()))
}

/// What a question says of a conjunction, whose unknowns are numbered by their places.
fn write(cons: &[Con], columns: &[u32], out: &mut Vec<i64>) {
    out.extend([columns.len() as i64, cons.len() as i64]);
    for c in cons {
        out.extend([i64::from(c.eq), c.lin.constant, c.lin.terms.len() as i64]);
        for (col, k) in &c.lin.terms {
            let at = columns.binary_search(col).unwrap_or(columns.len());
            out.extend([at as i64, *k]);
        }
    }
}

/// A union of projections: each conjunction over all its unknowns, of which the first `dims` are kept.
pub(crate) struct Projection<'a> {
    pub dims: u32,
    pub parts: &'a [Conj],
}

/// A point of `a` that is not in `b`, both seen as sets of their first `dims` unknowns.
/// `Some(None)`: there is none, `None`: isl gave up.
pub(crate) fn difference(a: &Projection, b: &Projection) -> Option<Option<Vec<i64>>> {
    let mut key = vec![i64::from(a.dims)];
    for p in [a, b] {
        key.push(p.parts.len() as i64);
        p.parts.iter().for_each(|cons| write(cons, &p.columns(cons), &mut key));
    }
    within_budget(key, &[a.parts, b.parts], |ctx| {
        let whole = projected(ctx, a)?;
        let rest = whole.subtract(projected(ctx, b)?)?;
        point_of(rest, a.dims as usize)
    })
}

impl Projection<'_> {
    /// The unknowns that are kept, and then the others that occur.
    fn columns(&self, cons: &[Con]) -> Vec<u32> {
        let others = columns_of(cons).into_iter().filter(|c| *c >= self.dims);
        (0..self.dims).chain(others).collect()
    }
}

fn projected(ctx: &Context, p: &Projection) -> Result<Set, LibISLError> {
    let mut out = Set::empty(Space::set_alloc(ctx, 0, p.dims)?)?;
    for cons in p.parts {
        let columns = p.columns(cons);
        let extra = columns.len() as u32 - p.dims;
        let set = basic_set(ctx, cons, &columns)?.to_set()?;
        out = out.union(set.project_out(DimType::Set, p.dims, extra)?)?;
    }
    Ok(out)
}

/// The conjunction as a set whose dimensions are the given unknowns.
fn basic_set(ctx: &Context, cons: &[Con], columns: &[u32]) -> Result<BasicSet, LibISLError> {
    let width = columns.len() as u32;
    let (eqs, ineqs): (Vec<&Con>, Vec<&Con>) = cons.iter().partition(|c| c.eq);
    let rows = |all: &[&Con]| -> Vec<Vec<i64>> {
        let row = |con: &&Con| {
            let mut row = vec![0i64; columns.len() + 1];
            for (col, k) in &con.lin.terms {
                if let Ok(at) = columns.binary_search(col) {
                    row[at] = *k;
                }
            }
            row[columns.len()] = con.lin.constant;
            row
        };
        all.iter().map(row).collect()
    };
    let matrix = |all: &[&Con]| matrix(ctx, &rows(all), columns.len() + 1);
    let space = Space::set_alloc(ctx, 0, width)?;
    BasicSet::from_constraint_matrices(
        space,
        matrix(&eqs)?,
        matrix(&ineqs)?,
        DimType::Set,
        DimType::Div,
        DimType::Param,
        DimType::Cst,
    )
}

/// Rows of so many numbers.
pub(crate) fn matrix(ctx: &Context, rows: &[Vec<i64>], width: usize) -> Result<Mat, LibISLError> {
    let mut m = Mat::alloc(ctx, rows.len() as u32, width as u32)?;
    for (r, row) in rows.iter().enumerate() {
        for (c, v) in row.iter().enumerate() {
            m = match i32::try_from(*v) {
                Ok(small) => m.set_element_si(r as i32, c as i32, small)?,
                Err(_) => m.set_element_val(r as i32, c as i32, Val::int_from_si(ctx, *v)?)?,
            };
        }
    }
    Ok(m)
}

/// A point of a set, as values of its dimensions.
fn point_of(set: Set, dims: usize) -> Result<Option<Vec<i64>>, LibISLError> {
    let point = set.sample_point()?;
    if point.is_void()? {
        return Ok(None);
    }
    // Numerators beyond 64 bits are an error of isl's.
    let value = |d| point.get_coordinate_val(DimType::Set, d as i32)?.get_num_si();
    Ok(Some((0..dims).map(value).collect::<Result<_, _>>()?))
}
