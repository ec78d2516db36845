//! What is known of one side of a join: its tables, and the columns that joins within it have in common.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, Select, TableFactor, TableWithJoins,
};

use crate::scopes::Merged;
use crate::stored_names::StoredNames;

/// The name of a table without one.
pub(crate) const UNNAMED: &str = "?";

/// One side of a join: its tables, and the columns that joins within it have in common.
#[derive(Default)]
pub(crate) struct Side {
    /// What qualifies the columns of each, and its columns where they are known.
    pub tables: Vec<(Ident, Option<StoredNames>)>,
    pub merged: Merged,
    /// Of columns in common, by their lower-case names, the table among whose columns `*` shows them.
    pub homes: HashMap<String, Ident>,
    /// The planner would not find what some of `merged` stand for.
    pub foreign: bool,
    /// Some of them stand for something else than the leftmost table's column.
    pub shifted: bool,
    /// A condition on columns in common was written out, so that the planner does not know them.
    pub computed: bool,
    /// Columns in common that `*` shows once, by the table that it does not show them of.
    pub hidden: Vec<(Ident, Ident)>,
    /// It cannot be told which columns `*` shows of which table.
    pub unclear: bool,
}

impl Side {
    /// What a column of this side is called, where that is certain.
    pub(crate) fn column(&self, name: &Ident) -> Option<Expr> {
        let lower = name.value.to_lowercase();
        if let Some(merged) = self.merged.get(&lower) {
            return Some(merged.clone());
        }
        let home = self.home(&lower)?;
        let names = self.tables.iter().find(|(table, _)| *table == home).and_then(|(_, names)| names.as_ref());
        let stored = names.and_then(|names| names.stored(&lower)).filter(|stored| *stored != lower);
        let name = stored.map_or_else(|| name.clone(), |stored| Ident::with_quote('"', stored));
        Some(Expr::CompoundIdentifier(vec![home, name]))
    }

    /// The table that shows a column of this side.
    fn home(&self, lower: &str) -> Option<Ident> {
        if let Some(home) = self.homes.get(lower) {
            return Some(home.clone());
        }
        if let [(only, _)] = self.tables.as_slice() {
            return Some(only.clone());
        }
        let has = |names: &Option<StoredNames>| names.as_ref().is_some_and(|names| names.has(lower));
        let mut having = self.tables.iter().filter(|(_, names)| has(names));
        let (first, _) = having.next()?;
        let is_certain = having.next().is_none() && self.tables.iter().all(|(_, names)| names.is_some());
        is_certain.then(|| first.clone())
    }

    /// Whether all tables have names, so that what `*` shows can be said table by table.
    pub(crate) fn is_clear(&self) -> bool {
        !self.unclear && self.tables.iter().all(|(table, _)| table.value != UNNAMED)
    }

    /// Whether `*` must be written out: the planner would show the columns in common of whatever table comes first by name.
    pub(crate) fn is_cut(&self) -> bool {
        self.shifted || !self.hidden.is_empty()
    }

    /// The columns that two sides have in common, where both are known.
    pub(crate) fn common(&self, right: &Self) -> Option<Vec<Ident>> {
        let names = |side: &Self| {
            let all = side.tables.iter().map(|(_, names)| names.as_ref().map(StoredNames::lower));
            Some(all.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect::<Vec<String>>())
        };
        let (left, right) = (names(self)?, names(right)?);
        let mut common: Vec<_> = left.into_iter().filter(|name| right.contains(name)).collect();
        common.sort();
        common.dedup();
        Some(common.into_iter().map(Ident::new).collect())
    }

    /// Whether a column is called otherwise on the right side, in the case of its letters.
    pub(crate) fn differs(&self, right: &Self, column: &Ident) -> bool {
        differ(&self.column(column), &right.column(column))
    }

    /// What is known of both sides beside one another, with these columns in common, where it is known which; without their
    /// tables.
    pub(crate) fn beside(&self, right: &Self, shared: Option<Vec<Ident>>) -> Self {
        let mut both = Self {
            foreign: self.foreign || right.foreign,
            shifted: self.shifted || right.shifted,
            computed: self.computed || right.computed,
            unclear: self.unclear || right.unclear || shared.is_none(),
            ..Self::default()
        };
        both.hidden = self.hidden.iter().chain(&right.hidden).cloned().collect();
        both.homes = right.homes.clone();
        both.homes.extend(self.homes.clone());
        both.merged = self.merged.clone();
        both.merged.extend(right.merged.clone());
        for column in shared.into_iter().flatten() {
            let lower = column.value.to_lowercase();
            match self.home(&lower).zip(right.home(&lower)) {
                Some((home, other)) => {
                    both.homes.insert(lower, home);
                    both.hidden.push((other, column));
                }
                None => both.unclear = true,
            }
        }
        both
    }
}

/// Whether two columns have names that are not exactly the same.
fn differ(one: &Option<Expr>, other: &Option<Expr>) -> bool {
    match (one, other) {
        (Some(Expr::CompoundIdentifier(one)), Some(Expr::CompoundIdentifier(other))) => {
            let name = |parts: &[Ident]| {
                let last = parts.last()?;
                Some(if last.quote_style.is_some() { last.value.clone() } else { last.value.to_lowercase() })
            };
            name(one) != name(other)
        }
        _ => false,
    }
}

/// Whether a join shows the columns of its left side alone, or of its right side alone.
pub(crate) fn shows_one_side(operator: &JoinOperator) -> bool {
    use JoinOperator as J;
    matches!(operator, J::Semi(_) | J::LeftSemi(_) | J::RightSemi(_) | J::Anti(_) | J::LeftAnti(_) | J::RightAnti(_))
}

/// What a join's rows must meet, where the join has such a thing.
pub(crate) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)
        | J::Semi(constraint)
        | J::LeftSemi(constraint)
        | J::RightSemi(constraint)
        | J::Anti(constraint)
        | J::LeftAnti(constraint)
        | J::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

/// Whether joins have columns in common.
pub(crate) fn shares_columns(select: &Select) -> bool {
    select.from.iter().any(joins_share_columns)
}

fn joins_share_columns(table: &TableWithJoins) -> bool {
    let shares = |join: &Join| {
        let mut operator = join.join_operator.clone();
        matches!(constraint(&mut operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
            || is_nested(&join.relation)
    };
    is_nested(&table.relation) || table.joins.iter().any(shares)
}

fn is_nested(table: &TableFactor) -> bool {
    matches!(table, TableFactor::NestedJoin { table_with_joins, .. } if joins_share_columns(table_with_joins))
}
