//! Which columns of a table are worth Bloom filters: those that the table's options name, and by themselves those that queries asked
//! for single values of and that neither bounds nor bins tell blocks apart by.

use std::str::FromStr;

use forebay_base::{ColumnId, Error, Result};
use forebay_store::TableSnapshot;

use super::bloom::{WantedFilter, can_filter};
use crate::Engine;
use crate::facts::{BLOOM_KIND, asks_for_values};

/// The option of tables and columns that asks for filters.
pub const BLOOM_OPTION: &str = "bloom_filter";

/// Bits for each different value of a chunk where nobody says otherwise: one other value in a hundred passes.
const DEFAULT_BITS: u32 = 10;

/// Bits that may be asked for.
const MOST_BITS: u32 = 64;

/// Filters that nobody asked for take up to this part of a table's stored bytes.
const MOST_OF_STORED: u64 = 8;

/// Where fewer of the blocks can have a value, going by their bounds, filters are not worth it.
const BOUNDS_TELL: f64 = 0.05;

/// Values that bounds are asked for.
const ASKED_BOUNDS: usize = 16;

/// Bins tell blocks apart by fewer different values.
const FEW_VALUES: f64 = 255.0;

/// What an option asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterChoice {
    /// Filters where queries ask for single values.
    Auto,
    /// None.
    Off,
    /// With so many bits for each different value of a chunk.
    Bits(u32),
}

impl FromStr for FilterChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => return Ok(Self::Auto),
            "off" => return Ok(Self::Off),
            "on" => return Ok(Self::Bits(DEFAULT_BITS)),
            _ => {}
        }
        match text.parse() {
            Ok(bits) if (1..=MOST_BITS).contains(&bits) => Ok(Self::Bits(bits)),
            _ => Err(Error::input(format!("{BLOOM_OPTION} = {text} is not possible"))
                .hint(format!("Use auto, on, off, or 1 to {MOST_BITS} bits for each value"))),
        }
    }
}

impl FilterChoice {
    /// As the option's value.
    pub fn text(self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Off => "off".to_owned(),
            Self::Bits(bits) => bits.to_string(),
        }
    }
}

/// The columns of a table, or of a copy of its rows, that are worth filters.
///
/// # Errors
/// `Input` where an option is not possible, and those of reading footers.
pub fn worth_filtering(engine: &Engine, table: &TableSnapshot) -> Result<Vec<WantedFilter>> {
    let mut wanted: Vec<WantedFilter> = Vec::new();
    let mut by_themselves: Vec<(u64, WantedFilter)> = Vec::new();
    let columns = table.columns.iter().enumerate().filter(|(index, _)| table.has_column(*index));
    for (index, column) in columns.filter(|(_, column)| can_filter(&column.logical)) {
        let choice = table.options.of_column(column.id, BLOOM_OPTION).map_or(Ok(FilterChoice::Auto), str::parse)?;
        match choice {
            FilterChoice::Off => {}
            FilterChoice::Bits(bits) => wanted.push((column.id, bits)),
            FilterChoice::Auto if is_asked(engine, table, column.id) && is_worth_it(table, index)? => {
                let values = table.distribution(index).map_or(table.rows(), |known| known.distinct as u64);
                let bytes = values.min(table.rows()) * u64::from(DEFAULT_BITS) / 8;
                by_themselves.push((bytes, (column.id, DEFAULT_BITS)));
            }
            FilterChoice::Auto => {}
        }
    }
    by_themselves.sort_unstable();
    let mut left = table.segments.iter().map(|segment| segment.file_bytes()).sum::<u64>() / MOST_OF_STORED;
    for (bytes, filter) in by_themselves {
        if bytes <= left {
            left -= bytes;
            wanted.push(filter);
        }
    }
    Ok(wanted)
}

/// Whether queries asked for single values of a column, or did when it got the filters that it has.
fn is_asked(engine: &Engine, table: &TableSnapshot, column: ColumnId) -> bool {
    let asked = engine.known_facts().asked(table.id);
    let mut tests = asked.iter().flat_map(|asked| &asked.tests);
    let has_filters = || {
        let catalog = engine.store().catalog();
        let is_of = |columns: &[ColumnId]| columns.contains(&column);
        let mut facts = catalog.facts_of(table.id).map(|fact| fact.definition());
        facts.any(|known| (known.kind, known.version) == BLOOM_KIND && is_of(&known.columns))
    };
    tests.any(|(key, test)| key.hops.is_empty() && key.column == column && asks_for_values(test)) || has_filters()
}

/// Whether neither bounds nor bins tell the blocks of a column apart.
fn is_worth_it(table: &TableSnapshot, index: usize) -> Result<bool> {
    if table.distribution(index).is_some_and(|known| known.distinct <= FEW_VALUES) {
        return Ok(false);
    }
    let mut zones = Vec::new();
    for segment in &table.segments {
        let Some(index) = segment.column_index(table.columns[index].id) else { continue };
        zones.extend(segment.groups()?.iter().flat_map(|group| &group.columns[index].zones));
    }
    let bounds: Vec<_> = zones.iter().filter_map(|zone| zone.min.as_ref().zip(zone.max.as_ref())).collect();
    let step = bounds.len().div_ceil(ASKED_BOUNDS).max(1);
    let asked: Vec<_> = bounds.iter().step_by(step).map(|(_, greatest)| *greatest).collect();
    let with = |value| bounds.iter().filter(|(least, greatest)| *least <= value && value <= *greatest).count();
    let found: usize = asked.iter().map(|value| with(value)).sum();
    Ok(bounds.len() > 1 && found as f64 > BOUNDS_TELL * (asked.len() * bounds.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_written() {
        for choice in [FilterChoice::Auto, FilterChoice::Off, FilterChoice::Bits(1), FilterChoice::Bits(64)] {
            assert_eq!(choice.text().parse::<FilterChoice>().expect("own text"), choice);
        }
        assert_eq!("ON".parse::<FilterChoice>().expect("possible"), FilterChoice::Bits(10));
        for wrong in ["", "0", "65", "-1", "yes", "1.5"] {
            assert!(wrong.parse::<FilterChoice>().is_err(), "{wrong}");
        }
    }
}
