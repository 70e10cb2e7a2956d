//! The laws of combine operators: whether they are associative, commutative, and what is neutral.
//!
//! Everyone who regroups, reorders, or starts a reduction from an identity asks here. Built-in operators are known;
//! what a user declares is decided: over integers and `bool` for all values, over floats as far as bits go, else up to
//! rounding. Verdicts are kept by content while the process lives.

mod elements;
mod known;

pub use elements::{broken, elements};

use crate::codes;
use crate::decide::{Counterexample, Equality, Proof, Question, Verdict, decide, decide_by_values};
use crate::formula::{Formulas, Id, Op};
use crate::read::{Leaves, leaves_of, read};
use crate::rounding::{decide_rounding, round_few};
use lathe_diagnostics::Diagnostic;
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Access, BinOp, BufId, Expr, Module, ReduceOp, Scalar, Type, VarId, build, reduce};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock};

/// How a law holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Law {
    /// `None`: tested on many values.
    pub proof: Option<Proof>,
    /// Up to rounding.
    pub rounds: bool,
    /// Up to the sign of a zero.
    pub zeros: bool,
    /// Where the operator compares a NaN, nothing is claimed.
    pub numbers: bool,
    /// For what is combined, not for all values of the type.
    pub elements: bool,
}

/// What someone may rely on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Which {
    Associative,
    Commutative,
    /// The identity is neutral.
    Identity,
}

/// Why a law is not to be relied on.
#[derive(Clone, Debug, PartialEq)]
pub enum Broken {
    /// There is no such operator, or it is not defined on the types.
    Undefined(String),
    /// The operator does not declare it.
    Undeclared { operator: String, law: Which },
    /// It calls what cannot be looked into, or its values are too rarely any.
    Undecided(String),
    /// A law that is declared does not hold; an instance.
    Refuted { operator: String, law: Which, notes: Vec<String> },
}

impl Law {
    const EXACT: Law =
        Law { proof: Some(Proof::NormalForm), rounds: false, zeros: false, numbers: false, elements: false };

    /// Nothing but bits: regrouping by it gives the same results.
    pub fn is_exact(&self) -> bool {
        !self.rounds && !self.zeros
    }
}

impl fmt::Display for Law {
    /// How it holds: `proved`, `tested, up to rounding`, ….
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.proof.is_some() { "proved" } else { "tested" })?;
        if self.rounds {
            f.write_str(", up to rounding")?;
        } else if self.zeros {
            f.write_str(", up to the sign of zero")?;
        }
        if self.numbers {
            f.write_str(", except for comparisons with NaN")?;
        }
        if self.elements {
            f.write_str(", for the combined values")?;
        }
        Ok(())
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Which::Associative => "associative",
            Which::Commutative => "commutative",
            Which::Identity => "identity",
        })
    }
}

impl Broken {
    /// As a message.
    pub fn diagnostic(&self) -> Diagnostic {
        let code = codes::OPERATOR;
        match self {
            Broken::Undefined(text) | Broken::Undecided(text) => Diagnostic::error(code, text.clone()),
            Broken::Undeclared { operator, law: Which::Identity } => {
                Diagnostic::error(code, format!("the operator `{operator}` has no identity"))
                    .help("declare one: `identity(e)`")
            }
            Broken::Undeclared { operator, law } => {
                Diagnostic::error(code, format!("the operator `{operator}` is not declared {law}"))
                    .help(format!("declare it `{law}`, if it is"))
            }
            Broken::Refuted { operator, law, notes } => {
                let text = match law {
                    Which::Identity => format!("the declared identity of `{operator}` is not neutral"),
                    law => format!("`{operator}` is declared {law}, but it is not"),
                };
                notes.iter().fold(Diagnostic::error(code, text), |d, n| d.note(n.clone()))
            }
        }
    }
}

/// Whether a law of an operator on values of these types holds, and how.
///
/// A law has to hold for all values or, where it does not, for the `elements` that are combined (value lists, as a
/// reduction has them; what they load may be anything) and what they combine to: a reduction holds nothing else. The
/// counts of a mean, for example, are never negative.
///
/// # Errors
/// [`Broken`]: the law is not declared, refuted, or cannot be tested.
pub fn law(
    module: &Module,
    op: &ReduceOp,
    types: &[Type],
    which: Which,
    elements: &[Vec<Expr>],
) -> Result<Law, Broken> {
    static KNOWN: OnceLock<Mutex<HashMap<String, Result<Law, Broken>>>> = OnceLock::new();
    let ReduceOp::User(name) = op else { return known::law(module, op, types, which) };
    let Some(user) = module.ops.get(name) else {
        return Err(Broken::Undefined(format!("there is no operator `{name}`")));
    };
    let declared = match which {
        Which::Associative => user.associative,
        Which::Commutative => user.commutative,
        Which::Identity => user.identity.is_some(),
    };
    if !declared {
        return Err(Broken::Undeclared { operator: name.to_string(), law: which });
    }
    let table = KNOWN.get_or_init(Mutex::default);
    let lock = || table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = |elements: &[Vec<Expr>]| format!("{user:?} {types:?} {which} {elements:?}");
    let ask = |elements: &[Vec<Expr>]| {
        let key = key(elements);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        if cfg!(fuzzing) && !is_chosen(&key) {
            return Ok(Law { proof: None, ..Law::EXACT });
        }
        let result = decided(module, op, types, which, elements);
        let mut table = lock();
        // A process that reads files without end keeps what it met last.
        if table.len() >= KEPT {
            table.clear();
        }
        table.insert(key, result.clone());
        result
    };
    match ask(&[]) {
        Err(Broken::Refuted { .. }) if !elements.is_empty() => ask(elements),
        known => known,
    }
}

/// Verdicts that are kept.
const KEPT: usize = 4096;

/// Deciding a law takes a thousand times as long as reading a file. Fuzzed readers, whose verdicts nobody relies on,
/// decide one law in 64.
fn is_chosen(key: &str) -> bool {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut h = DefaultHasher::new();
    key.hash(&mut h);
    h.finish().is_multiple_of(64)
}

/// Decides a law without looking up what is known of built-in operators.
///
/// # Errors
/// As [`law`].
pub fn decide_anew(module: &Module, op: &ReduceOp, types: &[Type], which: Which) -> Result<Law, Broken> {
    decided(module, op, types, which, &[])
}

fn decided(
    module: &Module,
    op: &ReduceOp,
    types: &[Type],
    which: Which,
    elements: &[Vec<Expr>],
) -> Result<Law, Broken> {
    let undefined = || Broken::Undefined(format!("`{op}` is not defined on these types"));
    let mut o = Operator::new(module, op, types).ok_or_else(undefined)?;
    let none = || Broken::Undecided(format!("`{op}` calls a function, so its laws cannot be decided"));
    let mut sides = Vec::new();
    match which {
        Which::Associative => {
            for [a, b, c] in o.triples(elements).ok_or_else(none)? {
                let (ab, bc) = (o.apply(&a, &b).ok_or_else(none)?, o.apply(&b, &c).ok_or_else(none)?);
                sides.push((o.apply(&ab, &c).ok_or_else(none)?, o.apply(&a, &bc).ok_or_else(none)?));
            }
        }
        Which::Commutative => {
            for [a, b, _] in o.triples(elements).ok_or_else(none)? {
                sides.push((o.apply(&a, &b).ok_or_else(none)?, o.apply(&b, &a).ok_or_else(none)?));
            }
        }
        Which::Identity => {
            let e = reduce::identity(module, op, types).ok_or_else(undefined)?;
            let e = o.constants(&e).ok_or_else(none)?;
            // That it is neutral for elements, and for itself, makes it neutral for all that they combine to.
            let mut of = vec![e.clone()];
            for x in elements {
                of.push(o.element(x).ok_or_else(none)?);
            }
            if elements.is_empty() {
                of.push(o.operand(0));
            }
            for a in of {
                let (ae, ea) = (o.apply(&a, &e).ok_or_else(none)?, o.apply(&e, &a).ok_or_else(none)?);
                sides.extend([(a.clone(), ae), (a, ea)]);
            }
        }
    }
    let many = o.of_many(which, elements).ok_or_else(none)?;
    let law = o.holds(which, &sides, &many)?;
    // What elements combine to is without end: a few of it were looked at.
    let proof = law.proof.filter(|_| elements.is_empty() || which == Which::Identity);
    Ok(Law { proof, elements: !elements.is_empty(), ..law })
}

/// The sides of a law.
fn words(which: Which) -> (&'static str, &'static str) {
    match which {
        Which::Associative => ("(a · b) · c", "a · (b · c)"),
        Which::Commutative => ("a · b", "b · a"),
        Which::Identity => ("a", "a · e, or e · a,"),
    }
}

/// The leaves of both sides of a law.
type Sides = (Vec<Id>, Vec<Id>);

/// How many elements the three operands are made of: whatever number up to 65 an operator tells from less, the first two
/// have less, and together not.
const MANY: [[usize; 3]; 5] = [[3, 2, 4], [5, 4, 8], [9, 8, 4], [17, 16, 9], [33, 32, 8]];

struct Operator<'a> {
    f: Formulas,
    name: &'a ReduceOp,
    types: &'a [Type],
    leaves: Vec<Scalar>,
    /// What it gives, over loads of [`OPERANDS`].
    body: Vec<Expr>,
    /// The next variable of an element, beyond those of three operands.
    next: u32,
}

/// Operands are 0-dimensional buffers with numbers that no function has.
const OPERANDS: u32 = u32::MAX / 2;

struct Operands<'a> {
    /// The leaves of each part of an operand.
    sides: [Vec<&'a [Id]>; 2],
}

impl Leaves for Operands<'_> {
    fn var(&mut self, _: &mut Formulas, _: VarId, _: Scalar) -> Option<Id> {
        None
    }

    fn load(&mut self, _: &mut Formulas, a: &Access) -> Option<Vec<Id>> {
        let n = a.view.buffer()?.0.checked_sub(OPERANDS)? as usize;
        self.sides[n % 2].get(n / 2).map(|v| v.to_vec())
    }
}

/// Variables for what an element depends on.
struct Free {
    /// By what is loaded.
    known: HashMap<String, Vec<Id>>,
    next: u32,
}

impl Free {
    fn fresh(&mut self, f: &mut Formulas, key: String, leaves: &[Scalar]) -> Vec<Id> {
        if let Some(v) = self.known.get(&key) {
            return v.clone();
        }
        let mut one = |ty: &Scalar| {
            self.next += 1;
            f.var(self.next, *ty)
        };
        let out: Vec<Id> = leaves.iter().map(&mut one).collect();
        self.known.insert(key, out.clone());
        out
    }
}

impl Leaves for Free {
    fn var(&mut self, f: &mut Formulas, v: VarId, ty: Scalar) -> Option<Id> {
        self.fresh(f, format!("{v:?}"), &[ty]).first().copied()
    }

    fn load(&mut self, f: &mut Formulas, a: &Access) -> Option<Vec<Id>> {
        Some(self.fresh(f, format!("{:?}{:?}", a.view, a.indices), &a.elem.leaves()))
    }
}

impl<'a> Operator<'a> {
    fn new(module: &Module, name: &'a ReduceOp, types: &'a [Type]) -> Option<Operator<'a>> {
        let operand = |n: usize, t: &Type, side: u32| {
            build::load(Access::buffer(BufId(OPERANDS + 2 * n as u32 + side), t.clone(), Vec::new()))
        };
        let side = |s: u32| types.iter().enumerate().map(|(n, t)| operand(n, t, s)).collect::<Vec<_>>();
        let body = reduce::combine(module, name, &side(0), &side(1))?;
        let leaves = leaves_of(types);
        let next = 3 * leaves.len() as u32;
        Some(Operator { f: Formulas::default(), name, types, leaves, body, next })
    }

    /// Variables for all leaves of the `n`-th operand.
    fn operand(&mut self, n: u32) -> Vec<Id> {
        let count = self.leaves.len() as u32;
        let all = self.leaves.clone();
        all.into_iter().enumerate().map(|(k, ty)| self.f.var(n * count + k as u32, ty)).collect()
    }

    fn parts<'b>(&self, leaves: &'b [Id]) -> Vec<&'b [Id]> {
        let (mut out, mut rest) = (Vec::new(), leaves);
        for t in self.types {
            let (part, left) = rest.split_at(t.leaves().len().min(rest.len()));
            out.push(part);
            rest = left;
        }
        out
    }

    /// `x ⊕ y`
    fn apply(&mut self, x: &[Id], y: &[Id]) -> Option<Vec<Id>> {
        let mut operands = Operands { sides: [self.parts(x), self.parts(y)] };
        let body = std::mem::take(&mut self.body);
        let parts: Option<Vec<Vec<Id>>> = body.iter().map(|e| read(&mut self.f, e, &mut operands)).collect();
        self.body = body;
        Some(parts?.concat())
    }

    /// Triples of values: any or, if elements are given, these and what two of them combine to.
    fn triples(&mut self, elements: &[Vec<Expr>]) -> Option<Vec<[Vec<Id>; 3]>> {
        if elements.is_empty() {
            return Some(vec![[0, 1, 2].map(|n| self.operand(n))]);
        }
        // How many elements make each of the three; each kind of element comes first once.
        let counts = [[1, 1, 1], [2, 1, 1], [1, 2, 1], [1, 1, 2], [2, 2, 2]];
        counts.into_iter().enumerate().map(|(n, c)| self.combined(elements, c, n)).collect()
    }

    /// What so many elements combine to, three times, beginning with the `n`-th kind.
    fn combined(&mut self, elements: &[Vec<Expr>], counts: [usize; 3], n: usize) -> Option<[Vec<Id>; 3]> {
        let mut one = |k: usize| {
            let mut out = self.element(&elements[(n + k) % elements.len()])?;
            for more in 1..counts[k] {
                let next = self.element(&elements[(n + k + more) % elements.len()])?;
                out = self.apply(&out, &next)?;
            }
            Some(out)
        };
        Some([one(0)?, one(1)?, one(2)?])
    }

    /// The sides of a law for what many elements combine to.
    fn of_many(&mut self, which: Which, elements: &[Vec<Expr>]) -> Option<Vec<Sides>> {
        let mut out = Vec::new();
        for counts in MANY.into_iter().filter(|_| !elements.is_empty()) {
            let [a, b, c] = self.combined(elements, counts, 0)?;
            out.push(match which {
                Which::Identity => continue,
                Which::Commutative => (self.apply(&a, &b)?, self.apply(&b, &a)?),
                Which::Associative => {
                    let (ab, bc) = (self.apply(&a, &b)?, self.apply(&b, &c)?);
                    (self.apply(&ab, &c)?, self.apply(&a, &bc)?)
                }
            });
        }
        Some(out)
    }

    /// An element that a reduction combines: whatever it loads is a variable.
    fn element(&mut self, values: &[Expr]) -> Option<Vec<Id>> {
        let mut free = Free { known: HashMap::new(), next: self.next };
        let parts: Option<Vec<Vec<Id>>> = values.iter().map(|e| read(&mut self.f, e, &mut free)).collect();
        self.next = free.next;
        Some(parts?.concat())
    }

    fn constants(&mut self, values: &[Expr]) -> Option<Vec<Id>> {
        let mut none = Operands { sides: [Vec::new(), Vec::new()] };
        let parts: Option<Vec<Vec<Id>>> = values.iter().map(|e| read(&mut self.f, e, &mut none)).collect();
        Some(parts?.concat())
    }

    /// Decides a law in the strictest sense in which it holds.
    fn holds(&mut self, law: Which, sides: &[Sides], many: &[Sides]) -> Result<Law, Broken> {
        let floats = self.leaves.iter().any(|t| t.is_float());
        let mut senses = vec![Law::EXACT];
        if floats {
            let zeros = Law { zeros: true, ..Law::EXACT };
            let numbers = Law { numbers: true, ..zeros };
            senses.extend([zeros, numbers, Law { rounds: true, ..numbers }]);
        }
        let mut refuted = None;
        for sense in senses {
            let q = self.question(sides, sense);
            let verdict = if sense.rounds {
                decide_rounding(&self.f, &q, self.leaves.len())
            } else {
                decide(&mut self.f, &q)
            };
            let proof = match verdict {
                Verdict::Proved(p) => Some(p),
                Verdict::Tested(_) => None,
                Verdict::Refuted(c) => {
                    refuted = Some(c);
                    continue;
                }
                Verdict::Untested => continue,
            };
            // Too long for proofs.
            let q = self.question(many, sense);
            let again = if sense.rounds { round_few(&self.f, &q) } else { decide_by_values(&self.f, &q) };
            match again {
                Verdict::Refuted(c) => refuted = Some(c),
                _ => return Ok(Law { proof, ..sense }),
            }
        }
        match refuted {
            Some(c) => Err(self.refuted(law, &c, sides, words(law))),
            None => {
                let text = format!("the law `{law}` of `{}` cannot be tested", self.name);
                Err(Broken::Undecided(text))
            }
        }
    }

    /// Whether the sides are equal, in a sense.
    fn question(&mut self, sides: &[Sides], sense: Law) -> Question {
        let parts = sides.iter().flat_map(|(x, y)| x.iter().copied().zip(y.iter().copied()));
        let pairs: Vec<(Id, Id)> = parts.collect();
        let equality = if sense.zeros { Equality::Values } else { Equality::Bits };
        let given = if sense.numbers && !sense.rounds { self.numbers(&pairs) } else { Vec::new() };
        Question { given, pairs, equality }
    }

    /// What is compared is a number, everywhere.
    fn numbers(&mut self, pairs: &[(Id, Id)]) -> Vec<Id> {
        let roots: Vec<Id> = pairs.iter().flat_map(|p| [p.0, p.1]).collect();
        let mut out = Vec::new();
        for id in self.f.under(&roots) {
            if let Op::Binary(op, a, b) = self.f.get(id).op
                && op.is_comparison()
                && a != b
                && self.f.ty(a).is_float()
            {
                out.extend([a, b].map(|x| self.f.add(Op::Binary(BinOp::Eq, x, x), Scalar::Bool)));
            }
        }
        out
    }

    fn refuted(
        &self,
        law: Which,
        c: &Counterexample,
        sides: &[Sides],
        (left, right): (&str, &str),
    ) -> Broken {
        let count = self.leaves.len();
        if c.values.iter().any(|v| v.0 as usize >= 3 * count) {
            // Of an element, not of any value.
            let text = format!("for an element of the reduction, {left} is {}", shown(c.left));
            let text = format!("{text}, but {right} is {}", shown(c.right));
            return Broken::Refuted { operator: self.name.to_string(), law, notes: vec![text] };
        }
        let leaf = |n: usize| {
            let v = c.values.iter().find(|v| v.0 as usize == n);
            v.map_or("anything".to_string(), |v| v.1.to_string())
        };
        let operand = |n: usize| {
            let parts: Vec<String> = (0..count).map(|k| leaf(n * count + k)).collect();
            if count == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
        };
        let used = c.values.iter().map(|v| v.0 as usize / count.max(1)).max().unwrap_or(0);
        let named: Vec<String> =
            (0..=used).map(|n| format!("{} = {}", ["a", "b", "c"][n.min(2)], operand(n))).collect();
        let size = sides.first().map_or(1, |s| s.0.len()).max(1);
        let part = if count == 1 { String::new() } else { format!(" in part {}", c.pair % size) };
        let notes = vec![
            format!("for {}:", named.join(", ")),
            format!("{left} is {}{part}, but {right} is {}", shown(c.left), shown(c.right)),
        ];
        Broken::Refuted { operator: self.name.to_string(), law, notes }
    }
}

fn shown(v: Option<ScalarValue>) -> String {
    v.map_or("no value".to_string(), |v| v.to_string())
}
