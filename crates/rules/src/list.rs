//! All rules that a plan goes through, in their order: ours, DataFusion's, and DataFusion's inside of ours. A rule of ours says
//! why it is there, what DataFusion's issue is called that it makes good (apache/datafusion), and where it is tested; when an
//! issue is closed in the version that is built here, its rule can go.
//!
//! Invariant: a rule of a new version of DataFusion's is listed here or left out. The rules for logical plans stand in an order that
//! makes one pass enough. Those for operators are listed in `forebay_physical`.

use std::sync::{Arc, LazyLock};

use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
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
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;

use crate::again::Again;
use crate::arithmetic::CheckedArithmetic;
use crate::around::LogicalRule;
use crate::boolean_cases::BooleanCases;
use crate::coerced::Coerced;
use crate::coercion::UnifiedTypes;
use crate::conditions::Conditions;
use crate::dependencies::Mistrust;
use crate::distinct_rows::DistinctRows;
use crate::driver::{Nodes, Step};
use crate::empty_inputs::EmptyInputs;
use crate::empty_scans::EmptyScans;
use crate::expressions::ExpressionRules;
use crate::floats::CanonicalFloats;
use crate::frames::Frames;
use crate::grouping_members::GroupingMembers;
use crate::interval_order::IntervalOrder;
use crate::multisets::NumberedRows;
use crate::nested_order::NestedOrder;
use crate::null_equality::keyed;
use crate::optimizer::{followed, has_set_comparison, of_duplicates, spared, without_joins};
use crate::order_keys::OrderKeys;
use crate::pushed_filters::PushedFilters;
use crate::rounding::RoundingCasts;
use crate::sort_columns::SortColumns;
use crate::text_functions::DuckFunctions;
use crate::volatile::{HideVolatile, ShowVolatile};
use crate::window_keys::WindowKeys;
use forebay_joins::MarkedJoins;
use forebay_joins::inner::InnerJoins;
use forebay_subqueries::computed_twice::computes_twice;
use forebay_subqueries::correlation::Namesakes;
use forebay_subqueries::membership::Membership;
use forebay_subqueries::orders::Orders;
use forebay_subqueries::rounds::KeyedRecursions;
use forebay_subqueries::shared_rows::NarrowedRows;
use forebay_subqueries::shared_rows::materialized::{LoneCtes, SharedCtes};
use forebay_subqueries::unnesting::Unnesting;
use forebay_types::OwnTypes;
use forebay_zones::rule::SessionZone;

/// Rules that give a plan its meaning and its types, before it is optimised. Each sees what those before it put in.
pub fn analyzer() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        // Rows of WITH are the same wherever they are named. No issue known; volatile_names.test. First.
        Arc::new(LoneCtes),
        // Members of grouping sets are columns, whose names rules lose. No issue known; grouping_expressions.test. Before expressions change.
        Arc::new(GroupingMembers),
        // DISTINCT ON is groups, to all rules about keys and orders. No issue known; distinct_on.test. First.
        Arc::new(DistinctRows),
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
                // Types of comparisons, CASE and set operations are DuckDB's. No issue, as above; types_….test.
                Box::new(UnifiedTypes),
                // Overflow is an error. #3520, #17539; arithmetic.test. Sees the types that its operands will have.
                Box::new(CheckedArithmetic::default()),
                // Values of CASE are computed for the rows that take them. No issue known; cases.test. Behind all that may fail.
                Box::new(BooleanCases),
            ],
        )),
        Arc::new(ResolveGroupingFunction::new()),
        // Coerced: would make every node anew. No issue: what it costs to plan; passes.py, and everything.
        Arc::new(Coerced),
        Arc::new(SessionZone),
        // Casts round, and those that lose digits stay where they are. No issue, as above; casts.test. Behind all types: the
        // casts that nobody wrote are no others.
        Arc::new(ExpressionRules::new("rounding_casts", vec![Box::new(RoundingCasts)])),
        // Correlated subqueries become joins, wherever they are. No issue: DataFusion knows a few forms; subqueries.test.
        // Behind all types: it makes none.
        Arc::new(Unnesting::default()),
        // As `LoneCtes`; behind what shares rows, too.
        Arc::new(SharedCtes),
        // Keys of windows are columns, and windows without keys come first. No issue known; constant_keys.test, window_orders.test. Last.
        Arc::new(WindowKeys),
    ]
}

/// Rules for logical plans, run once one after the other, and again for plans that show that there is more to do
/// (`tests/passes.py`). Left out: `EliminateCrossJoin`, for [`InnerJoins`], and what does nothing unless it is switched on,
/// `UnionsToFilter` and `FilterNullJoinKeys`.
pub fn steps() -> &'static [Step] {
    static STEPS: LazyLock<Vec<Step>> = LazyLock::new(|| {
        let mut steps = one_pass();
        steps.push(Step::new(Again::new(one_pass())));
        steps
    });
    &STEPS
}

/// The rules of [`steps`].
pub fn logical() -> Vec<Arc<LogicalRule>> {
    steps().iter().map(|step| Arc::clone(step.rule())).collect()
}

/// In an order in which few rules leave something to those before them, with the nodes that each is for: those that its
/// `rewrite` looks for.
fn one_pass() -> Vec<Step> {
    vec![
        // Spared: would go through every expression of every plan. No issue; membership.test.
        Step::new(spared(RewriteSetComparison::new(), has_set_comparison)),
        Step::new(OptimizeUnions::new()).in_plans_with(Nodes::UNION).at(Nodes::UNION | Nodes::DISTINCT),
        Step::new(SimplifyExpressions::new()),
        // Aggregates whose order has a key twice panic. No issue known; distinct_order.test. Behind what makes keys equal.
        Step::new(OrderKeys).in_plans_with(Nodes::AGGREGATE).at(Nodes::AGGREGATE),
        // The planner's order differs from run to run. No issue known; sort_columns.rs.
        Step::new(SortColumns).in_plans_with(Nodes::SORT),
        // Here and below: no dependencies that a join or an unnesting ends. #23626, #23634, #23818, #23819, #23820;
        // dependencies.test.
        Step::new(Mistrust),
        Step::new(ReplaceDistinctWithAggregate::new()).in_plans_with(Nodes::DISTINCT).at(Nodes::DISTINCT),
        Step::new(DecorrelatePredicateSubquery::new()).in_plans_with(Nodes::SUBQUERY),
        Step::new(ScalarSubqueryToJoin::new()).in_plans_with(Nodes::SUBQUERY),
        Step::new(DecorrelateLateralJoin::new()).in_plans_with(Nodes::JOIN).at(Nodes::JOIN),
        // Before filters are moved, so that they follow from each other by the keys of joins. Keyed: makes `=` of a condition
        // take NULLs for equal where keys do. No issue known; subqueries.test.
        Step::new(keyed(ExtractEquijoinPredicate::new())).in_plans_with(Nodes::JOIN),
        // Without: would make all groups anew.
        Step::new(of_duplicates(EliminateDuplicatedExpr::new())).in_plans_with(Nodes::SORT | Nodes::AGGREGATE),
        Step::new(EliminateFilter::new()).in_plans_with(Nodes::FILTER).at(Nodes::FILTER),
        // Behind the rules that make outer joins of subqueries, and before the one that goes through inner joins.
        Step::new(EliminateOuterJoin::new()).in_plans_with(Nodes::JOIN).at(Nodes::FILTER),
        // In the place of DataFusion's, which makes the joins of a region anew for each of them, and gives all of them the treatment
        // of NULLs that the topmost has, since #16356; joins.test, join_keys.test.
        Step::new(InnerJoins).in_plans_with(Nodes::JOIN),
        Step::new(EliminateLimit::new()).in_plans_with(Nodes::LIMIT).at(Nodes::LIMIT),
        // Conditions that have come to scans are computed behind the rule that looks for false ones. No issue known;
        // empty_scans.test.
        Step::new(EmptyScans),
        // Names the columns of a union with one input left without their tables. No issue known; empty_inputs.test.
        Step::new(EmptyInputs::default()).in_plans_with(Nodes::EMPTY),
        Step::new(PushDownLimit::new()).in_plans_with(Nodes::LIMIT).at(Nodes::LIMIT),
        // Between bars: moves what differs from call to call. No issue known; volatile.test.
        Step::new(HideVolatile),
        // Moves filters without columns below groups that are there without rows. No issue known; empty_groups.test.
        Step::new(PushedFilters::default()).in_plans_with(Nodes::FILTER | Nodes::JOIN).at(Nodes::FILTER | Nodes::JOIN),
        Step::new(ShowVolatile),
        // Once more: filters have come to joins.
        Step::new(keyed(ExtractEquijoinPredicate::new())).in_plans_with(Nodes::JOIN),
        Step::new(SingleDistinctToGroupBy::new()).in_plans_with(Nodes::AGGREGATE).at(Nodes::AGGREGATE),
        Step::new(EliminateGroupByConstant::new()).in_plans_with(Nodes::AGGREGATE).at(Nodes::AGGREGATE),
        // Spared: would hash every part of every expression.
        Step::new(spared(CommonSubexprEliminate::new(), computes_twice)),
        // Spared: they lose columns of mark joins and of IN below fields of structs. No issue known; outer_fields.test. What they are
        // for, to read fewer columns of a file, is in plans of one.
        Step::new(without_joins(ExtractLeafExpressions::new())),
        Step::new(without_joins(PushDownLeafProjections::new())),
        Step::new(Mistrust),
        Step::new(OptimizeProjections::new()),
        // Rows that are read in several places have the columns that one of these needs. Nothing of DataFusion's is shared;
        // subqueries.test.
        Step::new(followed(NarrowedRows, OptimizeProjections::new())).in_plans_with(Nodes::EXTENSION),
        // Behind what tells which columns are needed; fewer are where it found something.
        Step::new(Mistrust),
        Step::new(followed(EliminateJoin::new(), OptimizeProjections::new())).in_plans_with(Nodes::JOIN),
        // Once more: limits have come to stand above other operators.
        Step::new(PushDownLimit::new()).in_plans_with(Nodes::LIMIT).at(Nodes::LIMIT),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
    use datafusion::optimizer::filter_null_join_keys::FilterNullJoinKeys;
    use datafusion::optimizer::unions_to_filter::UnionsToFilter;
    use datafusion::optimizer::{Analyzer, Optimizer, OptimizerRule};

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
        let ours = [&listed[..first], &listed[listed.len() - 4..]].concat();
        check(&listed, &ours, theirs.iter().map(|rule| rule.name()), &[]);

        let (rules, theirs) = (logical(), Optimizer::new().rules);
        let listed: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let ours = [
            OrderKeys.name(),
            SortColumns.name(),
            Mistrust.name(),
            EmptyScans.name(),
            HideVolatile.name(),
            ShowVolatile.name(),
            InnerJoins.name(),
            NarrowedRows.name(),
            "again",
        ];
        let (unions, keys, joins) = (UnionsToFilter::new(), FilterNullJoinKeys::default(), EliminateCrossJoin::new());
        let left_out = [unions.name(), keys.name(), joins.name()];
        check(&listed, &ours, theirs.iter().map(|rule| rule.name()), &left_out);
    }
}
