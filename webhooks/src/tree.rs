//! Patterns of fields joined to a tree, so that an object is walked once however many of them there are.
//! Knows nothing of what is asked at a field.

use serde_json::Value;

/// A field, or each item of a list, and what is kept for it.
pub(crate) struct Tree<T> {
    kept: Vec<T>,
    /// Sorted by key.
    keys: Vec<(&'static str, Self)>,
    items: Option<Box<Self>>,
}

/// What hears of a value: what is kept for its pattern, the value, and the place of each list on the way.
type Visit<'v, 'a, T> = dyn FnMut(&T, &'a Value, &[usize]) + 'v;

impl<T> Tree<T> {
    pub(crate) const fn new() -> Self {
        Self { kept: Vec::new(), keys: Vec::new(), items: None }
    }

    /// Keeps something for a pattern such as `spec.certs.secrets[].name`.
    pub(crate) fn keep(&mut self, pattern: &'static str, what: T) {
        let node = pattern.split('.').fold(self, |node, part| {
            let key = part.trim_end_matches("[]");
            let lists = (part.len() - key.len()) / 2;
            (0..lists).fold(node.key(key), |node, _| node.items.get_or_insert_with(|| Box::new(Self::new())))
        });
        node.kept.push(what);
    }

    fn key(&mut self, key: &'static str) -> &mut Self {
        let place = self.place(key).unwrap_or_else(|place| {
            self.keys.insert(place, (key, Self::new()));
            place
        });
        &mut self.keys[place].1
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        self.keys.binary_search_by(|(other, _)| (*other).cmp(key))
    }

    /// Visits every value for which something is kept.
    pub(crate) fn walk<'a>(&self, object: &'a Value, visit: &mut Visit<'_, 'a, T>) {
        self.enter(object, &mut Vec::new(), visit);
    }

    fn enter<'a>(&self, value: &'a Value, indices: &mut Vec<usize>, visit: &mut Visit<'_, 'a, T>) {
        for kept in &self.kept {
            visit(kept, value, indices);
        }
        match (value, &self.items) {
            (Value::Object(map), _) if !self.keys.is_empty() => {
                // A manifest has few of the fields there are, so it leads.
                for (key, value) in map {
                    if let Ok(place) = self.place(key) {
                        self.keys[place].1.enter(value, indices, visit);
                    }
                }
            }
            (Value::Array(list), Some(items)) => {
                for (index, item) in list.iter().enumerate() {
                    indices.push(index);
                    items.enter(item, indices, visit);
                    indices.pop();
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field;
    use serde_json::json;

    /// The tree finds what looking for each pattern alone finds.
    #[test]
    fn a_walk_reaches_what_every_pattern_reaches() {
        let patterns =
            ["spec.a[].b[]", "spec.a[].c", "spec", "spec.a", "spec.d.e", "metadata.name", "spec.a[]"];
        let object = json!({
            "metadata": { "name": "n" },
            "spec": { "a": [{ "b": ["x", "y"], "c": 1 }, { "b": [] }, 3], "d": { "e": null, "f": 1 } },
        });
        let mut tree = Tree::new();
        for pattern in patterns {
            tree.keep(pattern, pattern);
        }
        let mut walked = Vec::new();
        tree.walk(&object, &mut |pattern, value, indices| {
            walked.push((field::path(pattern, indices), value))
        });
        let mut looked_for = Vec::new();
        for pattern in patterns {
            field::each(&object, pattern, &mut |value, indices| {
                looked_for.push((field::path(pattern, indices), value));
            });
        }
        walked.sort_by(|one, other| one.0.cmp(&other.0));
        looked_for.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(walked, looked_for);
        assert_eq!(walked.len(), 10);
    }
}
