//! Files of both formats: equal for any number of threads, equal to each other, and clear errors.

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use forebay_workload::Benchmark;
use forebay_workload::generate::{Format, GenerateOptions, GeneratedFile, generate};
use forebay_workload::schema::table_names;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn options(out: &Path, scale_factor: f64, format: Format, threads: usize) -> GenerateOptions {
    GenerateOptions { scale_factor, out: out.to_owned(), format, threads, seed: 7, tables: None }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn generated(benchmark: Benchmark, options: &GenerateOptions) -> Vec<GeneratedFile> {
    let files = generate(benchmark, options, &|_| ()).expect("a table is generated");
    let names: Vec<_> = files.iter().map(|file| file.table.as_str()).collect();
    match &options.tables {
        None => assert_eq!(names, table_names(benchmark)),
        Some(tables) => assert_eq!(names, *tables),
    }
    for file in &files {
        assert_eq!(fs::metadata(&file.path).expect("the file is there").len(), file.bytes);
    }
    files
}

#[test]
fn files_do_not_depend_on_threads() {
    // Three parts of lineorder, and two of lineitem and of trips.
    let with_formats = [
        (Benchmark::Ssb, 0.2, "lineorder", &[Format::Parquet, Format::Tbl][..]),
        (Benchmark::Tpch, 0.1, "lineitem", &[Format::Parquet, Format::Tbl]),
        (Benchmark::Taxi, 0.08, "trips", &[Format::Parquet]),
    ];
    for (benchmark, scale_factor, fact, formats) in with_formats {
        for &format in formats {
            let (one, four) = (folder(), folder());
            let fact_only = |out: &Path, threads| GenerateOptions {
                tables: Some(vec![fact.to_owned()]),
                ..options(out, scale_factor, format, threads)
            };
            let a = generated(benchmark, &fact_only(one.path(), 1));
            let b = generated(benchmark, &fact_only(four.path(), 4));
            let bytes = |files: &[GeneratedFile]| fs::read(&files[0].path).expect("a readable file");
            assert!(bytes(&a) == bytes(&b), "{benchmark} {format:?} differs between 1 and 4 threads");
            assert_eq!(a[0].rows, b[0].rows);
        }
    }
}

#[test]
fn another_seed_gives_other_rows() {
    let (a, b) = (folder(), folder());
    let of_seed = |out: &Path, seed| {
        let files = generated(Benchmark::Ssb, &GenerateOptions { seed, ..options(out, 0.001, Format::Tbl, 2) });
        fs::read_to_string(&files[4].path).expect("text")
    };
    assert_ne!(of_seed(a.path(), 1), of_seed(b.path(), 2));
}

fn batches(file: &GeneratedFile) -> Vec<RecordBatch> {
    let opened = fs::File::open(&file.path).expect("the file is there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(opened).and_then(|b| b.build()).expect("a Parquet file");
    reader.collect::<Result<_, _>>().expect("readable row groups")
}

/// The rows of a Parquet file as dbgen would write them, made with Arrow's own formatter.
fn as_tbl(file: &GeneratedFile) -> String {
    let mut text = String::new();
    let options = FormatOptions::default();
    for batch in batches(file) {
        let schema = batch.schema();
        let formatters: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a printable column"))
            .collect();
        for row in 0..batch.num_rows() {
            for (field, formatter) in schema.fields().iter().zip(&formatters) {
                let value = formatter.value(row).to_string();
                let value = if field.name() == "l_quantity" { value.trim_end_matches(".00") } else { &value };
                text.push_str(value);
                text.push('|');
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn text_and_parquet_hold_the_same_rows() {
    for benchmark in [Benchmark::Ssb, Benchmark::Tpch] {
        let (text, parquet) = (folder(), folder());
        let tbl = generated(benchmark, &options(text.path(), 0.01, Format::Tbl, 2));
        let pq = generated(benchmark, &options(parquet.path(), 0.01, Format::Parquet, 2));
        for (tbl, pq) in tbl.iter().zip(&pq) {
            assert_eq!(tbl.rows, pq.rows);
            let text = fs::read_to_string(&tbl.path).expect("text");
            assert_eq!(text.lines().count() as u64, tbl.rows);
            assert!(text == as_tbl(pq), "{benchmark} table {} differs between formats", tbl.table);
        }
    }
}

#[test]
fn tpch_text_is_that_of_dbgen() {
    let out = folder();
    let files = generated(Benchmark::Tpch, &options(out.path(), 0.01, Format::Tbl, 2));
    let text = |table: &str| {
        let file = files.iter().find(|file| file.table == table).expect("a table of TPC-H");
        fs::read_to_string(&file.path).expect("text")
    };
    use std::fmt::Write;
    use tpchgen::generators::{CustomerGenerator, LineItemGenerator, OrderGenerator, PartGenerator, PartSuppGenerator};
    macro_rules! check {
        ($($table:literal $generator:ident)*) => {$(
            let mut expected = String::new();
            for row in $generator::new(0.01, 1, 1).iter() {
                writeln!(expected, "{row}").expect("memory");
            }
            assert!(text($table) == expected, "{} differs from dbgen", $table);
        )*};
    }
    check!("lineitem" LineItemGenerator "orders" OrderGenerator "customer" CustomerGenerator "part" PartGenerator
        "partsupp" PartSuppGenerator);
}

#[test]
fn row_groups_stay_below_a_million_rows() {
    let out = folder();
    let fact = Some(vec!["lineorder".to_owned()]);
    let files =
        generated(Benchmark::Ssb, &GenerateOptions { tables: fact, ..options(out.path(), 0.2, Format::Parquet, 2) });
    let opened = fs::File::open(&files[0].path).expect("the file is there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(opened).expect("a Parquet file");
    let groups: Vec<_> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups.len(), 3, "{groups:?}");
    assert!(groups.iter().all(|&rows| rows < 1_000_000), "{groups:?}");
    assert_eq!(groups.iter().sum::<i64>() as u64, files[0].rows);
}

#[test]
fn chosen_tables_only() {
    let out = folder();
    let tables = Some(vec!["nation".to_owned(), "region".to_owned()]);
    let files =
        generate(Benchmark::Tpch, &GenerateOptions { tables, ..options(out.path(), 1.0, Format::Tbl, 1) }, &|_| ())
            .expect("two small tables");
    let sizes: Vec<_> = files.iter().map(|file| (file.table.as_str(), file.rows)).collect();
    assert_eq!(sizes, [("region", 5), ("nation", 25)]);
    assert_eq!(fs::read_dir(out.path()).expect("the folder").count(), 2, "no other and no temporary files");
}

#[test]
fn tables_with_nulls_are_no_text() {
    for benchmark in [Benchmark::Wide, Benchmark::Taxi] {
        let out = folder();
        let failed = generate(benchmark, &options(out.path(), 0.001, Format::Tbl, 1), &|_| ()).expect_err("NULLs");
        assert!(failed.to_string().contains("NULLs") && failed.to_string().contains("--format parquet"), "{failed}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let out = folder();
    let failure = |changed: GenerateOptions| {
        generate(Benchmark::Ssb, &changed, &|_| ()).expect_err("this cannot work").to_string()
    };
    let base = || options(out.path(), 0.001, Format::Parquet, 1);
    for scale_factor in [0.0, -1.0, f64::NAN, 1e6] {
        let text = failure(GenerateOptions { scale_factor, ..base() });
        assert!(text.contains("out of range. Use a number from"), "{text}");
    }
    let text = failure(GenerateOptions { tables: Some(vec!["lineitem".into()]), ..base() });
    assert!(text.contains("no table \"lineitem\"") && text.contains("lineorder"), "{text}");
    let occupied = out.path().join("occupied");
    fs::write(&occupied, "a file").expect("writable");
    let text = failure(GenerateOptions { out: occupied.join("inside"), ..base() });
    assert!(text.contains("cannot make folder") && text.contains("occupied"), "{text}");
}

#[test]
fn a_file_that_cannot_be_finished_is_gone() {
    for format in [Format::Parquet, Format::Tbl] {
        let out = folder();
        // A folder that is not empty is in the way of the finished file.
        let occupied = out.path().join("region").with_extension(format.extension());
        fs::create_dir_all(occupied.join("inside")).expect("a folder");
        let tables = Some(vec!["region".to_owned()]);
        let failed =
            generate(Benchmark::Tpch, &GenerateOptions { tables, ..options(out.path(), 1.0, format, 1) }, &|_| ());
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(out.path()).expect("a folder").count(), 1, "only the folder is left");
    }
}

#[test]
fn progress_ends_at_one() {
    let out = folder();
    let last = std::sync::Mutex::new(0.0f64);
    generate(Benchmark::Ssb, &options(out.path(), 0.01, Format::Parquet, 2), &|progress| {
        let mut last = last.lock().expect("no thread panics");
        *last = last.max(progress.fraction);
    })
    .expect("small tables");
    let last = *last.lock().expect("no thread panics");
    assert!((0.98..=1.0).contains(&last), "{last}");
}
