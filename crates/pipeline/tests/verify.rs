//! The verifier refuses what has no meaning, and the interpreter notices promises that are not kept.

use forebay_pipeline::case::Case;
use forebay_pipeline::ir::{Program, Typed, ValueType};
use forebay_pipeline::{Machine, Scalar, register_types, verify};

/// A program of one scan of `t` with a column of each type, and these lines after it.
fn scanned(lines: &str) -> String {
    format!(
        "program 1 dictionaries\npipeline\n  scan 0 t (r0: i64 = column 0 a i64, r1: i64? = column 1 b i32, \
         r2: bool = column 2 c u8, r3: bool? = column 3 d u8, r4: f64 = column 4 e f64, r5: bytes? = column 5 f bytes, \
         r6: i128 = column 6 g u64)\n{lines}"
    )
}

/// A build side and a probe of it, with these lines after the scan.
fn joined(state: &str, build: &str, probe: &str) -> String {
    format!(
        "program 0 dictionaries\nstate j0: join {state}\npipeline\n  scan 0 t (r0: i64 = column 0 a i64, \
         r1: i64? = column 1 b i64)\n  {build}\npipeline\n  scan 1 u (r0: i64? = column 0 a i64, r1: bytes = column 1 b \
         bytes)\n{probe}"
    )
}

/// Groups and a pipeline that reads them.
fn grouped(state: &str, aggregate: &str, rest: &str) -> String {
    format!(
        "program 0 dictionaries\nstate a0: aggregate {state}\npipeline\n  scan 0 t (r0: i64 = column 0 a i64, \
         r1: i64? = column 1 b i64, r2: bytes = column 2 c bytes)\n  {aggregate}\npipeline\n{rest}"
    )
}

#[track_caller]
fn accept(text: &str) {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&program).unwrap_or_else(|error| panic!("{error}\n{text}"));
}

#[track_caller]
fn refuse(text: &str, message: &str) {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let error = verify(&program).expect_err(text).to_string();
    assert!(error.contains(message), "{error}\nlacks: {message}\n{text}");
}

#[test]
fn operands_have_their_types() {
    for (line, message) in [
        ("r7: i64 = add r0, r1", "the result may be NULL: r7: i64 = add r0, r1 (pipeline 0)"),
        ("r7: i64? = add r0, r6", "r6 is i128, not i64"),
        ("r7: i128 = add r0, r0", "r0 is i64, not i128"),
        ("r7: bool = add r2, r2", "there is no such arithmetic"),
        ("r7: f64 = rem r4, r4", "there is no such arithmetic"),
        ("r7: f64 = div_rounded r4, r4", "there is no such arithmetic"),
        ("r7: bytes? = add r5, r5", "there is no such arithmetic"),
        ("r7: bool = neg r2", "only numbers have a sign"),
        ("r7: i64 = eq r0, r0", "the result is bool"),
        ("r7: bool = eq r0, r4", "r4 is f64, not i64"),
        ("r7: bool = lt r0, r1", "the result may be NULL"),
        ("r7: bool = and r2, r3", "the result may be NULL"),
        ("r7: bool = or r2, r0", "r0 is i64, not bool"),
        ("r7: bool = not r3", "the result may be NULL"),
        ("r7: i64 = is_null r0", "the result is bool"),
        ("r7: i64 = select r0, r0, r0", "r0 is i64, not bool"),
        ("r7: i64 = select r3, r0, r1", "the result may be NULL"),
        ("r7: i64? = select r3, r0, r4", "r4 is f64, not i64"),
        ("r7: i64 = coalesce r1, r1", "the result may be NULL"),
        ("r7: i64 = coalesce r1, r6", "r6 is i128, not i64"),
        ("r7: i64 = convert r4", "f64 does not become i64"),
        ("r7: bool = convert r0", "i64 does not become bool"),
        ("r7: f64? = convert r5", "bytes does not become f64"),
        ("r7: i64 = convert r1", "the result may be NULL"),
        ("r7: i128 = year r6", "the result is i64"),
        ("r7: i64 = year r6", "r6 is i128, not i64"),
        ("r7: bool? = like r0, \"\"", "r0 is i64, not bytes"),
        ("r7: bool = like r5, \"\"", "the result may be NULL"),
        ("r7: bool = in r0, (2, 1)", "the list is not in order"),
        ("r7: bool = in r0, (1, 1)", "the list is not in order"),
        ("r7: bool = in r4, (-0.0, 0.0)", "the list is not in order"),
        ("r7: bool = in r0, (null)", "the list is not of i64"),
        ("r7: bool = in r0, (1.0)", "the list is not of i64"),
        ("r7: bool = in r0, (9223372036854775808)", "the list is not of i64"),
        ("r7: bytes = substring r5, 1", "the result may be NULL"),
        ("r7: bytes? = substring r5, 1, -1", "the length is negative"),
        ("r7: i64 = const null", "the result may be NULL"),
        ("r7: i64 = const 9223372036854775808", "the constant is not of this type"),
        ("r7: f64 = const 1", "the constant is not of this type"),
        ("r7: i64 = const 1 if r0", "r0 is i64, not bool"),
        ("r7: i64 = const 1 if r7", "r7 is read before it is written"),
        ("r7: i64 = neg r9", "r9 is read before it is written"),
        ("r0: i64 = const 1", "r0 is written twice"),
        ("r65536: i64 = const 1", "registers are numbered below 65536"),
        ("filter r0", "r0 is i64, not bool"),
        ("filter r8", "r8 is read before it is written"),
    ] {
        refuse(&scanned(&format!("  {line}\n  collect (r0)\n")), message);
    }
    for line in [
        "r7: i64? = add r0, r0",
        "r7: i64 = coalesce r1, r0",
        "r7: i64 = select r3, r0, r0",
        "r7: bool = is_null r5",
        "r7: bool? = eq r5, r5",
        "r7: bool = in r6, (-1, 9223372036854775808)",
        "r7: f64 = convert r2",
        "r7: f64 = convert r4",
        "r7: bytes? = const null",
        "filter r3",
    ] {
        accept(&scanned(&format!("  {line}\n  collect (r0)\n")));
    }
}

#[test]
fn columns_are_loaded_as_they_are_widened() {
    let scan = |column: &str| format!("program 1 dictionaries\npipeline\n  scan 0 t ({column})\n  collect ()\n");
    for column in ["r0: bool = column 0 a u8", "r0: i64 = column 0 a u8", "r0: i64? = column 0 a bytes in d0"] {
        accept(&scan(column));
    }
    for (column, message) in [
        ("r0: i64 = column 0 a u64", "u64 is not loaded as i64"),
        ("r0: bool = column 0 a i8", "i8 is not loaded as bool"),
        ("r0: bytes = column 0 a bytes in d0", "bytes is not loaded as bytes"),
        ("r0: i64 = column 0 a i64 in d0", "i64 is not loaded as i64"),
        ("r0: i64 = column 0 a bytes in d1", "there is no such dictionary"),
        ("r0: i64 = column 0 a i8, r0: i64 = column 1 b i8", "r0 is written twice"),
    ] {
        refuse(&scan(column), message);
    }
    let tested = |test: &str| scan("").replace("()\n  collect", &format!("() where column 0 {test}\n  collect"));
    accept(&tested("in (1, 2)"));
    refuse(&tested("in (2, 1)"), "the list of a test is not in order");
    refuse(&tested("not in (1, 1)"), "the list of a test is not in order");
}

#[test]
fn probes_fit_their_state() {
    let build = "build j0 (r0) -> (r1)";
    let state = "(i64) -> (i64?)";
    for probe in [
        "  probe inner j0 (r0) -> (0 r2)\n  collect (r2)\n",
        "  probe left j0 (r0) -> (0 r2, 0 r3)\n  collect (r2, r3)\n",
        "  probe semi j0 (r0) -> (0 r2) when { r3: bool? = eq r2, r0; r3 }\n  collect (r0)\n",
        "  probe mark r2 j0 (r0) -> ()\n  filter r2\n  collect (r2)\n",
    ] {
        accept(&joined(state, build, probe));
    }
    for (probe, message) in [
        ("  probe inner j0 (r1) -> ()\n", "r1 is bytes, not i64"),
        ("  probe inner j0 (r0, r0) -> ()\n", "the key has 1 parts"),
        ("  probe inner j0 (r0) -> (1 r2)\n", "the payload has no column 1"),
        ("  probe inner j0 (r0) -> (0 r1)\n", "r1 is written twice"),
        ("  probe inner j1 (r0) -> ()\n", "there is no such state"),
        ("  probe semi j0 (r0) -> (0 r2)\n  r3: i64? = neg r2\n", "r2 is read outside of its condition"),
        ("  probe anti j0 (r0) -> (0 r2)\n  r3: i64? = neg r2\n", "r2 is read outside of its condition"),
        ("  probe mark r9 j0 (r0) -> (0 r2)\n  r3: i64? = neg r2\n", "r2 is read outside of its condition"),
        ("  probe inner j0 (r0) -> () when { r0 }\n", "r0 is i64, not bool"),
        ("  probe inner j0 (r0) -> () when { r2: bool = is_null r0; r2 }\n  filter r2\n", "r2 is read outside"),
        ("  probe mark r2 j0 (r0) -> () when { r2 }\n", "r2 is read before it is written"),
        ("  probe left j0 (r0) -> (0 r2)\n  r3: i64 = neg r2\n", "the result may be NULL"),
    ] {
        refuse(&joined(state, build, &format!("{probe}  collect (r0)\n")), message);
    }
    // Within its condition a column of a left probe is what the state holds; afterwards it may be NULL.
    let left = "  probe left j0 (r0) -> (0 r2) when { r3: i64 = neg r2; r4: bool = eq r3, r2; r4 }\n";
    let required = joined("(i64) -> (i64)", "build j0 (r0) -> (r0)", &format!("{left}  collect (r2)\n"));
    accept(&required);
    let program = Program::parse(&required).expect("a program");
    let types = register_types(&program, &program.pipelines[1]).expect("types");
    assert_eq!(types[2], Some(Typed::nullable(ValueType::I64)));
    assert_eq!(types[3], Some(Typed::required(ValueType::I64)));
    refuse(
        &joined("(i64) -> (i64)", "build j0 (r0) -> (r0)", &format!("{left}  r9: i64 = neg r2\n  collect (r2)\n")),
        "the result may be NULL",
    );
}

#[test]
fn states_are_filled_once_and_before_they_are_used() {
    let collect = "  collect (r0)\n";
    for (state, build, message) in [
        ("(i64) -> (i64)", "build j0 (r0) -> (r1)", "r1 is i64?, but its place i64"),
        ("(i64) -> (i64)", "build j0 (r0) -> ()", "the payload has 1 parts"),
        ("(i64, i64) -> ()", "build j0 (r0) -> ()", "the key has 2 parts"),
        ("(i64) -> () keeps all", "build j0 (r1) -> ()", "r1 is i64?, but its place i64"),
        ("() -> ()", "build j0 () -> ()", "a join state needs a key"),
        ("(i64) -> ()", "collect (r0)", "only the last pipeline collects"),
        ("(i64) -> ()", "probe inner j0 (r0) -> ()\n  build j0 (r0) -> ()", "the state is not filled yet"),
        ("(i64) -> ()", "mark j0 (r0) -> ()", "the state is not filled yet"),
        ("(i64) -> ()", "aggregate a0 (r0) { }", "the state is a build side"),
    ] {
        refuse(&joined(state, build, collect), message);
    }
    accept(&joined("(i64) -> ()", "build j0 (r1) -> ()", collect));
    accept(&joined("(i64?) -> (i64?) keeps all", "build j0 (r0) -> (r0)", collect));
    let build = "build j0 (r0) -> ()";
    refuse(&joined("(i64) -> ()", build, "  build j0 (r0) -> ()\n"), "a state is filled twice");
    refuse(&joined("(i64) -> ()", build, "  mark j0 (r0) -> ()\n"), "the state does not keep all rows");
    refuse(&joined("(i64) -> () keeps all", build, "  mark j0 (r0) -> ()\n"), "the last pipeline must collect");
    let rows = |which: &str| format!("{collect}pipeline\n  build rows j0 {which}\n  collect ()\n");
    let late = |state: &str, which: &str| {
        joined(state, build, &rows(which)).replace("  collect (r0)\n", "  mark j0 (r0) -> ()\n")
    };
    accept(&late("(i64) -> () keeps all", "matched (r0)"));
    refuse(&late("(i64) -> () keeps all", "matched ()"), "the state has 1 columns");
    let unkept = joined("(i64) -> ()", build, collect)
        .replace("scan 1 u (r0: i64? = column 0 a i64, r1: bytes = column 1 b bytes)", "build rows j0 matched (r0)");
    refuse(&unkept, "the state does not keep all rows");
    refuse("program 0 dictionaries\n", "a program without pipelines");
    let unused = "program 0 dictionaries\nstate a0: aggregate () { rows }\npipeline\n  scan 0 t ()\n  collect ()\n";
    refuse(unused, "state 0 is never filled");
}

#[test]
fn groups_fit_their_state() {
    let rest = "  groups a0 (r0, r1)\n  collect (r0, r1)\n";
    accept(&grouped("(i64?) { sum(i64?) }", "aggregate a0 (r0) { r0 }", rest));
    for (state, aggregate, message) in [
        ("(i64) { rows }", "aggregate a0 (r1) { - }", "r1 is i64?, but its place i64"),
        ("(i64) { rows }", "aggregate a0 () { - }", "the key has 1 parts"),
        ("(i64) { rows }", "aggregate a0 (r0) { r0 }", "another number of arguments"),
        ("(i64) { sum(i64) }", "aggregate a0 (r0) { - }", "another number of arguments"),
        ("(i64) { sum(i64) }", "aggregate a0 (r0) { }", "the state has 1 aggregates"),
        ("(i64) { sum(i64) }", "aggregate a0 (r0) { r1 }", "r1 is i64?, but its place i64"),
        ("(i64) { sum(bytes) }", "aggregate a0 (r0) { r2 }", "sum(bytes) has no such argument"),
        ("(i64) { sum_wide(i128) }", "aggregate a0 (r0) { r0 }", "sum_wide(i128) has no such argument"),
        ("(i64) { sum_fitting(f64) }", "aggregate a0 (r0) { r0 }", "sum_fitting(f64) has no such argument"),
        ("(i64) { rows(i64) }", "aggregate a0 (r0) { r0 }", "rows(i64) has no such argument"),
        ("(i64) { min }", "aggregate a0 (r0) { - }", "min has no such argument"),
        ("(i64) { rows }", "build j0 (r0) -> ()", "the state holds groups"),
    ] {
        refuse(&grouped(state, aggregate, rest), message);
    }
    let aggregate = "aggregate a0 (r0) { - }";
    let read = |rest: &str| grouped("(i64) { rows }", aggregate, rest);
    refuse(&read("  groups a0 (r0)\n  collect ()\n"), "the state has 2 columns");
    refuse(&read("  scan 0 t ()\n  probe inner j0 () -> ()\n  collect ()\n"), "the state holds groups");
    // A sum may be over nothing.
    let summed = grouped(
        "(i64) { sum(i64) }",
        "aggregate a0 (r0) { r0 }",
        "  groups a0 (r0, r1)\n  r2: i64 = neg r1\n  collect (r2)\n",
    );
    refuse(&summed, "the result may be NULL");
}

/// The error of a case, which the verifier accepts.
#[track_caller]
fn breach(lines: &str, row: &str) -> String {
    let scan = "scan 0 t (r0: i64 = column 0 a i64, r1: bool? = column 1 b u8)";
    let text =
        format!("== case breach\nprogram 0 dictionaries\npipeline\n{scan}\n{lines}\n== table 0\n{row}\n== result\n");
    let case = Case::read(&text).expect("a case").remove(0);
    verify(&case.program).expect("the verifier does not see rows");
    case.interpret().expect_err("a breach").to_string()
}

#[test]
fn the_interpreter_notices_broken_promises() {
    let fits = breach("r2: i64 = mul r0, r0 fits\ncollect (r2)", "(9223372036854775807, true)");
    assert!(fits.contains("was said to fit, but does not: r2: i64 = mul r0, r0 fits"), "{fits}");
    for lines in [
        "r2: i64 = neg r0 if r1\ncollect (r2)",
        "r2: i64 = neg r0 if r1\nr3: bool = lt r2, r0\nfilter r3\ncollect (r0)",
        "r2: i64 = neg r0 if r1\nr3: i64? = select r1, r0, r2\ncollect (r3)",
    ] {
        for row in ["(5, false)", "(5, null)"] {
            let error = breach(lines, row);
            assert!(error.contains("is used where its guard is not true"), "{error}");
        }
    }
    for reads in ["neg r2", "div r2, r0 fits", "rem r0, r2 fits"] {
        let operand = breach(&format!("r2: i64 = neg r0 if r1\nr3: i64 = {reads}\ncollect (r0)"), "(5, false)");
        assert!(operand.contains(&format!("an operand is undefined: r3: i64 = {reads}")), "{operand}");
    }
}

#[test]
fn what_cannot_fail_may_read_what_is_undefined() {
    let lines = "r2: i64 = neg r0 if r1\nr3: i64 = neg r2 fits\nr4: f64 = convert r3\nr5: f64 = add r4, r4\n\
                 r6: bool = lt r5, r4\nr7: bool? = and r1, r6\nr8: i64 = select r1, r3, r0\n\
                 r9: bool = const true\nr10: bool = or r6, r9\ncollect (r7, r8, r10)";
    let scan = "scan 0 t (r0: i64 = column 0 a i64, r1: bool? = column 1 b u8)";
    let text = format!(
        "== case harmless\nprogram 0 dictionaries\npipeline\n{scan}\n{lines}\n== table 0\n(5, false)\n(-5, true)\n\
         == result\n(false, 5, true)\n(true, -5, true)\n"
    );
    let case = Case::read(&text).expect("a case").remove(0);
    verify(&case.program).expect("a program");
    assert_eq!(Ok(case.interpret().expect("nothing fails")), case.expect);
}

#[test]
fn sums_that_were_said_to_fit_are_checked() {
    let text = "== case sum\nprogram 0 dictionaries\nstate a0: aggregate () { sum_fitting(i64) }\npipeline\n  \
                scan 0 t (r0: i64 = column 0 a i64)\n  aggregate a0 () { r0 }\npipeline\n  groups a0 (r0)\n  collect (r0)\n\
                == table 0\n(9223372036854775807)\n(1)\n== result\n";
    let error = Case::read(text).expect("a case").remove(0).interpret().expect_err("it does not fit").to_string();
    assert!(error.contains("sum_fitting(i64) was said to fit, but is 9223372036854775808"), "{error}");
}

#[test]
fn machines_check_their_rows_and_their_order() {
    let program = Program::parse(&scanned("  collect (r1)\n")).expect("a program");
    let rows = |row: Vec<Scalar>| std::iter::once(Ok(row));
    let mut machine = Machine::new(&program);
    assert!(machine.run_state(0).is_err());
    assert!(machine.run(1, &mut std::iter::empty()).is_err());
    assert!(machine.run(0, &mut rows(vec![Scalar::I64(1)])).is_err());
    let mut row = vec![Scalar::Null; 7];
    assert!(machine.run(0, &mut rows(row.clone())).expect_err("NULL in r0").to_string().contains("r0: i64 holds null"));
    row = vec![
        Scalar::I64(1),
        Scalar::Null,
        Scalar::Bool(true),
        Scalar::Null,
        Scalar::float(0.5),
        Scalar::Null,
        Scalar::I128(7),
    ];
    machine.run(0, &mut rows(row)).expect("a row of the right types");
    assert!(machine.run(0, &mut std::iter::empty()).is_err());
    assert_eq!(machine.into_result(), [[Scalar::Null]]);
}
