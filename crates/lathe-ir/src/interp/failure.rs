//! The failures of a run, and their messages.

use super::code::{Instr, Routine};
use super::codes;
use super::race::Touch;
use crate::types::Name;
use lathe_diagnostics::{Diagnostic, Places};

/// A run that failed: the message, with what a program may want to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub diagnostic: Box<Diagnostic>,
    /// The function that it is in.
    pub function: Option<Name>,
    /// Label of the statement that failed.
    pub label: Option<String>,
    /// Its instance vector.
    pub instance: Vec<i64>,
    /// The code of a failed `check` statement.
    pub check: Option<Name>,
}

impl Failure {
    pub fn plain(diagnostic: Diagnostic) -> Failure {
        Failure {
            diagnostic: Box::new(diagnostic),
            function: None,
            label: None,
            instance: Vec::new(),
            check: None,
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(d: Diagnostic) -> Failure {
        Failure::plain(d)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl std::error::Error for Failure {}

/// Why an instruction stopped the run.
#[derive(Clone, Debug)]
pub enum Trap {
    /// Subscript `dim` of the access is out of bounds; `usize::MAX`: a wrong number of subscripts.
    Bounds {
        dim: usize,
    },
    Undefined,
    Stale,
    DivisionByZero,
    IndexOverflow,
    NoSuchOperation,
    Check(u32),
    Width {
        iterations: i64,
        width: u32,
    },
    NegativeExtent {
        name: Name,
        extent: i64,
    },
    Memory {
        name: Name,
    },
    Steps,
    /// Whoever runs it asked for its end.
    Ended,
    Depth,
    EmptyReduction,
    BadView(&'static str),
    Argument(Box<Diagnostic>),
    Barrier(&'static str),
    /// Another iteration of the loop has the element: the one of that number, or the one that wrote it.
    NotHeld {
        over: Name,
        owner: Option<i64>,
        here: Option<i64>,
    },
    Race(Box<RaceReport>),
    /// The function does not declare the access.
    Undeclared {
        function: Name,
    },
}

impl From<crate::scalar::Undefined> for Trap {
    fn from(u: crate::scalar::Undefined) -> Trap {
        match u {
            crate::scalar::Undefined::DivisionByZero => Trap::DivisionByZero,
            crate::scalar::Undefined::IndexOverflow => Trap::IndexOverflow,
            crate::scalar::Undefined::NoSuchOperation => Trap::NoSuchOperation,
        }
    }
}

/// Two unordered accesses of one element: a race.
#[derive(Clone, Debug)]
pub struct RaceReport {
    pub element: String,
    pub earlier: (String, Touch, Places),
    pub later: (String, Touch),
}

/// What a report says about the statement that failed.
pub struct Where<'r> {
    pub routine: &'r Routine,
    pub site: u32,
    pub instr: Instr,
    /// The instance vector, if it can be computed.
    pub instance: Option<Vec<i64>>,
    pub loops: Vec<(Name, i64)>,
    /// Name, subscripts and extents of the access of the instruction, if it has one.
    pub access: Option<(Name, Vec<i64>, Vec<i64>)>,
    pub within: Option<(i64, i64, u32)>,
}

fn list(values: &[i64]) -> String {
    values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// `C[1, 2]`, or what the site is.
pub fn statement(
    label: Option<&crate::ids::Label>,
    what: &str,
    instance: Option<&[i64]>,
    loops: &[(Name, i64)],
) -> String {
    match (label, instance) {
        (Some(l), Some([])) => format!("`{l}`"),
        (Some(l), Some(v)) => format!("`{l}[{}]`", list(v)),
        (Some(l), None) => format!("`{l}`"),
        (None, _) if loops.is_empty() => what.to_string(),
        (None, _) => {
            let at: Vec<String> = loops.iter().map(|(n, v)| format!("{n} = {v}")).collect();
            format!("{what} at {}", at.join(", "))
        }
    }
}

fn touched(t: Touch) -> &'static str {
    match t {
        Touch::Read => "reads",
        Touch::Write => "writes",
        Touch::Atomic => "updates atomically",
        Touch::AtomicRead => "reads atomically",
    }
}

/// The failure that a trap at a place becomes.
pub fn explain(trap: Trap, at: Where) -> Failure {
    let site = &at.routine.sites[at.site as usize];
    let here = statement(site.label.as_ref(), site.what, at.instance.as_deref(), &at.loops);
    let access = |subscripts: bool| match &at.access {
        Some((name, index, _)) if subscripts => format!("`{name}[{}]`", list(index)),
        Some((name, ..)) => format!("`{name}`"),
        None => "an element".to_string(),
    };
    let writes = matches!(at.instr, Instr::Store { .. } | Instr::StoreMany { .. });
    let mut check = None;
    let d = match trap {
        Trap::Bounds { dim } => {
            let verb = if writes { "writes" } else { "reads" };
            let what = match (&at.access, at.within) {
                (_, Some((i, e, dim))) => {
                    format!("subscript {dim} of a reshape in {here} is {i}, but its extent is {e}")
                }
                (Some((name, index, extents)), _) if index.len() != extents.len() => {
                    format!(
                        "{here} uses {} subscripts on `{name}`, which has {} dimensions",
                        index.len(),
                        extents.len()
                    )
                }
                _ => format!("{here} {verb} {}, out of bounds", access(true)),
            };
            let d = Diagnostic::error(codes::OUT_OF_BOUNDS, what);
            match &at.access {
                Some((name, _, extents)) if dim < extents.len() => {
                    d.note(format!("dimension {dim} of `{name}` has the extent {}", extents[dim]))
                }
                _ => d,
            }
        }
        Trap::Undefined => Diagnostic::error(
            codes::UNINITIALIZED,
            format!("{here} reads {}, which was never written", access(true)),
        )
        .help("outputs and local buffers start undefined: write the element first, or make it `inout`"),
        Trap::Stale => Diagnostic::error(
            codes::STALE,
            format!("{here} uses {} after the end of the block that owns it", access(false)),
        )
        .help("wait for the asynchronous body before the block ends"),
        Trap::DivisionByZero => {
            Diagnostic::error(codes::DIVISION_BY_ZERO, format!("{here} divides an integer by zero"))
                .help("guard the division with `select` or `if`")
        }
        Trap::IndexOverflow => Diagnostic::error(
            codes::INDEX_OVERFLOW,
            format!("an `index` value in {here} does not fit 64 bits"),
        )
        .help("use smaller sizes, or `i64` where wrapping is meant"),
        Trap::NoSuchOperation => Diagnostic::error(
            codes::UNSUPPORTED,
            format!("{here} applies an operator to a type that it is not defined on"),
        )
        .help("the verifier gives more detail about invalid trees"),
        Trap::Check(k) => {
            let c = &at.routine.checks[k as usize];
            check = c.code.clone();
            match &c.code {
                Some(code) => {
                    Diagnostic::error(codes::CHECK_FAILED, format!("check `{code}` failed: {}", c.text))
                        .note(format!("in {here}"))
                }
                None => Diagnostic::error(
                    codes::ASSUMPTION,
                    format!("an assumption does not hold (made by {})", c.text),
                )
                .note(format!("in {here}"))
                .help("the arguments violate an assumption of the program"),
            }
        }
        Trap::Width { iterations, width } => Diagnostic::error(
            codes::VECTOR_WIDTH,
            format!("{here}: {iterations} iterations do not fit a vector of width {width}"),
        )
        .help("split the loop by the width first"),
        Trap::NegativeExtent { name, extent } => Diagnostic::error(
            codes::MEMORY,
            format!("{here} allocates `{name}` with the negative extent {extent}"),
        ),
        Trap::Memory { name } => Diagnostic::error(
            codes::MEMORY,
            format!("{here} allocates `{name}`, which exceeds the memory limit of the run"),
        )
        .help("use smaller sizes, or raise `Options::max_bytes`"),
        Trap::Steps => {
            Diagnostic::error(codes::LIMIT, format!("the run exceeded its limit on steps in {here}"))
                .help("the program may not terminate; if it does, use smaller sizes")
        }
        Trap::Ended => Diagnostic::error(codes::LIMIT, format!("the run was ended in {here}")),
        Trap::Depth => Diagnostic::error(codes::LIMIT, format!("calls are nested too deeply in {here}"))
            .help("the recursion may not terminate"),
        Trap::EmptyReduction => Diagnostic::error(
            codes::EMPTY_REDUCTION,
            format!("{here} is an empty reduction by an operator without an identity"),
        )
        .help("give the operator an identity, or guard against empty ranges"),
        Trap::BadView(why) => {
            Diagnostic::error(codes::OUT_OF_BOUNDS, format!("{here} uses a view that does not fit its base"))
                .note(why)
        }
        Trap::Argument(d) => (*d).note(format!("in {here}")),
        Trap::Barrier(why) => Diagnostic::error(codes::BARRIER, format!("the run is stuck in {here}: {why}"))
            .help("every iteration of a parallel loop must reach its barriers equally often"),
        Trap::NotHeld { over, owner, here: iteration } => {
            let verb = if writes { "writes" } else { "reads" };
            let has = match owner {
                Some(n) => format!("which iteration {n} of `{over}` holds"),
                None => "which another iteration wrote".to_string(),
            };
            let d = Diagnostic::error(codes::NOT_HELD, format!("{here} {verb} {}, {has}", access(true)));
            let d = match iteration {
                Some(n) => d.note(format!("it runs in iteration {n} of `{over}`")),
                None => d.note(format!("it runs in no iteration of `{over}`")),
            };
            d.help("exchange values by shared memory with a barrier between, or change who holds the element")
        }
        Trap::Undeclared { function } => {
            let verb = if writes { "writes" } else { "reads" };
            Diagnostic::error(
                codes::UNDECLARED,
                format!("{here} {verb} {}, which `{function}` does not declare", access(true)),
            )
            .help("`effects (…)` after the parameters must list everything that a function accesses, with its region")
        }
        Trap::Race(report) => {
            let (earlier, touch, places) = &report.earlier;
            let (later, now) = &report.later;
            Diagnostic::error(
                codes::RACE,
                format!("data race: {earlier} and {later} on `{}` are unordered", report.element),
            )
            .note(format!("{earlier} {} it", touched(*touch)))
            .note(format!("{later} {} it", touched(*now)))
            .at_places(places, "first access")
            .help("run the loop serially, or privatize the data that its iterations share")
        }
    };
    let places = at.access_places().unwrap_or(&site.places);
    let d = d.at_places(places, "here");
    Failure {
        diagnostic: Box::new(d),
        function: at.routine.name.clone(),
        label: site.label.as_ref().map(|l| l.as_str().to_string()),
        instance: at.instance.unwrap_or_default(),
        check,
    }
}

impl Where<'_> {
    fn access_places(&self) -> Option<&Places> {
        let id = access_of(self.instr)?;
        let places = &self.routine.accesses[id as usize].places;
        (!places.spans().is_empty()).then_some(places)
    }
}

/// The access that an instruction makes.
pub fn access_of(i: Instr) -> Option<u32> {
    match i {
        Instr::Load { access, .. }
        | Instr::Store { access, .. }
        | Instr::LoadMany { access, .. }
        | Instr::StoreMany { access, .. }
        | Instr::Address { access, .. } => Some(access),
        _ => None,
    }
}
