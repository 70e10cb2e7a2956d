//! From a strategy to what runs: names are found, definitions entered, arguments computed.

use super::*;

impl<N: Node> Engine<'_, N> {
    pub(super) fn strategy(&mut self, s: &Strategy) -> Result<Shared<N>, Stop> {
        Ok(match s {
            Strategy::Id => Rc::new(Code::Id),
            Strategy::Fail(why) => Rc::new(Code::Fail(why.clone())),
            Strategy::Seq(v) => Rc::new(Code::Seq(self.all(v)?)),
            Strategy::Choice(v) => Rc::new(Code::Choice(self.all(v)?)),
            Strategy::At(s, place) => self.at(s, place)?,
            Strategy::If { cond, then, other, span } => match eval(cond, self.context.facts) {
                Ok(Value::Bool(true)) => self.strategy(then)?,
                Ok(Value::Bool(false)) => self.strategy(other)?,
                Ok(v) => {
                    let text = format!("`{cond}` is `{v}`, not a boolean");
                    return Err(self.mistake(codes::CONDITION, text, *span, None));
                }
                Err(e) => {
                    let text = format!("the condition `{cond}`: {e}");
                    let help = "conditions may use parameters, machine facts and sizes";
                    return Err(self.mistake(codes::CONDITION, text, *span, Some(help)));
                }
            },
            Strategy::Call { name, args, span } => self.named(name, args, *span)?,
        })
    }

    fn all(&mut self, v: &[Strategy]) -> Result<Vec<Shared<N>>, Stop> {
        v.iter().map(|s| self.strategy(s)).collect()
    }

    /// `s @ place`: a place by name, or `location(p, s)`.
    fn at(&mut self, s: &Strategy, place: &Strategy) -> Result<Shared<N>, Stop> {
        let help = "write `s @ stmt(C)`, `s @ loop(i)`, `s @ outermost(isLoop)`, `s @ body`, ...";
        let none = |span| self.mistake(codes::LOCATION, "this is not a location", span, Some(help));
        let Strategy::Call { name, args, span } = place else { return Err(none(None)) };
        if self.rooted
            && let Some(location) = Location::from_strategy(place)
        {
            return Ok(Rc::new(Code::At(location, self.strategy(s)?, *span)));
        }
        let defined = self.context.definitions.find(name, self.context.target).is_some();
        if !defined && matches!(self.words.get(name), Some(Entry::Rule(_) | Entry::Predicate(_))) {
            return Err(none(*span));
        }
        let s = Argument { name: None, value: ArgValue::Strategy(Box::new(s.clone())), span: *span };
        self.named(name, &[args.as_slice(), &[s]].concat(), *span)
    }

    fn named(&mut self, name: &str, args: &[Argument], span: Option<Span>) -> Result<Shared<N>, Stop> {
        // Definitions come first, so that users can refine what is built in.
        if let Some(d) = self.context.definitions.find(name, self.context.target) {
            let key = format!("{name}{args:?}");
            if let Some(c) = self.calls.get(&key) {
                return Ok(c.clone());
            }
            let body =
                call(d, args, self.context.facts).map_err(|e| self.fatal(Refusal::new(name, e), span))?;
            let shown = show_call(name, args);
            let code = Rc::new(Code::Call(Box::new(move || body.clone()), shown, RefCell::new(None)));
            self.calls.insert(key, code.clone());
            return Ok(code);
        }
        match (name, args) {
            ("id", []) => return Ok(Rc::new(Code::Id)),
            ("fail", []) => return Ok(Rc::new(Code::Fail("asked to fail".to_string()))),
            ("fail", [Argument { value: ArgValue::Expr(why), .. }]) => {
                return Ok(Rc::new(Code::Fail(why.to_string())));
            }
            _ => {}
        }
        let unary: Option<fn(Shared<N>) -> Code<N>> = match name {
            "try" => Some(|s| Code::Choice(vec![s, Rc::new(Code::Id)])),
            "repeat" => Some(Code::Repeat),
            "not" => Some(|s| Code::Walk(Walk::Not, s)),
            "where" => Some(|s| Code::Walk(Walk::Where, s)),
            "one" => Some(|s| Code::Walk(Walk::One, s)),
            "all" => Some(|s| Code::Walk(Walk::All, s)),
            "some" => Some(|s| Code::Walk(Walk::Some, s)),
            "topDown" => Some(|s| Code::Walk(Walk::TopDown, s)),
            "bottomUp" => Some(|s| Code::Walk(Walk::BottomUp, s)),
            "allTopDown" => Some(|s| Code::Walk(Walk::AllTopDown, s)),
            "allBottomUp" => Some(|s| Code::Walk(Walk::AllBottomUp, s)),
            "tryAll" => Some(|s| Code::Walk(Walk::TryAll, s)),
            "normalize" => Some(|s| Code::Walk(Walk::Normalize, s)),
            _ => None,
        };
        if let Some(make) = unary {
            let [a] = args else {
                return Err(self.mistake(codes::CALL, format!("`{name}` takes one strategy"), span, None));
            };
            let s = self.step(a, name)?;
            return Ok(Rc::new(make(s)));
        }
        if let ("outermost" | "innermost", [p, s]) = (name, args) {
            let both = Rc::new(Code::Seq(vec![self.step(p, name)?, self.step(s, name)?]));
            let walk = if name == "outermost" { Walk::TopDown } else { Walk::BottomUp };
            return Ok(Rc::new(Code::Walk(walk, both)));
        }
        if let ("rewritten", [by, s]) = (name, args) {
            return self.rewritten(by, s, span);
        }
        // Words that had other names.
        let name = if self.words.get(name).is_some() { name } else { crate::words::current(name) };
        let step = |args| Step { name: name.to_string(), args, span };
        match self.words.get(name).cloned() {
            Some(Entry::Rule(f)) => Ok(Rc::new(Code::Rule(step(self.values(args, name, span)?), f))),
            Some(Entry::Predicate(f)) => {
                Ok(Rc::new(Code::Predicate(step(self.values(args, name, span)?), f)))
            }
            Some(Entry::Into(f)) => {
                let (s, args) = self.strategy_of(args.split_last(), name, span)?;
                Ok(Rc::new(Code::Into(step(args), f, s)))
            }
            Some(Entry::Tested(f)) => {
                let shown = args.first().and_then(|a| a.value.as_strategy(a.span));
                let shown = shown.map(|s| s.to_string()).unwrap_or_default();
                let (test, args) = self.strategy_of(args.split_first(), name, span)?;
                Ok(Rc::new(Code::Tested(step(args), f, test, shown)))
            }
            Some(Entry::Here(f)) => Ok(Rc::new(Code::Here(step(self.values(args, name, span)?), f))),
            Some(Entry::Search(f, own)) => {
                let data = |(n, a): &(usize, &Argument)| *n == 0 || a.name.is_some();
                let (values, steps): (Vec<_>, Vec<_>) = args.iter().enumerate().partition(data);
                let values: Vec<_> = values.into_iter().map(|a| a.1.clone()).collect();
                let values = self.values(&values, name, span)?;
                let mut moves =
                    steps.into_iter().map(|(_, a)| self.step(a, name)).collect::<Result<Vec<_>, _>>()?;
                for rule in own {
                    moves.push(self.named(rule, &[], span)?);
                }
                let call = show_call(name, args);
                Ok(Rc::new(Code::Search(search::Search { step: step(values), call, run: f, moves })))
            }
            Some(Entry::Macro(f)) => {
                let mut reduced = Vec::new();
                for a in args {
                    let value = match &a.value {
                        ArgValue::Expr(e) => ArgValue::Expr(self.constant(e, a.span)?),
                        s @ ArgValue::Strategy(_) => s.clone(),
                    };
                    reduced.push(Argument { value, ..a.clone() });
                }
                let s = f(&reduced).map_err(|text| self.mistake(codes::CALL, text, span, None))?;
                self.strategy(&s)
            }
            None => {
                let defined = self.context.definitions.names(self.context.target);
                let known = self.words.names().chain(BUILT_IN).chain(TRAVERSALS).chain(defined);
                let near = lathe_diagnostics::nearest(name, known);
                let meant = crate::words::meant(name).filter(|m| self.words.get(m).is_some());
                let help = match (meant, near) {
                    (Some(m), _) => Some(format!("that step is called `{m}` here")),
                    (_, Some(k)) => Some(format!("did you mean `{k}`?")),
                    _ => None,
                };
                let text = format!("there is no step `{name}`");
                Err(self.mistake(codes::UNKNOWN_STEP, text, span, help.as_deref()))
            }
        }
    }

    /// `rewritten(m, s)`: what the strategy over strategies `m` makes of `s`. A name stands for its definition.
    fn rewritten(&mut self, by: &Argument, s: &Argument, span: Option<Span>) -> Result<Shared<N>, Stop> {
        let (Some(by), Some(mut s)) = (by.value.as_strategy(by.span), s.value.as_strategy(s.span)) else {
            return Err(self.mistake(codes::CALL, "`rewritten` takes two strategies", span, None));
        };
        let defined = |n: &str| self.context.definitions.find(n, self.context.target);
        // The rules of strategies rely on what these words mean.
        if let Some(own) = crate::meta::RELIED_ON.into_iter().find(|n| defined(n).is_some()) {
            let text =
                format!("`rewritten` relies on the standard meaning of `{own}`, which is redefined here");
            return Err(self.mistake(codes::CALL, text, span, None));
        }
        if let Strategy::Call { name, args, .. } = &s
            && let Some(d) = defined(name)
        {
            s = call(d, args, self.context.facts).map_err(|e| self.fatal(Refusal::new(name, e), span))?;
        }
        // What comes out may lead here again.
        self.enter(show_call("rewritten", &[by.clone(), s.clone()].map(step_of)))?;
        let words = crate::meta::vocabulary();
        let left = self.context.steps.saturating_sub(self.tried);
        let context = Context { steps: left, ..*self.context };
        let out = rewrite_within(&context, &words, &by, crate::meta::Meta::new(s), (), &self.callers)
            .map_err(|r| self.fatal(r, span))?;
        self.tried += out.tried;
        let code = self.strategy(&out.tree.0)?;
        self.callers.pop();
        Ok(code)
    }

    /// The one argument that is a strategy, and the others as values.
    fn strategy_of(
        &mut self,
        parts: Option<(&Argument, &[Argument])>,
        name: &str,
        span: Option<Span>,
    ) -> Result<(Shared<N>, Vec<StepArg>), Stop> {
        let Some((strategy, rest)) = parts else {
            return Err(self.mistake(codes::CALL, format!("`{name}` takes a strategy"), span, None));
        };
        Ok((self.step(strategy, name)?, self.values(rest, name, span)?))
    }

    fn step(&mut self, a: &Argument, of: &str) -> Result<Shared<N>, Stop> {
        match a.value.as_strategy(a.span) {
            Some(s) => self.strategy(&s),
            None => {
                let text = format!("`{of}` takes a strategy here");
                Err(self.mistake(codes::CALL, text, a.span, None))
            }
        }
    }

    fn constant(&self, e: &Expr, span: Option<Span>) -> Result<Expr, Stop> {
        lathe_space::reduce(e, &|n| (self.context.facts)(n).map(Expr::Value))
            .map_err(|err| self.mistake(codes::ARITHMETIC, format!("`{e}`: {err}"), span, None))
    }

    fn values(&self, args: &[Argument], of: &str, span: Option<Span>) -> Result<Vec<StepArg>, Stop> {
        let value = |a: &Argument| match &a.value {
            ArgValue::Expr(e) => {
                let value = self.constant(e, a.span.or(span))?;
                Ok(StepArg { name: a.name.clone(), value, span: a.span })
            }
            ArgValue::Strategy(_) => {
                let text = format!("`{of}` takes no steps as arguments");
                Err(self.mistake(codes::CALL, text, a.span.or(span), None))
            }
        };
        args.iter().map(value).collect()
    }
}

fn step_of(s: Strategy) -> Argument {
    Argument { name: None, value: ArgValue::Strategy(Box::new(s)), span: None }
}
