//! `SET preserve_identifier_case`: the letters of aliases without quotes.

use datafusion::prelude::SessionConfig;
use forebay_base::{Error, Result};

/// What becomes of the letters of aliases without quotes; `SET preserve_identifier_case`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdentifierCase {
    /// They stay.
    #[default]
    Preserved,
    /// They become small, as in PostgreSQL.
    Lower,
    /// They become capitals.
    Upper,
}

impl IdentifierCase {
    /// What the setting is called, as in DuckDB.
    pub const NAME: &'static str = "preserve_identifier_case";

    /// That of a session.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or_else(Self::default, |case| *case)
    }

    /// That of a value of the setting.
    ///
    /// # Errors
    /// Values that are none of its.
    pub fn parse(value: &str) -> Result<Self> {
        Ok(match value.to_lowercase().as_str() {
            "preserve_case" | "true" | "on" | "1" => Self::Preserved,
            "lowercase" | "false" | "off" | "0" => Self::Lower,
            "uppercase" => Self::Upper,
            _ => {
                return Err(Error::input(format!("{} = {value} is not possible", Self::NAME))
                    .hint("Use preserve_case, lowercase (as in PostgreSQL) or uppercase"));
            }
        })
    }

    /// As the setting shows it.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Preserved => "preserve_case",
            Self::Lower => "lowercase",
            Self::Upper => "uppercase",
        }
    }

    /// What a name becomes.
    pub fn letters(self) -> fn(&str) -> String {
        match self {
            Self::Preserved => str::to_owned,
            Self::Lower => str::to_lowercase,
            Self::Upper => str::to_uppercase,
        }
    }
}
