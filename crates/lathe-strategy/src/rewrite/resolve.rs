//! From a strategy to what runs: names are found, definitions entered, arguments computed.

use super::*;

impl<N: Node> Engine<'_, N> {
    pub(super) fn strategy(&mut self, s: &Strategy) -> Result<Shared<N>, Stop> {
        Ok(match s {
            Strategy::Id => Rc::new(Code::Id),
            Strategy::Fail(why) => Rc::new(Code::Fail(why.clone())),
            Strategy::Seq(v) => Rc::new(Code::Seq(self.all(v)?)),
            Strategy::Choice(v) => Rc::new(Code::Choice(self.all(v)?)),
            // `s @ location(p)` is `location(p, s)`.
            Strategy::At(s, place) => match &**place {
                Strategy::Call { name, args, span } => {
                    let mut args = args.clone();
                    args.push(Argument { name: None, value: ArgValue::Strategy(s.clone()), span: *span });
                    self.named(name, &args, *span)?
                }
                _ => {
                    let help = "write `s @ outermost(p)`, `s @ body`, ...";
                    return Err(self.mistake(codes::LOCATION, "this is no location", None, Some(help)));
                }
            },
            Strategy::If { cond, then, other, span } => match eval(cond, self.context.facts) {
                Ok(Value::Bool(true)) => self.strategy(then)?,
                Ok(Value::Bool(false)) => self.strategy(other)?,
                Ok(v) => {
                    let text = format!("`{cond}` is `{v}`, not true or false");
                    return Err(self.mistake(codes::CONDITION, text, *span, None));
                }
                Err(e) => {
                    let text = format!("the condition `{cond}`: {e}");
                    let help = "conditions may use parameters and machine facts";
                    return Err(self.mistake(codes::CONDITION, text, *span, Some(help)));
                }
            },
            Strategy::Call { name, args, span } => self.named(name, args, *span)?,
        })
    }

    fn all(&mut self, v: &[Strategy]) -> Result<Vec<Shared<N>>, Stop> {
        v.iter().map(|s| self.strategy(s)).collect()
    }

    fn named(&mut self, name: &str, args: &[Argument], span: Option<Span>) -> Result<Shared<N>, Stop> {
        // Definitions come first, so that users can refine what is built in.
        if let Some(d) = self.context.definitions.find(name, self.context.target) {
            let key = format!("{name}{args:?}");
            if let Some(c) = self.calls.get(&key) {
                return Ok(c.clone());
            }
            let body = call(d, args, self.context.facts)
                .map_err(|e| Stop::Fatal(Box::new(self.tell(Refusal::new(name, e), span))))?;
            let shown = show_call(name, args);
            let code = Rc::new(Code::Call(Box::new(move || body.clone()), shown, RefCell::new(None)));
            self.calls.insert(key, code.clone());
            return Ok(code);
        }
        let nullary = |c: Code<N>| Ok(Rc::new(c));
        match (name, args.len()) {
            ("id", 0) => return nullary(Code::Id),
            ("fail", 0) => return nullary(Code::Fail("`fail`".to_string())),
            _ => {}
        }
        let unary: Option<fn(Shared<N>) -> Code<N>> = match name {
            "try" => Some(|s| Code::Choice(vec![s, Rc::new(Code::Id)])),
            "not" => Some(Code::Not),
            "where" => Some(Code::Where),
            "repeat" => Some(Code::Repeat),
            "one" => Some(Code::One),
            "all" => Some(Code::All),
            "some" => Some(Code::Some),
            "topDown" => Some(Code::TopDown),
            "bottomUp" => Some(Code::BottomUp),
            "allTopDown" => Some(Code::AllTopDown),
            "allBottomUp" => Some(Code::AllBottomUp),
            "tryAll" => Some(Code::TryAll),
            "normalize" => Some(Code::Normalize),
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
            return Ok(Rc::new(if name == "outermost" { Code::TopDown(both) } else { Code::BottomUp(both) }));
        }
        if let ("rewritten", [by, s]) = (name, args) {
            return self.rewritten(by, s, span);
        }
        match self.words.get(name).cloned() {
            Some(Entry::Rule(f)) => {
                let args = self.values(args)?;
                Ok(Rc::new(Code::Rule(name.to_string(), f, args, span)))
            }
            Some(Entry::Predicate(f)) => {
                let args = self.values(args)?;
                Ok(Rc::new(Code::Predicate(name.to_string(), f, args, span)))
            }
            Some(Entry::Into(f)) => {
                let (s, args) = self.strategy_of(args.split_last(), name, span)?;
                Ok(Rc::new(Code::Into(name.to_string(), f, args, s, span)))
            }
            Some(Entry::Tested(f)) => {
                let shown = args.first().and_then(|a| a.value.as_strategy(a.span));
                let shown = shown.map(|s| s.to_string()).unwrap_or_default();
                let (test, args) = self.strategy_of(args.split_first(), name, span)?;
                Ok(Rc::new(Code::Tested(name.to_string(), f, test, shown, args, span)))
            }
            Some(Entry::Search(f, own)) => {
                let data = |(n, a): &(usize, &Argument)| *n == 0 || a.name.is_some();
                let (values, steps): (Vec<_>, Vec<_>) = args.iter().enumerate().partition(data);
                let values = self.values(&values.into_iter().map(|a| a.1.clone()).collect::<Vec<_>>())?;
                let mut moves =
                    steps.into_iter().map(|(_, a)| self.step(a, name)).collect::<Result<Vec<_>, _>>()?;
                for rule in own {
                    moves.push(self.named(rule, &[], span)?);
                }
                let call = show_call(name, args);
                let name = name.to_string();
                Ok(Rc::new(Code::Search(search::Search { name, call, run: f, args: values, moves, span })))
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
            Some(Entry::Here(f)) => {
                let args = self.values(args)?;
                Ok(Rc::new(Code::Here(name.to_string(), f, args, span)))
            }
            None => {
                let known = self.words.names().chain(BUILT_IN).chain(TRAVERSALS);
                let mut near: Vec<(usize, &str)> =
                    known.map(|k| (crate::context::distance(k, name), k)).collect();
                near.extend(
                    self.context
                        .definitions
                        .names(self.context.target)
                        .into_iter()
                        .map(|k| (crate::context::distance(k, name), k)),
                );
                let best = near.into_iter().min().filter(|n| n.0 <= 1 + name.len() / 3);
                let help = best.map(|n| format!("did you mean `{}`?", n.1));
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
            let text = format!("`rewritten` relies on what `{own}` means, and here it is defined otherwise");
            return Err(self.mistake(codes::CALL, text, span, None));
        }
        if let Strategy::Call { name, args, .. } = &s
            && let Some(d) = defined(name)
        {
            s = call(d, args, self.context.facts)
                .map_err(|e| Stop::Fatal(Box::new(self.tell(Refusal::new(name, e), span))))?;
        }
        // What comes out may lead here again.
        self.enter(show_call("rewritten", &[by.clone(), s.clone()].map(step_of)))?;
        let words = crate::meta::vocabulary();
        let left = self.context.steps.saturating_sub(self.tried);
        let context = Context { steps: left, ..*self.context };
        let out = rewrite_within(&context, &words, &by, crate::meta::Meta::new(s), (), &self.callers)
            .map_err(|r| Stop::Fatal(Box::new(self.tell(r, span))))?;
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
        Ok((self.step(strategy, name)?, self.values(rest)?))
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

    fn values(&self, args: &[Argument]) -> Result<Vec<StepArg>, Stop> {
        args.iter()
            .map(|a| match &a.value {
                ArgValue::Expr(e) => {
                    Ok(StepArg { name: a.name.clone(), value: self.constant(e, a.span)?, span: a.span })
                }
                ArgValue::Strategy(_) => {
                    Err(self.mistake(codes::CALL, "a value is wanted, not a strategy", a.span, None))
                }
            })
            .collect()
    }
}

fn step_of(s: Strategy) -> Argument {
    Argument { name: None, value: ArgValue::Strategy(Box::new(s)), span: None }
}
