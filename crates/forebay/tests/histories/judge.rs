//! What happened, as `adya` reads it, and what it says of it.

use std::collections::{BTreeMap, BTreeSet};

use adya::{History, Opts, Valid, Workload, check};

/// One operation of a transaction on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    Append(u64, u64),
    /// What the list had.
    Read(u64, Vec<u64>),
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Committed,
    /// Nobody may have seen anything of it.
    Failed,
    /// The power failed while it committed.
    Unknown,
}

/// Beginnings and ends of transactions, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    lines: Vec<String>,
    /// Lines of transactions that have begun, by their processes: what they do is written there when they end.
    begun: BTreeMap<usize, usize>,
    /// Elements that have to be in their lists in the end, and those that may be.
    kept: BTreeSet<(u64, u64)>,
    possible: BTreeSet<(u64, u64)>,
    pub(crate) counts: Counts,
}

/// How many transactions ended how, and how often the power failed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) committed: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
    pub(crate) power_losses: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.power_losses += other.power_losses;
    }
}

impl Journal {
    /// A transaction of a process begins. A process has one at a time.
    pub(crate) fn begins(&mut self, process: usize) {
        self.begun.insert(process, self.lines.len());
        self.lines.push(String::new());
    }

    pub(crate) fn ends(&mut self, process: usize, operations: &[Operation], end: End) {
        let kind = match end {
            End::Committed => "ok",
            End::Failed => "fail",
            End::Unknown => "info",
        };
        let begun = self.begun.remove(&process).expect("it has begun");
        self.lines[begun] = line("invoke", process, operations, End::Failed);
        self.lines.push(line(kind, process, operations, end));
        let count = match end {
            End::Committed => &mut self.counts.committed,
            End::Failed => &mut self.counts.failed,
            End::Unknown => &mut self.counts.unknown,
        };
        *count += 1;
        let appended = operations.iter().filter_map(|operation| match operation {
            Operation::Append(list, element) => Some((*list, *element)),
            Operation::Read(..) => None,
        });
        match end {
            End::Committed => self.kept.extend(appended),
            End::Unknown => self.possible.extend(appended),
            End::Failed => {}
        }
    }

    /// All lists when the database has been opened once more, or in the end: what was acknowledged is there, and nothing else but what may be.
    pub(crate) fn lists_are(&mut self, process: usize, lists: &[(u64, Vec<u64>)]) -> Result<(), String> {
        let found: BTreeSet<(u64, u64)> =
            lists.iter().flat_map(|(list, elements)| elements.iter().map(|element| (*list, *element))).collect();
        if let Some(lost) = self.kept.difference(&found).next() {
            return Err(format!("{lost:?} was committed and is lost: {lists:?}\n{}", self.text()));
        }
        let unknown = |one: &&(u64, u64)| !self.kept.contains(one) && !self.possible.contains(one);
        if let Some(wrong) = found.iter().find(unknown) {
            return Err(format!("{wrong:?} was not committed and is there: {lists:?}\n{}", self.text()));
        }
        // What is there now stays, and what is not there does not come.
        self.possible.clear();
        self.kept = found;
        self.begins(process);
        let reads: Vec<Operation> =
            lists.iter().map(|(list, elements)| Operation::Read(*list, elements.clone())).collect();
        self.ends(process, &reads, End::Committed);
        Ok(())
    }

    /// One line of JSON for each beginning and end.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// The anomalies that a consistency model forbids, each with its explanation.
    pub(crate) fn anomalies(&self, model: &str) -> Result<Vec<String>, String> {
        let history = History::from_json(&self.text()).map_err(|error| format!("{error}\n{}", self.text()))?;
        let options = Opts { models: vec![model.to_owned()], ..Opts::default() };
        let report = check(&history, Workload::ListAppend, &options);
        if report.valid == Valid::Unknown && self.counts.committed > 1 {
            return Err(format!("adya cannot tell: {:?}\n{}", report.anomaly_types, self.text()));
        }
        let told = |(name, of_name): (&String, &Vec<adya::Anomaly>)| {
            let explanations: Vec<&str> = of_name.iter().map(|anomaly| anomaly.explanation.as_str()).collect();
            format!("{name}\n{}", explanations.join("\n"))
        };
        match report.valid {
            Valid::False => Ok(report.anomalies.iter().map(told).collect()),
            _ => Ok(Vec::new()),
        }
    }
}

fn line(kind: &str, process: usize, operations: &[Operation], end: End) -> String {
    let value: Vec<String> = operations.iter().map(|operation| told(operation, end)).collect();
    format!(r#"{{"type":"{kind}","process":{process},"value":[{}]}}"#, value.join(","))
}

/// As JSON. What a failed transaction has read says nothing.
fn told(operation: &Operation, end: End) -> String {
    match operation {
        Operation::Append(list, element) => format!(r#"["append",{list},{element}]"#),
        Operation::Read(list, elements) if end == End::Committed => format!(r#"["r",{list},{elements:?}]"#),
        Operation::Read(list, _) => format!(r#"["r",{list},null]"#),
    }
}
