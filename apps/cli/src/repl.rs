//! The prompt: line editing, history, completion and colours around a [`Shell`].
//!
//! Invariants: an error never ends the session; ^D and `\q` do. Must not know: how statements run.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::Cursor;
use std::path::PathBuf;
use std::rc::Rc;

use forebay::{Error, Result, Session};
use rustyline::completion::Completer;
use rustyline::config::{Builder, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

use crate::complete::complete;
use crate::highlight::highlight;
use crate::shell::{Halt, Shell};
use crate::terminal::{self, Paint, paint};

const HISTORY_ENTRIES: usize = 10_000;

/// Reads and runs until the user leaves.
pub(crate) fn run(shell: &mut Shell) -> Result<()> {
    let color = terminal::has_color(&std::io::stdout());
    let mut editor = editor(Rc::clone(&shell.session), color)?;
    let history = history_file();
    if let Some(path) = &history {
        // There is none at the first start.
        let _ = editor.load_history(path);
    }
    if !shell.settings.quiet {
        shell.note(&greeting(shell));
    }
    let prompt = format!("{}> ", name(shell));
    let prompt = (prompt.clone(), paint(&prompt, Paint::Bold, color));
    loop {
        match editor.readline(&prompt) {
            Ok(input) if input.trim().is_empty() => {}
            Ok(input) => {
                remember(&mut editor, input.trim_end(), history.as_deref());
                match shell.run_script(Cursor::new(as_command(&input)), None) {
                    Err(Halt::Quit | Halt::Closed) => return Ok(()),
                    Ok(()) | Err(Halt::Failed | Halt::Cancelled) => {}
                }
            }
            Err(ReadlineError::Interrupted) => {
                if editor.helper().is_none_or(|prompt| prompt.blank.get()) {
                    shell.note("Type \\q or press ^D to leave");
                }
            }
            Err(ReadlineError::Eof) => {
                // What comes next starts on a line of its own.
                shell.note("");
                return Ok(());
            }
            Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                shell.report(&Error::input("what was typed is not UTF-8 text").hint("The line was left out"), None);
            }
            Err(ReadlineError::Io(error)) => return Err(Error::io("read from the terminal", &error)),
            Err(error) => return Err(Error::internal(format!("the line editor failed: {error}"))),
        }
    }
}

fn editor(session: Rc<Session>, color: bool) -> Result<Editor<Prompt, FileHistory>> {
    let failed = |error: ReadlineError| Error::internal(format!("cannot start the line editor: {error}"));
    let config: Builder = Config::builder()
        .max_history_size(HISTORY_ENTRIES)
        .and_then(|config| config.history_ignore_dups(true))
        .map_err(failed)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List);
    let mut editor = Editor::with_config(config.build()).map_err(failed)?;
    editor.set_helper(Some(Prompt { session, color, blank: Cell::new(true) }));
    Ok(editor)
}

/// `quit`, `exit` and `help` alone are what they say.
fn as_command(input: &str) -> &str {
    match input.trim().trim_end_matches(';').trim_end() {
        "quit" | "exit" => "\\q",
        "help" => "\\?",
        _ => input,
    }
}

fn greeting(shell: &Shell) -> String {
    let place = match &shell.database {
        Some(path) => path.display().to_string(),
        None => "in memory; nothing is kept".into(),
    };
    format!("Forebay {} · {place} · \\? for help", env!("CARGO_PKG_VERSION"))
}

fn name(shell: &Shell) -> String {
    let file = shell.database.as_ref().and_then(|path| path.file_stem());
    file.map_or_else(|| "memory".into(), |name| name.to_string_lossy().into_owned())
}

/// Keeps `entry` in the history; a history that cannot be written is not worth an error.
fn remember(editor: &mut Editor<Prompt, FileHistory>, entry: &str, path: Option<&std::path::Path>) {
    let _ = editor.add_history_entry(entry);
    if let Some(path) = path {
        let _ = editor.append_history(path);
    }
}

/// `$XDG_STATE_HOME/forebay/history`, by default in `~/.local/state`; its folder is made.
fn history_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    let folder = state.join("forebay");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// What the line editor asks while a line is typed.
struct Prompt {
    session: Rc<Session>,
    color: bool,
    /// The line is blank, so that ^C has nothing to clear.
    blank: Cell<bool>,
}

impl Helper for Prompt {}

impl Completer for Prompt {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&line[..at], &self.session.names()))
    }
}

impl Hinter for Prompt {
    type Hint = String;

    /// Gives no hints, but sees every change of the line.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.blank.set(line.trim().is_empty());
        None
    }
}

impl Highlighter for Prompt {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.color && !line.starts_with(['\\', '.']) { highlight(line).into() } else { line.into() }
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        prompt.into()
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.color && kind != CmdKind::MoveCursor
    }
}

impl Validator for Prompt {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        let meta = input.starts_with(['\\', '.']) || as_command(input) != input;
        let complete = meta || input.trim().is_empty() || Session::is_complete(input);
        Ok(if complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_leave_and_help() {
        assert_eq!(as_command(" exit; "), "\\q");
        assert_eq!(as_command("help"), "\\?");
        assert_eq!(as_command("select 1;"), "select 1;");
    }
}
