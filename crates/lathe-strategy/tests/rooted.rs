//! Trees whose rules need the root have all traversals too.

use lathe_diagnostics::{Code, Diagnostic};
use lathe_strategy::rooted::{Log, Rooted, vocabulary};
use lathe_strategy::{
    Context, Definitions, Evidence, Location, Refusal, StepArg, Tree, parse_strategy, rewrite,
};

/// Loops by name, nested in order: `a(b c(d))` as a list of children per node.
#[derive(Clone, Debug, PartialEq)]
struct Nest(String, Vec<Nest>);

impl Nest {
    fn at(&mut self, path: &[usize]) -> Option<&mut Nest> {
        path.iter().try_fold(self, |t, n| t.1.get_mut(*n))
    }
    fn show(&self) -> String {
        let c: Vec<String> = self.1.iter().map(Nest::show).collect();
        if c.is_empty() { self.0.clone() } else { format!("{}({})", self.0, c.join(" ")) }
    }
}

impl Tree for Nest {
    fn rules(&self) -> Vec<&'static str> {
        vec!["mark", "hoist"]
    }

    /// `mark` names a loop in upper case; `hoist` exchanges the name with that of the parent.
    fn apply(&self, rule: &str, focus: &[usize], _: &[StepArg]) -> Result<(Nest, Evidence), Refusal> {
        let refuse = |text: &str| Err(Refusal::new(rule, Diagnostic::error(Code("E0000"), text)));
        let mut new = self.clone();
        let Some(here) = new.at(focus) else { return refuse("no such place") };
        if rule == "mark" {
            if here.0.chars().all(char::is_uppercase) {
                return refuse("marked already");
            }
            here.0 = here.0.to_uppercase();
        } else {
            let Some((_, parent)) = focus.split_last() else { return refuse("nothing around") };
            let name = here.0.clone();
            let Some(p) = new.at(parent) else { return refuse("no parent") };
            let old = std::mem::replace(&mut p.0, name);
            if let Some(h) = new.at(focus) {
                h.0 = old;
            }
        }
        Ok((new, Evidence::new(rule, 1)))
    }

    fn locate(&self, location: &Location, within: &[usize]) -> Result<Vec<Vec<usize>>, Refusal> {
        let Location::Loop(name) = location else { return Ok(vec![]) };
        let mut out = Vec::new();
        let mut open = vec![within.to_vec()];
        while let Some(path) = open.pop() {
            let Some(here) = self.clone().at(&path).cloned() else { continue };
            open.extend((0..here.1.len()).rev().map(|n| [&path[..], &[n]].concat()));
            if here.0 == *name {
                out.push(path);
            }
        }
        Ok(out)
    }

    fn arity(&self, path: &[usize]) -> usize {
        self.clone().at(path).map_or(0, |t| t.1.len())
    }

    fn size(&self) -> u64 {
        1 + self.1.iter().map(Tree::size).sum::<u64>()
    }

    fn digest(&self) -> String {
        lathe_strategy::digest(&self.hash().to_string())
    }

    fn hash(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut h = DefaultHasher::new();
        self.show().hash(&mut h);
        h.finish()
    }
}

fn run(s: &str) -> Result<(String, Vec<String>), String> {
    let leaf = |n: &str| Nest(n.into(), vec![]);
    let t = Nest("a".into(), vec![leaf("b"), Nest("c".into(), vec![leaf("d"), leaf("e")])]);
    let d = Definitions::default();
    let facts = |_: &str| None;
    let c = Context::new(&d, None, &facts);
    match rewrite(&c, &vocabulary(&t), &parse_strategy(s).unwrap(), Rooted::new(t), Log::default()) {
        Ok(o) => {
            let paths = o.state.steps().iter().map(|(e, _)| format!("{}{:?}", e.rule, e.path)).collect();
            Ok((o.tree.tree.show(), paths))
        }
        Err(r) => Err(r.diagnostic.code.0.to_string()),
    }
}

#[test]
fn traversals_go_through_trees_that_are_edited_at_the_root() {
    assert_eq!(run("topDown(mark)").unwrap().0, "A(b c(d e))");
    assert_eq!(run("bottomUp(mark)").unwrap().0, "a(B c(d e))");
    assert_eq!(run("all(mark)").unwrap().0, "a(B C(d e))");
    assert_eq!(run("normalize(mark)").unwrap().0, "A(B C(D E))");
    assert_eq!(run("tryAll(mark)").unwrap().0, "A(B C(D E))");
    assert_eq!(run("one(one(mark))").unwrap(), ("a(b c(D e))".into(), vec!["mark[1, 0]".into()]));
    // A rule that edits above its place.
    assert_eq!(run("one(one(hoist))").unwrap().0, "a(b d(c e))");
    assert_eq!(run("hoist <+ mark").unwrap(), ("A(b c(d e))".into(), vec!["mark[]".into()]));
    assert_eq!(run("(one(mark) ; hoist) <+ id").unwrap(), ("a(b c(d e))".into(), vec![]));
    assert_eq!(run("topDown(mark ; fail)").unwrap_err(), "E0611");
    assert_eq!(run("topDown(repeat(id))").unwrap_err(), "E0608");
    assert_eq!(run("topDown(repeat(hoist))").unwrap().0, "a(b c(d e))");
}

/// Outside of traversals rules refuse as they do by themselves, and what changes nothing is repeated once.
#[test]
fn refusals_of_rules_are_told_in_full() {
    assert_eq!(run("hoist").unwrap_err(), "E0000");
    assert_eq!(run("mark ; mark").unwrap_err(), "E0000");
    assert_eq!(run("fail <+ hoist").unwrap_err(), "E0000");
    assert_eq!(run("hoist <+ fail").unwrap_err(), "E0611");
    assert_eq!(run("repeat(mark)").unwrap(), ("A(b c(d e))".into(), vec!["mark[]".into()]));
    assert_eq!(run("repeat(id)").unwrap(), ("a(b c(d e))".into(), vec![]));
}

/// A place by name is looked up again before each rule: `hoist` moves it.
#[test]
fn places_by_name_move_with_what_they_name() {
    assert_eq!(run("mark @ loop(d)").unwrap(), ("a(b c(D e))".into(), vec!["mark[1, 0]".into()]));
    let moved = ("D(b a(c e))".to_string(), vec!["hoist[1, 0]".into(), "hoist[1]".into(), "mark[]".into()]);
    assert_eq!(run("(hoist ; hoist ; mark) @ loop(d)").unwrap(), moved);
    // What is not found any more is where it was last.
    assert_eq!(run("(mark ; hoist) @ loop(d)").unwrap().0, "a(b D(c e))");
    assert_eq!(run("(mark @ loop(e)) @ loop(c)").unwrap().0, "a(b c(d E))");
    assert_eq!(run("mark @ loop(b) @ loop(c)").unwrap_err(), "E0609");
    assert_eq!(run("mark @ loop(x)").unwrap_err(), "E0609");
    assert_eq!(run("try(mark @ loop(x))").unwrap().1.len(), 0);
    assert_eq!(run("mark @ mark").unwrap_err(), "E0609");
    // In a traversal the place stays where it is, and names are those from there on.
    assert_eq!(run("topDown((hoist ; mark) @ loop(d))").unwrap().0, "a(b d(C e))");
    assert_eq!(run("one(mark @ loop(d))").unwrap().0, "a(b c(D e))");
    assert_eq!(run("one(mark @ outermost(loop(d)))").unwrap().0, "a(b c(D e))");
    assert_eq!(run("one(mark @ loop(a))").unwrap_err(), "E0611");
    let twice = "mark @ loop(c) ; (hoist @ loop(d)) ; mark @ body";
    assert_eq!(run(twice).unwrap_err(), "E0611", "`a` has two parts");
}
