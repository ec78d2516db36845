//! What UPDATE, DELETE, INSERT … ON CONFLICT and MERGE make of a table, as queries of its rows.
//!
//! A statement becomes the query of the rows that stand in the place of those of one segment ([`change`], [`merge`]), and of those
//! that are added behind them ([`conflict`], [`merge`]); [`insert`] is what an INSERT has besides rows, [`inserted_query`] one of the rows of a query, [`columns`] what values of columns are,
//! [`locking`] what FOR UPDATE does, [`checks`], [`keys`] and [`references`] what rows of a table have to have,
//! [`stored_expression`] what a text of the catalog means, [`of_one_row`] which expressions have a value for one row, [`segment_counts`] which segments have rows that are concerned, [`struct_fields`] what ALTER TABLE makes of a column of structs.
//! Must not know: how rows are written, sessions.
#![forbid(unsafe_code)]

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast};

pub mod change;
pub mod checks;
pub mod columns;
pub mod conflict;
pub mod generated;
pub mod insert;
pub mod inserted_query;
pub mod keys;
pub mod locking;
pub mod merge;
pub mod merge_action;
mod merge_source;
pub mod of_one_row;
pub mod references;
pub mod segment_counts;
pub mod stored_expression;
pub mod struct_fields;

/// Whether a statement changes rows, or locks some.
pub fn changes_rows(statement: &PlanStatement) -> bool {
    let PlanStatement::Statement(ast) = statement else { return false };
    match ast.as_ref() {
        Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) => true,
        Ast::Query(query) => {
            !query.locks.is_empty()
                || matches!(query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
        }
        _ => false,
    }
}
