//! What is asked of how columns are stored: an objective, or one scheme. Asked by a session, or by the options of a table or
//! a column.
//!
//! Must not know: how plans are chosen, where tables lie.

use forebay_base::{Context, Error, Result};
use forebay_block::choose::Objective;
use forebay_block::{Compression, Scheme};
use forebay_store::{Column, TableOptions};

/// The option of a table or a column that holds the name of a goal.
pub const COMPRESSION_OPTION: &str = "compression";

/// Other names of the scheme that stores bytes as they are.
const PLAIN_NAMES: [&str; 2] = ["none", "uncompressed"];

/// What is asked of how a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// What meets an objective: whole plans where there is time to try them.
    Objective(Objective),
    /// This scheme wherever it can hold the bytes: for experiments.
    Scheme(Scheme),
}

impl Default for Goal {
    fn default() -> Self {
        Self::Objective(Objective::default())
    }
}

impl Goal {
    /// The goal of this name, in any case.
    ///
    /// # Errors
    /// `Input`, with all names, if there is none.
    pub fn parse(name: &str) -> Result<Self> {
        let folded = name.to_ascii_lowercase();
        let objective = Objective::ALL.into_iter().find(|objective| objective.name() == folded);
        let scheme = match PLAIN_NAMES.contains(&folded.as_str()) {
            true => Some(Scheme::Plain),
            false => Scheme::ALL.into_iter().find(|scheme| scheme.name() == folded),
        };
        objective.map(Self::Objective).or(scheme.map(Self::Scheme)).ok_or_else(|| {
            let schemes = Scheme::ALL.map(Scheme::name).join(", ");
            Error::input(format!("compression = {folded} is not possible"))
                .hint(format!("Use balanced, best_ratio or best_time, or for experiments one scheme: {schemes}"))
        })
    }

    /// Its name in settings, options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Objective(objective) => objective.name(),
            Self::Scheme(scheme) => scheme.name(),
        }
    }

    /// What is asked of each frame where there is no time to try plans: there frames that decode fast are the better guess
    /// at the fastest scan.
    pub fn compression(self) -> Compression {
        match self {
            Self::Objective(Objective::Balanced | Objective::BestTime) => Compression::Balanced,
            Self::Objective(Objective::BestRatio) => Compression::BestRatio,
            Self::Scheme(scheme) => Compression::Force(scheme),
        }
    }

    /// The goal of each column: by its own option, or else the table's, or else `otherwise`.
    ///
    /// # Errors
    /// `Input` if an option names a goal that this program does not know, as a later one may have set it.
    pub fn of_columns(options: &TableOptions, columns: &[Column], otherwise: Self) -> Result<Vec<Self>> {
        columns
            .iter()
            .map(|column| match options.of_column(column.id, COMPRESSION_OPTION) {
                Some(name) => Self::parse(name).context(|| format!("options of column {}", column.name)),
                None => Ok(otherwise),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::{ColumnId, LogicalType};

    use super::*;

    #[test]
    fn goals_are_known_by_name() {
        for scheme in Scheme::ALL {
            let goal = Goal::parse(&scheme.name().to_uppercase()).expect("its own name");
            assert_eq!((goal, goal.compression()), (Goal::Scheme(scheme), Compression::Force(scheme)));
            assert_eq!(goal.name(), scheme.name());
        }
        for objective in Objective::ALL {
            assert_eq!(Goal::parse(objective.name()).expect("its own name"), Goal::Objective(objective));
        }
        for name in PLAIN_NAMES {
            assert_eq!(Goal::parse(name).expect("another name"), Goal::Scheme(Scheme::Plain));
        }
        let error = Goal::parse("tight").expect_err("unknown").to_string();
        assert!(error.contains("tight") && error.contains("best_time") && error.contains("bit_packed"), "{error}");
    }

    #[test]
    fn columns_go_before_their_table_and_that_before_the_rest() {
        let column = |id, name: &str| Column {
            id: ColumnId(id),
            name: name.into(),
            logical: LogicalType::Int64,
            nullable: true,
            default: None,
            missing: None,
        };
        let columns = [column(0, "a"), column(3, "b")];
        let mut options = TableOptions::default();
        let names = |options: &TableOptions| -> Result<Vec<&str>> {
            let goals = Goal::of_columns(options, &columns, Goal::Scheme(Scheme::Lz4))?;
            Ok(goals.into_iter().map(Goal::name).collect())
        };
        assert_eq!(names(&options).expect("none"), ["lz4", "lz4"]);
        options.set(Some(ColumnId(3)), COMPRESSION_OPTION, Some("zstd"));
        options.set(None, "else", Some("rans"));
        assert_eq!(names(&options).expect("one"), ["lz4", "zstd"]);
        options.set(None, COMPRESSION_OPTION, Some("best_time"));
        assert_eq!(names(&options).expect("both"), ["best_time", "zstd"]);
        options.set(Some(ColumnId(3)), COMPRESSION_OPTION, Some("of_tomorrow"));
        let error = names(&options).expect_err("unknown").to_string();
        assert!(error.contains("column b") && error.contains("of_tomorrow"), "{error}");
    }
}
