//! Near misses: the name that was probably meant.

/// The candidate closest to a name, if it is close enough to be what was meant.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .filter(|c| *c != name)
        .map(|c| (distance(name, c), c))
        .filter(|(d, c)| *d <= allowed && *d < c.chars().count())
        .min()
        .map(|(_, c)| c.to_string())
}

/// Edits (insert, remove, replace, swap neighbours) between two names; letter case costs nothing.
fn distance(a: &str, b: &str) -> usize {
    if a.eq_ignore_ascii_case(b) {
        return 0;
    }
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j - 1] + same).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_only() {
        let all = ["parallel", "vectorize", "A", "B"];
        assert_eq!(nearest("paralel", all.into_iter()), Some("parallel".into()));
        assert_eq!(nearest("a", all.into_iter()), Some("A".into()));
        assert_eq!(nearest("zebra", all.into_iter()), None);
        assert_eq!(nearest("X", all.into_iter()), None);
    }
}
