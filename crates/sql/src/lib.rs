//! forebay-sql.
