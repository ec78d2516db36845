//! The texts of kernels: golden files for whole queries, and all of them for the compiler of a real device.
//!
//! `UPDATE_EXPECT=1` writes `tests/golden` anew. `FOREBAY_TEXTS=folder` leaves the text of every pipeline of the IR's test
//! files in a folder, for `tests/nvrtc.py`.

use std::collections::BTreeMap;
use std::path::Path;

use expect_test::expect_file;
use forebay_base::ErrorKind;
use forebay_gpu::emit::{GroupPlace, StatePlaces, emit};
use forebay_pipeline::case::Case;
use forebay_pipeline::ir::{Sink, State};

/// The texts of a file's pipelines by case and number, groups in each place that they can have.
fn texts(file: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pipelines").join(file);
    let cases = Case::read(&std::fs::read_to_string(path).expect("the file is there")).expect("it is right");
    let mut texts = BTreeMap::new();
    for case in cases {
        for (number, pipeline) in case.program.pipelines.iter().enumerate() {
            let places = match &pipeline.sink {
                Sink::Aggregate { keys, .. } if keys.is_empty() => vec![Some(GroupPlace::One)],
                Sink::Aggregate { .. } => vec![Some(GroupPlace::Shared), Some(GroupPlace::Global)],
                _ => vec![None],
            };
            for groups in places {
                let builds = case.program.states.iter().map(|state| matches!(state, State::Join(_))).collect();
                match emit(&case.program, number, &StatePlaces { builds, groups, listed: false }) {
                    Ok(kernel) => {
                        let place = groups.map_or(String::new(), |place| format!("-{place:?}").to_lowercase());
                        texts.insert(format!("{}-{number}{place}", case.name.replace(' ', "-")), kernel.text);
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
                }
            }
        }
    }
    texts
}

#[test]
fn whole_queries_have_the_texts_that_were_read() {
    let texts = texts("stars.pipe");
    assert!(texts.len() > 5, "only {} texts", texts.len());
    for (name, text) in texts {
        expect_file![format!("{}/tests/golden/{name}.cu", env!("CARGO_MANIFEST_DIR"))].assert_eq(&text);
    }
}

#[test]
fn all_texts_are_left_for_a_compiler() {
    let Ok(folder) = std::env::var("FOREBAY_TEXTS") else { return };
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::write(format!("{folder}/compact.cu"), forebay_gpu::kernels::COMPACT).expect("the text can be written");
    let pipelines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pipelines");
    for entry in std::fs::read_dir(pipelines).expect("the folder is there") {
        let name = entry.expect("it is read").file_name().to_string_lossy().into_owned();
        if name.ends_with(".pipe") {
            for (case, text) in texts(&name) {
                std::fs::write(format!("{folder}/{case}.cu"), text).expect("the text can be written");
            }
        }
    }
}
