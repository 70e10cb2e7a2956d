//! What was done, for storing, and doing it again.

use super::*;

/// The records of a trace, for storing; `equation` says how a rule is known to hold.
pub fn evidence<N: Node>(
    root: &N,
    trace: &[Applied<N>],
    equation: &dyn Fn(&str) -> Obligation,
) -> Vec<Evidence> {
    let mut tree = root.clone();
    let mut out = Vec::new();
    for a in trace {
        let next = replace_at(&tree, &a.path, &a.after);
        let mut e = Evidence::new(&a.rule, 1);
        e.oblige(equation(&a.rule));
        e.args.clone_from(&a.args);
        e.path.clone_from(&a.path);
        e.before = tree.digest();
        e.after = next.digest();
        out.push(e);
        tree = next;
    }
    out
}

/// Applies recorded steps again, and gives the trace that they leave; every tree in between must have the recorded hash.
/// The definitions of the context are what the tests of rules that search may call. Whether the records say what
/// [`evidence`] says of the trace is for the caller to see.
pub fn replay_nodes<N: Node>(
    context: &Context,
    words: &Vocabulary<N>,
    root: &N,
    mut state: N::State,
    steps: &[Evidence],
) -> Result<Outcome<N>, Refusal> {
    let mut tree = root.clone();
    let mut trace = Vec::new();
    for (n, e) in steps.iter().enumerate() {
        let wrong = |what: &str| {
            let text = format!("replay of step {} (`{}`): {what}", n + 1, e.rule);
            Refusal::new(&e.rule, Diagnostic::error(codes::REPLAY, text))
        };
        if tree.digest() != e.before {
            return Err(wrong("the tree before it differs"));
        }
        let Some(entry) = words.get(&e.rule) else { return Err(wrong("there is no such rule")) };
        let focus = e.path.iter().try_fold(tree.clone(), |t, n| t.child(*n));
        let focus = focus.ok_or_else(|| wrong("there is no such place"))?;
        let values = |args: &[String]| {
            let args = args.iter().map(|a| StepArg::read(a)).collect::<Option<Vec<_>>>();
            args.ok_or_else(|| wrong("an argument cannot be read"))
        };
        let after = match (entry, e.args.split_first()) {
            (Entry::Rule(f), _) => f(&focus, &mut state, &values(&e.args)?),
            (Entry::Tested(f), Some((test, args))) => {
                let searched = RefCell::new(HashMap::new());
                let mut engine = Engine::new(context, words, state.clone(), false, &searched);
                let test = crate::parse_strategy(test).map_err(|d| Refusal::new(&e.rule, d))?;
                let test = engine.strategy(&test).map_err(|_| wrong("its test cannot be read"))?;
                let out = engine.tested(f, &test, &focus, &values(args)?);
                let out = out.map_err(|_| wrong("its test does not terminate"))?;
                state = engine.state;
                out
            }
            _ => return Err(wrong("there is no such rule")),
        };
        let after = after.map_err(|w| wrong(&w.to_string()))?;
        tree = replace_at(&tree, &e.path, &after);
        trace.push(Applied {
            rule: e.rule.clone(),
            args: e.args.clone(),
            path: e.path.clone(),
            before: focus,
            after,
        });
        if tree.digest() != e.after {
            return Err(wrong("the tree after it differs"));
        }
    }
    Ok(Outcome { tree, state, steps: steps.len() as u64, tried: steps.len() as u64, trace })
}

/// The tree with another sub-tree at a path.
pub fn replace_at<N: Node>(root: &N, path: &[usize], new: &N) -> N {
    match path.split_first() {
        None => new.clone(),
        Some((first, rest)) => match root.child(*first) {
            Some(c) => root.with_child(*first, replace_at(&c, rest, new)),
            None => root.clone(),
        },
    }
}
