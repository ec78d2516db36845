//! The subcommands about this machine: `doctor`, `selftest`.
//!
//! Must not know: what a device is made of.

use std::io::Write;
use std::path::PathBuf;

use forebay::machine::{Finding, doctor, selftest};
use forebay::units::format_count;
use forebay::{Error, ErrorKind, Result};

use crate::args::{Doctor, Selftest};

fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to standard output", &error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn run_doctor(options: Doctor) -> Result<()> {
    let folder = options.directory.unwrap_or_else(|| PathBuf::from("."));
    print(&doctor(&folder).iter().map(line).collect::<String>())
}

/// A part in a line, and a second one on what it would bring where it is missing.
fn line(finding: &Finding) -> String {
    let mark = if finding.is_there { "yes" } else { "no" };
    let line = format!("{:<14} {mark:<4} {}\n", finding.part, finding.text);
    if finding.is_there { line } else { format!("{line}{:<20}for {}\n", "", finding.brings) }
}

pub(crate) fn run_selftest(options: Selftest) -> Result<()> {
    let outcome = selftest(&options.device, options.seed, options.programs)?;
    let mut text = outcome.failures.iter().map(|failure| format!("{failure}\n\n")).collect::<String>();
    let left: usize = outcome.left.values().sum();
    let (agreed, failed) = (format_count(outcome.agreed), outcome.failures.len());
    let ran = format_count(outcome.pipelines as u64);
    text += &format!("{ran} pipelines ran on the device, {left} were left to the interpreter\n");
    text += &format!("{agreed} passed, {failed} failed\n");
    print(&text)?;
    match failed {
        0 => Ok(()),
        _ => Err(Error::new(ErrorKind::Internal, format!("{failed} programs give something else on this device"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_what_it_would_bring() {
        let mut finding = Finding { part: "GPU", is_there: true, text: "a GPU".to_owned(), brings: "speed" };
        assert_eq!(line(&finding), "GPU            yes  a GPU\n");
        finding.is_there = false;
        assert_eq!(line(&finding), "GPU            no   a GPU\n                    for speed\n");
    }
}
