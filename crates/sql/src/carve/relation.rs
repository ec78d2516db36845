//! A query between DataFusion's plan and pipelines: relations whose columns are scalars over variables.
//!
//! Projections have no relation of their own: their expressions stand wherever their columns are used. Inner joins and the
//! semi and anti joins above them are one [`Group`], which [`super::order`] takes apart again.
//!
//! Must not know: registers, states, in which order joins are done.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::logical_plan::{Join as PlanJoin, Subquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate as PlanAggregate, Expr, LogicalPlan};
use forebay_engine::Engine;
use forebay_pipeline::ir::{AggregateFunction, Comparison, ValueType};

use super::Reason;
use super::expression::Scope;
use super::interval::Interval;
use super::scalar::{MOST_DEPTH, Node, Scalar, Shape, Variable};
use super::table::ScannedTable;

/// More rows than any query lives to see: with a billion of them per second, it takes two years.
const MOST_ROWS: i128 = 1 << 56;

/// Where rows come from.
#[derive(Debug)]
pub enum Relation {
    /// The rows of a table that pass its tests and filters, by position in [`Carver::tables`].
    Scan(usize),
    /// Rows for which all of these are true.
    Filter {
        /// Of these rows.
        input: Box<Relation>,
        /// The predicates.
        predicates: Vec<Scalar>,
    },
    /// Inner, semi and anti joins in an order that is still open.
    Group(Group),
    /// A join of two relations.
    Join(Join),
    /// Groups with their aggregates.
    Aggregate(Aggregate),
}

/// Relations of which every combination of rows is taken that passes all predicates.
#[derive(Debug, Default)]
pub struct Group {
    /// The relations.
    pub leaves: Vec<Relation>,
    /// Relations that must (or must not) hold a matching row.
    pub existences: Vec<Existence>,
    /// Over the variables of any leaves.
    pub predicates: Vec<Scalar>,
}

/// A semi or anti join.
#[derive(Debug)]
pub struct Existence {
    /// There must be no match.
    pub anti: bool,
    /// Where matches are looked for.
    pub inner: Relation,
    /// Equal scalars: of the outer side, of the inner one.
    pub keys: Vec<(Scalar, Scalar)>,
    /// What a pair must pass besides.
    pub residual: Vec<Scalar>,
}

/// A join whose sides are chosen.
#[derive(Debug)]
pub struct Join {
    /// What becomes of the probing rows.
    pub kind: JoinKind,
    /// The side that probes.
    pub probe: Box<Relation>,
    /// The side that is built first.
    pub build: Box<Relation>,
    /// Equal scalars: of the probing side, of the build side.
    pub keys: Vec<(Scalar, Scalar)>,
    /// What a pair must pass besides.
    pub residual: Vec<Scalar>,
}

/// Kinds of joins.
#[derive(Debug)]
pub enum JoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and probing rows without a match with NULLs: these variables are the build side's columns, as seen above.
    Left(Vec<(Variable, Scalar)>),
    /// Probing rows with a match.
    Semi,
    /// Probing rows without a match.
    Anti,
    /// Probing rows with whether there is a match.
    Mark(Variable),
    /// The *build* side's rows, those with a match or those without.
    Built {
        /// With a match.
        matched: bool,
    },
}

/// A grouped relation.
#[derive(Debug)]
pub struct Aggregate {
    /// What is grouped.
    pub input: Box<Relation>,
    /// The keys and what they are called above.
    pub keys: Vec<(Variable, Scalar)>,
    /// The aggregates and what they are called above.
    pub calls: Vec<Call>,
}

/// One aggregate.
#[derive(Debug, Clone)]
pub struct Call {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument.
    pub argument: Option<Scalar>,
    /// Its result.
    pub result: Variable,
}

/// A relation of exactly one row, whose columns may be used in any expression.
#[derive(Debug)]
pub struct Single {
    /// The relation.
    pub relation: Relation,
    /// Its columns and what they are called elsewhere.
    pub columns: Vec<(Variable, Scalar)>,
}

/// What is known of a variable.
#[derive(Debug, Clone)]
pub struct VariableInfo {
    /// A name for people.
    pub name: String,
    /// Its values.
    pub shape: Shape,
    /// Different values, estimated.
    pub distinct: f64,
    /// The column that it is: position in [`Carver::tables`], position in the table's list of columns.
    pub column: Option<(usize, usize)>,
    /// Another variable that it has the values of, or is NULL.
    pub same_as: Option<Variable>,
}

/// A relation and the scalars of its columns; `None` for columns that pipelines cannot carry.
pub type Translated = (Relation, Vec<Option<Scalar>>);

/// Translates one subtree of a plan.
pub struct Carver<'a> {
    /// The statement's session.
    pub session: &'a dyn Session,
    /// All variables.
    pub variables: Vec<VariableInfo>,
    /// All scanned tables.
    pub tables: Vec<ScannedTable>,
    /// Relations of one row.
    pub singles: Vec<Single>,
    /// The engine that holds the tables.
    pub engine: Option<Arc<Engine>>,
    /// Operators and expressions that are being translated.
    depth: u32,
}

impl<'a> Carver<'a> {
    /// Nothing is known yet.
    pub fn new(session: &'a dyn Session) -> Self {
        Self { session, variables: Vec::new(), tables: Vec::new(), singles: Vec::new(), engine: None, depth: 0 }
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
        Scalar::variable(variable, self.info(variable).shape)
    }

    /// The variable that names a scalar's values above a pipeline breaker.
    fn named(&mut self, name: &str, scalar: &Scalar, nullable: bool) -> Variable {
        let same_as = scalar.as_variable();
        let distinct = same_as.map_or(f64::INFINITY, |source| self.info(source).distinct);
        let shape = Shape { nullable: nullable || scalar.shape().nullable, ..scalar.shape() };
        self.variable(VariableInfo { name: name.to_owned(), shape, distinct, column: None, same_as })
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
    pub fn relation(&mut self, plan: &LogicalPlan) -> Result<Translated, Reason> {
        self.deeper(|carver| carver.operator(plan))
    }

    fn operator(&mut self, plan: &LogicalPlan) -> Result<Translated, Reason> {
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
            match scalar.shape().value {
                ValueType::Bool => Ok(scalar),
                _ => Err(Reason::new("a predicate that is not boolean")),
            }
        });
        scalars.collect()
    }

    fn join(&mut self, join: &PlanJoin) -> Result<Translated, Reason> {
        let (left, left_columns) = self.relation(&join.left)?;
        let (right, right_columns) = self.relation(&join.right)?;
        let left_scope = Scope { schema: join.left.schema(), columns: &left_columns };
        let right_scope = Scope { schema: join.right.schema(), columns: &right_columns };
        let mut keys = Vec::with_capacity(join.on.len());
        for (left_key, right_key) in &join.on {
            if !super::types::same_values(&left_scope.data_type(left_key)?, &right_scope.data_type(right_key)?) {
                return Err(Reason::new("join keys of several types"));
            }
            let pair = (self.expression(left_key, &left_scope)?, self.expression(right_key, &right_scope)?);
            let nullable = pair.0.shape().nullable || pair.1.shape().nullable;
            if nullable && join.null_equality == NullEquality::NullEqualsNull {
                return Err(Reason::new("a join on IS NOT DISTINCT FROM"));
            }
            if nullable && join.null_aware {
                return Err(Reason::new("NOT IN with NULL"));
            }
            keys.push(pair);
        }
        let both: Vec<Option<Scalar>> = left_columns.iter().chain(&right_columns).cloned().collect();
        let schema = join.left.schema().join(join.right.schema());
        let schema = schema.map_err(|error| Reason::new(error.strip_backtrace()))?;
        let residual = match &join.filter {
            Some(filter) => self.conjuncts(filter, &Scope { schema: &schema, columns: &both })?,
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
                Ok((existence(left, right, keys, residual, anti)?, left_columns))
            }
            JoinType::RightSemi | JoinType::RightAnti => {
                let anti = join.join_type == JoinType::RightAnti;
                Ok((existence(right, left, flipped(keys), residual, anti)?, right_columns))
            }
            JoinType::LeftMark if !keys.is_empty() => {
                let shape = Shape::of(ValueType::Bool, false);
                let info = VariableInfo { name: "mark".into(), shape, distinct: 2.0, column: None, same_as: None };
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
        self.singles.push(Single { relation, columns });
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

    fn aggregate(&mut self, aggregate: &PlanAggregate) -> Result<Translated, Reason> {
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
        if !is_single(&relation) {
            return Err(Reason::new("a subquery that may not give exactly one row"));
        }
        let variable = self.named("subquery", column, false);
        let columns = vec![(variable, column.clone())];
        self.singles.push(Single { relation, columns });
        Ok(self.scalar(variable))
    }

    /// The single that defines a variable.
    pub fn single_of(&self, variable: Variable) -> Option<usize> {
        self.singles.iter().position(|single| single.columns.iter().any(|(named, _)| *named == variable))
    }

    /// A variable of an aggregate's result.
    pub fn result(&mut self, name: &str, shape: Shape) -> Variable {
        let info = VariableInfo { name: name.to_owned(), shape, distinct: f64::INFINITY, column: None, same_as: None };
        self.variable(info)
    }
}

/// Whether a relation has exactly one row.
fn is_single(relation: &Relation) -> bool {
    matches!(relation, Relation::Aggregate(aggregate) if aggregate.keys.is_empty())
}

/// The rows of `input` that pass.
pub fn filtered(input: Relation, mut predicates: Vec<Scalar>) -> Relation {
    match input {
        _ if predicates.is_empty() => input,
        Relation::Group(mut group) => {
            group.predicates.append(&mut predicates);
            Relation::Group(group)
        }
        Relation::Filter { input, predicates: mut first } => {
            first.append(&mut predicates);
            Relation::Filter { input, predicates: first }
        }
        other => Relation::Filter { input: Box::new(other), predicates },
    }
}

fn existence(
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
    group.existences.push(Existence { anti, inner, keys, residual });
    Ok(Relation::Group(group))
}

impl Group {
    /// Adds a relation, or the parts of a group.
    fn take(&mut self, relation: Relation) {
        match relation {
            Relation::Group(mut group) => {
                self.leaves.append(&mut group.leaves);
                self.existences.append(&mut group.existences);
                self.predicates.append(&mut group.predicates);
            }
            Relation::Filter { input, mut predicates } if !matches!(*input, Relation::Aggregate(_)) => {
                self.take(*input);
                self.predicates.append(&mut predicates);
            }
            other => self.leaves.push(other),
        }
    }
}

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
    pub fn most_rows(&self, carver: &Carver<'_>) -> i128 {
        let product = |rows: &mut dyn Iterator<Item = i128>| rows.fold(1, i128::saturating_mul);
        match self {
            Self::Scan(table) => carver.tables[*table].table.rows().into(),
            Self::Filter { input, .. } => input.most_rows(carver),
            Self::Group(group) => product(&mut group.leaves.iter().map(|leaf| leaf.most_rows(carver))),
            Self::Join(join) => match join.kind {
                JoinKind::Inner => join.probe.most_rows(carver).saturating_mul(join.build.most_rows(carver)),
                JoinKind::Left(_) => join.probe.most_rows(carver).saturating_mul(join.build.most_rows(carver).max(1)),
                JoinKind::Built { .. } => join.build.most_rows(carver),
                JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => join.probe.most_rows(carver),
            },
            Self::Aggregate(aggregate) if aggregate.keys.is_empty() => 1,
            Self::Aggregate(aggregate) => aggregate.input.most_rows(carver),
        }
    }

    /// Whether there is a join or an aggregation in it.
    pub fn is_worth_it(&self) -> bool {
        match self {
            Self::Scan(_) => false,
            Self::Filter { input, .. } => input.is_worth_it(),
            Self::Group(group) => {
                group.leaves.len() + group.existences.len() > 1 || group.leaves.iter().any(Self::is_worth_it)
            }
            Self::Join(_) | Self::Aggregate(_) => true,
        }
    }
}

/// Rows as bounds of sums: what no query lives to see does not count.
pub fn countable(rows: i128) -> i128 {
    rows.clamp(1, MOST_ROWS)
}

/// The bounds of a count of so many rows.
pub fn count_bounds(rows: i128) -> Interval {
    Interval::new(0, countable(rows))
}

/// Whether a scalar is `a = b`.
pub fn as_equality(scalar: &Scalar) -> Option<(&Scalar, &Scalar)> {
    match scalar.node() {
        Node::Compare(Comparison::Equal, left, right) => Some((left, right)),
        _ => None,
    }
}

/// An operator's name as people know it.
fn operator_name(plan: &LogicalPlan) -> String {
    let text = plan.display().to_string();
    let end = text.find([':', ' ']).unwrap_or(text.len());
    text[..end].to_owned()
}
