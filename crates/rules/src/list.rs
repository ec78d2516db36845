//! All rules that a plan goes through, in their order: ours, DataFusion's, and DataFusion's inside of ours. A rule of ours says
//! why it is there, what DataFusion's issue is called that it makes good (apache/datafusion), and where it is tested; when an
//! issue is closed in the version that is built here, its rule can go.
//!
//! Invariant: a rule of a new version of DataFusion's is listed here or left out. The rules for physical plans stand in its
//! order; those for logical plans in one that makes one pass enough.

use std::sync::Arc;

use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion::optimizer::eliminate_join::EliminateJoin;
use datafusion::optimizer::eliminate_limit::EliminateLimit;
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::extract_leaf_expressions::{ExtractLeafExpressions, PushDownLeafProjections};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimize_unions::OptimizeUnions;
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_optimizer::combine_partial_final_agg::CombinePartialFinalAggregate;
use datafusion::physical_optimizer::ensure_coop::EnsureCooperative;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::limit_pushdown_past_window::LimitPushPastWindows;
use datafusion::physical_optimizer::limited_distinct_aggregation::LimitedDistinctAggregation;
use datafusion::physical_optimizer::output_requirements::OutputRequirements;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::pushdown_sort::PushdownSort;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_optimizer::topk_repartition::TopKRepartition;
use datafusion::physical_optimizer::update_aggr_exprs::OptimizeAggregateOrder;

use crate::again::Again;
use crate::arithmetic::CheckedArithmetic;
use crate::around::{LogicalRule, PhysicalRule};
use crate::build_sides::choosing;
use crate::cancel::CancellableJoins;
use crate::coercion::UnifiedTypes;
use crate::compact_strings::CompactStrings;
use crate::conditions::Conditions;
use crate::dependencies::Mistrust;
use crate::empty_scans::EmptyScans;
use crate::expressions::ExpressionRules;
use crate::floats::CanonicalFloats;
use crate::frames::Frames;
use crate::guarded_scans::GuardedScans;
use crate::interval_order::IntervalOrder;
use crate::large_limits::LargeLimits;
use crate::lone_partitions::LonePartitions;
use crate::multisets::NumberedRows;
use crate::nested_order::NestedOrder;
use crate::null_equality::{apart, keyed};
use crate::optimizer::{followed, has_cross_join, has_set_comparison, of_duplicates, spared, without_joins};
use crate::outer_constants::hiding_constants;
use crate::pushdown::barred;
use crate::rounding::RoundingCasts;
use crate::text_functions::DuckFunctions;
use crate::volatile::{HideVolatile, ShowVolatile};
use crate::whole_partitions::WholePartitions;
use forebay_joins::MarkedJoins;
use forebay_subqueries::branches::Branches;
use forebay_subqueries::computed_twice::computes_twice;
use forebay_subqueries::correlation::Namesakes;
use forebay_subqueries::membership::Membership;
use forebay_subqueries::orders::Orders;
use forebay_subqueries::rounds::KeyedRecursions;
use forebay_subqueries::shared_rows::NarrowedRows;
use forebay_subqueries::unnesting::Unnesting;
use forebay_types::OwnTypes;
use forebay_zones::rule::SessionZone;

/// Rules that give a plan its meaning and its types, before it is optimised. Each sees what those before it put in.
pub fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        // Values of ENUMs are in the order of their places. No issue: DataFusion has no such types; enums.test. Before all that
        // looks at types.
        Arc::new(OwnTypes),
        // Instants are read, shown and taken apart in the session's time zone. No issue: DataFusion means UTC; session_zones.test.
        // Before literals become instants, and behind the casts that nobody wrote.
        Arc::new(SessionZone),
        // WITH RECURSIVE … USING KEY. No issue: DataFusion does not know it; recursive_keys.test. Before types: its readers are scans.
        Arc::new(KeyedRecursions),
        // POSITIONAL and ASOF joins, which DataFusion does not know. nearest_rows.test, positional.test. Before types.
        Arc::new(MarkedJoins),
        // Lists and the like, and the numbers of rows, are in the order of the subquery that they read. No issue: DataFusion drops such
        // orders; subquery_orders.test. Behind what numbers rows of joins, and before subqueries become joins.
        Arc::new(Orders),
        // INTERSECT ALL and EXCEPT ALL count equal rows. #12955, #12956; joins.test.
        Arc::new(NumberedRows),
        // IN and NOT IN of subqueries know NULL. #8241, #21309, #25347; membership.test. Makes comparisons: before types.
        Arc::new(Membership),
        // Correlated predicates are moved by the names of columns alone. No issue known; joins.test.
        Arc::new(Namesakes),
        // What looks at the types of expressions goes through the plan together.
        Arc::new(ExpressionRules::new(
            "expressions",
            vec![
                // Conditions are what they say, without the casts of those that might be numbers, and with their lists apart.
                // conditions.test, membership.test.
                Box::new(Conditions),
                // Functions of texts and lists mean what DuckDB's do. No issue, as below; text_functions.test, lists.test.
                Box::new(DuckFunctions::default()),
                // One NaN, one zero, wherever floats are computed. No issue: DataFusion means it otherwise; arithmetic.test.
                Box::new(CanonicalFloats::default()),
                // Lists and structs are ordered as in DuckDB. No issue: DataFusion means it otherwise; lists.test, windows.test.
                Box::new(NestedOrder::default()),
                // Frames over orders and with distances that DataFusion's ranges lack. No issue known; windows.test. Before
                // intervals become lengths, and before casts round.
                Box::new(Frames),
                // Intervals are compared by their length. No issue, as below; intervals.test. Before types: it looks at what
                // is written.
                Box::new(IntervalOrder::default()),
                // Types of comparisons, CASE and set operations are DuckDB's. No issue, as above; types_numbers.test,
                // types_text.test.
                Box::new(UnifiedTypes),
                // Overflow is an error. #3520, #17539; arithmetic.test. Sees the types that its operands will have: behind
                // them.
                Box::new(CheckedArithmetic::default()),
            ],
        )),
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(TypeCoercion::new()),
        Arc::new(SessionZone),
        // Casts round, and those that lose digits stay where they are. No issue, as above; casts.test. Behind all types: the
        // casts that nobody wrote are no others.
        Arc::new(ExpressionRules::new("rounding_casts", vec![Box::new(RoundingCasts)])),
        // Correlated subqueries become joins, wherever they are. No issue: DataFusion knows a few forms; subqueries.test.
        // Behind all types: it makes none.
        Arc::new(Unnesting::default()),
    ]
}

/// Rules for logical plans, run once one after the other, and again for plans that show that there is more to do
/// (`tests/passes.py`). Left out, since they do nothing unless they are switched on: `UnionsToFilter`, `FilterNullJoinKeys`.
pub fn logical() -> Vec<Arc<LogicalRule>> {
    let mut rules = one_pass();
    rules.push(Arc::new(Again::new(one_pass())));
    rules
}

/// In an order in which few rules leave something to those before them.
fn one_pass() -> Vec<Arc<LogicalRule>> {
    vec![
        // Spared: would go through every expression of every plan. No issue; membership.test.
        Arc::new(spared(RewriteSetComparison::new(), has_set_comparison)),
        Arc::new(OptimizeUnions::new()),
        Arc::new(SimplifyExpressions::new()),
        // Here and below: no dependencies that a join or an unnesting ends. #23626, #23634, #23818, #23819, #23820;
        // dependencies.test.
        Arc::new(Mistrust),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(DecorrelateLateralJoin::new()),
        // Before filters are moved, so that they follow from each other by the keys of joins. Keyed: makes `=` of a condition
        // take NULLs for equal where keys do. No issue known; subqueries.test.
        Arc::new(keyed(ExtractEquijoinPredicate::new())),
        // Without: would make all groups anew.
        Arc::new(of_duplicates(EliminateDuplicatedExpr::new())),
        Arc::new(EliminateFilter::new()),
        // Behind the rules that make outer joins of subqueries, and before the one that goes through inner joins.
        Arc::new(EliminateOuterJoin::new()),
        // Apart: gives all joins that it takes apart the treatment of NULLs that the topmost has, since #16356; joins.test.
        // Spared: would make all inner joins anew, also where there is nothing to find.
        Arc::new(spared(apart(EliminateCrossJoin::new()), has_cross_join)),
        Arc::new(EliminateLimit::new()),
        // Conditions that have come to scans are computed behind the rule that looks for false ones. No issue known;
        // empty_scans.test.
        Arc::new(EmptyScans),
        Arc::new(PropagateEmptyRelation::new()),
        Arc::new(PushDownLimit::new()),
        // Between bars: moves what differs from call to call. No issue known; volatile.test.
        Arc::new(HideVolatile),
        Arc::new(PushDownFilter::new()),
        Arc::new(ShowVolatile),
        // Once more: filters have come to joins.
        Arc::new(keyed(ExtractEquijoinPredicate::new())),
        Arc::new(SingleDistinctToGroupBy::new()),
        Arc::new(EliminateGroupByConstant::new()),
        // Spared: would hash every part of every expression.
        Arc::new(spared(CommonSubexprEliminate::new(), computes_twice)),
        // Spared: they lose columns of mark joins and of IN below fields of structs. No issue known; outer_fields.test. What they are
        // for, to read fewer columns of a file, is in plans of one.
        Arc::new(without_joins(ExtractLeafExpressions::new())),
        Arc::new(without_joins(PushDownLeafProjections::new())),
        Arc::new(Mistrust),
        Arc::new(OptimizeProjections::new()),
        // Rows that are read in several places have the columns that one of these needs. Nothing of DataFusion's is shared;
        // subqueries.test.
        Arc::new(followed(NarrowedRows, OptimizeProjections::new())),
        // Behind what tells which columns are needed; fewer are where it found something.
        Arc::new(Mistrust),
        Arc::new(followed(EliminateJoin::new(), OptimizeProjections::new())),
        // Once more: limits have come to stand above other operators.
        Arc::new(PushDownLimit::new()),
    ]
}

/// Rules for physical plans, run once. A carved plan is one operator, or few, to them: what they change is what DataFusion
/// runs, above it or in its place. Left out: `TopKAggregation`, which failed and lost rows more than once (#7608, #12748,
/// #19219, #25350), and what does nothing unless it is switched on, `WindowTopN` and `HashJoinBuffering`.
pub fn physical() -> Vec<Arc<PhysicalRule>> {
    vec![
        Arc::new(OutputRequirements::new_add_mode()),
        Arc::new(AggregateStatistics::new()),
        // Choosing: with one thread, sides are fixed before their sizes are compared. No issue known; program.py.
        // Hiding: constants of a side of an outer join would be constants of its rows. No issue known; outer_constants.test.
        Arc::new(hiding_constants(choosing(JoinSelection::new()))),
        Arc::new(LimitedDistinctAggregation::new()),
        // Barred, here and below: filters find columns by name, and go through limits. #25244, #25262, #25263, #25264, #25296,
        // #21063; pushdown.test.
        Arc::new(barred(FilterPushdown::new())),
        Arc::new(EnsureRequirements::new()),
        Arc::new(CombinePartialFinalAggregate::new()),
        Arc::new(OptimizeAggregateOrder::new()),
        Arc::new(ProjectionPushdown::new()),
        Arc::new(OutputRequirements::new_remove_mode()),
        Arc::new(LimitPushPastWindows::new()),
        Arc::new(LimitPushdown::new()),
        Arc::new(TopKRepartition::new()),
        Arc::new(ProjectionPushdown::new()),
        Arc::new(PushdownSort::new()),
        Arc::new(EnsureCooperative::new()),
        Arc::new(barred(FilterPushdown::new_post_optimization())),
        Arc::new(SanityCheckPlan::new()),
        // No join waits for a partition that nobody reads. #21666 has it for joins of partitions only; subqueries.test. Behind the
        // rule that makes dynamic filters.
        Arc::new(LonePartitions),
        // Frames that end before their row wait for the rows beside NULL. No issue known; frames.test.
        Arc::new(WholePartitions),
        // UNION ALL has its rows in the order of its branches. No issue: DataFusion has no such order; branches.test.
        Arc::new(Branches),
        // Who keeps rows keeps no chunks. No issue: our scans hand out views; robustness/memory.py. In front of LargeLimits, which
        // hides sorts.
        Arc::new(CompactStrings),
        // Limits whose rows do not fit in memory sort on disk. No issue known; robustness/memory.py. Behind the rules that know sorts.
        Arc::new(LargeLimits),
        // Panics of readers are errors, and errors name their file. No issue: files may hold anything;
        // robustness/spoiled_files.py. Behind the rules that know scans.
        Arc::new(GuardedScans),
        // Joins look at the statement's cancel flag. #19358; robustness/cancel.py. Last: no rule knows it.
        Arc::new(CancellableJoins),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use datafusion::optimizer::filter_null_join_keys::FilterNullJoinKeys;
    use datafusion::optimizer::unions_to_filter::UnionsToFilter;
    use datafusion::optimizer::{Analyzer, Optimizer, OptimizerRule};
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::physical_optimizer::hash_join_buffering::HashJoinBuffering;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::physical_optimizer::topk_aggregation::TopKAggregation;
    use datafusion::physical_optimizer::window_topn::WindowTopN;

    /// Panics unless the listed names, without `ours`, are all of DataFusion's but some, each once or more.
    #[track_caller]
    fn check<'a>(listed: &[&'a str], ours: &[&str], theirs: impl Iterator<Item = &'a str>, left_out: &[&str]) {
        let theirs: BTreeSet<&str> = theirs.collect();
        assert!(left_out.iter().all(|name| theirs.contains(name)), "{left_out:?} not all among {theirs:?}");
        assert!(ours.iter().all(|name| listed.contains(name)), "{ours:?} not all among {listed:?}");
        let listed: BTreeSet<&str> = listed.iter().copied().filter(|name| !ours.contains(name)).collect();
        let expected: BTreeSet<&str> = theirs.into_iter().filter(|name| !left_out.contains(name)).collect();
        assert_eq!(listed, expected);
    }

    #[test]
    fn datafusions_rules_are_listed_or_left_out() {
        let (rules, theirs) = (analyzer(), Analyzer::new().rules);
        let listed: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        // DataFusion's follow one another; ours stand around them.
        let is_theirs = |name: &&str| theirs.iter().any(|rule| rule.name() == *name);
        let first = listed.iter().position(is_theirs).expect("one of DataFusion's is listed");
        let ours = [&listed[..first], &listed[listed.len() - 2..]].concat();
        check(&listed, &ours, theirs.iter().map(|rule| rule.name()), &[]);

        let (rules, theirs) = (logical(), Optimizer::new().rules);
        let listed: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let ours = [
            Mistrust.name(),
            EmptyScans.name(),
            HideVolatile.name(),
            ShowVolatile.name(),
            NarrowedRows.name(),
            "again",
        ];
        let (unions, keys) = (UnionsToFilter::new(), FilterNullJoinKeys::default());
        check(&listed, &ours, theirs.iter().map(|rule| rule.name()), &[unions.name(), keys.name()]);

        let (rules, theirs) = (physical(), PhysicalOptimizer::new().rules);
        let listed: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let (groups, windows, joins) = (TopKAggregation::new(), WindowTopN::new(), HashJoinBuffering::new());
        let left_out = [groups.name(), windows.name(), joins.name()];
        let ours = [
            LonePartitions.name(),
            WholePartitions.name(),
            Branches.name(),
            CompactStrings.name(),
            LargeLimits.name(),
            GuardedScans.name(),
            CancellableJoins.name(),
        ];
        check(&listed, &ours, theirs.iter().map(|rule| rule.name()), &left_out);
        // Physical rules stand in DataFusion's order, ours behind them.
        let theirs: Vec<&str> = theirs.iter().map(|rule| rule.name()).filter(|name| !left_out.contains(name)).collect();
        let (theirs_listed, ours_listed) = listed.split_at(listed.len() - ours.len());
        assert_eq!((theirs_listed, ours_listed), (theirs.as_slice(), ours.as_slice()));
    }
}
