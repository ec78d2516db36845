//! CREATE SEQUENCE and DROP SEQUENCE.

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, SequenceOptions, Statement as Ast, UnaryOperator, Value};
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::SequenceRange;

use crate::answer::Answer;
use crate::ddl;
use crate::run::Run;
use crate::sequences::find;

impl Run<'_> {
    /// CREATE SEQUENCE.
    pub(crate) fn create_sequence(&self, create: &Ast) -> Result<Answer> {
        let Ast::CreateSequence { temporary, if_not_exists, name, sequence_options, .. } = create else {
            return Err(Error::internal("another statement makes a sequence"));
        };
        let catalog = self.planner.snapshot();
        let name = self.planner.path().name_new(catalog, name, *temporary)?;
        if *if_not_exists && catalog.sequence(&name.schema, &name.name).is_some() {
            return self.done("CREATE SEQUENCE");
        }
        let range = range(sequence_options)?;
        self.planner.transaction().change(|transaction| {
            ddl::add_temporary_schema(transaction, &name.schema)?;
            transaction.create_sequence(&name.schema, &name.name, range)
        })?;
        self.done("CREATE SEQUENCE")
    }

    /// DROP SEQUENCE.
    pub(crate) fn drop_sequences(&self, names: &[ObjectName], if_exists: bool) -> Result<Answer> {
        self.planner.transaction().change(|transaction| {
            names.iter().try_for_each(|name| match find(transaction.catalog(), self.planner.path(), name) {
                Ok(found) => transaction.drop_sequence(&found.schema, &found.name),
                Err(error) if if_exists && error.kind() == ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            })
        })?;
        self.done("DROP SEQUENCE")
    }
}

/// The numbers that the options of a sequence ask for.
fn range(options: &[SequenceOptions]) -> Result<SequenceRange> {
    let (mut increment, mut start, mut least, mut greatest, mut cycles) = (1, None, None, None, false);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(by, _) => increment = number(by)?,
            SequenceOptions::StartWith(with, _) => start = Some(number(with)?),
            SequenceOptions::MinValue(value) => least = value.as_ref().map(number).transpose()?,
            SequenceOptions::MaxValue(value) => greatest = value.as_ref().map(number).transpose()?,
            // `Cycle(true)` is NO CYCLE.
            SequenceOptions::Cycle(is_off) => cycles = !is_off,
            // Numbers are not set aside.
            SequenceOptions::Cache(_) => {}
        }
    }
    let rises = increment > 0;
    let least = least.unwrap_or(if rises { 1 } else { i64::MIN });
    let greatest = greatest.unwrap_or(if rises { i64::MAX } else { -1 });
    let start = start.unwrap_or(if rises { least } else { greatest });
    Ok(SequenceRange { start, increment, least, greatest, cycles })
}

fn number(expr: &Expr) -> Result<i64> {
    let wrong = || Error::input(format!("{expr} is not a number that a sequence has"));
    let text = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.clone(),
            _ => return Err(wrong()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        _ => return Err(wrong()),
    };
    text.parse().map_err(|_| wrong())
}
