//! Tells which objects of a kind came, changed or went between two looks at what is kept of them. It compares allocations and
//! never contents: one that did not change is still the same allocation, so that a look costs little however many there are.

use std::collections::HashMap;
use std::sync::Arc;

/// The objects as they were at the last look, by address. Each is held, so that no other can have its address.
pub(crate) struct Replaced<K>(HashMap<usize, Arc<K>>);

impl<K> Default for Replaced<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// What is different since the last look. One that changed is in both.
pub(crate) struct Difference<K> {
    /// Objects that came or changed, as they are now.
    pub(crate) now: Vec<Arc<K>>,
    /// Objects that changed or went, as they were.
    pub(crate) before: Vec<Arc<K>>,
}

impl<K> Replaced<K> {
    /// Takes over what there is now, and tells what is different.
    pub(crate) fn update(&mut self, objects: Vec<Arc<K>>) -> Difference<K> {
        let mut kept = HashMap::with_capacity(objects.len());
        let mut now = Vec::new();
        for object in objects {
            let address = Arc::as_ptr(&object).addr();
            if self.0.remove(&address).is_none() {
                now.push(object.clone());
            }
            kept.insert(address, object);
        }
        let before = std::mem::replace(&mut self.0, kept).into_values().collect();
        Difference { now, before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_changed_or_went_is_told_and_nothing_else() {
        let object = |name: &str| Arc::new(name.to_owned());
        let told = |difference: Difference<String>| -> (Vec<String>, Vec<String>) {
            let names = |objects: Vec<Arc<String>>| objects.iter().map(|one| (**one).clone()).collect();
            (names(difference.now), names(difference.before))
        };
        let none = Vec::<String>::new;
        let mut replaced = Replaced::default();
        let (a, b) = (object("a"), object("b"));
        assert_eq!(told(replaced.update(vec![a.clone()])), (vec!["a".to_owned()], none()));
        assert_eq!(told(replaced.update(vec![b.clone(), a.clone()])), (vec!["b".to_owned()], none()));
        assert_eq!(told(replaced.update(vec![a, b.clone()])), (none(), none()));
        let changed = (vec!["a".to_owned()], vec!["a".to_owned()]);
        assert_eq!(told(replaced.update(vec![object("a"), b.clone()])), changed, "another allocation");
        assert_eq!(told(replaced.update(vec![b])), (none(), vec!["a".to_owned()]));
    }
}
