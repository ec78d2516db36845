//! What stands in a plan several times, computed once. A WITH query, or a view, that is named twice is two subtrees; where the
//! rules have left them the same, or parts of them, their rows are shared.
//!
//! ```text
//! Join                          SharedRows #1
//!   Window                        Aggregate …
//!     Aggregate …           →     Join
//!   Aggregate …                     Window
//!                                     rows of #1
//!                                   rows of #1
//! ```
//!
//! Must not know: which subtrees are worth it, what nodes of others hold.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{LogicalPlan, TableScan};

use super::{Shared, SharedRows, scanned};
use crate::plans::any_node;
use crate::rounds::KeyedRecursion;

/// More subtrees than these are not compared with each other.
const MOST_SUBTREES: usize = 64;

/// What this module is told of plans.
pub trait Knowledge {
    /// Whether a subtree is worth to be kept for several readers.
    fn is_worth_it(&self, plan: &LogicalPlan) -> bool;
    /// The plan that a node computes without having it as an input.
    fn hidden<'a>(&self, plan: &'a LogicalPlan) -> Option<&'a LogicalPlan>;
}

/// `plan` with every subtree computed once that is worth it and that stands in it several times, the largest first.
///
/// # Errors
/// If two columns of a subtree have one name.
pub fn shared(mut plan: LogicalPlan, knowledge: &impl Knowledge) -> Result<LogicalPlan> {
    while let Some((repeated, readers)) = largest(&plan, knowledge)? {
        let shared = Shared { number: free_number(&plan)?, schema: Arc::clone(repeated.schema()) };
        let mut sharing = Sharing { repeated: &repeated, knowledge, shared, readers, put_in: 0, is_shared: false };
        plan = sharing.within(plan)?;
    }
    Ok(plan)
}

/// The largest subtree that occurs several times, and how often.
fn largest(plan: &LogicalPlan, knowledge: &impl Knowledge) -> Result<Option<(LogicalPlan, usize)>> {
    let mut subtrees = Vec::new();
    collect(plan, knowledge, &mut subtrees);
    if subtrees.len() < 2 || subtrees.len() > MOST_SUBTREES {
        return Ok(None);
    }
    // A step of a recursion reads other rows each time.
    if any_node(plan, |node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_)) || KeyedRecursion::is(node)))? {
        return Ok(None);
    }
    // What holds others stands in front of them.
    for (index, subtree) in subtrees.iter().enumerate() {
        let others = subtrees[index + 1..].iter().filter(|other| are_same(subtree, other, knowledge)).count();
        if others > 0 && !is_volatile(subtree, knowledge)? {
            return Ok(Some(((*subtree).clone(), others + 1)));
        }
    }
    Ok(None)
}

fn collect<'a>(plan: &'a LogicalPlan, knowledge: &impl Knowledge, subtrees: &mut Vec<&'a LogicalPlan>) {
    if knowledge.is_worth_it(plan) {
        subtrees.push(plan);
    }
    plan.inputs().into_iter().for_each(|input| collect(input, knowledge, subtrees));
}

/// Whether two subtrees give the same rows. Plans are equal where scans read tables of one name: those of `range(5)` and
/// `range(6)` are.
fn are_same(one: &LogicalPlan, other: &LogicalPlan, knowledge: &impl Knowledge) -> bool {
    one == other && {
        let (mut scans, mut others) = (Vec::new(), Vec::new());
        collect_scans(one, knowledge, &mut scans);
        collect_scans(other, knowledge, &mut others);
        scans.len() == others.len() && scans.iter().zip(&others).all(|(one, other)| read_the_same(one, other))
    }
}

fn read_the_same(one: &LogicalPlan, other: &LogicalPlan) -> bool {
    let (LogicalPlan::TableScan(left), LogicalPlan::TableScan(right)) = (one, other) else { return false };
    let of = |scan: &TableScan| Arc::clone(&scan.source);
    match (scanned(one), scanned(other)) {
        (None, None) => Arc::ptr_eq(&of(left), &of(right)),
        (number, same) => number == same,
    }
}

fn collect_scans(plan: &LogicalPlan, knowledge: &impl Knowledge, scans: &mut Vec<LogicalPlan>) {
    // Only an error of the closure could stop it.
    let _ = plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            scans.push(node.clone());
        }
        if let Some(hidden) = knowledge.hidden(node) {
            collect_scans(hidden, knowledge, scans);
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

/// Whether a subtree may give other rows each time that it runs.
fn is_volatile(plan: &LogicalPlan, knowledge: &impl Knowledge) -> Result<bool> {
    any_node(plan, |node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        match knowledge.hidden(node) {
            Some(hidden) if !found => is_volatile(hidden, knowledge),
            _ => Ok(found),
        }
    })
}

/// A number that no shared rows of the plan have.
fn free_number(plan: &LogicalPlan) -> Result<usize> {
    let mut free = 1;
    plan.apply_with_subqueries(|node| {
        free = SharedRows::of(node).map_or(free, |rows| free.max(rows.number + 1));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(free)
}

/// A subtree that becomes shared rows.
struct Sharing<'a, K> {
    repeated: &'a LogicalPlan,
    knowledge: &'a K,
    shared: Shared,
    readers: usize,
    /// Of these, those that have been put in.
    put_in: usize,
    is_shared: bool,
}

impl<K: Knowledge> Sharing<'_, K> {
    /// `plan` with readers of the rows, and their definition where the lowest node has all of them.
    fn within(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if are_same(&plan, self.repeated, self.knowledge) {
            self.put_in += 1;
            return self.shared.reader();
        }
        let before = self.put_in;
        let plan = plan.map_children(|child| self.within(child).map(Transformed::yes))?.data;
        if self.put_in - before < self.readers || self.is_shared {
            return Ok(plan);
        }
        self.is_shared = true;
        Ok(self.shared.over(self.repeated.clone(), plan))
    }
}
