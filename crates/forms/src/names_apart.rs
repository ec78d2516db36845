//! Names of columns of which no two are the same: the second `k` becomes `k_1`, whatever the case of their letters.

use std::collections::HashSet;

/// The names that these become; `None` where no two are the same.
pub fn are_apart<T: AsRef<str>>(names: &[T]) -> Option<Vec<String>> {
    let mut taken = HashSet::new();
    let apart = |name: &T| {
        let name = name.as_ref();
        let others = (1..).map(|suffix| format!("{name}_{suffix}"));
        let free = std::iter::once(name.to_owned()).chain(others).find(|free| taken.insert(free.to_lowercase()));
        free.unwrap_or_else(|| name.to_owned())
    };
    let all: Vec<String> = names.iter().map(apart).collect();
    all.iter().zip(names).any(|(new, old)| new != old.as_ref()).then_some(all)
}

/// The names that these become.
pub fn apart(names: Vec<String>) -> Vec<String> {
    are_apart(&names).unwrap_or(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_names_get_numbers_that_are_free() {
        assert_eq!(are_apart(&["a", "b"]), None);
        assert_eq!(are_apart(&["k", "K", "k_1", "k"]).expect("they are"), ["k", "K_1", "k_1_1", "k_2"]);
        assert_eq!(apart(vec!["a".to_owned()]), ["a"]);
    }
}
