//! What subqueries read by a name, pushed: rows that are shared, and those of a recursive query.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{Column, Result, internal_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, RecursiveQuery, TableScanBuilder};

use super::binding::{Binding, Key, Pushed, columns, renamed};
use super::push::unknown;
use crate::recursion::recursive_name;
use crate::shared_rows::{Shared, SharedRows, scanned};

impl Binding<'_> {
    /// A scan of rows that have keys now: shared ones, or those of the last round.
    pub(super) fn scan(&mut self, plan: &LogicalPlan) -> Result<Pushed> {
        let number = scanned(plan);
        let shared = self.rows.iter().find(|(known, ..)| Some(*known) == number).cloned();
        let name = recursive_name(plan);
        let table = self.tables.iter().find(|(known, ..)| Some(known) == name.as_ref()).cloned();
        let (rows, keys) = match (shared, table) {
            (Some((_, shared, keys)), _) => (shared.reader()?, keys),
            (_, Some((name, schema, keys))) => {
                let source = provider_as_source(Arc::new(CteWorkTable::new(&name, schema)));
                (LogicalPlan::TableScan(TableScanBuilder::new(name, source).build()?), keys)
            }
            _ => return Err(unknown(plan)),
        };
        let own = columns(&rows).into_iter().take(plan.schema().fields().len()).collect();
        let mut named = Vec::new();
        let keys = keys.into_iter().map(|key| {
            let column = Column::from_name(self.names.name("key"));
            named.push(Expr::Column(key.column).alias(column.name()));
            Key { column, ..key }
        });
        let keys = keys.collect();
        Ok(Pushed { plan: renamed(rows, own, plan, named)?, keys })
    }

    pub(super) fn shared(&mut self, rows: &SharedRows) -> Result<Pushed> {
        if !self.is_bound(&rows.definition)? {
            let body = self.push(&rows.body)?;
            let shared = Shared { number: rows.number, schema: Arc::clone(rows.definition.schema()) };
            let plan = shared.over(rows.definition.as_ref().clone(), body.plan);
            return Ok(Pushed { plan, keys: body.keys });
        }
        let definition = self.push(&rows.definition)?;
        let definition = self.closed(definition, columns(&rows.definition), &rows.definition)?;
        let shared = Shared { number: self.names.number(), schema: Arc::clone(definition.plan.schema()) };
        self.rows.push((rows.number, shared.clone(), definition.keys));
        let body = self.push(&rows.body)?;
        self.rows.pop();
        Ok(Pushed { plan: shared.over(definition.plan, body.plan), keys: body.keys })
    }

    /// The rounds for all values from outside together: a row goes on with the keys that it came with.
    pub(super) fn recursive(&mut self, node: &RecursiveQuery, plan: &LogicalPlan) -> Result<Pushed> {
        let first = self.push(&node.static_term)?;
        let first = self.with_all_keys(first, &node.static_term)?;
        let field = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_nullable(true));
        let schema = Schema::new(first.plan.schema().fields().iter().map(field).collect::<Vec<_>>());
        self.tables.push((node.name.clone(), Arc::new(schema), first.keys.clone()));
        let next = self.push(&node.recursive_term)?;
        let next = self.with_all_keys(next, &node.recursive_term)?;
        self.tables.pop();
        let (first_term, next_term) = (Arc::new(first.plan), Arc::new(next.plan));
        let query = RecursiveQuery::try_new(node.name.clone(), first_term, next_term, node.is_distinct)?;
        let query = LogicalPlan::RecursiveQuery(query);
        let keys = first.keys.into_iter().map(|key| Key { never_null: false, ..key }).collect();
        let own = columns(&query).into_iter().take(plan.schema().fields().len()).collect();
        self.closed(Pushed { plan: query, keys }, own, plan)
    }

    /// The columns of `named` and all values from outside, in their order.
    fn with_all_keys(&mut self, rows: Pushed, named: &LogicalPlan) -> Result<Pushed> {
        let rows = self.with_domain(rows)?;
        let mut keys = Vec::new();
        for (_, column) in &self.columns {
            let is_it = |key: &&Key| matches!(&key.outer, Expr::OuterReferenceColumn(_, known) if known == column);
            match rows.keys.iter().find(is_it) {
                Some(key) => keys.push(key.clone()),
                None => return internal_err!("the value {column} from outside is no key"),
            }
        }
        self.closed(Pushed { plan: rows.plan, keys }, columns(named), named)
    }
}
