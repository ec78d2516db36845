//! What is computed from strings of one table and is no string itself is computed where that table is scanned: a number or
//! a truth value is carried over pipeline breakers instead of a string, and once for each row of the smaller side.

use forebay_pipeline::ir::ValueType;

use crate::carver::Carver;
use crate::dictionaries::source;
use crate::facts::Variable;
use crate::relation::{Join, JoinKind, Relation, VariableInfo};
use crate::scalar::Scalar;

/// `relation` and `columns` with such expressions as variables of the tables that they read.
pub fn computed_early(carver: &mut Carver<'_>, relation: Relation, columns: &mut [Scalar]) -> Relation {
    let relation = rewrite(carver, relation);
    let table = source(&relation);
    columns.iter_mut().for_each(|column| *column = hoisted(carver, column, table));
    relation
}

fn rewrite(carver: &mut Carver<'_>, relation: Relation) -> Relation {
    match relation {
        Relation::Scan(_) | Relation::Group(_) => relation,
        Relation::Filter { input, mut predicates } => {
            let input = rewrite(carver, *input);
            let table = source(&input);
            predicates.iter_mut().for_each(|predicate| *predicate = hoisted(carver, predicate, table));
            Relation::Filter { input: Box::new(input), predicates }
        }
        Relation::Join(Join { kind, probe, build, keys, mut residual }) => {
            let (probe, build) = (rewrite(carver, *probe), rewrite(carver, *build));
            if matches!(kind, JoinKind::Inner) {
                let table = source(&probe);
                residual.iter_mut().for_each(|predicate| *predicate = hoisted(carver, predicate, table));
            }
            Relation::Join(Join { kind, probe: Box::new(probe), build: Box::new(build), keys, residual })
        }
        Relation::Aggregate(mut aggregate) => {
            let input = rewrite(carver, *aggregate.input);
            let table = source(&input);
            for (_, key) in &mut aggregate.keys {
                *key = hoisted(carver, key, table);
            }
            for argument in aggregate.calls.iter_mut().filter_map(|call| call.argument.as_mut()) {
                *argument = hoisted(carver, argument, table);
            }
            aggregate.input = Box::new(input);
            Relation::Aggregate(aggregate)
        }
    }
}

/// `scalar`, evaluated in a pipeline that scans `here`, with its parts that other tables can compute as variables.
fn hoisted(carver: &mut Carver<'_>, scalar: &Scalar, here: Option<usize>) -> Scalar {
    scalar.replaced(&mut |part| {
        let table = table_of_strings(carver, part)?;
        if part.facts().value == ValueType::Bytes || part.fallible() || Some(table) == here {
            return None;
        }
        Some(carver.computed(table, part))
    })
}

/// The only table whose columns a scalar reads, if some of them are strings.
fn table_of_strings(carver: &Carver<'_>, scalar: &Scalar) -> Option<usize> {
    let mut table = None;
    let mut strings = false;
    for variable in scalar.variables() {
        let info = carver.info(variable);
        let (scanned, _) = info.column?;
        if table.is_some_and(|table| table != scanned) {
            return None;
        }
        table = Some(scanned);
        strings |= info.facts.value == ValueType::Bytes;
    }
    table.filter(|_| strings)
}

impl Carver<'_> {
    /// The variable of a table that is computed as `scalar` where the table is scanned.
    fn computed(&mut self, table: usize, scalar: &Scalar) -> Scalar {
        let known = self.tables[table].computed.iter().find(|(_, known)| known == scalar);
        if let Some((variable, _)) = known {
            return self.scalar(*variable);
        }
        let name = crate::display::shown(self, scalar);
        let distinct = self.tables[table].rows;
        let info = VariableInfo { name, facts: scalar.facts(), distinct, column: None, same_as: None };
        let variable: Variable = self.variable(info);
        self.tables[table].computed.push((variable, scalar.clone()));
        self.scalar(variable)
    }
}
