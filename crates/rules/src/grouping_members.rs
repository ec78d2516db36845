//! Members of ROLLUP, CUBE and GROUPING SETS that are more than columns, computed before rows are put into groups:
//!
//! ```text
//! Aggregate: ROLLUP (t.a * 2): count(*)   →   Aggregate: ROLLUP ("t.a * 2"): count(*)
//!   …                                           Projection: t.a, t.a * 2 AS "t.a * 2"
//!                                                 …
//! ```
//!
//! What is above an aggregation calls a member by the text of its expression. Rules that write an expression in another way keep the
//! name of a key, but not the names of those inside of a set.
//!
//! Invariant: columns are called as before.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, Alias, GroupingSet};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;
use forebay_subqueries::plans::rewrite_nodes;

/// Makes columns of the members of grouping sets. Must run before the rules that change expressions.
#[derive(Debug)]
pub struct GroupingMembers;

impl AnalyzerRule for GroupingMembers {
    fn name(&self) -> &str {
        "grouping_members"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_one = |node: &LogicalPlan| match node {
            LogicalPlan::Aggregate(aggregate) => has_computed_members(aggregate),
            _ => false,
        };
        rewrite_nodes(plan, is_one, |node| match node {
            LogicalPlan::Aggregate(aggregate) => computed_below(aggregate).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn has_computed_members(aggregate: &Aggregate) -> bool {
    match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(sets)] => sets.distinct_expr().into_iter().any(is_computed),
        _ => false,
    }
}

fn is_computed(member: &Expr) -> bool {
    !matches!(member, Expr::Column(_) | Expr::OuterReferenceColumn(..))
}

/// The aggregation over a projection that computes its members.
fn computed_below(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, mut group_expr, mut aggr_expr, .. } = aggregate;
    let mut columns = Vec::new();
    if let [Expr::GroupingSet(sets)] = group_expr.as_slice() {
        for member in sets.distinct_expr().into_iter().filter(|member| is_computed(member)) {
            let (_, name) = member.qualified_name();
            columns.push(Computed { member: member.clone(), column: unused(&name, input.schema()), name });
        }
    }
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let computed = columns.iter().map(|of| of.member.clone().unalias().alias(&of.column));
    let projection = Projection::try_new(own.chain(computed).collect(), input)?;
    for member in group_expr.iter_mut().flat_map(members_mut) {
        replace(member, &columns);
    }
    for argument in aggr_expr.iter_mut().flat_map(arguments_of_grouping) {
        replace(argument, &columns);
    }
    let input = Arc::new(LogicalPlan::Projection(projection));
    Aggregate::try_new(input, group_expr, aggr_expr).map(LogicalPlan::Aggregate)
}

/// A member, the column that holds its values, and how it is called in the results.
struct Computed {
    member: Expr,
    column: String,
    name: String,
}

/// The name, or one like it that no column has: casts of columns without a table are called as these.
fn unused(name: &str, schema: &DFSchema) -> String {
    let mut unused = name.to_owned();
    while schema.fields().iter().any(|field| *field.name() == unused) {
        unused.insert(0, '_');
    }
    unused
}

/// Puts its column in the place of a member.
fn replace(member: &mut Expr, columns: &[Computed]) {
    let Some(computed) = columns.iter().find(|computed| computed.member == *member) else { return };
    let column = Expr::Column(Column::from_name(&computed.column));
    *member = match &computed.member {
        // An alias may name a table, too.
        Expr::Alias(Alias { relation, name, .. }) => column.alias_qualified(relation.clone(), name),
        _ if computed.column != computed.name => column.alias(&computed.name),
        _ => column,
    };
}

fn members_mut(group: &mut Expr) -> Vec<&mut Expr> {
    match group {
        Expr::GroupingSet(GroupingSet::Rollup(members) | GroupingSet::Cube(members)) => members.iter_mut().collect(),
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter_mut().flatten().collect(),
        _ => Vec::new(),
    }
}

/// The members that a call of `grouping` names.
fn arguments_of_grouping(call: &mut Expr) -> &mut [Expr] {
    match call {
        Expr::Alias(alias) => arguments_of_grouping(&mut alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) if func.name() == "grouping" => &mut params.args,
        _ => &mut [],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::functions_aggregate::count::count;
    use datafusion::functions_aggregate::grouping::grouping;
    use datafusion::logical_expr::logical_plan::table_scan;
    use datafusion::logical_expr::{LogicalPlanBuilder, cast, col, lit};

    /// The plan of an aggregation by `sets` of a table `t (a, b)`, or of its column `a` without a table, and after the rule.
    fn planned(sets: GroupingSet, calls: Vec<Expr>, has_table: bool) -> (LogicalPlan, LogicalPlan) {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
        let scan = table_scan(Some("t"), &schema, None).expect("a scan");
        let input = match has_table {
            true => scan,
            false => scan.project([col("t.a").alias("a")]).expect("a projection"),
        };
        let plan = LogicalPlanBuilder::aggregate(input, [Expr::GroupingSet(sets)], calls).expect("groups");
        let plan = plan.build().expect("a plan");
        let done = GroupingMembers.analyze(plan.clone(), &ConfigOptions::default()).expect("a plan");
        (plan, done)
    }

    #[track_caller]
    fn check(sets: GroupingSet, calls: Vec<Expr>, has_table: bool, expect: &[&str]) {
        let (before, done) = planned(sets, calls, has_table);
        let columns = |plan: &LogicalPlan| -> Vec<_> {
            let all = plan.schema().iter();
            all.map(|(table, field)| (table.cloned(), field.name().clone(), field.data_type().clone())).collect()
        };
        assert_eq!(columns(&before), columns(&done));
        let shown = done.display_indent().to_string();
        assert_eq!(shown.lines().map(str::trim).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn members_are_computed_below_under_their_names() {
        let sum = || col("t.a") + lit(1);
        check(
            GroupingSet::Rollup(vec![sum(), col("t.b")]),
            vec![count(col("t.a")), grouping(sum())],
            true,
            &[
                "Aggregate: groupBy=[[ROLLUP (t.a + Int32(1), t.b)]], aggr=[[count(t.a), grouping(t.a + Int32(1))]]",
                "Projection: t.a, t.b, t.a + Int32(1) AS t.a + Int32(1)",
                "TableScan: t",
            ],
        );
        check(
            GroupingSet::GroupingSets(vec![vec![sum(), sum()], vec![sum()], vec![]]),
            vec![],
            true,
            &[
                "Aggregate: groupBy=[[GROUPING SETS ((t.a + Int32(1), t.a + Int32(1)), (t.a + Int32(1)), ())]], aggr=[[]]",
                "Projection: t.a, t.b, t.a + Int32(1) AS t.a + Int32(1)",
                "TableScan: t",
            ],
        );
    }

    #[test]
    fn names_that_columns_have_are_kept_in_the_results() {
        let text = || cast(col("a"), DataType::Utf8);
        check(
            GroupingSet::Cube(vec![text()]),
            vec![grouping(text())],
            false,
            &[
                "Aggregate: groupBy=[[CUBE (_a AS a)]], aggr=[[grouping(_a AS a)]]",
                "Projection: a, CAST(a AS Utf8) AS _a",
                "Projection: t.a AS a",
                "TableScan: t",
            ],
        );
    }

    #[test]
    fn columns_stay() {
        let (before, done) = planned(GroupingSet::Rollup(vec![col("t.a"), col("t.b")]), vec![], true);
        assert_eq!(before, done);
    }
}
