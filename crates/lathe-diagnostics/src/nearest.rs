//! Near misses: the name that was probably meant.

/// The candidate that a name was probably meant to be: the one with the fewest edits (insert, remove, replace, swap of
/// neighbours; letter case costs nothing), if they are at most a third of the name's letters; else the only one that
/// begins with the name, if this has three letters or more.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    let allowed = (name.chars().count() / 3).max(1);
    let others: Vec<&str> = candidates.filter(|c| *c != name).collect();
    let near = others.iter().map(|c| (distance(name, c), *c));
    let near = near.filter(|(d, c)| *d <= allowed && *d < c.chars().count()).min().map(|(_, c)| c);
    let begun = || {
        let mut all = others.iter().filter(|c| name.chars().count() >= 3 && c.starts_with(name));
        all.next().filter(|first| all.all(|c| c == *first)).copied()
    };
    near.or_else(begun).map(str::to_string)
}

/// Names of files that nobody typed can be long: what comes after this many letters is not compared.
const COMPARED: usize = 64;

fn distance(a: &str, b: &str) -> usize {
    if a.eq_ignore_ascii_case(b) {
        return 0;
    }
    let short = |s: &str| s.chars().take(COMPARED).collect::<String>();
    strsim::osa_distance(&short(a), &short(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_only() {
        let all = ["parallel", "vectorize", "vector", "A", "B"];
        let meant = |name: &str| nearest(name, all.into_iter());
        assert_eq!(meant("paralel"), Some("parallel".into()));
        assert_eq!(meant("aprallel"), Some("parallel".into()));
        assert_eq!(meant("par"), Some("parallel".into()));
        assert_eq!(meant("vec"), None);
        assert_eq!(meant("a"), Some("A".into()));
        assert_eq!(meant("zebra"), None);
        assert_eq!(meant("X"), None);
    }
}
