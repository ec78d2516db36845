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
//! Must not know: which subtrees are worth it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;

use super::{Shared, SharedRows};
use crate::plans::any_node;

/// More subtrees than these are not compared with each other.
const MOST_SUBTREES: usize = 64;

/// `plan` with every subtree computed once that `is_worth_it` and that stands in it several times, the largest first.
///
/// # Errors
/// If two columns of a subtree have one name.
pub fn shared(mut plan: LogicalPlan, is_worth_it: impl Fn(&LogicalPlan) -> bool) -> Result<LogicalPlan> {
    while let Some((repeated, readers)) = largest(&plan, &is_worth_it)? {
        let shared = Shared { number: free_number(&plan)?, schema: Arc::clone(repeated.schema()) };
        let mut sharing = Sharing { repeated: &repeated, shared, readers, put_in: 0, is_shared: false };
        plan = sharing.within(plan)?;
    }
    Ok(plan)
}

/// The largest subtree that occurs several times, and how often.
fn largest(plan: &LogicalPlan, is_worth_it: &impl Fn(&LogicalPlan) -> bool) -> Result<Option<(LogicalPlan, usize)>> {
    let mut subtrees = Vec::new();
    collect(plan, is_worth_it, &mut subtrees);
    if subtrees.len() < 2 || subtrees.len() > MOST_SUBTREES {
        return Ok(None);
    }
    // A step of a recursion reads other rows each time.
    if any_node(plan, |node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))? {
        return Ok(None);
    }
    // What holds others stands in front of them.
    for (index, subtree) in subtrees.iter().enumerate() {
        let others = subtrees[index + 1..].iter().filter(|other| other == &subtree).count();
        if others > 0 && !is_volatile(subtree)? {
            return Ok(Some(((*subtree).clone(), others + 1)));
        }
    }
    Ok(None)
}

fn collect<'a>(
    plan: &'a LogicalPlan,
    is_worth_it: &impl Fn(&LogicalPlan) -> bool,
    subtrees: &mut Vec<&'a LogicalPlan>,
) {
    if is_worth_it(plan) {
        subtrees.push(plan);
    }
    plan.inputs().into_iter().for_each(|input| collect(input, is_worth_it, subtrees));
}

/// Whether a subtree may give other rows each time that it runs.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
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
struct Sharing<'a> {
    repeated: &'a LogicalPlan,
    shared: Shared,
    readers: usize,
    /// Of these, those that have been put in.
    put_in: usize,
    is_shared: bool,
}

impl Sharing<'_> {
    /// `plan` with readers of the rows, and their definition where the lowest node has all of them.
    fn within(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if plan == *self.repeated {
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
