//! In which order joins are done, and which side is built.
//!
//! Groups of up to [`EXACT_ITEMS`] relations: the cheapest of all orders, bushy ones included, by dynamic programming over
//! subsets; larger ones greedily. Semi and anti joins take part as items that only another item can be joined with.

use std::collections::BTreeSet;

use forebay_pipeline::ir::Comparison;

use crate::carver::Carver;
use crate::estimate::variables_of;
use crate::facts::Variable;
use crate::reason::Reason;
use crate::relation::{Aggregate, Group, Join, JoinKind, Relation, SemiJoin, as_equality, filtered};
use crate::scalar::Scalar;

/// Items up to which all orders are looked at: 3^10 splits.
const EXACT_ITEMS: usize = 10;

/// Items that a group may have at all.
const MOST_ITEMS: usize = 60;

/// To put a row into a build side costs as much as so many probes.
const BUILD_COST: f64 = 3.0;

/// Likewise, into arrays by key.
const DENSE_BUILD_COST: f64 = 2.0;

/// Arrays by key have at most so many entries for a row, unless there are few, and so many at all.
const DENSE_SPAN_PER_ROW: f64 = 8.0;
const SMALL_SPAN: f64 = 65_536.0;
const LARGEST_SPAN: f64 = 67_108_864.0;

/// To carry a row of a result on.
const ROW_COST: f64 = 0.5;

/// A build side that is itself a join may well have so many times the rows that are guessed; one that is probed by too
/// many rows does less harm than one that is built of them.
const DOUBT: f64 = 1.5;

/// Rows of a build side that stay in the caches of a core, and in those of the processor; a probe beyond costs more.
const NEAR_ROWS: f64 = 20_000.0;
const FAR_ROWS: f64 = 500_000.0;

/// Likewise, entries of arrays by key, which take a fourth of a hashed row.
const NEAR_SPAN: f64 = 4.0 * NEAR_ROWS;
const FAR_SPAN: f64 = 4.0 * FAR_ROWS;

/// A set of items.
type Mask = u64;

/// What is joined.
struct Item {
    rows: f64,
    part: Part,
}

enum Part {
    Leaf(Relation),
    /// With the items that its outer side needs.
    SemiJoin(SemiJoin, Mask),
}

/// An equality between two sets of items.
struct Edge {
    left: (Mask, Scalar),
    right: (Mask, Scalar),
    /// Edges of one class follow from each other: one of them is enough.
    class: usize,
}

/// The best way to join a set of items.
#[derive(Clone, Copy)]
struct Plan {
    cost: f64,
    rows: f64,
    /// Probe side and build side; `None` for single items.
    split: Option<(Mask, Mask)>,
    /// The build side's rows come out, and the probe side only marks them.
    built: bool,
}

impl Carver<'_> {
    /// Puts every group of a relation in order.
    pub fn ordered(&self, relation: Relation) -> Result<Relation, Reason> {
        Ok(match relation {
            Relation::Scan(table) => Relation::Scan(table),
            Relation::Filter { input, predicates } => filtered(self.ordered(*input)?, predicates),
            Relation::Aggregate(aggregate) => {
                Relation::Aggregate(Aggregate { input: Box::new(self.ordered(*aggregate.input)?), ..aggregate })
            }
            Relation::Join(join) => Relation::Join(Join {
                probe: Box::new(self.ordered(*join.probe)?),
                build: Box::new(self.ordered(*join.build)?),
                ..join
            }),
            Relation::Group(group) => self.ordered_group(group)?,
        })
    }

    fn ordered_group(&self, group: Group) -> Result<Relation, Reason> {
        let mut leaves = Vec::with_capacity(group.leaves.len());
        for leaf in group.leaves {
            leaves.push(self.ordered(leaf)?);
        }
        let owned: Vec<BTreeSet<Variable>> = leaves
            .iter()
            .map(|leaf| {
                let mut variables = BTreeSet::new();
                leaf.variables(self, &mut variables);
                variables
            })
            .collect();
        let mask_of = |variables: &BTreeSet<Variable>| -> Mask {
            let hits = owned.iter().enumerate().filter(|(_, leaf)| variables.iter().any(|v| leaf.contains(v)));
            hits.fold(0, |mask, (index, _)| mask | 1 << index)
        };
        if leaves.len() + group.semi_joins.len() > MOST_ITEMS {
            return Err(Reason::new("a join of too many relations"));
        }
        let (edges, rest) = edges_of(group.predicates, &mask_of)?;
        let mut leaf_predicates: Vec<Vec<Scalar>> = leaves.iter().map(|_| Vec::new()).collect();
        let mut predicates = Vec::new();
        for predicate in rest {
            let mask = mask_of(&predicate.variables());
            match mask.count_ones() {
                // Constants and relations of one row: any place will do.
                0 => leaf_predicates[0].push(predicate),
                1 => leaf_predicates[mask.trailing_zeros() as usize].push(predicate),
                _ => predicates.push((mask, predicate)),
            }
        }
        let mut items = Vec::with_capacity(leaves.len() + group.semi_joins.len());
        for (leaf, predicates) in leaves.into_iter().zip(leaf_predicates) {
            let relation = filtered(leaf, predicates);
            items.push(Item { rows: self.rows(&relation).max(1.0), part: Part::Leaf(relation) });
        }
        for mut semi_join in group.semi_joins {
            semi_join.inner = self.ordered(semi_join.inner)?;
            let mut needed = variables_of(semi_join.keys.iter().map(|(outer, _)| outer));
            needed.append(&mut variables_of(&semi_join.residual));
            let rows = self.rows(&semi_join.inner).max(1.0);
            items.push(Item { rows, part: Part::SemiJoin(semi_join, mask_of(&needed)) });
        }
        Orderer { carver: self, items, edges, predicates }.relation()
    }
}

/// The equalities between different leaves, with those that follow from them; and all other predicates.
fn edges_of(
    predicates: Vec<Scalar>,
    mask_of: &dyn Fn(&BTreeSet<Variable>) -> Mask,
) -> Result<(Vec<Edge>, Vec<Scalar>), Reason> {
    let mut rest = Vec::new();
    // Sets of scalars that are equal to each other.
    let mut classes: Vec<Vec<(Mask, Scalar)>> = Vec::new();
    for predicate in predicates {
        let sides = as_equality(&predicate).map(|(left, right)| {
            ((mask_of(&left.variables()), left.clone()), (mask_of(&right.variables()), right.clone()))
        });
        let Some((left, right)) = sides.filter(|(left, right)| {
            // A side over several relations would be lost where they come together with something between them.
            let single = left.0.count_ones() == 1 && right.0.count_ones() == 1 && left.0 != right.0;
            single && !left.1.fallible() && !right.1.fallible()
        }) else {
            rest.push(predicate);
            continue;
        };
        let of = |side: &(Mask, Scalar), classes: &[Vec<(Mask, Scalar)>]| {
            classes.iter().position(|class| class.iter().any(|(_, scalar)| *scalar == side.1))
        };
        match (of(&left, &classes), of(&right, &classes)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                let mut merged = classes.swap_remove(a.max(b));
                classes[a.min(b)].append(&mut merged);
            }
            (Some(a), None) => classes[a].push(right),
            (None, Some(b)) => classes[b].push(left),
            (None, None) => classes.push(vec![left, right]),
        }
    }
    let mut edges = Vec::new();
    for (class, members) in classes.iter().enumerate() {
        for (index, left) in members.iter().enumerate() {
            for right in &members[index + 1..] {
                match left.0 & right.0 == 0 {
                    true => edges.push(Edge { left: left.clone(), right: right.clone(), class }),
                    // Two scalars of one leaf that both equal a third are equal, which no edge says.
                    false => rest.push(Scalar::compare(Comparison::Equal, left.1.clone(), right.1.clone())?),
                }
            }
        }
    }
    Ok((edges, rest))
}

struct Orderer<'a, 'b> {
    carver: &'a Carver<'b>,
    items: Vec<Item>,
    edges: Vec<Edge>,
    predicates: Vec<(Mask, Scalar)>,
}

impl Orderer<'_, '_> {
    fn relation(self) -> Result<Relation, Reason> {
        let all: Mask = (1 << self.items.len()) - 1;
        let plans = match self.items.len() <= EXACT_ITEMS {
            true => self.exact(all),
            false => self.greedy(),
        };
        let plan_of = |mask: Mask| plans.iter().find(|(set, _)| *set == mask).map(|(_, plan)| *plan);
        if plan_of(all).is_none() {
            return Err(Reason::new("a cross join"));
        }
        let mut parts: Vec<Option<Part>> = Vec::new();
        let Self { items, edges, predicates, .. } = self;
        parts.extend(items.into_iter().map(|item| Some(item.part)));
        Builder { plans: &plans, parts, edges, predicates }.relation(all)
    }

    /// The best plan of every set that can be joined, by dynamic programming.
    fn exact(&self, all: Mask) -> Vec<(Mask, Plan)> {
        let mut best: Vec<Option<Plan>> = vec![None; all as usize + 1];
        for (index, item) in self.items.iter().enumerate() {
            best[1 << index] = Some(Plan { cost: 0.0, rows: item.rows, split: None, built: false });
        }
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            // All splits of the set into two.
            let mut probe = (set - 1) & set;
            while probe != 0 {
                let build = set & !probe;
                if let (Some(a), Some(b)) = (best[probe as usize], best[build as usize])
                    && let Some(plan) = self.join((probe, a), (build, b), best[set as usize].map(|plan| plan.rows))
                    && best[set as usize].is_none_or(|known| plan.cost < known.cost)
                {
                    best[set as usize] = Some(plan);
                }
                probe = (probe - 1) & set;
            }
        }
        best.into_iter().enumerate().filter_map(|(set, plan)| Some((set as Mask, plan?))).collect()
    }

    /// Joins the cheapest pair again and again.
    fn greedy(&self) -> Vec<(Mask, Plan)> {
        let single = |(index, item): (usize, &Item)| {
            (1 << index, Plan { cost: 0.0, rows: item.rows, split: None, built: false })
        };
        let mut open: Vec<(Mask, Plan)> = self.items.iter().enumerate().map(single).collect();
        let mut plans = open.clone();
        loop {
            let mut cheapest: Option<(Mask, Plan)> = None;
            for probe in &open {
                for build in open.iter().filter(|build| build.0 != probe.0) {
                    if let Some(plan) = self.join(*probe, *build, None)
                        && cheapest.is_none_or(|(_, known)| plan.cost < known.cost)
                    {
                        cheapest = Some((probe.0 | build.0, plan));
                    }
                }
            }
            let Some((set, plan)) = cheapest else { return plans };
            open.retain(|(part, _)| part & set == 0);
            open.push((set, plan));
            plans.push((set, plan));
        }
    }

    /// The existence that a set is, and the items that its outer side needs.
    fn semi_join(&self, set: Mask) -> Option<(&SemiJoin, Mask)> {
        if set.count_ones() != 1 {
            return None;
        }
        match &self.items[set.trailing_zeros() as usize].part {
            Part::SemiJoin(semi_join, needed) => Some((semi_join, *needed)),
            Part::Leaf(_) => None,
        }
    }

    /// `rows`: how many rows the result has, where that is known from another split.
    fn join(&self, probe: (Mask, Plan), build: (Mask, Plan), rows: Option<f64>) -> Option<Plan> {
        let split = Some((probe.0, build.0));
        let cost = probe.1.cost + build.1.cost;
        if self.semi_join(probe.0).is_some() {
            return None;
        }
        if let Some((semi_join, needed)) = self.semi_join(build.0) {
            if needed & !probe.0 != 0 {
                return None;
            }
            let (outer, inner) = (probe.1.rows, build.1.rows);
            let rows = rows.unwrap_or_else(|| outer * self.carver.semi_join_share(semi_join, outer, inner)).max(1.0);
            let looked_up = join_cost(outer, inner);
            let marked = join_cost(inner, outer) + outer;
            let built = marked < looked_up;
            let cost = cost + looked_up.min(marked) + rows * ROW_COST;
            return Some(Plan { cost, rows, split, built });
        }
        let keys = crossing(&self.edges, probe.0, build.0);
        if keys.is_empty() {
            return None;
        }
        let rows = rows.unwrap_or_else(|| {
            let keys: Vec<(&Scalar, &Scalar)> = keys.iter().map(|(a, b)| (*a, *b)).collect();
            let share = self.carver.join_selectivity(&keys, probe.1.rows, build.1.rows);
            let set = probe.0 | build.0;
            let residual = self.predicates.iter().filter(|(mask, _)| is_new(*mask, set, probe.0, build.0));
            let residual: Vec<Scalar> = residual.map(|(_, predicate)| predicate.clone()).collect();
            (probe.1.rows * build.1.rows * share * self.carver.selectivity(&residual)).max(1.0)
        });
        let own = match (build.1.split, keys.as_slice()) {
            (Some(_), _) => join_cost(probe.1.rows, build.1.rows * DOUBT),
            (None, [(_, key)]) => {
                match self.carver.span_of_unique(key, build.1.rows).filter(|span| is_dense(*span, build.1.rows)) {
                    Some(span) => dense_join_cost(probe.1.rows, build.1.rows, span),
                    None => join_cost(probe.1.rows, build.1.rows),
                }
            }
            (None, _) => join_cost(probe.1.rows, build.1.rows),
        };
        Some(Plan { cost: cost + own + rows * ROW_COST, rows, split, built: false })
    }
}

/// Whether a build side of so many rows, whose keys lie within `span`, becomes arrays by key.
fn is_dense(span: f64, rows: f64) -> bool {
    span <= (DENSE_SPAN_PER_ROW * rows).clamp(SMALL_SPAN, LARGEST_SPAN)
}

/// What it costs to build arrays by key, and to probe them: nothing is hashed or chained, and a probe loads what it needs alone.
fn dense_join_cost(probe: f64, build: f64, span: f64) -> f64 {
    let far = match span {
        span if span <= NEAR_SPAN => 1.0,
        span if span <= FAR_SPAN => 1.5,
        _ => 3.0,
    };
    build * DENSE_BUILD_COST * far + probe * far
}

/// What it costs to build and to probe.
fn join_cost(probe: f64, build: f64) -> f64 {
    let far = match build {
        rows if rows <= NEAR_ROWS => 1.0,
        rows if rows <= FAR_ROWS => 1.5,
        _ => 3.0,
    };
    build * BUILD_COST * far + probe * far
}

/// Whether a predicate can be evaluated on a set, but on neither of its parts.
fn is_new(mask: Mask, set: Mask, probe: Mask, build: Mask) -> bool {
    mask & !set == 0 && mask & !probe != 0 && mask & !build != 0
}

/// One equality of each class between two sets: of the first, of the second.
fn crossing(edges: &[Edge], probe: Mask, build: Mask) -> Vec<(&Scalar, &Scalar)> {
    let mut taken: Vec<usize> = Vec::new();
    let mut keys = Vec::new();
    for edge in edges {
        if taken.contains(&edge.class) {
            continue;
        }
        let ((left, left_key), (right, right_key)) = (&edge.left, &edge.right);
        if left & !probe == 0 && right & !build == 0 {
            keys.push((left_key, right_key));
        } else if right & !probe == 0 && left & !build == 0 {
            keys.push((right_key, left_key));
        } else {
            continue;
        }
        taken.push(edge.class);
    }
    keys
}

struct Builder<'a> {
    plans: &'a [(Mask, Plan)],
    parts: Vec<Option<Part>>,
    edges: Vec<Edge>,
    predicates: Vec<(Mask, Scalar)>,
}

impl Builder<'_> {
    fn relation(&mut self, set: Mask) -> Result<Relation, Reason> {
        let lost = || Reason::new("a join order was lost");
        let plan = self.plans.iter().rev().find(|(known, _)| *known == set).map(|(_, plan)| *plan).ok_or_else(lost)?;
        let Some((probe, build)) = plan.split else {
            return match self.parts[set.trailing_zeros() as usize].take() {
                Some(Part::Leaf(relation)) => Ok(relation),
                _ => Err(lost()),
            };
        };
        let outer = Box::new(self.relation(probe)?);
        if build.count_ones() == 1
            && let Some(Part::SemiJoin(..)) = &self.parts[build.trailing_zeros() as usize]
        {
            let Some(Part::SemiJoin(semi_join, _)) = self.parts[build.trailing_zeros() as usize].take() else {
                return Err(lost());
            };
            let SemiJoin { anti, inner, keys, residual } = semi_join;
            let inner = Box::new(inner);
            return Ok(Relation::Join(match plan.built {
                true => {
                    let keys = keys.into_iter().map(|(outer, inner)| (inner, outer)).collect();
                    Join { kind: JoinKind::Built { matched: !anti }, probe: inner, build: outer, keys, residual }
                }
                false => {
                    let kind = if anti { JoinKind::Anti } else { JoinKind::Semi };
                    Join { kind, probe: outer, build: inner, keys, residual }
                }
            }));
        }
        let inner = Box::new(self.relation(build)?);
        let keys = crossing(&self.edges, probe, build).into_iter().map(|(a, b)| (a.clone(), b.clone())).collect();
        let residual: Vec<Scalar> = self
            .predicates
            .iter()
            .filter(|(mask, _)| is_new(*mask, set, probe, build))
            .map(|(_, predicate)| predicate.clone())
            .collect();
        Ok(Relation::Join(Join { kind: JoinKind::Inner, probe: outer, build: inner, keys, residual }))
    }
}

#[cfg(test)]
mod tests {
    use forebay_pipeline::ir::ValueType;

    use super::*;
    use crate::facts::ValueFacts;

    fn column(variable: u32) -> Scalar {
        Scalar::variable(Variable(variable), ValueFacts::of(ValueType::I64, false))
    }

    fn equal(a: u32, b: u32) -> Scalar {
        Scalar::compare(Comparison::Equal, column(a), column(b)).expect("two integers")
    }

    /// Ten variables a leaf: 0 to 9 are the first leaf's.
    fn mask_of(variables: &BTreeSet<Variable>) -> Mask {
        variables.iter().fold(0, |mask, variable| mask | 1 << (variable.0 / 10))
    }

    fn edges(predicates: Vec<Scalar>) -> (Vec<Edge>, Vec<Scalar>) {
        edges_of(predicates, &mask_of).expect("integers are comparable")
    }

    #[test]
    fn equalities_that_follow_are_edges_too() {
        let (edges, rest) = edges(vec![equal(0, 10), equal(10, 20)]);
        let masks: Vec<(Mask, Mask)> = edges.iter().map(|edge| (edge.left.0, edge.right.0)).collect();
        assert_eq!(masks, [(1, 2), (1, 4), (2, 4)]);
        assert!(rest.is_empty());
        assert_eq!(crossing(&edges, 1, 2 | 4).len(), 1, "one of a class is enough");
        assert_eq!(crossing(&edges, 2, 8), []);
    }

    #[test]
    fn columns_of_one_leaf_that_equal_a_third_are_compared() {
        let (edges, rest) = edges(vec![equal(0, 10), equal(10, 1)]);
        assert_eq!(edges.len(), 2);
        assert_eq!(rest, [equal(0, 1)]);
        let (edges, rest) = self::edges(vec![equal(0, 1)]);
        assert_eq!((edges.len(), rest), (0, vec![equal(0, 1)]));
    }

    #[test]
    fn several_classes_are_parts_of_one_key() {
        let (edges, _) = edges(vec![equal(0, 10), equal(1, 11), equal(11, 20)]);
        let keys = crossing(&edges, 1, 2 | 4);
        assert_eq!(keys, [(&column(0), &column(10)), (&column(1), &column(11))]);
        let sum =
            Scalar::arithmetic(forebay_pipeline::ir::Arithmetic::Add, crate::facts::Range::I64, column(0), column(10));
        let both = Scalar::compare(Comparison::Equal, sum.expect("a sum"), column(20)).expect("two integers");
        let (edges, rest) = self::edges(vec![both.clone()]);
        assert_eq!((edges.len(), rest), (0, vec![both]));
    }
}
