//! Files as tables, and tables as files: CSV, `.tbl`, JSON and Parquet.
//!
//! Reading order: [`files`], then [`input`] and what is read by readers of our own; [`copy_to`] writes. Must not know: the
//! catalog, and how tables are stored.
#![forbid(unsafe_code)]

pub mod checked;
pub mod copy_to;
pub mod delimited;
mod each_file;
pub mod files;
pub mod in_sequence;
pub mod input;
pub mod json;
pub mod lines;
pub mod parquet;
mod parquet_output;
mod partitioned;
pub mod read_functions;
pub mod records;
pub mod sniff;
pub mod told_files;
mod told_types;
mod tolerant;
mod typed_values;
mod whole_files;
mod written_rows;
