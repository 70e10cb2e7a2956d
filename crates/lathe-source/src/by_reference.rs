//! Helpers that take vectors, without vectors as arguments.
//!
//! How wide vectors are passed depends on the compiler's version and flags, and gcc says so for every function that
//! takes or returns one, even where it is written in place. So such a helper gets its vectors by address, and a
//! macro of its name brings them there: `lathe_pick_f32x16(m, a, b)` stays an expression.

/// The helper's text, by reference if it has a vector among its arguments or as its value.
pub fn by_reference(text: &str) -> String {
    rewrite(text).unwrap_or_else(|| text.to_string())
}

fn rewrite(text: &str) -> Option<String> {
    let (head, body) = text.strip_prefix("static inline ")?.split_once(") {\n")?;
    let (before, params) = head.split_once('(')?;
    let (result, name) = before.rsplit_once(' ')?;
    let params: Vec<(&str, &str)> = params.split(", ").map(split_param).collect::<Option<_>>()?;
    if !is_vector(result) && !params.iter().any(|p| is_vector(p.0)) {
        return None;
    }
    let (mut formals, mut actuals, mut copies, mut locals) =
        (Vec::new(), Vec::new(), String::new(), String::new());
    let mut body = body.to_string();
    if is_vector(result) {
        formals.push(format!("{result} *r_"));
        actuals.push("&r_".to_string());
        locals += &format!("{result} r_; ");
        body = returns_through(&body);
    }
    for (ty, p) in &params {
        if is_vector(ty) {
            formals.push(format!("const {ty} *{p}_"));
            actuals.push(format!("&{p}_"));
            copies += &format!("    {ty} {p} = *{p}_;\n");
            locals += &format!("{ty} {p}_ = ({p}); ");
        } else {
            formals.push(format!("{ty}{}{p}", if ty.ends_with('*') { "" } else { " " }));
            actuals.push((*p).to_string());
        }
    }
    let returned = if is_vector(result) { "void" } else { result };
    let value = if is_vector(result) { " r_;" } else { "" };
    let names: Vec<&str> = params.iter().map(|p| p.1).collect();
    Some(format!(
        "static inline {returned} {name}_at({}) {{\n{copies}{body}\n\
         #define {name}({}) __extension__ ({{ {locals}{name}_at({});{value} }})",
        formals.join(", "),
        names.join(", "),
        actuals.join(", ")
    ))
}

/// Type and name of a parameter; the star belongs to the type.
fn split_param(p: &str) -> Option<(&str, &str)> {
    let at = p.rfind([' ', '*'])?;
    let ty = if p.as_bytes()[at] == b'*' { &p[..=at] } else { &p[..at] };
    Some((ty, &p[at + 1..]))
}

/// `lathe_f32x16`
fn is_vector(ty: &str) -> bool {
    let lanes = ty.strip_prefix("lathe_").and_then(|t| t.rsplit_once('x')).map(|t| t.1);
    lanes.is_some_and(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_digit()))
}

/// `return e;` as a store through `r_`.
fn returns_through(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("return ") {
        let Some((value, after)) = after.split_once(';') else { break };
        out += before;
        out += &format!("{{ *r_ = {value}; return; }}");
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::by_reference;

    #[test]
    fn vectors_travel_by_address() {
        let text = "static inline lathe_f32x4 lathe_f(const float *p, lathe_i64x4 at, int64_t n) {\n    \
                    return g(p, at, n);\n}";
        assert_eq!(
            by_reference(text),
            "static inline void lathe_f_at(lathe_f32x4 *r_, const float *p, const lathe_i64x4 *at_, int64_t n) {\n    \
             lathe_i64x4 at = *at_;\n    { *r_ = g(p, at, n); return; }\n}\n\
             #define lathe_f(p, at, n) __extension__ ({ lathe_f32x4 r_; lathe_i64x4 at_ = (at); \
             lathe_f_at(&r_, p, &at_, n); r_; })"
        );
        for same in [
            "static inline int lathe_g(const lathe_array *a) {\n    return 1;\n}",
            "static inline void lathe_stream_end(void) {\n}",
            "typedef float lathe_f32x4 __attribute__((vector_size(16)));",
        ] {
            assert_eq!(by_reference(same), same);
        }
    }
}
