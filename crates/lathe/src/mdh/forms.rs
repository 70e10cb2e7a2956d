//! The forms of a kernel that `auto` may start from, and the values by which a search says what the model takes otherwise.
//!
//! Besides the kernel as it is written there are its loops without decisions for what they contain, chains of stencils in
//! blocks, fills of borders alone, sums over one array together, loops raised to index notation. The decisions of a search are about the statements
//! of one form, so a search keeps the form that the model takes, as the value of its parameter [`FORM`]. The affine
//! schedule of each nest is a parameter, too: `S.schedule` for the nest whose first label is `S`.

use super::candidates::candidates;
use super::made::{Made, label};
use super::nests;
use super::setting::Setting;
use super::{affine, blocked, borders, raise, reductions, siblings, stencils};
use crate::applied::Version;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::Path;
use lathe_space::{ParamType, TuningParameter, Value, ValueRange, Values};
use lathe_transform::Args;
use std::collections::BTreeMap;

/// The parameters of a search that are no decisions, and what they say.
const FORM: &str = "form";
const CORES: &str = "cores";
const SCHEDULE: &str = ".schedule";
/// The kernel as it is written, or a nest.
pub(super) const WRITTEN: &str = "written";
/// Behind the name of a form to which no other value applies.
const ALONE: &str = " alone";
/// Loops on threads: those that the whole function gains by.
const GAIN: &str = "gain";
/// All of those that decisions and schedules ask for.
const ALL: &str = "all";
/// What the model takes for a nest.
const MODEL: &str = "model";

/// What `auto` starts from.
pub(super) enum Start {
    /// Decisions, and schedules of nests, for the kernel as it is written.
    Written,
    /// Decisions, and schedules of nests, for what steps made.
    Decided(Made),
    /// Only schedules of nests, for the kernel as it is written.
    Loops,
    /// What steps made, as it is.
    Done(Made),
}

/// The forms of a kernel, that in which it is written first, or `only` one of them, each by its name; `sizes` are examples of
/// those that it still has.
pub(super) fn forms(
    set: &Setting,
    sizes: &BTreeMap<String, i64>,
    only: Option<&str>,
) -> Vec<(&'static str, Start)> {
    let wanted = |name: &str| only.is_none_or(|o| o == name);
    let mut out = Vec::new();
    if wanted(WRITTEN) {
        out.push((WRITTEN, Start::Written));
    }
    // Decisions about what is inside of a nest are none about the nest.
    if wanted("loops") && !nests::computes_in_loops(set.func).is_empty() {
        out.push(("loops", Start::Loops));
    }
    if wanted("stencils") {
        out.extend(stencils::fused(set, sizes).map(|m| ("stencils", Start::Done(m))));
    }
    if wanted("borders") {
        out.extend(borders::alone(set, sizes).map(|m| ("borders", Start::Decided(m))));
    }
    if wanted("together") {
        out.extend(siblings::fused(set, sizes).map(|m| ("together", Start::Decided(m))));
    }
    if wanted("rows") {
        out.extend(siblings::by_rows(set, sizes).map(|m| ("rows", Start::Decided(m))));
    }
    if wanted("reductions") || wanted("raised") {
        let recognized = reductions::recognized(set);
        let raised = match &recognized {
            None => raise::raised(set, sizes),
            Some(made) => raise::raised(&Setting { func: &made.func, ..*set }, sizes)
                .map(|raised| made.clone().followed_by(raised)),
        };
        out.extend(recognized.map(|m| ("reductions", Start::Decided(m))));
        out.extend(raised.map(|m| ("raised", Start::Decided(m))));
    }
    out.retain(|f| wanted(f.0));
    out
}

/// What a search says, by what it is about.
#[derive(Default)]
pub(super) struct Asked {
    form: Option<String>,
    /// Whether loops run on threads only where the whole function gains by it.
    pub cores: bool,
    pub schedules: Schedules,
    /// The values of decisions.
    pub decisions: Values,
}

/// What a search says of nests, by the first label of each.
pub(super) type Schedules = BTreeMap<String, String>;

impl Asked {
    pub fn of(values: &Values) -> Asked {
        let mut out = Asked::default();
        for (name, value) in values {
            match (name.as_str(), name.strip_suffix(SCHEDULE)) {
                (FORM, _) => out.form = Some(value.to_string()),
                (CORES, _) => out.cores = value.to_string() == GAIN,
                (_, Some(label)) => {
                    out.schedules.insert(label.to_string(), value.to_string());
                }
                _ => {
                    out.decisions.insert(name.clone(), value.clone());
                }
            }
        }
        match out.form.as_deref().and_then(|f| f.strip_suffix(ALONE)) {
            Some(form) => Asked { form: Some(form.to_string()), ..Asked::default() },
            None => out,
        }
    }

    /// The form that values are about: that in which the kernel is written, where they do not say it. None without values.
    pub fn form(&self) -> Option<&str> {
        let some = self.cores || !self.decisions.is_empty() || !self.schedules.is_empty();
        self.form.as_deref().or(some.then_some(WRITTEN))
    }
}

/// The parameter that keeps a form; none for the kernel as it is written.
pub(super) fn form(name: &str) -> Option<TuningParameter> {
    (name != WRITTEN).then(|| texts(FORM.to_string(), vec![name.to_string()]))
}

/// The parameter that chooses between a form, to which no other value applies, and the kernel as it is written.
pub(super) fn or_written(name: &str) -> TuningParameter {
    texts(FORM.to_string(), vec![format!("{name}{ALONE}"), WRITTEN.to_string()])
}

/// Which loops run on threads.
pub(super) fn cores() -> TuningParameter {
    texts(CORES.to_string(), [GAIN, ALL].map(ToString::to_string).to_vec())
}

/// For each nest of a version that has no schedules yet: that of the model, none, or one of those that the model chooses
/// from.
pub(super) fn schedules(set: &Setting, v: &Version, sizes: &BTreeMap<String, i64>) -> Vec<TuningParameter> {
    let mut out: Vec<TuningParameter> = Vec::new();
    for path in nests::own(set, &v.func) {
        let name = format!("{}{SCHEDULE}", label(&v.func.body, &path));
        let all = offered(set, &Made::of(&v.func), &path, sizes);
        if let Some((_, all)) =
            all.ok().filter(|(_, all)| !all.is_empty() && out.iter().all(|p| p.name != name))
        {
            let own = [MODEL, WRITTEN].map(ToString::to_string).into_iter();
            out.push(texts(name, own.chain(all.iter().map(text)).collect()));
        }
    }
    out
}

/// What a search says of a nest: nothing of its own where the model decides, the nest as it is, or with a schedule.
pub(super) fn scheduled(
    set: &Setting,
    start: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
    asked: &Schedules,
) -> Result<Option<Option<Made>>, Diagnostic> {
    let name = label(&start.func.body, path);
    let wanted = match asked.get(&name).map(String::as_str) {
        None | Some(MODEL) => return Ok(None),
        Some(WRITTEN) => return Ok(Some(None)),
        Some(wanted) => wanted,
    };
    let (start, all) = offered(set, start, path, sizes)?;
    let Some(args) = all.iter().find(|a| text(a) == wanted) else {
        let d =
            Diagnostic::error(lathe_mdh::codes::FREE, format!("`{name}{SCHEDULE}` has no value `{wanted}`"));
        let known: Vec<String> = all.iter().map(text).collect();
        return Err(d.help(format!("its values: {MODEL}; {WRITTEN}; {}", known.join("; "))));
    };
    let made = start.then(set, path, "affine_schedule", args)?;
    let made = affine::fused(set, made, path);
    Ok(Some(Some(blocked::in_registers(set, made, path, false))))
}

/// A nest whose variables tie no iterations together, and the arguments of schedules that are worth trying for it.
fn offered(
    set: &Setting,
    start: &Made,
    path: &Path,
    sizes: &BTreeMap<String, i64>,
) -> Result<(Made, Vec<Args>), Diagnostic> {
    let start = nests::expanded(set, start, path, sizes)?;
    let all = candidates(set, &start.func, path, nests::large(set, &start, path, sizes));
    let on_threads = all.on_threads.into_iter().map(|a| a.0);
    Ok((start, all.alone.into_iter().chain(on_threads).filter(|a| !a.texts().is_empty()).collect()))
}

/// Arguments of a schedule as a value.
fn text(args: &Args) -> String {
    args.texts().join(", ")
}

fn texts(name: String, values: Vec<String>) -> TuningParameter {
    let values = values.into_iter().map(Value::Str).collect();
    TuningParameter::new(name, ParamType::Str, ValueRange::Set(values))
}
