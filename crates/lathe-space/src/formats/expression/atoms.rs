//! What is between operators: numbers, words, names, calls, lists, parentheses, lambdas.

use super::*;

impl<'a> Reader<'a> {
    pub(super) fn primary(&mut self) -> Result<Item, ParseError> {
        self.space();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return self.error("expected a value") };
        match first {
            '(' if self.dialect == Dialect::Cpp && lambda_ahead(rest) => self.lambda(),
            '[' if self.dialect == Dialect::Cpp && capture(rest).is_some() => {
                self.at += capture(rest).unwrap_or(0);
                self.lambda()
            }
            '(' => self.parenthesized(),
            '[' => {
                self.at += 1;
                self.list("]").map(Item::List)
            }
            '"' | '\'' => self.quoted().map(|s| Item::Value(word(s))),
            '$' => self.argument().map(Item::Value),
            c if c.is_ascii_digit() || c == '.' => self.number().map(Item::Value),
            c if c == '_' || c.is_alphabetic() => self.named(),
            _ => self.error("expected a value"),
        }
    }

    /// In Python also a tuple, which is a list here.
    fn parenthesized(&mut self) -> Result<Item, ParseError> {
        self.at += 1;
        let first = self.item()?;
        self.space();
        if self.dialect == Dialect::Python && self.rest().starts_with(',') {
            self.at += 1;
            let mut all = vec![self.only_value(first)?];
            all.extend(self.list(")")?);
            return Ok(Item::List(all));
        }
        self.expect(")")?;
        Ok(first)
    }

    /// Values up to a closing bracket.
    pub fn list(&mut self, close: &str) -> Result<Vec<Typed>, ParseError> {
        let mut all = Vec::new();
        loop {
            if self.eat(close) {
                return Ok(all);
            }
            if !all.is_empty() {
                self.expect(",")?;
                if self.eat(close) {
                    return Ok(all);
                }
            }
            all.push(self.value()?);
        }
    }

    /// `"text"` or `'text'`; a backslash takes the next character as it is.
    pub fn quoted(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        let mut chars = self.rest().char_indices();
        let quote = chars.next().map_or('"', |c| c.1);
        let mut out = String::new();
        let mut escaped = false;
        for (i, c) in chars {
            match c {
                c if escaped => {
                    out.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                c if c == quote => {
                    self.at = start + i + c.len_utf8();
                    return Ok(out);
                }
                c => out.push(c),
            }
        }
        self.error("the string is not terminated")
    }

    fn argument(&mut self) -> Result<Typed, ParseError> {
        let digits: String = self.rest()[1..].chars().take_while(char::is_ascii_digit).collect();
        let value = digits.parse::<usize>().ok().and_then(|n| self.scope.args.get(n.checked_sub(1)?));
        match value {
            Some(v) => {
                self.at += 1 + digits.len();
                Ok(literal(v.clone()))
            }
            None if digits.is_empty() => self.error("expected a number after `$`"),
            None => self.error(format!("no argument for `${digits}` was given")),
        }
    }

    fn number(&mut self) -> Result<Typed, ParseError> {
        let rest = self.rest();
        let digits = |s: &str| s.len() - s.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_').len();
        let mut end = digits(rest);
        let mut float = false;
        if rest[end..].starts_with('.') {
            end += 1 + digits(&rest[end + 1..]);
            float = true;
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[end + 1 + sign..]);
            if exponent > 0 {
                end += 1 + sign + exponent;
                float = true;
            }
        }
        let text = rest[..end].replace('_', "");
        let value =
            if float { text.parse().ok().map(Value::Float) } else { text.parse().ok().map(Value::Int) };
        let Some(value) = value else { return self.error("the number does not fit 64 bits") };
        self.at += end;
        // Suffixes of C++ literals.
        if self.dialect == Dialect::Cpp {
            let suffix =
                self.rest().len() - self.rest().trim_start_matches(['u', 'U', 'l', 'L', 'f', 'F']).len();
            self.at += suffix;
        }
        if self.rest().starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            return self.error("unexpected text after the number");
        }
        Ok(literal(value))
    }

    /// A name, a call, or a word of the language.
    fn named(&mut self) -> Result<Item, ParseError> {
        let start = self.at;
        let mut name = self.peek_word();
        self.at += name.len();
        // Namespaces mean nothing here.
        while self.rest().starts_with("::") {
            self.at += 2;
            name = self.peek_word();
            self.at += name.len();
            if name.is_empty() {
                return self.error("expected a name after `::`");
            }
        }
        let bool = |b| Ok(Item::Value(literal(Value::Bool(b))));
        match name {
            "true" | "True" => return bool(true),
            "false" | "False" => return bool(false),
            "and" | "or" | "not" | "in" | "if" | "else" | "for" | "lambda" => {
                self.at = start;
                return self.error("expected a value");
            }
            _ => {}
        }
        // `vector(f32)` and the like keep their text; calls have no space before the parenthesis or have.
        let before = self.at;
        if self.eat("(") {
            return self.call(name, start);
        }
        self.at = before;
        if self.lambda.as_deref() == Some(name) {
            let own = self.scope.own;
            return Ok(Item::Value(typed_name(own, self.scope.types.get(own).copied())));
        }
        Ok(Item::Value(typed_name(name, self.scope.types.get(name).copied())))
    }

    fn call(&mut self, name: &str, start: usize) -> Result<Item, ParseError> {
        let args = self.list(")")?;
        if self.dialect == Dialect::Cpp
            && args.len() == 1
            && let Some((_, alias)) = ALIASES.iter().find(|a| a.0 == name)
        {
            let e = args.into_iter().next().map_or(Expr::from(0), |a| a.e);
            return Ok(Item::Rule(Constraint::Alias(*alias, e)));
        }
        // `max(x)` of one number, as the T1 format has it, is that number; in C++ only two make sense.
        let ty = match name {
            "min" | "max" | "abs" => args.iter().map(|a| number(a.clone()).ty).reduce(joined),
            "pow" => Some(args.iter().map(|a| a.ty).fold(Ty::Int, joined)),
            "ceil_div" | "int" => Some(Ty::Int),
            "divides" | "is_multiple" | "is_power_of_two" => Some(Ty::Bool),
            "bool" if args.len() == 1 => return Ok(Item::Value(truth(args[0].clone()))),
            "float" if args.len() == 1 => {
                let one = Typed { e: Expr::Value(Value::Float(1.0)), ty: Ty::Float };
                return Ok(Item::Value(arithmetic(BinOp::Mul, args[0].clone(), one)));
            }
            "size_t" | "unsigned" | "long" if args.len() == 1 => return Ok(Item::Value(args[0].clone())),
            _ => Some(Ty::Unknown),
        };
        let Some(ty) = ty else {
            self.at = start;
            return self.error(format!("`{name}` needs arguments"));
        };
        let keep = name == "int" || ty == Ty::Unknown;
        let args = args.into_iter().map(|a| if keep { a.e } else { number(a).e }).collect();
        Ok(Item::Value(Typed { e: Expr::Call(name.to_string(), args), ty }))
    }

    /// `(int v) { return e; }`, with or without `[=]` before it.
    fn lambda(&mut self) -> Result<Item, ParseError> {
        if self.lambda.is_some() {
            return self.error("a lambda within a lambda");
        }
        let (name, end) = match lambda_head(self.rest()) {
            Some(head) => head,
            None => return self.error("expected `(type name) { return …; }`"),
        };
        self.lambda = Some(name);
        self.at += end;
        self.expect("{")?;
        if !self.eat_word("return") {
            return self.error("expected `return`");
        }
        let item = self.item()?;
        self.eat(";");
        self.expect("}")?;
        self.lambda = None;
        let rule = self.rule(item)?;
        Ok(Item::Rule(rule))
    }
}

fn lambda_ahead(rest: &str) -> bool {
    lambda_head(rest).is_some()
}

/// The parameter of the lambda that begins here, and the length of its head up to `{`.
pub(crate) fn lambda_head(rest: &str) -> Option<(String, usize)> {
    let close = rest.find(')')?;
    let inner = rest.strip_prefix('(')?.get(..close - 1)?;
    let name = inner.trim().rsplit(|c: char| c.is_whitespace() || c == '&').next()?;
    let plain = |s: &str| !s.is_empty() && s.chars().all(|c| c == '_' || c.is_alphanumeric());
    let ty = inner.trim().strip_suffix(name)?.trim();
    let after = &rest[close + 1..];
    let brace = after.len() - after.trim_start().len();
    (plain(name) && !ty.is_empty() && after.trim_start().starts_with('{'))
        .then(|| (name.to_string(), close + 1 + brace))
}

/// The length of a lambda's capture list.
fn capture(rest: &str) -> Option<usize> {
    let close = rest.find(']')?;
    let after = rest[close + 1..].trim_start();
    lambda_head(after).map(|_| rest.len() - after.len())
}
