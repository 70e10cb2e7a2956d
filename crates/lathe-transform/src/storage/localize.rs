//! `localize`: a local array that every iteration of a loop fills for itself shrinks to what one iteration uses
//! (array contraction).

use super::make::{self, check_space, find_alloc};
use super::stage::Plan;
use super::{options, region};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::{Buffer, Layout, Stmt, StmtKind, visit};
use lathe_strategy::evidence::{Kind, Within};
use lathe_strategy::{Claim, Refusal};
use std::collections::{HashMap, HashSet};

const RULE: &str = "localize";

rule! {
    /// `localize(T, at: i.o)` moves the local array `T` into the loop `i.o`: every iteration has one of its own, as
    /// large as the box of elements that it uses. So what one nest of the loop's body computes is still in a cache when
    /// the next one reads it. The name stays; the space does, too, if `space:` does not say another one. The literature
    /// calls this *array contraction*.
    ///
    /// Legal when `T` is local, is used in the body of the loop and nowhere else, by plain subscripts only, and every
    /// element that an iteration reads was written by the same iteration before.
    ///
    /// ```lathe
    /// kernel normalize(A: f32[M, N]) -> (B: f32[M, N]) {
    ///     var T: f32[M, N]
    ///     T[i, j] = exp(A[i, j])
    ///     B[i, j] = T[i, j] / (1.0 + T[i, j])
    /// }
    /// strategy rows for normalize = fuse(T.i, B.i) ; localize(T, at: T.i)
    /// ```
    pub static LOCALIZE = localize, version 1, (array: one Buffer, at: one Loop, space: optional Word), apply,
        "array contraction: shrinks a local array to what one iteration of a loop uses";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let mut target = names::find_one_loop(cursor, RULE, &args.path(RULE, "at", 1)?)?;
    target.push(0);
    let space = options::space(RULE, args, 2)?.unwrap_or(buffer.space);
    let name = &buffer.name;
    let Some((alloc, _)) = find_alloc(cursor.func, buffer.id) else {
        return Err(refuse(
            format!("`{name}` is an array of the caller"),
            "stage a part of it",
            &Places::none(),
        ));
    };
    if buffer.layout != Layout::row_major() {
        return Err(refuse(
            format!("`{name}` has a layout of its own"),
            "do this before changing the layout",
            &Places::none(),
        ));
    }
    let body = cursor.at(&target).filter(|_| target.starts_with(&alloc));
    let Some(body) = body else {
        return Err(refuse(
            format!("`{name}` is not allocated around the loop"),
            "name a loop inside of its scope",
            &Places::none(),
        ));
    };
    let plan = Plan::make(RULE, cursor, &target, body, &buffer, (None, &HashSet::new()))?;
    let everywhere = visit::at(&cursor.func.body, &alloc)
        .map_or(Vec::new(), |s| super::scope::accesses(s, &HashMap::new()));
    let uses = everywhere.iter().filter(|f| f.buffer() == Some(buffer.id) || f.buffer().is_none());
    let here = plan.found.len();
    if uses.clone().count() != here {
        let places = uses.fold(Places::none(), |p, f| p.union(&f.access.places));
        return Err(refuse(
            format!("`{name}` is used outside of the loop, too"),
            "fuse the loops that use it first",
            &places,
        ));
    }
    if plan.copy_in {
        return Err(refuse(
            format!("an iteration may read elements of `{name}` that it did not write"),
            "name a loop whose iterations compute all that they read of it",
            &plan.places(),
        ));
    }
    let extents = region::shape(&plan.region, &plan.around);
    check_space(RULE, name, &buffer.elem, &extents, space)?;
    let local = Buffer::local(work.fresh_buf(), name.clone(), buffer.elem.clone(), extents.clone(), space);
    let inside = region::redirect(body, buffer.id, &local, &plan.region, &|_| true);
    let made = Stmt::new(StmtKind::Alloc { buffer: local.clone(), body: inside }, plan.places());
    let window = region::window(work, &target, &plan.region, &plan.around);
    work.replace_storage(&target, made, Kind::Bijection)?;
    if let Some((_, rest)) = work.at(&alloc)?.as_alloc() {
        let rest = rest.clone();
        work.replace_as_is(&alloc, rest, Kind::Bijection)?;
    }
    work.made(&target, &local);
    work.becomes(&*buffer, &*local);
    let array = name.to_string();
    let only = Claim::OnlyInside { array: array.clone(), within: Within::Iteration };
    work.decide(only, "fuse the loops that use it first")?;
    work.decide_at(&target, Claim::WrittenFirst { array, window }, "choose another loop")
}

fn refuse(message: String, help: &str, places: &Places) -> Refusal {
    make::refuse(RULE, codes::SHAPE, format!("`{RULE}`: {message}"), help, places)
}
