//! The engine of strategies on a small kind of tree: laws, traversals, counts, budgets, explanations.

use lathe_strategy::Context;
use lathe_strategy::node::Node;
use lathe_strategy::{
    Definitions, Outcome, Refusal, Vocabulary, Why, meta, parse_definitions, parse_strategy, replay_nodes,
    rewrite,
};
use std::rc::Rc;

/// `f(x, y)`: a label and sub-trees; labels of one letter are leaves mostly.
#[derive(Clone, Debug, PartialEq)]
struct Toy(Rc<(String, Vec<Toy>)>);

impl Toy {
    fn new(label: &str, children: Vec<Toy>) -> Toy {
        Toy(Rc::new((label.to_string(), children)))
    }

    fn parse(text: &str) -> Toy {
        fn go(t: &mut std::iter::Peekable<std::str::Chars>) -> Toy {
            let mut label = String::new();
            while let Some(c) = t.peek().copied().filter(|c| c.is_alphanumeric()) {
                label.push(c);
                t.next();
            }
            let mut children = Vec::new();
            if t.peek() == Some(&'(') {
                t.next();
                while t.peek() != Some(&')') {
                    children.push(go(t));
                    if t.peek() == Some(&' ') {
                        t.next();
                    }
                }
                t.next();
            }
            Toy::new(&label, children)
        }
        go(&mut text.chars().peekable())
    }
}

impl Node for Toy {
    type State = u32;

    fn arity(&self) -> usize {
        self.0.1.len()
    }
    fn child(&self, n: usize) -> Option<Toy> {
        self.0.1.get(n).cloned()
    }
    fn with_child(&self, n: usize, new: Toy) -> Toy {
        let mut c = self.0.1.clone();
        c[n] = new;
        Toy::new(&self.0.0, c)
    }
    fn hash(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut h = DefaultHasher::new();
        self.show().hash(&mut h);
        h.finish()
    }
    fn address(&self) -> Option<usize> {
        Some(Rc::as_ptr(&self.0) as usize)
    }
    fn same(&self, o: &Toy) -> bool {
        self == o
    }
    fn show(&self) -> String {
        let c: Vec<String> = self.0.1.iter().map(Toy::show).collect();
        if c.is_empty() { self.0.0.clone() } else { format!("{}({})", self.0.0, c.join(" ")) }
    }
}

fn words() -> Vocabulary<Toy> {
    let mut v = Vocabulary::default();
    for (name, from, to) in [("ab", "a", "b"), ("bc", "b", "c"), ("ba", "b", "a"), ("fg", "f", "g")] {
        v.rule(name, move |t: &Toy, learned: &mut u32, _| {
            if t.0.0 == from {
                *learned += 1;
                Ok(Toy::new(to, t.0.1.clone()))
            } else {
                Err(Why::Shape("not that label"))
            }
        });
    }
    v.rule("grow", |t: &Toy, _, _| Ok(Toy::new("s", vec![t.clone()])));
    v.predicate("isF", |t: &Toy| t.0.0 == "f");
    v.predicate("isLeaf", |t: &Toy| t.0.1.is_empty());
    v.location("body", |t: &Toy| (t.0.0 == "l").then_some(0));
    v
}

fn definitions() -> Definitions {
    Definitions::new(
        parse_definitions(
            "strategy loop = loop
             strategy ping = pong ; id
             strategy pong = ping
             strategy deep(n) = if n == 0 then ab else body(deep(n - 1))
             strategy twice(s) = s ; s
             # a traversal of a user: every other level
             strategy skipping(s) = s <+ one(one(skipping(s)))
             # strategies that become themselves
             strategy itself = rewritten(try(idSimplification), itself)
             strategy byItself = rewritten(byItself, id)
             strategy unrolled = rewritten(try(flatten), ab ; unrolled)",
        )
        .unwrap(),
    )
}

fn run(s: &str, t: &str) -> Result<Outcome<Toy>, Refusal> {
    let strategy = parse_strategy(s).unwrap_or_else(|d| panic!("{s}: {d}"));
    // What is printed reads back.
    assert_eq!(parse_strategy(&strategy.to_string()).unwrap().to_string(), strategy.to_string());
    let d = definitions();
    let facts = |_: &str| None;
    let mut c = Context::new(&d, None, &facts);
    c.steps = 1_000;
    rewrite(&c, &words(), &strategy, Toy::parse(t), 0)
}

fn result(s: &str, t: &str) -> String {
    match run(s, t) {
        Ok(o) => o.tree.show(),
        Err(r) => r.diagnostic.code.0.to_string(),
    }
}

const FAILED: &str = "E0611";

#[test]
fn item_16_the_laws_of_combinators_hold() {
    let strategies = [
        "id",
        "fail",
        "ab",
        "bc",
        "topDown(ab)",
        "one(ab)",
        "all(ab)",
        "some(bc)",
        "isF",
        "fg ; one(ab)",
        "try(ab)",
    ];
    let trees = ["a", "b", "f(a b)", "f(f(a) b a)", "l(a)", "g(l(b) f)"];
    for t in trees {
        for s in strategies {
            let plain = result(s, t);
            for same in [
                format!("id ; ({s})"),
                format!("({s}) ; id"),
                format!("fail <+ ({s})"),
                format!("({s}) <+ fail"),
            ] {
                assert_eq!(result(&same, t), plain, "{same} on {t}");
            }
            assert_eq!(result(&format!("fail ; ({s})"), t), FAILED);
            // try never fails; not(not(s)) succeeds iff s does and changes nothing.
            assert_ne!(result(&format!("try({s})"), t), FAILED);
            let twice = result(&format!("not(not({s}))"), t);
            assert_eq!(twice, if plain == FAILED { FAILED.to_string() } else { Toy::parse(t).show() });
            for b in ["ab", "isF", "topDown(bc)"] {
                for c in ["bc", "id", "fail"] {
                    for sign in [";", "<+"] {
                        let left = format!("(({s}) {sign} ({b})) {sign} ({c})");
                        let right = format!("({s}) {sign} (({b}) {sign} ({c}))");
                        assert_eq!(result(&left, t), result(&right, t), "{left} on {t}");
                    }
                }
            }
        }
    }
}

#[test]
fn item_17_repeat_gives_the_last_success_or_is_found_out() {
    assert_eq!(result("repeat(topDown(ab))", "f(a a)"), "f(b b)");
    assert_eq!(result("repeat(ab ; bc)", "a"), "c");
    for (endless, quoted) in [
        ("repeat(id)", ""),
        ("repeat(ab <+ ba)", "`ab` → `ba`"),
        ("normalize(ab <+ ba)", "`ab`"),
        ("repeat(grow)", "1000"),
    ] {
        let d = run(endless, "a").unwrap_err().diagnostic;
        assert!(d.code.0 == "E0608" && d.message.contains(quoted), "{endless}: {d}");
    }
    // Divergence is not a failure that a choice catches.
    assert_eq!(result("try(repeat(id))", "a"), "E0608");
    for s in ["loop", "try(loop)", "ping"] {
        let d = run(s, "a").unwrap_err().diagnostic;
        assert_eq!(d.code.0, "E0608", "{s}: {d}");
    }
    assert!(run("ping", "a").unwrap_err().diagnostic.message.contains("`ping` → `pong` → `ping`"));
}

#[test]
fn item_18_one_level_traversals() {
    assert_eq!(result("all(ab)", "x"), "x");
    assert_eq!(result("one(ab)", "x"), FAILED);
    assert_eq!(result("some(ab)", "x"), FAILED);
    assert_eq!(result("one(ab)", "f(x a a)"), "f(x b a)");
    assert_eq!(result("some(ab)", "f(a x a)"), "f(b x b)");
    assert_eq!(result("all(ab)", "f(a x a)"), FAILED);
    assert_eq!(result("all(ab)", "f(a a)"), "f(b b)");
}

#[test]
fn item_19_complete_traversals() {
    assert_eq!(result("topDown(ab <+ fg)", "f(a)"), "g(a)");
    assert_eq!(result("bottomUp(ab <+ fg)", "f(a)"), "f(b)");
    assert_eq!(result("topDown(bc)", "f(a)"), FAILED);
    assert_eq!(result("bottomUp(bc)", "f(a)"), FAILED);
    assert_eq!(result("tryAll(bc)", "f(a)"), "f(a)");
    assert_eq!(result("tryAll(ab <+ fg)", "f(a f(a))"), "g(b g(b))");
    assert_eq!(result("allTopDown(try(ab))", "f(a f(a))"), "f(b f(b))");
    assert_eq!(result("allBottomUp(ab)", "f(a)"), FAILED);
    assert_eq!(result("allTopDown(ab)", "a(a a)"), "b(b b)");
    assert_eq!(result("normalize(ab <+ bc)", "f(a b f(a))"), "f(c c f(c))");
}

#[test]
fn item_29_locations_are_traversals_and_users_write_their_own() {
    for t in ["f(a f(a))", "g(f(a))", "a"] {
        assert_eq!(result("fg @ outermost(isF)", t), result("topDown(isF ; fg)", t));
        assert_eq!(result("fg @ innermost(isF)", t), result("bottomUp(isF ; fg)", t));
    }
    assert_eq!(result("fg @ innermost(isF)", "f(a f(a))"), "f(a g(a))");
    assert_eq!(result("skipping(ab)", "f(f(a))"), "f(f(b))");
    assert_eq!(result("skipping(ab)", "f(a)"), FAILED);
    assert_eq!(result("ab @ body @ body", "l(l(a))"), "l(l(b))");
    assert_eq!(result("deep(3)", "l(l(l(a)))"), "l(l(l(b)))");
    assert_eq!(result("twice(topDown(ab))", "f(a a a)"), "f(b b a)");
    let d = run("bodi(ab)", "a").unwrap_err().diagnostic;
    assert_eq!(d.help.as_deref(), Some("did you mean `body`?"));
}

#[test]
fn item_32_steps_count_by_the_published_convention() {
    let steps = |s: &str| run(s, "l(l(a))").unwrap().steps;
    assert_eq!(steps("id"), 1);
    assert_eq!(steps("body(id)"), 2);
    assert_eq!(steps("body(id) ; body(id)"), 4);
    assert_eq!(steps("body(id ; id)"), 3);
    let o = run("body(body(ab)) ; one(grow)", "l(l(a))").unwrap();
    let shown: Vec<(String, Vec<usize>, String, String)> =
        o.trace.iter().map(|a| (a.rule.clone(), a.path.clone(), a.before.show(), a.after.show())).collect();
    assert_eq!(shown[0], ("ab".into(), vec![0, 0], "a".into(), "b".into()));
    assert_eq!(shown[1], ("grow".into(), vec![0], "l(b)".into(), "s(l(b))".into()));
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let o = run("(one(ab) ; fail) <+ fg", "f(a)").unwrap();
    assert_eq!((o.tree.show().as_str(), o.trace.len(), o.state), ("g(a)", 1, 1));
    let o = run("where(topDown(ab)) ; not(bc)", "f(a)").unwrap();
    assert_eq!((o.tree.show().as_str(), o.trace.len(), o.state), ("f(a)", 0, 0));
}

#[test]
fn traces_are_stored_and_replayed() {
    let t = Toy::parse("f(a f(a b))");
    let o = run("normalize(ab <+ bc) ; topDown(fg)", "f(a f(a b))").unwrap();
    let records = lathe_strategy::rewrite::evidence(&t, &o.trace, &lathe_strategy::Obligation::equation);
    let (definitions, facts) = (Definitions::default(), |_: &str| None);
    let context = Context::new(&definitions, None, &facts);
    let again = replay_nodes(&context, &words(), &t, 0, &records).unwrap();
    assert_eq!(again.tree, o.tree);
    let other = replay_nodes(&context, &words(), &Toy::parse("f(a)"), 0, &records).unwrap_err();
    assert_eq!(other.diagnostic.code.0, "E0612");
}

#[test]
fn item_15_failures_say_what_where_and_why() {
    let d = run("topDown(fg ; one(bc))", "g(f(a a))").unwrap_err().diagnostic;
    assert_eq!(d.code.0, FAILED);
    let all = d.to_string();
    assert!(all.contains("`bc`") && all.contains("path 0"), "{all}");
    for (s, code) in [
        ("nothing", "E0605"),
        ("try", "E0606"),
        ("try(1)", "E0606"),
        ("twice(ab, ab)", "E0606"),
        ("ab @ 3", "E0109"),
    ] {
        match parse_strategy(s) {
            Err(d) => assert_eq!(d.code.0, code, "{s}"),
            Ok(_) => assert_eq!(result(s, "a"), code, "{s}"),
        }
    }
}

#[test]
fn item_50_strategies_rewrite_strategies() {
    let words = meta::vocabulary();
    let d = definitions();
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    let simplify =
        parse_strategy("normalize(bodyFusion <+ idSimplification <+ failSimplification <+ flatten)").unwrap();
    let shrink = |s: &str| {
        let t = meta::Meta::new(parse_strategy(s).unwrap());
        rewrite(&c, &words, &simplify, t, ()).unwrap().tree.show()
    };
    assert_eq!(shrink("body(id) ; body(id)"), "body(id)");
    assert_eq!(shrink("id ; id"), "id");
    assert_eq!(shrink("id <+ ab"), "id");
    assert_eq!(shrink("body(ab) ; body(bc) ; body(id)"), "body(ab ; bc)");
    assert_eq!(shrink("topDown(fail <+ (id ; ab))"), "topDown(ab)");
    // Less work, the same outcome.
    let trees = ["a", "l(a)", "l(l(b))", "f(l(a))"];
    for s in [
        "body(ab) ; body(bc)",
        "body(id) ; body(id)",
        "try(body(id)) ; ab",
        "fail <+ body(body(ab ; id))",
        "one(id ; body(id) ; body(ab))",
    ] {
        let shorter = shrink(s);
        for t in trees {
            assert_eq!(result(s, t), result(&shorter, t), "{s} and {shorter} on {t}");
            if let (Ok(a), Ok(b)) = (run(s, t), run(&shorter, t)) {
                assert!(b.steps <= a.steps, "{s}: {} steps, {shorter}: {}", a.steps, b.steps);
            }
        }
    }
}

/// F-tilde: arrays as functions, `build n (λi. e)`; variables count binders.
mod smooth {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    pub enum F {
        Var(usize),
        Free(&'static str),
        Zero,
        Lam(E),
        App(E, E),
        Let(E, E),
        Build(E, E),
        Get(E, E),
        Length(E),
    }
    pub type E = Rc<F>;

    pub fn shift(e: &E, from: usize, by: isize) -> E {
        let s = |e: &E, n: usize| shift(e, from + n, by);
        Rc::new(match &**e {
            F::Var(i) if *i >= from => F::Var(i.checked_add_signed(by).unwrap()),
            F::Lam(b) => F::Lam(s(b, 1)),
            F::App(a, b) => F::App(s(a, 0), s(b, 0)),
            F::Let(a, b) => F::Let(s(a, 0), s(b, 1)),
            F::Build(a, b) => F::Build(s(a, 0), s(b, 0)),
            F::Get(a, b) => F::Get(s(a, 0), s(b, 0)),
            F::Length(a) => F::Length(s(a, 0)),
            other => other.clone(),
        })
    }

    /// The variable `at` replaced.
    pub fn open(e: &E, at: usize, by: &E) -> E {
        let s = |e: &E, n: usize| open(e, at + n, by);
        Rc::new(match &**e {
            F::Var(i) if *i == at => return shift(by, 0, at as isize),
            F::Var(i) if *i > at => F::Var(i - 1),
            F::Lam(b) => F::Lam(s(b, 1)),
            F::App(a, b) => F::App(s(a, 0), s(b, 0)),
            F::Let(a, b) => F::Let(s(a, 0), s(b, 1)),
            F::Build(a, b) => F::Build(s(a, 0), s(b, 0)),
            F::Get(a, b) => F::Get(s(a, 0), s(b, 0)),
            F::Length(a) => F::Length(s(a, 0)),
            other => other.clone(),
        })
    }

    #[derive(Clone, Debug)]
    pub struct Tree(pub E);

    impl Tree {
        fn parts(&self) -> Vec<E> {
            match &*self.0 {
                F::Var(_) | F::Free(_) | F::Zero => vec![],
                F::Lam(a) | F::Length(a) => vec![a.clone()],
                F::App(a, b) | F::Let(a, b) | F::Build(a, b) | F::Get(a, b) => vec![a.clone(), b.clone()],
            }
        }
    }

    impl Node for Tree {
        type State = ();
        fn arity(&self) -> usize {
            self.parts().len()
        }
        fn child(&self, n: usize) -> Option<Tree> {
            self.parts().get(n).cloned().map(Tree)
        }
        fn with_child(&self, n: usize, new: Tree) -> Tree {
            let mut p = self.parts();
            p[n] = new.0;
            let b = p.pop().unwrap();
            let a = p.pop();
            Tree(Rc::new(match (&*self.0, a) {
                (F::Lam(_), _) => F::Lam(b),
                (F::Length(_), _) => F::Length(b),
                (F::App(..), Some(a)) => F::App(a, b),
                (F::Let(..), Some(a)) => F::Let(a, b),
                (F::Build(..), Some(a)) => F::Build(a, b),
                (_, Some(a)) => F::Get(a, b),
                _ => F::Zero,
            }))
        }
        fn hash(&self) -> u64 {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut h = DefaultHasher::new();
            self.show().hash(&mut h);
            h.finish()
        }
        fn address(&self) -> Option<usize> {
            Some(Rc::as_ptr(&self.0) as usize)
        }
        fn same(&self, o: &Tree) -> bool {
            self.0 == o.0
        }
        fn show(&self) -> String {
            format!("{:?}", self.0)
        }
    }

    pub fn words() -> Vocabulary<Tree> {
        let mut v = Vocabulary::default();
        let no = || Why::Shape("not of the rule's shape");
        v.rule("buildGet", move |t: &Tree, _, _| match &*t.0 {
            F::Get(b, i) => match &**b {
                F::Build(_, f) => Ok(Tree(Rc::new(F::App(f.clone(), i.clone())))),
                _ => Err(no()),
            },
            _ => Err(no()),
        });
        v.rule("lenBuild", move |t: &Tree, _, _| match &*t.0 {
            F::Length(b) => match &**b {
                F::Build(n, _) => Ok(Tree(n.clone())),
                _ => Err(no()),
            },
            _ => Err(no()),
        });
        v.rule("letPartialEval", move |t: &Tree, _, _| match &*t.0 {
            F::Let(x, b) => Ok(Tree(open(b, 0, x))),
            _ => Err(no()),
        });
        v.rule("letApp", move |t: &Tree, _, _| match &*t.0 {
            F::App(f, a) => match &**f {
                F::Let(x, b) => {
                    let inner = Rc::new(F::App(b.clone(), shift(a, 0, 1)));
                    Ok(Tree(Rc::new(F::Let(x.clone(), inner))))
                }
                _ => Err(no()),
            },
            _ => Err(no()),
        });
        v.rule("funToLet", move |t: &Tree, _, _| match &*t.0 {
            F::App(f, a) => match &**f {
                F::Lam(b) => Ok(Tree(Rc::new(F::Let(a.clone(), b.clone())))),
                _ => Err(no()),
            },
            _ => Err(no()),
        });
        v
    }

    /// `build (length x[0]) (λi. build (length x) (λj. x[j][i]))`, x under `deep` binders.
    pub fn transposed(x: &E) -> E {
        let e = Rc::new;
        let row = e(F::Get(shift(x, 0, 2), e(F::Var(0))));
        let cell = e(F::Get(row, e(F::Var(1))));
        let inner = e(F::Build(e(F::Length(shift(x, 0, 1))), e(F::Lam(cell))));
        let first = e(F::Get(x.clone(), e(F::Zero)));
        e(F::Build(e(F::Length(first)), e(F::Lam(inner))))
    }
}

#[test]
fn item_31_f_tilde_transposes_twice_in_twelve_steps() {
    use smooth::{F, Tree, transposed, words};
    let m = Rc::new(F::Free("M"));
    let program = Rc::new(F::Let(transposed(&m), transposed(&Rc::new(F::Var(0)))));
    let strategy =
        parse_strategy("normalize(buildGet <+ lenBuild <+ letPartialEval <+ letApp <+ funToLet)").unwrap();
    let d = Definitions::default();
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    let out = rewrite(&c, &words(), &strategy, Tree(program), ()).unwrap();
    // build |M| (λi. build |M[0]| (λj. M[i][j]))
    let e = Rc::new;
    let cell = e(F::Get(e(F::Get(m.clone(), e(F::Var(1)))), e(F::Var(0))));
    let inner = e(F::Build(e(F::Length(e(F::Get(m.clone(), e(F::Zero))))), e(F::Lam(cell))));
    let want = e(F::Build(e(F::Length(m)), e(F::Lam(inner))));
    assert_eq!(out.tree.0, want);
    let count = |r: &str| out.trace.iter().filter(|a| a.rule == r).count();
    let counts = ["letPartialEval", "buildGet", "funToLet", "lenBuild", "letApp"].map(count);
    assert_eq!((out.trace.len(), counts), (12, [4, 3, 3, 2, 0]));
}

/// Rewriting strategies costs what it does: one budget, one limit of nesting, and never a stack without end.
#[test]
fn rewritten_strategies_end_or_are_found_out() {
    assert_eq!(result("rewritten(normalize(idSimplification), id ; ab ; id)", "a"), "b");
    assert_eq!(result("rewritten(normalize(bodyFusion), body(ab) ; body(bc))", "l(a)"), "l(c)");
    assert_eq!(run("rewritten(normalize(idSimplification), id ; ab ; id)", "a").unwrap().steps, 1);
    assert_eq!(result("rewritten(rewritten(id, try(flatten)), (ab ; bc) ; id)", "a"), "c");
    for s in ["itself", "byItself", "try(itself)"] {
        assert_eq!(result(s, "a"), "E0608", "{s}");
    }
    // This one ends where `ab` does not apply.
    assert_eq!(result("unrolled", "a"), FAILED);
    // The budget is one: what strategies cost is taken from it.
    let long: Vec<&str> = std::iter::repeat_n("id", 1_200).collect();
    assert_eq!(result(&format!("rewritten(tryAll(id), {})", long.join(" ; ")), "a"), "E0608");
}

/// What the rules of strategies rely on keeps its meaning, or they are not applied.
#[test]
fn words_that_a_file_defines_anew_are_not_simplified() {
    for own in ["strategy id = fail", "strategy body(s) = s", "strategy try(s) = s"] {
        let d = Definitions::new(parse_definitions(own).unwrap());
        let facts = |_: &str| None;
        let c = Context::new(&d, None, &facts);
        let s = parse_strategy("rewritten(try(idSimplification), ab ; bc)").unwrap();
        let refused = rewrite(&c, &words(), &s, Toy::parse("a"), 0).unwrap_err();
        assert_eq!(refused.diagnostic.code.0, "E0606", "{own}");
    }
}

/// A strategy that depends on the tree; traversals that remember where it applied nowhere remember that one only.
#[test]
fn strategies_that_depend_on_the_tree_are_told_apart() {
    let mut v = words();
    // On `g(x y)`: `ab` somewhere in `x`, `bc` somewhere in `y`.
    v.add(
        "byLabel",
        lathe_strategy::Entry::Here(Rc::new(|t: &Toy, _| {
            let step = match t.0.0.as_str() {
                "x" => "topDown(ab)",
                "y" => "topDown(bc)",
                _ => return Err(Why::Shape("neither")),
            };
            Ok(parse_strategy(step).unwrap())
        })),
    );
    let d = Definitions::default();
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    let s = parse_strategy("tryAll(byLabel)").unwrap();
    // One leaf is shared by all: `ab` does not apply to it, `bc` does.
    let leaf = Toy::new("b", vec![]);
    let of = |l: &str| Toy::new(l, vec![leaf.clone()]);
    let tree = Toy::new("g", (0..40).map(|n| of(if n % 2 == 0 { "x" } else { "y" })).collect());
    let out = rewrite(&c, &v, &s, tree, 0).unwrap().tree.show();
    assert_eq!(out.matches("x(b)").count(), 20);
    assert_eq!(out.matches("y(c)").count(), 20);
}

/// Conditions before shapes, what failed after other steps before what failed at once, outer places before inner ones.
#[test]
fn failures_name_the_place_that_tells_most() {
    let mut v = words();
    v.rule("never", |t: &Toy, _, _| match t.0.0.as_str() {
        "f" | "h" => Err(Why::Condition(format!("`{}` must not", t.0.0))),
        _ => Err(Why::Shape("not that label")),
    });
    let d = Definitions::default();
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    let told = |s: &str, t: &str| {
        let refused = rewrite(&c, &v, &parse_strategy(s).unwrap(), Toy::parse(t), 0).unwrap_err();
        assert_eq!(refused.diagnostic.code.0, FAILED);
        refused.diagnostic.message
    };
    assert!(told("topDown(never)", "g(f(h) a)").contains("`f` must not"));
    assert!(told("topDown(never)", "g(a l(h(f)))").contains("`h` must not"));
    // `h` is found after `ab`, the outer `f` before.
    assert!(
        told("topDown(never) <+ (one(ab) ; topDown(isLeaf ; never <+ one(isF ; never)))", "g(a f)")
            .contains("`never`")
    );
    assert!(told("fg <+ (ab ; fg)", "a").contains("`fg`"));
    assert!(told("(topDown(ab) ; one(never)) <+ never", "g(a h)").contains("`h` must not"));
}
