//! Twins of the policies that do the same in the plainest way: lists that are searched from one end to the other.

use std::collections::HashMap;

use forebay_base::TableId;

use super::w_tiny_lfu::Sketch;
use super::{Facts, Form, Goals, Policy, PolicyKind, ScanProgress};

type Take<'a> = &'a mut dyn FnMut(&u32) -> bool;
/// Keys with their bytes.
type List = Vec<(u32, usize)>;

fn bytes(list: &List) -> usize {
    list.iter().map(|(_, bytes)| bytes).sum()
}

fn place(list: &List, key: &u32) -> Option<usize> {
    list.iter().position(|(known, _)| known == key)
}

fn remove(list: &mut List, key: &u32) -> Option<(u32, usize)> {
    place(list, key).map(|place| list.remove(place))
}

fn to_end(list: &mut List, key: &u32) -> bool {
    let unit = remove(list, key);
    list.extend(unit);
    unit.is_some()
}

fn take_first(list: &mut List, take: Take<'_>) -> Option<(u32, usize)> {
    (0..list.len()).find(|place| take(&list[*place].0)).map(|place| list.remove(place))
}

fn trim(list: &mut List, most: usize) {
    while bytes(list) > most {
        list.remove(0);
    }
}

/// The twin of a policy.
pub(super) fn twin(kind: PolicyKind, budget: usize) -> Box<dyn Policy<u32>> {
    match kind {
        PolicyKind::Lru => Box::new(ByUse { list: Vec::new(), last_first: false }),
        PolicyKind::Mru => Box::new(ByUse { list: Vec::new(), last_first: true }),
        PolicyKind::TwoQ => Box::new(TwoQ { lists: Default::default(), budget }),
        PolicyKind::S3Fifo => Box::new(S3Fifo { lists: Default::default(), uses: HashMap::new(), budget }),
        PolicyKind::WTinyLfu => Box::new(WTinyLfu { lists: Default::default(), sketch: Sketch::new(), budget }),
        PolicyKind::Pbm => Box::new(Pbm { units: Vec::new(), scans: Vec::new() }),
        PolicyKind::Proportional => Box::new(Proportional { units: Vec::new(), goals: Goals::new(), saves: false }),
    }
}

/// The twin of a policy with tables that are to stay.
#[derive(Debug)]
pub(super) struct PinnedTwin {
    tables: Vec<TableId>,
    list: List,
    others: Box<dyn Policy<u32>>,
    budget: usize,
}

impl PinnedTwin {
    pub(super) fn new(others: Box<dyn Policy<u32>>, budget: usize) -> Self {
        Self { tables: Vec::new(), list: List::new(), others, budget }
    }

    pub(super) fn set(&mut self, table: TableId, is_pinned: bool) {
        self.tables.retain(|known| *known != table);
        self.tables.extend(is_pinned.then_some(table));
    }
}

impl Policy<u32> for PinnedTwin {
    fn wants(&self, facts: &Facts) -> Option<Form> {
        if !self.tables.contains(&facts.column.table) {
            return self.others.wants(facts);
        }
        (bytes(&self.list) + facts.bytes <= self.budget).then_some(Form::Inflated)
    }

    fn insert(&mut self, key: u32, facts: Facts) {
        if self.tables.contains(&facts.column.table) {
            self.list.push((key, facts.bytes));
        } else {
            self.others.insert(key, facts);
        }
    }

    fn touch(&mut self, key: &u32) {
        if !to_end(&mut self.list, key) {
            self.others.touch(key);
        }
    }

    fn forget(&mut self, key: &u32) {
        if remove(&mut self.list, key).is_none() {
            self.others.forget(key);
        }
    }

    fn evict(&mut self, incoming: Option<&Facts>, take: Take<'_>) -> bool {
        match incoming {
            None => self.others.evict(None, take) || take_first(&mut self.list, take).is_some(),
            Some(facts) if self.tables.contains(&facts.column.table) => self.others.evict(None, take),
            Some(facts) => self.others.evict(Some(facts), take),
        }
    }

    fn resize(&mut self, budget: usize) {
        self.budget = budget;
        self.others.resize(budget);
    }

    fn foresee(&mut self, progress: &ScanProgress) {
        self.others.foresee(progress);
    }

    fn save(&mut self, saves: bool) {
        self.others.save(saves);
    }

    fn shed(&mut self, take: Take<'_>) -> bool {
        self.others.shed(take)
    }

    fn aim(&mut self, goals: &Goals) {
        self.others.aim(goals);
    }
}

#[derive(Debug)]
struct ByUse {
    list: List,
    last_first: bool,
}

impl Policy<u32> for ByUse {
    fn insert(&mut self, key: u32, facts: Facts) {
        self.list.push((key, facts.bytes));
    }

    fn touch(&mut self, key: &u32) {
        to_end(&mut self.list, key);
    }

    fn forget(&mut self, key: &u32) {
        remove(&mut self.list, key);
    }

    fn evict(&mut self, _: Option<&Facts>, take: Take<'_>) -> bool {
        let mut order = self.list.clone();
        if self.last_first {
            order.reverse();
        }
        let gone = take_first(&mut order, take);
        gone.is_some_and(|(key, _)| remove(&mut self.list, &key).is_some())
    }
}

#[derive(Debug)]
struct TwoQ {
    /// Once, gone, again.
    lists: [List; 3],
    budget: usize,
}

impl Policy<u32> for TwoQ {
    fn insert(&mut self, key: u32, facts: Facts) {
        let to = if remove(&mut self.lists[1], &key).is_some() { 2 } else { 0 };
        self.lists[to].push((key, facts.bytes));
    }

    fn touch(&mut self, key: &u32) {
        to_end(&mut self.lists[2], key);
    }

    fn forget(&mut self, key: &u32) {
        remove(&mut self.lists[0], key);
        remove(&mut self.lists[2], key);
    }

    fn evict(&mut self, _: Option<&Facts>, take: Take<'_>) -> bool {
        let order = if bytes(&self.lists[0]) > self.budget / 4 { [0, 2] } else { [2, 0] };
        for from in order {
            if let Some(gone) = take_first(&mut self.lists[from], take) {
                if from == 0 {
                    self.lists[1].push(gone);
                    trim(&mut self.lists[1], self.budget / 2);
                }
                return true;
            }
        }
        false
    }

    fn resize(&mut self, budget: usize) {
        self.budget = budget;
        trim(&mut self.lists[1], budget / 2);
    }
}

#[derive(Debug)]
struct S3Fifo {
    /// Small, main, ghosts.
    lists: [List; 3],
    uses: HashMap<u32, u8>,
    budget: usize,
}

impl S3Fifo {
    fn evict_small(&mut self, take: Take<'_>) -> bool {
        for _ in 0..self.lists[0].len() {
            let unit = self.lists[0].remove(0);
            if self.uses.get(&unit.0).is_some_and(|uses| *uses >= 2) {
                self.uses.remove(&unit.0);
                self.lists[1].push(unit);
            } else if take(&unit.0) {
                self.uses.remove(&unit.0);
                self.lists[2].push(unit);
                trim(&mut self.lists[2], self.budget - self.budget / 10);
                return true;
            } else {
                self.lists[0].push(unit);
            }
        }
        false
    }

    fn evict_main(&mut self, take: Take<'_>) -> bool {
        for _ in 0..4 * self.lists[1].len() {
            let unit = self.lists[1].remove(0);
            let uses = self.uses.entry(unit.0).or_default();
            if *uses == 0 && take(&unit.0) {
                self.uses.remove(&unit.0);
                return true;
            }
            *uses = uses.saturating_sub(1);
            self.lists[1].push(unit);
        }
        false
    }
}

impl Policy<u32> for S3Fifo {
    fn insert(&mut self, key: u32, facts: Facts) {
        let to = usize::from(remove(&mut self.lists[2], &key).is_some());
        self.lists[to].push((key, facts.bytes));
    }

    fn touch(&mut self, key: &u32) {
        if self.lists[..2].iter().any(|list| place(list, key).is_some()) {
            let uses = self.uses.entry(*key).or_default();
            *uses = 3.min(*uses + 1);
        }
    }

    fn forget(&mut self, key: &u32) {
        remove(&mut self.lists[0], key);
        remove(&mut self.lists[1], key);
        self.uses.remove(key);
    }

    fn evict(&mut self, _: Option<&Facts>, take: Take<'_>) -> bool {
        (bytes(&self.lists[0]) >= self.budget / 10 && self.evict_small(take))
            || self.evict_main(take)
            || self.evict_small(take)
            || self.evict_main(take)
    }

    fn resize(&mut self, budget: usize) {
        self.budget = budget;
        trim(&mut self.lists[2], budget - budget / 10);
    }
}

#[derive(Debug)]
struct WTinyLfu {
    /// Window, candidates, probation, protected.
    lists: [List; 4],
    sketch: Sketch,
    budget: usize,
}

impl WTinyLfu {
    fn main(&self) -> usize {
        self.budget - self.budget / 100
    }

    fn narrow(&mut self) {
        while self.lists[0].len() > 1 && bytes(&self.lists[0]) > self.budget / 100 {
            let unit = self.lists[0].remove(0);
            let fits = bytes(&self.lists[2]) + bytes(&self.lists[3]) + unit.1 <= self.main();
            self.lists[if fits { 2 } else { 1 }].push(unit);
        }
    }
}

impl Policy<u32> for WTinyLfu {
    fn insert(&mut self, key: u32, facts: Facts) {
        self.sketch.count(&key);
        self.lists[0].push((key, facts.bytes));
        self.narrow();
    }

    fn touch(&mut self, key: &u32) {
        self.sketch.count(key);
        if to_end(&mut self.lists[0], key) || to_end(&mut self.lists[3], key) {
            return;
        }
        let unit = remove(&mut self.lists[2], key).or_else(|| remove(&mut self.lists[1], key));
        if let Some(unit) = unit {
            self.lists[3].push(unit);
            while self.lists[3].len() > 1 && bytes(&self.lists[3]) > self.main() / 5 * 4 {
                let unit = self.lists[3].remove(0);
                self.lists[2].push(unit);
            }
        }
    }

    fn forget(&mut self, key: &u32) {
        for list in &mut self.lists {
            remove(list, key);
        }
    }

    fn evict(&mut self, _: Option<&Facts>, take: Take<'_>) -> bool {
        if let Some(candidate) = self.lists[1].first().copied() {
            let victim = self.lists[2].first().or(self.lists[3].first());
            if victim.is_some_and(|victim| self.sketch.of(&victim.0) < self.sketch.of(&candidate.0)) {
                for from in [2, 3] {
                    if take_first(&mut self.lists[from], take).is_some() {
                        remove(&mut self.lists[1], &candidate.0);
                        self.lists[2].push(candidate);
                        return true;
                    }
                }
            }
        }
        [1, 2, 3, 0].into_iter().any(|from| take_first(&mut self.lists[from], take).is_some())
    }

    fn resize(&mut self, budget: usize) {
        self.budget = budget;
        self.narrow();
    }
}

/// As long as there are no more units than in a sample.
#[derive(Debug)]
struct Pbm {
    /// By last use.
    units: Vec<(u32, Facts)>,
    scans: Vec<ScanProgress>,
}

impl Policy<u32> for Pbm {
    fn insert(&mut self, key: u32, facts: Facts) {
        self.units.push((key, facts));
    }

    fn touch(&mut self, key: &u32) {
        if let Some(place) = self.units.iter().position(|(known, _)| known == key) {
            let unit = self.units.remove(place);
            self.units.push(unit);
        }
    }

    fn forget(&mut self, key: &u32) {
        self.units.retain(|(known, _)| known != key);
    }

    fn evict(&mut self, _: Option<&Facts>, take: Take<'_>) -> bool {
        let mut left: Vec<(f64, u32)> = Vec::new();
        for (key, facts) in &self.units {
            let mut next = f64::INFINITY;
            for scan in &self.scans {
                let reads = scan.table == facts.column.table && scan.columns.contains(&facts.column.column);
                if reads && facts.ordinal >= scan.position {
                    next = next.min((facts.ordinal - scan.position) as f64 / scan.speed);
                }
            }
            left.push((next, *key));
        }
        while !left.is_empty() {
            let furthest = left.iter().map(|(next, _)| *next).fold(f64::NEG_INFINITY, f64::max);
            let place = left.iter().position(|(next, _)| *next == furthest).expect("it is one of them");
            let (_, key) = left.remove(place);
            if take(&key) {
                self.forget(&key);
                return true;
            }
        }
        false
    }

    fn foresee(&mut self, progress: &ScanProgress) {
        self.scans.retain(|scan| scan.scan != progress.scan);
        if !progress.is_over {
            self.scans.push(progress.clone());
        }
    }
}

#[derive(Debug)]
struct Proportional {
    /// As they came.
    units: Vec<Unit>,
    goals: Goals,
    saves: bool,
}

#[derive(Debug, Clone, Copy)]
struct Unit {
    key: u32,
    facts: Facts,
    /// Of a column without a goal: when it came, or became one of those, or was used last.
    spare: Option<u64>,
    number: u64,
}

impl Proportional {
    fn is_within(&self, facts: &Facts) -> bool {
        let Some(goal) = self.goals.get(&facts.column) else { return false };
        match facts.form {
            Form::Inflated => facts.fraction < goal.inflated,
            Form::Stored => (goal.inflated..goal.inflated + goal.stored).contains(&facts.fraction),
        }
    }

    /// How far it is beyond its column's share; a unit whose row group is to stay in the other form is further than all others.
    fn distance(&self, facts: &Facts) -> Option<f64> {
        let goal = self.goals.get(&facts.column).filter(|_| !self.is_within(facts))?;
        let is_kept = facts.fraction < goal.inflated + goal.stored;
        Some(facts.fraction + if is_kept { 1.0 } else { 0.0 })
    }

    /// Those further beyond than this, the furthest first.
    fn beyond(&self, least: Option<f64>) -> Vec<Unit> {
        let distances = self.units.iter().filter_map(|unit| Some((self.distance(&unit.facts)?, *unit)));
        let mut beyond: Vec<_> = distances.filter(|(far, _)| least.is_none_or(|least| *far > least)).collect();
        beyond.sort_by(|(a, first), (b, second)| (b, second.number).partial_cmp(&(a, first.number)).expect("numbers"));
        beyond.into_iter().map(|(_, unit)| unit).collect()
    }

    fn now(&self) -> u64 {
        self.units.iter().map(|unit| unit.number.max(unit.spare.unwrap_or_default())).max().unwrap_or_default() + 1
    }

    /// Offers units in an order.
    fn take(&mut self, order: Vec<Unit>, take: Take<'_>) -> bool {
        let gone = order.into_iter().find(|unit| take(&unit.key));
        gone.is_some_and(|gone| {
            self.forget(&gone.key);
            true
        })
    }
}

impl Policy<u32> for Proportional {
    fn insert(&mut self, key: u32, facts: Facts) {
        let number = self.now();
        let spare = (!self.goals.contains_key(&facts.column)).then_some(number);
        self.units.push(Unit { key, facts, spare, number });
    }

    fn touch(&mut self, key: &u32) {
        let now = self.now();
        let unit = self.units.iter_mut().find(|unit| unit.key == *key && unit.spare.is_some());
        unit.into_iter().for_each(|unit| unit.spare = Some(now));
    }

    fn forget(&mut self, key: &u32) {
        self.units.retain(|unit| unit.key != *key);
    }

    fn evict(&mut self, incoming: Option<&Facts>, take: Take<'_>) -> bool {
        let least = incoming.and_then(|facts| self.distance(facts));
        if self.take(self.beyond(least), take) {
            return true;
        }
        let mut spare: Vec<_> = self.units.iter().copied().filter(|unit| unit.spare.is_some()).collect();
        spare.sort_by_key(|unit| unit.spare);
        if self.take(spare, take) {
            return true;
        }
        let mut order: Vec<_> = self.units.iter().copied().filter(|unit| self.is_within(&unit.facts)).collect();
        order.sort_by(|a, b| (b.facts.fraction, b.number).partial_cmp(&(a.facts.fraction, a.number)).expect("numbers"));
        if let Some(incoming) = incoming {
            let comes = self.is_within(incoming);
            let replaced =
                |unit: &Unit| comes && unit.facts.column == incoming.column && unit.facts.fraction > incoming.fraction;
            order.retain(replaced);
        } else {
            let fill = |of: &Unit| {
                let same = order.iter().filter(|unit| unit.facts.column == of.facts.column);
                let held: usize = same.map(|unit| unit.facts.bytes).sum();
                held as f64 / self.goals.get(&of.facts.column).map_or(0.0, |goal| goal.bytes).max(1.0)
            };
            let mut filled: Vec<_> = order.iter().map(|unit| (fill(unit), *unit)).collect();
            filled.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.facts.column.cmp(&second.facts.column)));
            order = filled.into_iter().map(|(_, unit)| unit).collect();
        }
        self.take(order, take)
    }

    fn save(&mut self, saves: bool) {
        self.saves = saves;
    }

    fn shed(&mut self, take: Take<'_>) -> bool {
        self.saves && self.take(self.beyond(None), take)
    }

    fn aim(&mut self, goals: &Goals) {
        self.goals = goals.clone();
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        order.sort_by_key(|place| self.units[*place].number);
        for place in order {
            let (now, has_goal) = (self.now(), goals.contains_key(&self.units[place].facts.column));
            let unit = &mut self.units[place];
            unit.spare = if has_goal { None } else { unit.spare.or(Some(now)) };
        }
    }
}
