//! Plans of queries that were run before: the same text under the same settings on the same schema is planned once.
//! Dashboards and benchmarks ask the same again and again, and most of a short query's time goes into planning it.
//!
//! What is kept is the optimised plan with its pipelines carved; operators are made of it anew for each run, over the rows that
//! its statement sees, so that no run sees what another one left. Invariants: a plan is kept only if it depends on nothing but
//! text, settings, the schema and what it assumes of tables ([`is_repeatable`]); whoever makes operators of it is told where
//! an assumption does not hold, and plans anew; it holds no rows, and so no files. A change of the schema throws all plans away.
//! Must not know: what is in a plan, what it assumes.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use forebay_context::lock::lock;
use forebay_rules::optimizer::any_node;
use forebay_tables::narrow;
use forebay_tables::rows::TableRows;

use crate::{carved, operators};

/// Plans that are kept.
const PLANS: usize = 256;

/// Longer texts are not kept: they were made by a program, which rarely makes the same twice.
const TEXT_BYTES: usize = 64 << 10;

/// A number for settings that no others have. 0 are those that every session starts with.
pub fn new_settings() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// What a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// The session's settings, by number.
    pub settings: u64,
    /// The statement.
    pub text: String,
}

/// The plans of all sessions of a database.
#[derive(Default)]
pub struct PlanCache(Mutex<Plans>);

#[derive(Default)]
struct Plans {
    /// The number of the schema that all plans are of.
    schema: u64,
    by_key: HashMap<PlanKey, Kept>,
    /// Counts uses.
    uses: u64,
}

struct Kept {
    plan: Arc<LogicalPlan>,
    /// When it was used last, in uses.
    used: u64,
}

impl fmt::Debug for PlanCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCache").field("plans", &lock(&self.0).by_key.len()).finish_non_exhaustive()
    }
}

impl PlanCache {
    /// The plan for `key` on this schema, by number.
    pub fn find(&self, key: &PlanKey, schema: u64) -> Option<Arc<LogicalPlan>> {
        let mut plans = lock(&self.0);
        if plans.schema != schema {
            return None;
        }
        plans.uses += 1;
        let used = plans.uses;
        let kept = plans.by_key.get_mut(key)?;
        kept.used = used;
        Some(Arc::clone(&kept.plan))
    }

    /// The operators of an unoptimised plan, which is kept for a key and a schema, if there are these and it [`is_repeatable`].
    pub async fn operators(
        &self,
        kept_for: Option<(PlanKey, u64)>,
        plan: &LogicalPlan,
        state: &SessionState,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let Some((key, schema)) = kept_for.filter(|_| is_repeatable(plan).unwrap_or(false)) else {
            return operators(plan, state).await;
        };
        let carved = Arc::new(carved(plan, state)?);
        self.keep(key, schema, Arc::clone(&carved));
        forebay_carve::operators(&carved, state).await
    }

    /// Keeps a plan that was made on this schema.
    fn keep(&self, key: PlanKey, schema: u64, plan: Arc<LogicalPlan>) {
        if key.text.len() > TEXT_BYTES {
            return;
        }
        let mut plans = lock(&self.0);
        // A plan of an older schema than others would never be found.
        if plans.schema > schema {
            return;
        }
        if plans.schema < schema {
            plans.by_key.clear();
            plans.schema = schema;
        }
        plans.uses += 1;
        let used = plans.uses;
        if plans.by_key.len() >= PLANS
            && let Some(oldest) = plans.by_key.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone())
        {
            plans.by_key.remove(&oldest);
        }
        plans.by_key.insert(key, Kept { plan, used });
    }

    /// Lets all plans go whose schema is older than this one.
    pub fn forget_before(&self, schema: u64) {
        let mut plans = lock(&self.0);
        if plans.schema < schema {
            plans.by_key.clear();
            plans.schema = schema;
        }
    }
}

/// Whether an unoptimised plan means the same whenever it runs on one schema: it reads the rows that tables of ours have then,
/// also through views, not files, and calls nothing that tells the time or chance.
fn is_repeatable(plan: &LogicalPlan) -> DataFusionResult<bool> {
    Ok(!any_node(plan, |node| Ok(!node_is_repeatable(node)?))?)
}

fn node_is_repeatable(node: &LogicalPlan) -> DataFusionResult<bool> {
    let reads_tables = match node {
        LogicalPlan::TableScan(scan) => {
            let is_table = source_as_provider(&scan.source).is_ok_and(|provider| {
                let table = narrow::table_of(provider.as_ref());
                table.is_some_and(|table| matches!(table.rows(), TableRows::OfStatement(_)))
            });
            match scan.source.get_logical_plan() {
                Some(view) => is_repeatable(&view)?,
                None => is_table,
            }
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Distinct(_) => true,
        _ => false,
    };
    let is_open = |part: &Expr| match part {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::AggregateFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::WindowFunction(call) => call.fun.signature().volatility != Volatility::Immutable,
        Expr::Placeholder(_) | Expr::ScalarVariable(..) | Expr::HigherOrderFunction(_) => true,
        _ => false,
    };
    let mut is_fixed = true;
    node.apply_expressions(|expr| {
        is_fixed = is_fixed && !expr.exists(|part| Ok(is_open(part)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads_tables && is_fixed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::LogicalPlanBuilder;

    fn plan() -> Arc<LogicalPlan> {
        Arc::new(LogicalPlanBuilder::empty(true).build().expect("no input"))
    }

    fn key(settings: u64, text: &str) -> PlanKey {
        PlanKey { settings, text: text.to_owned() }
    }

    #[test]
    fn a_plan_is_found_by_text_settings_and_schema() {
        let cache = PlanCache::default();
        cache.keep(key(1, "a"), 7, plan());
        assert!(cache.find(&key(1, "a"), 7).is_some());
        assert!(cache.find(&key(2, "a"), 7).is_none());
        assert!(cache.find(&key(1, "b"), 7).is_none());
        assert!(cache.find(&key(1, "a"), 8).is_none());
        // Of an older schema than the others.
        cache.keep(key(1, "b"), 6, plan());
        assert!(cache.find(&key(1, "b"), 6).is_none());
        assert!(cache.find(&key(1, "a"), 7).is_some());
    }

    #[test]
    fn a_change_of_the_schema_lets_plans_go() {
        let cache = PlanCache::default();
        let kept = plan();
        cache.keep(key(0, "a"), 1, Arc::clone(&kept));
        cache.forget_before(1);
        assert_eq!(Arc::strong_count(&kept), 2);
        cache.forget_before(2);
        assert_eq!(Arc::strong_count(&kept), 1);
        cache.keep(key(0, "a"), 2, Arc::clone(&kept));
        cache.keep(key(0, "b"), 3, plan());
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn the_plan_that_was_not_used_for_longest_makes_room() {
        let cache = PlanCache::default();
        for number in 0..PLANS {
            cache.keep(key(0, &number.to_string()), 0, plan());
        }
        assert!(cache.find(&key(0, "0"), 0).is_some());
        cache.keep(key(0, "one more"), 0, plan());
        assert!(cache.find(&key(0, "0"), 0).is_some());
        assert!(cache.find(&key(0, "1"), 0).is_none());
        assert!(cache.find(&key(0, "one more"), 0).is_some());
        cache.keep(key(0, &"x".repeat(TEXT_BYTES + 1)), 0, plan());
        assert!(cache.find(&key(0, "2"), 0).is_some());
    }
}
