//! The program `forebay`: a prompt, scripts, and the benchmark subcommands, over the public API.
//!
//! Invariants: exit status 0 is success, 1 an error that was reported, 2 wrong usage, 130 ended by ^C. Must not know:
//! anything below the facade.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "options of the allocator")]
mod allocator;
mod args;
mod commands;
mod complete;
mod directories;
mod format;
mod highlight;
#[allow(unsafe_code, reason = "advice to the kernel about the program's pages")]
mod image;
mod inspect;
mod interrupt;
mod lexer;
mod machine;
mod meta;
mod names;
mod output;
mod progress;
mod repl;
mod report;
mod shell;
mod terminal;
mod timeline;
mod workload;

use std::io::{BufReader, Cursor, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use forebay::{Database, Error, Options, Result};

use args::{Arguments, Command, Run, Script};
use interrupt::Interrupt;
use shell::{Halt, Settings, Shell, Step};
use timeline::Page;

fn main() -> ExitCode {
    forebay::hide_caught_panics();
    let matches = Arguments::command().get_matches();
    let arguments = args::parse(&matches).unwrap_or_else(|error| error.exit());
    allocator::keep_memory(match &arguments.command {
        Some(Command::Bench(options)) => options.memory,
        Some(Command::Demo(options)) => options.memory,
        _ => arguments.run.memory,
    });
    let scripts = args::scripts(&arguments.run, &matches);
    let is_interactive = scripts.is_empty() && std::io::stdin().is_terminal();
    // Statements that are given beforehand may be done in a moment.
    if arguments.command.is_some() || is_interactive {
        forebay::end_without_huge_pages();
    }
    let outcome = match arguments.command {
        Some(Command::Gen(options)) => workload::run_gen(options),
        Some(Command::Demo(options)) => workload::run_demo(options),
        Some(Command::Bench(options)) => workload::run_bench(options),
        Some(Command::Init(options)) => directories::run_init(&options),
        Some(Command::DataDirs(options)) => directories::run_data_dirs(&options),
        Some(Command::Inspect(options)) => inspect::run_inspect(&options),
        Some(Command::Doctor(options)) => machine::run_doctor(options),
        Some(Command::Selftest(options)) => machine::run_selftest(options),
        Some(Command::Version) => print_version(),
        None => match open(&arguments.run, is_interactive) {
            Ok((shell, interactive)) => return run(shell, interactive, &scripts),
            Err(error) => Err(error),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

fn report(error: &Error) {
    let color = terminal::has_color(&std::io::stderr());
    // A closed stderr has nobody to tell.
    let _ = std::io::stderr().write_all(report::error(error, None, 100, color).as_bytes());
}

fn print_version() -> Result<()> {
    let line = concat!("forebay ", env!("CARGO_PKG_VERSION"), "\n");
    match std::io::stdout().write_all(line.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Opens the database and a session on it; `interactive` is whether a prompt follows.
fn open(run: &Run, interactive: bool) -> Result<(Shell, bool)> {
    let interrupt = Interrupt::install(interactive)?;
    // First of all: nobody wants to hear of a wrong path when the queries have run.
    let page = run.timeline.as_deref().map(Page::create).transpose()?;
    let options = Options {
        read_only: run.read_only,
        memory_bytes: run.memory,
        threads: run.threads,
        owns_process: true,
        ..Options::default()
    };
    let path = run.place();
    let database = match path {
        Some(path) => Database::open(path, &options)?,
        None => Database::in_memory(&options)?,
    };
    if let Some(cut) = database.cut_when_opened() {
        // A closed stderr has nobody to tell.
        let _ = std::io::stderr().write_all(format!("Note: {cut}\n").as_bytes());
    }
    let settings = Settings {
        format: run.format,
        header: !run.no_header,
        null: run.null.clone(),
        max_rows: None,
        timer: run.timing || (interactive && !run.quiet),
        quiet: run.quiet,
    };
    let session = database.session();
    if let Some(device) = &run.device {
        let set = format!("SET device = '{}'", device.replace('\'', "''"));
        session.statements(&set)?.iter().try_for_each(|statement| session.execute(statement).map(drop))?;
    }
    let mut shell = Shell::new(session, settings, path.map(Path::to_owned), interrupt);
    if let Some(page) = page {
        shell.write_timelines_to(page);
    }
    Ok((shell, interactive))
}

/// Runs the scripts, or the prompt where there are none, or standard input where it is not a terminal.
fn run(mut shell: Shell, interactive: bool, scripts: &[Script]) -> ExitCode {
    let step = if interactive {
        repl::run(&mut shell).map_err(|error| shell.report(&error, None))
    } else if scripts.is_empty() {
        run_stdin(&mut shell)
    } else {
        scripts.iter().try_for_each(|script| match script {
            Script::Sql(sql) => shell.run_script(Cursor::new(sql), None),
            Script::File(path) if path == "-" => run_stdin(&mut shell),
            Script::File(path) => shell.read(path),
        })
    };
    let written = shell.write_page();
    match step.and(written) {
        Ok(()) | Err(Halt::Quit | Halt::Closed) => ExitCode::SUCCESS,
        Err(Halt::Failed) => ExitCode::FAILURE,
        Err(Halt::Cancelled) => ExitCode::from(interrupt::EXIT_STATUS as u8),
    }
}

fn run_stdin(shell: &mut Shell) -> Step {
    shell.run_script(BufReader::new(std::io::stdin()), None)
}
