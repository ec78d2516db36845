//! Uses of chunks that a part of the cache has noted, and has not told the policy yet.
//!
//! Must not know: what the policy makes of them.

use crate::policy::Form;

/// Uses, each with its time. Of a unit it is the last one, unless all count.
#[derive(Debug)]
pub(crate) struct Uses<K>(Vec<(u64, K, Form)>);

/// Where the last uses of a chunk's forms were noted.
#[derive(Debug, Default)]
pub(crate) struct NotedAt([usize; 2]);

impl<K: Clone + Eq> Uses<K> {
    /// None, with room for so many.
    pub(crate) fn with_capacity(uses: usize) -> Self {
        Self(Vec::with_capacity(uses))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Notes that a unit was used: beside its other uses where all count, else instead of them.
    pub(crate) fn note(&mut self, time: u64, (key, form): (&K, Form), noted: &mut NotedAt, all_count: bool) {
        let place = &mut noted.0[form as usize];
        match self.0.get_mut(*place).filter(|(_, of, noted)| !all_count && of == key && *noted == form) {
            Some((last, _, _)) => *last = time,
            None => {
                *place = self.0.len();
                self.0.push((time, key.clone(), form));
            }
        }
    }

    /// Takes all uses of several parts, in the order of their times; of one time inflated chunks come first.
    pub(crate) fn in_order(parts: impl Iterator<Item = Self>) -> impl Iterator<Item = (K, Form)> {
        let mut uses: Vec<(u64, K, Form)> = parts.flat_map(|part| part.0).collect();
        uses.sort_by_key(|(time, _, form)| (*time, *form == Form::Stored));
        uses.into_iter().map(|(_, key, form)| (key, form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_is_kept_or_all_are() {
        for all_count in [false, true] {
            let (mut one, mut other) = (Uses::with_capacity(4), Uses::with_capacity(4));
            let mut noted = [NotedAt::default(), NotedAt::default(), NotedAt::default()];
            one.note(0, (&'a', Form::Inflated), &mut noted[0], all_count);
            one.note(1, (&'b', Form::Stored), &mut noted[1], all_count);
            other.note(2, (&'c', Form::Inflated), &mut noted[2], all_count);
            one.note(3, (&'a', Form::Inflated), &mut noted[0], all_count);
            one.note(3, (&'a', Form::Stored), &mut noted[0], all_count);
            let told: Vec<(char, Form)> = Uses::in_order([one, other].into_iter()).collect();
            let last = [('b', Form::Stored), ('c', Form::Inflated), ('a', Form::Inflated), ('a', Form::Stored)];
            assert_eq!(told[usize::from(all_count)..], last);
            assert_eq!(told.len(), last.len() + usize::from(all_count));
            // What was noted in a list that is gone says nothing.
            let mut next = Uses::with_capacity(4);
            next.note(4, (&'b', Form::Inflated), &mut noted[1], all_count);
            next.note(5, (&'a', Form::Inflated), &mut noted[0], all_count);
            assert_eq!(next.len(), 2);
        }
    }
}
