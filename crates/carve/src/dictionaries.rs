//! Which strings may be carried as ids of a dictionary: those whose values nobody computes with after they have left the
//! pipeline that scans them.

use std::collections::BTreeSet;

use forebay_pipeline::ir::ValueType;

use crate::carver::Carver;
use crate::facts::Variable;
use crate::relation::{Join, JoinKind, Relation};
use crate::scalar::Scalar;

/// The columns of strings whose values are needed in other pipelines than the one that scans them.
pub fn computed_with(carver: &Carver<'_>, relation: &Relation, columns: &[Scalar]) -> BTreeSet<Variable> {
    let mut uses = Uses { carver, computed: BTreeSet::new() };
    uses.relation(relation);
    uses.carry(columns, source(relation));
    for single in &carver.one_row_relations {
        uses.relation(&single.relation);
        uses.carry(single.columns.iter().map(|(_, scalar)| scalar), source(&single.relation));
    }
    uses.computed
}

/// The table that a relation's last pipeline scans.
pub fn source(relation: &Relation) -> Option<usize> {
    match relation {
        Relation::Scan(table) => Some(*table),
        Relation::Filter { input, .. } => source(input),
        Relation::Join(join) => match join.kind {
            JoinKind::Built { .. } => None,
            _ => source(&join.probe),
        },
        Relation::Group(_) | Relation::Aggregate(_) => None,
    }
}

struct Uses<'a, 'b> {
    carver: &'a Carver<'b>,
    computed: BTreeSet<Variable>,
}

impl Uses<'_, '_> {
    /// These scalars are computed in a pipeline that scans `table`.
    fn compute<'s>(&mut self, scalars: impl IntoIterator<Item = &'s Scalar>, table: Option<usize>) {
        for variable in crate::estimate::variables_of(scalars) {
            let origin = self.carver.origin(variable);
            let info = self.carver.info(origin);
            let here = origin == variable && info.column.is_some_and(|(scanned, _)| Some(scanned) == table);
            if info.facts.value == ValueType::Bytes && !here {
                self.computed.insert(origin);
            }
        }
    }

    /// These are carried as they are, if they are variables.
    fn carry<'s>(&mut self, scalars: impl IntoIterator<Item = &'s Scalar>, table: Option<usize>) {
        self.compute(scalars.into_iter().filter(|scalar| scalar.as_variable().is_none()), table);
    }

    fn relation(&mut self, relation: &Relation) {
        match relation {
            Relation::Scan(_) | Relation::Group(_) => {}
            Relation::Filter { input, predicates } => {
                self.relation(input);
                self.compute(predicates, source(input));
            }
            Relation::Join(join) => self.join(join),
            Relation::Aggregate(aggregate) => {
                self.relation(&aggregate.input);
                let table = source(&aggregate.input);
                self.carry(aggregate.keys.iter().map(|(_, key)| key), table);
                self.compute(aggregate.calls.iter().filter_map(|call| call.argument.as_ref()), table);
            }
        }
    }

    fn join(&mut self, join: &Join) {
        self.relation(&join.probe);
        self.relation(&join.build);
        let (probe, build) = (source(&join.probe), source(&join.build));
        self.compute(join.keys.iter().map(|(key, _)| key), probe);
        self.compute(join.keys.iter().map(|(_, key)| key), build);
        self.compute(&join.residual, probe);
        if let JoinKind::Left(renamed) = &join.kind {
            self.carry(renamed.iter().map(|(_, scalar)| scalar), build);
        }
    }
}
