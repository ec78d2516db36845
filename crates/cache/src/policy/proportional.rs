//! Every column has a share of the memory (HPCache, DaMoN 2022, §4.2-4.3), for which somebody else has found the best (crate
//! `placement`).
//!
//! Row groups stand in a fixed order by chance. Of a column the groups below its inflated share stay inflated, those of its stored
//! share behind them stay stored: so what stays of one column is nested into what stays of another, little changes when shares do,
//! and what is there and what is missing interleave over the table, so that reading and computing overlap. What is beyond
//! its column's share goes first, that which is furthest beyond it before all, so that memory which no share needs goes on in the
//! same order; it is rescued when shares grow. A full column evicts from itself. Units of columns without a goal go next, the
//! longest unused first: before there are goals that is least recently used. Where memory is to be saved, nothing beyond a share stays.
//! Must not know: where goals come from.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::queue::Queue;
use super::{ColumnKey, Facts, Form, Policy, UnitKey};

/// What is to stay of a column.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Goal {
    /// The share of its row groups that stays inflated.
    pub inflated: f64,
    /// The share that stays stored. Both together are at most 1.
    pub stored: f64,
    /// Bytes of memory that the column takes at these shares.
    pub bytes: f64,
}

/// The goals of columns.
pub type Goals = BTreeMap<ColumnKey, Goal>;

/// Proportional caching.
#[derive(Debug)]
pub struct Proportional<K> {
    goals: Goals,
    units: HashMap<K, Unit>,
    /// Within their columns' shares.
    columns: HashMap<ColumnKey, Column<K>>,
    /// Those beyond the shares of their columns, by how far.
    beyond: BTreeMap<(u64, u64), K>,
    beyond_bytes: usize,
    /// Those of columns without a goal, by use.
    spare: Queue<K>,
    /// Nothing beyond a share is to stay.
    saves: bool,
    /// Units that ever came.
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct Unit {
    facts: Facts,
    number: u64,
    place: Place,
}

/// Where a unit is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Within its column's share.
    Within,
    /// So far beyond it.
    Beyond(f64),
    /// Its column has no goal.
    Spare,
}

impl Unit {
    /// Its place among those within its column's share: by fraction, those of one row group as they came.
    fn within(&self) -> (u64, u64) {
        (bits(self.facts.fraction), self.number)
    }
}

/// Numbers that are not negative are ordered as their bits are.
fn bits(number: f64) -> u64 {
    number.max(0.0).to_bits()
}

/// Units of a column.
#[derive(Debug)]
struct Column<K> {
    by_place: BTreeMap<(u64, u64), K>,
    bytes: usize,
}

impl<K> Default for Column<K> {
    fn default() -> Self {
        Self { by_place: BTreeMap::new(), bytes: 0 }
    }
}

impl<K: UnitKey> Proportional<K> {
    /// Without units and goals.
    #[expect(clippy::new_without_default, reason = "as the other policies")]
    pub fn new() -> Self {
        Self {
            goals: Goals::new(),
            units: HashMap::new(),
            columns: HashMap::new(),
            beyond: BTreeMap::new(),
            beyond_bytes: 0,
            spare: Queue::new(),
            saves: false,
            count: 0,
        }
    }

    /// The form in which a row group of a column is to stay.
    fn form(&self, facts: &Facts) -> Option<Form> {
        let goal = self.goals.get(&facts.column)?;
        match facts.fraction {
            fraction if fraction < goal.inflated => Some(Form::Inflated),
            fraction if fraction < goal.inflated + goal.stored => Some(Form::Stored),
            _ => None,
        }
    }

    /// Where a unit belongs.
    fn place_of(&self, facts: &Facts) -> Place {
        match self.form(facts) {
            Some(form) if form == facts.form => Place::Within,
            // It is to stay in the other form, which makes this one worth less than any other.
            Some(_) => Place::Beyond(1.0 + facts.fraction),
            None if self.goals.contains_key(&facts.column) => Place::Beyond(facts.fraction),
            None => Place::Spare,
        }
    }

    /// Puts a unit where it belongs.
    fn put(&mut self, key: &K, unit: &Unit) {
        match unit.place {
            Place::Within => {
                let column = self.columns.entry(unit.facts.column).or_default();
                column.by_place.insert(unit.within(), key.clone());
                column.bytes += unit.facts.bytes;
            }
            Place::Beyond(distance) => {
                self.beyond.insert((bits(distance), unit.number), key.clone());
                self.beyond_bytes += unit.facts.bytes;
            }
            Place::Spare => self.spare.push(key.clone(), unit.facts.bytes),
        }
    }

    /// Takes a unit out of where it is.
    fn displace(&mut self, key: &K, unit: &Unit) {
        match unit.place {
            Place::Within => {
                let Some(column) = self.columns.get_mut(&unit.facts.column) else { return };
                if column.by_place.remove(&unit.within()).is_some() {
                    column.bytes -= unit.facts.bytes;
                }
            }
            Place::Beyond(distance) => {
                if self.beyond.remove(&(bits(distance), unit.number)).is_some() {
                    self.beyond_bytes -= unit.facts.bytes;
                }
            }
            Place::Spare => drop(self.spare.remove(key)),
        }
    }

    /// Lets go of the unit that is furthest beyond its column's share, if it is further than this.
    fn evict_beyond(&mut self, distance: Option<f64>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let start = distance.map_or(Bound::Unbounded, |distance| Bound::Excluded((bits(distance), u64::MAX)));
        let mut furthest_first = self.beyond.range((start, Bound::Unbounded)).rev();
        let Some(key) = furthest_first.find_map(|(_, key)| take(key).then(|| key.clone())) else { return false };
        self.forget(&key);
        true
    }

    /// Lets go of the unit of a column that is the first one to go when its share shrinks, of those behind a fraction.
    fn evict_of(&mut self, column: ColumnKey, behind: Option<f64>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let Some(units) = self.columns.get(&column) else { return false };
        let start = behind.map_or(Bound::Unbounded, |fraction| Bound::Excluded((fraction.to_bits(), u64::MAX)));
        let mut last_first = units.by_place.range((start, Bound::Unbounded)).rev();
        let Some(key) = last_first.find_map(|(_, key)| take(key).then(|| key.clone())) else { return false };
        self.forget(&key);
        true
    }

    /// The columns with units, the one first that has most of what it is to have.
    fn fullest(&self) -> Vec<ColumnKey> {
        let fill = |(key, column): (&ColumnKey, &Column<K>)| {
            let goal = self.goals.get(key).map_or(0.0, |goal| goal.bytes);
            (column.bytes as f64 / goal.max(1.0), *key)
        };
        let held = self.columns.iter().filter(|(_, column)| column.bytes > 0);
        let mut columns: Vec<_> = held.map(fill).collect();
        columns.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
        columns.into_iter().map(|(_, key)| key).collect()
    }
}

impl<K: UnitKey> Policy<K> for Proportional<K> {
    fn wants(&self, facts: &Facts) -> Option<Form> {
        self.form(facts)
    }

    fn admits(&self, facts: &Facts, free_bytes: usize) -> bool {
        match self.place_of(facts) {
            Place::Within => true,
            Place::Beyond(_) if self.saves => false,
            // What is beyond a share may use memory that nobody else does, or that has a worse use.
            Place::Beyond(distance) => {
                let furthest = self.beyond.last_key_value();
                let is_nearer = furthest.is_some_and(|((furthest, _), _)| *furthest > bits(distance));
                is_nearer || facts.bytes <= free_bytes + self.spare.bytes()
            }
            // Of columns that there is no goal for yet, the last used ones stay, as far as nobody has a better use.
            Place::Spare => facts.bytes <= free_bytes + self.spare.bytes() + self.beyond_bytes,
        }
    }

    fn insert(&mut self, key: K, facts: Facts) {
        self.forget(&key);
        self.count += 1;
        let unit = Unit { facts, number: self.count, place: self.place_of(&facts) };
        self.put(&key, &unit);
        self.units.insert(key, unit);
    }

    fn touch(&mut self, key: &K) {
        self.spare.renew(key);
    }

    fn counts_uses(&self) -> bool {
        false
    }

    fn forget(&mut self, key: &K) {
        if let Some(unit) = self.units.remove(key) {
            self.displace(key, &unit);
        }
    }

    fn evict(&mut self, incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let place = incoming.map(|facts| self.place_of(facts));
        let nearest = if let Some(Place::Beyond(distance)) = place { Some(distance) } else { None };
        if self.evict_beyond(nearest, take) {
            return true;
        }
        if let Some((key, _)) = self.spare.take_first(take) {
            self.units.remove(&key);
            return true;
        }
        match (incoming, place) {
            // A row group takes the place of one of its own column that is to go earlier, else there is none for it.
            (Some(facts), Some(Place::Within)) => self.evict_of(facts.column, Some(facts.fraction), take),
            (None, _) => self.fullest().into_iter().any(|column| self.evict_of(column, None, take)),
            _ => false,
        }
    }

    fn chooses_forms(&self) -> bool {
        true
    }

    fn save(&mut self, saves: bool) {
        self.saves = saves;
    }

    fn shed(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        self.saves && self.evict_beyond(None, take)
    }

    fn aim(&mut self, goals: &Goals) {
        self.goals.clone_from(goals);
        let placed = |(key, unit): (&K, &Unit)| (key.clone(), *unit, self.place_of(&unit.facts));
        let mut moved: Vec<(K, Unit, Place)> = self.units.iter().map(placed).collect();
        moved.retain(|(_, unit, place)| unit.place != *place);
        moved.sort_by_key(|(_, unit, _)| unit.number);
        for (key, before, place) in moved {
            let unit = Unit { place, ..before };
            self.displace(&key, &before);
            self.put(&key, &unit);
            self.units.insert(key, unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::{ColumnId, TableId};

    use super::*;
    use crate::policy::traces::evicted;

    fn column(number: u32) -> ColumnKey {
        ColumnKey { table: TableId(1), column: ColumnId(number) }
    }

    fn facts(number: u32, fraction: f64, form: Form) -> Facts {
        Facts { column: column(number), fraction, form, ..Facts::of_bytes(10) }
    }

    fn goals(of: &[(u32, f64, f64)]) -> Goals {
        let goal = |(number, inflated, stored): &(u32, f64, f64)| {
            (column(*number), Goal { inflated: *inflated, stored: *stored, bytes: (inflated + stored) * 100.0 })
        };
        of.iter().map(goal).collect()
    }

    /// Ten row groups of two columns, all inflated.
    fn full() -> Proportional<(u32, u32)> {
        let mut policy = Proportional::new();
        for number in 0..2 {
            for group in 0..10 {
                policy.insert((number, group), facts(number, f64::from(group) / 10.0, Form::Inflated));
            }
        }
        policy
    }

    #[test]
    fn without_goals_it_is_least_recently_used() {
        let mut policy = full();
        policy.touch(&(0, 0));
        let incoming = facts(2, 0.5, Form::Inflated);
        assert_eq!(policy.wants(&incoming), None);
        assert!(policy.admits(&incoming, 0) && !Proportional::<u32>::new().admits(&incoming, 9));
        assert_eq!(evicted(&mut policy, Some(&incoming)), Some((0, 1)));
        assert_eq!(evicted(&mut policy, None), Some((0, 2)));
    }

    #[test]
    fn groups_below_the_shares_stay_in_their_form() {
        let mut policy = full();
        policy.aim(&goals(&[(0, 0.3, 0.4)]));
        let wanted: Vec<_> =
            (0..10).map(|group| policy.wants(&facts(0, f64::from(group) / 10.0, Form::Inflated))).collect();
        assert_eq!(wanted, [vec![Some(Form::Inflated); 3], vec![Some(Form::Stored); 4], vec![None; 3]].concat());
        // Beyond its share in the place of what is to stay in another form, or has no goal.
        assert!(policy.admits(&facts(0, 0.9, Form::Inflated), 0));
        assert!(policy.admits(&facts(0, 0.2, Form::Inflated), 0) && policy.admits(&facts(0, 0.6, Form::Stored), 0));
        // What is beyond the share goes first, the furthest of it before all, and then what has no goal.
        let gone: Vec<_> = (0..17).map(|_| evicted(&mut policy, None)).collect();
        assert!((0..10).all(|group| gone[..17].contains(&Some((1, group)))), "{gone:?}");
        assert!((3..10).all(|group| gone[..17].contains(&Some((0, group)))), "{gone:?}");
        // Then what is nearest to the end of its share.
        let gone: Vec<_> = (0..4).map(|_| evicted(&mut policy, None)).collect();
        assert_eq!(gone, [Some((0, 2)), Some((0, 1)), Some((0, 0)), None]);
    }

    #[test]
    fn what_is_nearer_to_a_share_takes_the_place_of_what_is_further() {
        let mut policy = full();
        policy.aim(&goals(&[(0, 0.3, 0.0), (1, 0.5, 0.0)]));
        (7..10).for_each(|group| (0..2).for_each(|number| policy.forget(&(number, group))));
        let incoming = |fraction| facts(0, fraction, Form::Inflated);
        assert!(!policy.admits(&incoming(0.7), 9) && policy.admits(&incoming(0.7), 10));
        assert_eq!(evicted(&mut policy, Some(&incoming(0.7))), None, "all others are nearer");
        assert!(policy.admits(&incoming(0.35), 0));
        assert_eq!(evicted(&mut policy, Some(&incoming(0.35))), Some((1, 6)), "of whichever column");
        assert_eq!(evicted(&mut policy, Some(&incoming(0.55))), Some((0, 6)));
        assert_eq!(evicted(&mut policy, Some(&incoming(0.55))), None);
    }

    #[test]
    fn memory_is_saved_where_it_is_to_be() {
        let mut policy = full();
        policy.aim(&goals(&[(0, 0.3, 0.4)]));
        let incoming = [facts(0, 0.9, Form::Inflated), facts(0, 0.2, Form::Inflated), facts(1, 0.9, Form::Inflated)];
        assert!(!policy.shed(&mut |_| true) && policy.admits(&incoming[0], 100));
        policy.save(true);
        assert_eq!(incoming.map(|facts| policy.admits(&facts, 100)), [false, true, true], "of others there is no goal");
        let mut gone = Vec::new();
        while policy.shed(&mut |key| {
            gone.push(*key);
            true
        }) {}
        assert_eq!(gone, [(0, 6), (0, 5), (0, 4), (0, 3), (0, 9), (0, 8), (0, 7)]);
        policy.save(false);
        assert!(policy.admits(&incoming[0], 100));
    }

    #[test]
    fn what_is_beyond_a_share_is_rescued_when_it_grows() {
        let mut policy = full();
        policy.aim(&goals(&[(0, 0.1, 0.0), (1, 0.0, 0.0)]));
        policy.aim(&goals(&[(0, 1.0, 0.0), (1, 0.0, 0.0)]));
        let gone: Vec<_> = (0..10).map(|_| evicted(&mut policy, None)).collect();
        assert!((0..10).all(|group| gone.contains(&Some((1, group)))), "{gone:?}");
    }

    #[test]
    fn a_full_column_evicts_from_itself_and_from_behind() {
        let mut policy = full();
        policy.forget(&(0, 4));
        policy.aim(&goals(&[(0, 1.0, 0.0), (1, 1.0, 0.0)]));
        let incoming = facts(0, 0.4, Form::Inflated);
        assert_eq!(evicted(&mut policy, Some(&incoming)), Some((0, 9)));
        assert_eq!(evicted(&mut policy, Some(&facts(0, 0.95, Form::Inflated))), None, "it would be the next to go");
        assert_eq!(evicted(&mut policy, Some(&facts(7, 0.0, Form::Inflated))), None, "others are not asked");
        // Somebody else needs memory: the column that has most of its goal.
        assert_eq!(evicted(&mut policy, None), Some((1, 9)));
        assert_eq!(evicted(&mut policy, None), Some((1, 8)));
        assert_eq!(evicted(&mut policy, None), Some((0, 8)));
    }

    #[test]
    fn what_is_in_use_does_not_go() {
        let mut policy = full();
        policy.aim(&goals(&[(0, 0.2, 0.0), (1, 0.0, 0.0)]));
        let mut offered = 0;
        assert!(!policy.evict(None, &mut |_| {
            offered += 1;
            false
        }));
        assert!(offered >= 20, "all of them were offered: {offered}");
        assert!(policy.units.len() == 20);
    }
}
