//! DataFusion's plans as relations: what pipelines cannot run is a [`Reason`].
//!
//! Must not know: in which order joins are done, registers, states.

pub mod expression;
pub mod table;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::logical_plan::{Join as PlanJoin, Subquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate as PlanAggregate, Expr, LogicalPlan};
use forebay_engine::Engine;
use forebay_pipeline::ir::{Comparison, ValueType};
use forebay_tables::assumptions::{Assumptions, rows_to_come};

use crate::carver::expression::Scope;
use crate::carver::table::ScannedTable;
use crate::facts::{ValueFacts, Variable};
use crate::reason::Reason;
use crate::relation::{
    Aggregate, Group, Join, JoinKind, OneRowRelation, Relation, SemiJoin, VariableInfo, filtered, is_single,
};
use crate::scalar::{MOST_DEPTH, Scalar};

/// A relation and the scalars of its columns; `None` for columns that pipelines cannot carry.
pub type CarvedInput = (Relation, Vec<Option<Scalar>>);

/// Translates one subtree of a plan.
pub struct Carver<'a> {
    /// The statement's session.
    pub session: &'a dyn Session,
    /// All variables.
    pub variables: Vec<VariableInfo>,
    /// All scanned tables.
    pub tables: Vec<ScannedTable>,
    /// Relations of one row.
    pub one_row_relations: Vec<OneRowRelation>,
    /// The engine that holds the tables.
    pub engine: Option<Arc<Engine>>,
    /// Bounds of columns leave room for rows that come later.
    pub leaves_room: bool,
    /// The rows of tables were counted for the sake of answers.
    counts_rows: Cell<bool>,
    /// A table must not have a row more for the answer to be right.
    pub(crate) rows_are_exact: bool,
    /// Operators and expressions that are being translated.
    depth: u32,
}

/// A number of rows that a relation cannot have more of.
#[derive(Debug, Clone, Copy)]
pub struct MostRows {
    /// With the rows that tables have now.
    pub now: i128,
    /// With those that they may have while the plan is kept.
    pub to_come: i128,
}

impl MostRows {
    const ONE: Self = Self { now: 1, to_come: 1 };

    fn times(self, other: Self) -> Self {
        Self { now: self.now.saturating_mul(other.now), to_come: self.to_come.saturating_mul(other.to_come) }
    }

    fn at_least_one(self) -> Self {
        Self { now: self.now.max(1), to_come: self.to_come.max(1) }
    }
}

impl<'a> Carver<'a> {
    /// Nothing is known yet.
    pub fn new(session: &'a dyn Session) -> Self {
        Self {
            session,
            variables: Vec::new(),
            tables: Vec::new(),
            one_row_relations: Vec::new(),
            engine: None,
            leaves_room: false,
            counts_rows: Cell::new(false),
            rows_are_exact: false,
            depth: 0,
        }
    }

    /// A new variable.
    pub fn variable(&mut self, info: VariableInfo) -> Variable {
        self.variables.push(info);
        Variable(self.variables.len() as u32 - 1)
    }

    /// What is known of a variable.
    pub fn info(&self, variable: Variable) -> &VariableInfo {
        &self.variables[variable.0 as usize]
    }

    /// A variable as an expression.
    pub fn scalar(&self, variable: Variable) -> Scalar {
        Scalar::variable(variable, self.info(variable).facts)
    }

    /// The variable that names a scalar's values above a pipeline breaker.
    pub fn named(&mut self, name: &str, scalar: &Scalar, nullable: bool) -> Variable {
        let same_as = scalar.as_variable();
        let distinct = same_as.map_or(f64::INFINITY, |source| self.info(source).distinct);
        let facts = ValueFacts { nullable: nullable || scalar.facts().nullable, ..scalar.facts() };
        self.variable(VariableInfo { name: name.to_owned(), facts, distinct, column: None, same_as })
    }

    /// What the plan takes for granted, by table.
    pub fn assumptions(&self) -> Vec<Assumptions> {
        let most = |rows: u64| match (self.counts_rows.get(), self.rows_are_exact) {
            (false, _) => None,
            (true, false) => Some(rows_to_come(rows)),
            (true, true) => Some(rows),
        };
        self.tables.iter().map(|scanned| scanned.assumptions(most(scanned.table.rows()))).collect()
    }

    /// Does `work`, unless too much of it is nested.
    pub fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Reason>) -> Result<T, Reason> {
        if self.depth >= MOST_DEPTH {
            return Err(Reason::new("too deep a nesting"));
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    /// Translates a plan.
    pub fn relation(&mut self, plan: &LogicalPlan) -> Result<CarvedInput, Reason> {
        self.deeper(|carver| carver.operator(plan))
    }

    fn operator(&mut self, plan: &LogicalPlan) -> Result<CarvedInput, Reason> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.relation(&alias.input),
            LogicalPlan::Projection(projection) => {
                let (relation, columns) = self.relation(&projection.input)?;
                let scope = Scope { schema: projection.input.schema(), columns: &columns };
                // A column that nothing can be made of matters only if it is used.
                let columns = projection.expr.iter().map(|expr| self.expression(expr, &scope));
                Ok((relation, columns.collect::<Result<Vec<_>, _>>()?.into_iter().map(Some).collect()))
            }
            LogicalPlan::Filter(filter) => {
                let (relation, columns) = self.relation(&filter.input)?;
                let scope = Scope { schema: filter.input.schema(), columns: &columns };
                let predicates = self.conjuncts(&filter.predicate, &scope)?;
                Ok((filtered(relation, predicates), columns))
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            other => Err(Reason::new(format!("operator {}", operator_name(other)))),
        }
    }

    /// The parts of a conjunction.
    fn conjuncts(&mut self, predicate: &Expr, scope: &Scope<'_>) -> Result<Vec<Scalar>, Reason> {
        let scalars = split_conjunction(predicate).into_iter().map(|part| {
            let scalar = self.expression(part, scope)?;
            match scalar.facts().value {
                ValueType::Bool => Ok(scalar),
                _ => Err(Reason::new("a predicate that is not boolean")),
            }
        });
        scalars.collect()
    }

    fn join(&mut self, join: &PlanJoin) -> Result<CarvedInput, Reason> {
        let (left, left_columns) = self.relation(&join.left)?;
        let (right, right_columns) = self.relation(&join.right)?;
        let left_scope = Scope { schema: join.left.schema(), columns: &left_columns };
        let right_scope = Scope { schema: join.right.schema(), columns: &right_columns };
        let mut keys = Vec::with_capacity(join.on.len());
        for (left_key, right_key) in &join.on {
            if !crate::types::same_values(&left_scope.data_type(left_key)?, &right_scope.data_type(right_key)?) {
                return Err(Reason::new("join keys of several types"));
            }
            let pair = (self.expression(left_key, &left_scope)?, self.expression(right_key, &right_scope)?);
            if join.null_aware && (pair.0.facts().nullable || pair.1.facts().nullable) {
                return Err(Reason::new("NOT IN with NULL"));
            }
            let nulls_meet = pair.0.facts().nullable && pair.1.facts().nullable;
            match join.null_equality {
                NullEquality::NullEqualsNull if nulls_meet => keys.extend(meeting_nulls(pair)?),
                _ => keys.push(pair),
            }
        }
        let both: Vec<Option<Scalar>> = left_columns.iter().chain(&right_columns).cloned().collect();
        let residual = match &join.filter {
            Some(filter) => {
                let schema = join.left.schema().join(join.right.schema());
                let schema = schema.map_err(|error| Reason::new(error.strip_backtrace()))?;
                self.conjuncts(filter, &Scope { schema: &schema, columns: &both })?
            }
            None => Vec::new(),
        };
        let flipped = |keys: Vec<(Scalar, Scalar)>| keys.into_iter().map(|(a, b)| (b, a)).collect();
        match join.join_type {
            JoinType::Inner => Ok((self.inner_join(left, right, keys, residual)?, both)),
            JoinType::Left => {
                let (relation, seen) = self.left_join(left, (right, &right_columns), keys, residual)?;
                Ok((relation, left_columns.into_iter().chain(seen).collect()))
            }
            JoinType::Right => {
                let (relation, seen) = self.left_join(right, (left, &left_columns), flipped(keys), residual)?;
                Ok((relation, seen.into_iter().chain(right_columns).collect()))
            }
            JoinType::LeftSemi | JoinType::LeftAnti => {
                let anti = join.join_type == JoinType::LeftAnti;
                Ok((semi_join(left, right, keys, residual, anti)?, left_columns))
            }
            JoinType::RightSemi | JoinType::RightAnti => {
                let anti = join.join_type == JoinType::RightAnti;
                Ok((semi_join(right, left, flipped(keys), residual, anti)?, right_columns))
            }
            JoinType::LeftMark if !keys.is_empty() => {
                let facts = ValueFacts::of(ValueType::Bool, false);
                let info = VariableInfo { name: "mark".into(), facts, distinct: 2.0, column: None, same_as: None };
                let mark = self.variable(info);
                let (probe, build) = (Box::new(left), Box::new(right));
                let relation = Relation::Join(Join { kind: JoinKind::Mark(mark), probe, build, keys, residual });
                let columns = left_columns.into_iter().chain([Some(self.scalar(mark))]).collect();
                Ok((relation, columns))
            }
            other => Err(Reason::new(format!("a {other} join"))),
        }
    }

    fn inner_join(
        &mut self,
        left: Relation,
        right: Relation,
        keys: Vec<(Scalar, Scalar)>,
        residual: Vec<Scalar>,
    ) -> Result<Relation, Reason> {
        let mut group = Group::default();
        if keys.is_empty() && is_single(&right) {
            self.keep_single(right);
            group.take(left);
        } else if keys.is_empty() && is_single(&left) {
            self.keep_single(left);
            group.take(right);
        } else {
            group.take(left);
            group.take(right);
        }
        for (left, right) in keys {
            group.predicates.push(Scalar::compare(Comparison::Equal, left, right)?);
        }
        group.predicates.extend(residual);
        Ok(Relation::Group(group))
    }

    /// A relation of one row that is joined with no condition: its variables are at hand everywhere.
    fn keep_single(&mut self, relation: Relation) {
        let mut variables = BTreeSet::new();
        relation.variables(self, &mut variables);
        let columns = variables.into_iter().map(|variable| (variable, self.scalar(variable))).collect();
        self.one_row_relations.push(OneRowRelation { relation, columns });
    }

    fn left_join(
        &mut self,
        probe: Relation,
        (build, columns): (Relation, &[Option<Scalar>]),
        keys: Vec<(Scalar, Scalar)>,
        residual: Vec<Scalar>,
    ) -> Result<(Relation, Vec<Option<Scalar>>), Reason> {
        if keys.is_empty() {
            return Err(Reason::new("an outer join without equal keys"));
        }
        let mut renamed = Vec::new();
        let mut seen = Vec::with_capacity(columns.len());
        for column in columns {
            let Some(scalar) = column else {
                seen.push(None);
                continue;
            };
            let name = scalar.as_variable().map_or_else(|| "?".to_owned(), |v| self.info(v).name.clone());
            let variable = self.named(&name, scalar, true);
            seen.push(Some(self.scalar(variable)));
            renamed.push((variable, scalar.clone()));
        }
        let (probe, build) = (Box::new(probe), Box::new(build));
        Ok((Relation::Join(Join { kind: JoinKind::Left(renamed), probe, build, keys, residual }), seen))
    }

    fn aggregate(&mut self, aggregate: &PlanAggregate) -> Result<CarvedInput, Reason> {
        let (input, columns) = self.relation(&aggregate.input)?;
        let scope = Scope { schema: aggregate.input.schema(), columns: &columns };
        let mut outputs = Vec::with_capacity(aggregate.schema.fields().len());
        let mut keys = Vec::with_capacity(aggregate.group_expr.len());
        for (index, expr) in aggregate.group_expr.iter().enumerate() {
            if matches!(expr, Expr::GroupingSet(_)) {
                return Err(Reason::new("GROUPING SETS, CUBE or ROLLUP"));
            }
            let scalar = self.expression(expr, &scope)?;
            let name = aggregate.schema.field(index).name().clone();
            let variable = self.named(&name, &scalar, false);
            keys.push((variable, scalar));
            outputs.push(Some(self.scalar(variable)));
        }
        let mut calls = Vec::new();
        let bound = input.most_rows(self);
        if let Some(distinct) = self.counted_once(aggregate, &scope)? {
            return self.distinct_aggregate(
                aggregate,
                &scope,
                Aggregate { input: Box::new(input), keys, calls },
                &distinct,
            );
        }
        for (index, expr) in aggregate.aggr_expr.iter().enumerate() {
            let field = aggregate.schema.field(aggregate.group_expr.len() + index);
            outputs.push(Some(self.call(expr, field, &scope, bound, &mut calls)?));
        }
        Ok((Relation::Aggregate(Aggregate { input: Box::new(input), keys, calls }), outputs))
    }

    /// A subquery that gives one value.
    pub fn scalar_subquery(&mut self, subquery: &Subquery) -> Result<Scalar, Reason> {
        if !subquery.outer_ref_columns.is_empty() {
            return Err(Reason::new("a correlated subquery"));
        }
        let (relation, columns) = self.relation(&subquery.subquery)?;
        let [Some(column)] = columns.as_slice() else { return Err(Reason::new("a subquery of several columns")) };
        let (relation, column) = match is_single(&relation) {
            true => (relation, column.clone()),
            false => self.only_row(relation, column.clone())?,
        };
        let variable = self.named("subquery", &column, false);
        let columns = vec![(variable, column)];
        self.one_row_relations.push(OneRowRelation { relation, columns });
        Ok(self.scalar(variable))
    }

    /// The single that defines a variable.
    pub fn single_of(&self, variable: Variable) -> Option<usize> {
        self.one_row_relations.iter().position(|single| single.columns.iter().any(|(named, _)| *named == variable))
    }

    /// A variable of an aggregate's result.
    pub fn result(&mut self, name: &str, facts: ValueFacts) -> Variable {
        let info = VariableInfo { name: name.to_owned(), facts, distinct: f64::INFINITY, column: None, same_as: None };
        self.variable(info)
    }
}

/// Keys that are equal where both are NULL, too: those without NULLs, and whether they were NULL.
fn meeting_nulls((left, right): (Scalar, Scalar)) -> Result<[(Scalar, Scalar); 2], Reason> {
    let without = |key: Scalar| {
        let instead = match key.facts().value {
            ValueType::Bool => Scalar::bool(false),
            ValueType::I64 => Scalar::integer(0),
            ValueType::F64 => Scalar::float(0.0),
            ValueType::Bytes => Scalar::bytes(b""),
            ValueType::I128 => return Err(Reason::new("a join on IS NOT DISTINCT FROM")),
        };
        Scalar::coalesce(key, instead)
    };
    let nulls = (Scalar::is_null(left.clone())?, Scalar::is_null(right.clone())?);
    Ok([(without(left)?, without(right)?), nulls])
}

fn semi_join(
    outer: Relation,
    inner: Relation,
    keys: Vec<(Scalar, Scalar)>,
    residual: Vec<Scalar>,
    anti: bool,
) -> Result<Relation, Reason> {
    if keys.is_empty() {
        return Err(Reason::new("EXISTS without equal keys"));
    }
    let mut group = Group::default();
    group.take(outer);
    group.semi_joins.push(SemiJoin { anti, inner, keys, residual });
    Ok(Relation::Group(group))
}

/// An operator's name as people know it.
fn operator_name(plan: &LogicalPlan) -> String {
    let text = plan.display().to_string();
    let end = text.find([':', ' ']).unwrap_or(text.len());
    text[..end].to_owned()
}

/// What the tables of a relation say of it.
impl Relation {
    /// Adds the variables that its rows carry.
    pub fn variables(&self, carver: &Carver<'_>, into: &mut BTreeSet<Variable>) {
        match self {
            Self::Scan(table) => into.extend(carver.tables[*table].variables()),
            Self::Filter { input, .. } => input.variables(carver, into),
            Self::Group(group) => group.leaves.iter().for_each(|leaf| leaf.variables(carver, into)),
            Self::Join(join) => {
                if !matches!(join.kind, JoinKind::Built { .. }) {
                    join.probe.variables(carver, into);
                }
                match &join.kind {
                    JoinKind::Inner | JoinKind::Built { .. } => join.build.variables(carver, into),
                    JoinKind::Left(renamed) => into.extend(renamed.iter().map(|(variable, _)| *variable)),
                    JoinKind::Mark(mark) => {
                        into.insert(*mark);
                    }
                    JoinKind::Semi | JoinKind::Anti => {}
                }
            }
            Self::Aggregate(aggregate) => {
                into.extend(aggregate.keys.iter().map(|(variable, _)| *variable));
                into.extend(aggregate.calls.iter().map(|call| call.result));
            }
        }
    }

    /// A number of rows that it cannot have more of.
    pub fn most_rows(&self, carver: &Carver<'_>) -> MostRows {
        match self {
            Self::Scan(table) => {
                carver.counts_rows.set(true);
                let rows = carver.tables[*table].table.rows();
                MostRows { now: rows.into(), to_come: rows_to_come(rows).into() }
            }
            Self::Filter { input, .. } => input.most_rows(carver),
            Self::Group(group) => {
                group.leaves.iter().map(|leaf| leaf.most_rows(carver)).fold(MostRows::ONE, MostRows::times)
            }
            Self::Join(join) => match join.kind {
                JoinKind::Inner => join.probe.most_rows(carver).times(join.build.most_rows(carver)),
                JoinKind::Left(_) => join.probe.most_rows(carver).times(join.build.most_rows(carver).at_least_one()),
                JoinKind::Built { .. } => join.build.most_rows(carver),
                JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => join.probe.most_rows(carver),
            },
            Self::Aggregate(aggregate) if aggregate.keys.is_empty() => MostRows::ONE,
            Self::Aggregate(aggregate) => aggregate.input.most_rows(carver),
        }
    }
}
