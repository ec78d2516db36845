//! Which blocks a scan takes, and in which order, before it runs.
//!
//! Invariants: what is left out has no row that passes; the order changes no row.

use forebay_base::{ColumnId, Value};
use forebay_pipeline::ColumnPredicate;

use super::{Direction, Scan, ScanSettings};
use crate::facts::{FactUse, PartnerTest, RuledOut};
use crate::morsel::Morsel;

impl Scan {
    /// The same scan, whose morsels come in the order of the least or the greatest value that they have of a column, those without
    /// values last.
    #[must_use]
    pub fn in_order_of(mut self, column: usize, direction: Direction) -> Self {
        let id = self.table.columns[column].id;
        let bound = |morsel: &Morsel| {
            let segment = &self.table.segments[morsel.segment];
            let zones = &morsel.group_of(segment).columns[segment.column_index(id)?].zones[morsel.blocks()];
            match direction {
                Direction::Ascending => zones.iter().filter_map(|zone| zone.min.clone()).min(),
                Direction::Descending => zones.iter().filter_map(|zone| zone.max.clone()).max(),
            }
        };
        let mut ranked: Vec<(Option<Value>, Morsel)> =
            self.morsels.iter().map(|morsel| (bound(morsel), *morsel)).collect();
        ranked.sort_by(|(a, _), (b, _)| match (a, b) {
            (Some(a), Some(b)) if direction == Direction::Ascending => a.cmp(b),
            (Some(a), Some(b)) => b.cmp(a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        self.morsels = ranked.into_iter().map(|(_, morsel)| morsel).collect();
        self
    }

    /// The same scan of rows that must pass these tests, without blocks of which zones or facts about the table's own columns tell
    /// that no row does.
    #[must_use]
    pub fn of_rows_that_pass(self, tests: &[ColumnPredicate], settings: ScanSettings) -> Self {
        let scan = self.with_settings(settings).decided_by_zones(tests);
        if settings.facts == FactUse::None || tests.is_empty() {
            return scan.without_ruled_out_morsels();
        }
        let test = |test: &ColumnPredicate| (scan.table.columns[test.column].id, test.test.clone());
        let tests: Vec<_> = tests.iter().map(test).collect();
        let own = tests.iter().map(|(column, test)| PartnerTest::own(*column, test)).collect::<Vec<_>>();
        let catalog = scan.engine.store().catalog();
        let ids = scan.columns.iter().map(|column| scan.table.columns[*column].id);
        let columns = ids.filter(|id| *id != ColumnId::PLACES).collect();
        let asked = scan.engine.known_facts().note(scan.table.id, &own, columns);
        scan.metrics.note_asked(asked);
        let ruled_out = scan.engine.known_facts().rule_out((&catalog, settings.facts), &scan.table, &own, &|_| None);
        scan.without(ruled_out).without_ruled_out_morsels()
    }

    /// The same scan, without the rows of these blocks.
    #[must_use]
    pub(crate) fn without(self, ruled_out: RuledOut) -> Self {
        Self { ruled_out, ..self }
    }

    /// Leaves out the rows of these blocks, too, of morsels that nobody has taken yet; gives the number of blocks that were not left
    /// out before. Only the first call counts.
    pub(crate) fn leave_out(&self, ruled_out: RuledOut) -> usize {
        let more = ruled_out.blocks.len_without(&self.ruled_out.blocks);
        match self.ruled_out_by_keys.set(ruled_out) {
            Ok(()) => more,
            Err(_) => 0,
        }
    }

    /// Whether facts or zones tell that no row of a block is needed, by its number among all.
    pub(super) fn is_ruled_out(&self, block: usize) -> bool {
        let by_keys = self.ruled_out_by_keys.get().is_some_and(|out| out.blocks.contains(block));
        by_keys || self.ruled_out.blocks.contains(block) || self.zone_decisions.out.contains(block)
    }
}
