//! Where results go: stdout, a pager in front of it, or a file.
//!
//! Invariants: a pager starts only when a result is taller than the terminal; a reader that went away is told apart from
//! other failures. Must not know: formats.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay::{Error, Result};

use crate::terminal;

/// The place that results go to until it is changed.
#[derive(Debug, Default)]
pub(crate) struct Output {
    file: Option<(PathBuf, BufWriter<File>)>,
}

/// Takes one result; [`Writer::finish`] must follow.
pub(crate) enum Writer<'a> {
    /// Straight to stdout.
    Stdout(BufWriter<StdoutLock<'static>>),
    /// To stdout, through a pager if it gets tall.
    Paged(Box<Pager>),
    /// To a file.
    File(&'a mut BufWriter<File>),
}

impl Output {
    /// Results go to a new file at `path` from now on, or to stdout again.
    pub(crate) fn redirect(&mut self, path: Option<&Path>) -> Result<()> {
        self.file = match path {
            None => None,
            Some(path) => {
                let file =
                    File::create(path).map_err(|error| Error::io(format_args!("write {}", path.display()), &error))?;
                Some((path.to_owned(), BufWriter::new(file)))
            }
        };
        Ok(())
    }

    /// Whether results are seen as they are written.
    pub(crate) fn is_terminal(&self) -> bool {
        self.file.is_none() && io::stdout().is_terminal()
    }

    /// Whether results may have colours.
    pub(crate) fn has_color(&self) -> bool {
        self.file.is_none() && terminal::has_color(&io::stdout())
    }

    /// The name of the place, for errors.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "standard output".into(), |(path, _)| path.display().to_string())
    }

    /// The writer of one result.
    pub(crate) fn writer(&mut self) -> Writer<'_> {
        if self.is_terminal()
            && let (Some(command), Some((_, height))) = (pager_command(), terminal::size())
        {
            return Writer::Paged(Box::new(Pager::new(command, height)));
        }
        match &mut self.file {
            Some((_, file)) => Writer::File(file),
            None => Writer::Stdout(BufWriter::new(io::stdout().lock())),
        }
    }
}

fn pager_command() -> Option<String> {
    let variable = |name| std::env::var(name).ok();
    variable("FOREBAY_PAGER").or_else(|| variable("PAGER")).filter(|command| !command.trim().is_empty())
}

impl Writer<'_> {
    /// Whether a failed write says only that the user closed the pager.
    pub(crate) fn is_closed_pager(&self, error: &io::Error) -> bool {
        matches!(self, Self::Paged(pager) if pager.child.is_some()) && error.kind() == io::ErrorKind::BrokenPipe
    }

    /// Writes what is still held and waits for the pager.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
            Self::Paged(pager) => pager.finish(),
        }
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::File(file) => file.write(bytes),
            Self::Paged(pager) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::File(file) => file.flush(),
            Self::Paged(pager) => pager.flush(),
        }
    }
}

/// Holds text back until it is taller than the terminal, then starts the pager.
pub(crate) struct Pager {
    command: String,
    height: usize,
    held: Vec<u8>,
    lines: usize,
    child: Option<Child>,
    /// The command could not be started.
    broken: bool,
}

impl Pager {
    fn new(command: String, height: usize) -> Self {
        Self { command, height, held: Vec::new(), lines: 0, child: None, broken: false }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", "-SRFX");
        }
        match command.spawn() {
            Ok(child) => self.child = Some(child),
            Err(_) => self.broken = true,
        }
        let held = std::mem::take(&mut self.held);
        self.pass_on(&held)
    }

    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.child.as_mut().and_then(|child| child.stdin.as_mut()) {
            Some(stdin) => stdin.write_all(bytes),
            None => io::stdout().write_all(bytes),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => {
                drop(child.stdin.take());
                child.wait().map(|_| ())
            }
            None => {
                let held = std::mem::take(&mut self.held);
                self.pass_on(&held)?;
                io::stdout().flush()
            }
        }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.child.is_some() || self.broken {
            self.pass_on(bytes)?;
            return Ok(bytes.len());
        }
        self.held.extend_from_slice(bytes);
        self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
        if self.lines >= self.height {
            self.spawn()?;
        }
        Ok(bytes.len())
    }

    /// Text that is held back stays so: it is not known yet whether it fits the terminal.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            // The pager's own failure has been shown by itself.
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tall_result_goes_through_the_pager_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let target = folder.path().join("paged");
        let mut pager = Pager::new(format!("cat > '{}'", target.display()), 3);
        pager.write_all(b"1\n2\n").expect("held");
        assert!(pager.child.is_none());
        pager.write_all(b"3\n").expect("passed on");
        pager.write_all(b"4\n").expect("passed on");
        pager.finish().expect("the pager ends");
        assert_eq!(std::fs::read_to_string(target).expect("written by the pager"), "1\n2\n3\n4\n");
    }

    #[test]
    fn a_file_takes_results_until_it_is_closed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("out.csv");
        let mut output = Output::default();
        output.redirect(Some(&path)).expect("a new file");
        assert!(!output.is_terminal());
        let mut writer = output.writer();
        writer.write_all(b"a\n").expect("written");
        writer.finish().expect("flushed");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "a\n");
        let error = output.redirect(Some(&folder.path().join("no/such/folder"))).expect_err("no folder");
        assert!(error.to_string().starts_with("cannot write "), "{error}");
    }
}
