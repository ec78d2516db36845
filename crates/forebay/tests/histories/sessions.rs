//! Sessions as functions of steps: a seed says who runs a statement next, and when the power fails.

use std::sync::Arc;

use forebay::{Database, Error, ErrorKind, Options};
use forebay_disk::{Faults, SimulatedDisk};

use crate::answers::run;
use crate::judge::{End, Journal, Operation};
use crate::lists::{Client, Form, LISTS, Level, Lists, is_conflict};
use crate::random::Random;

/// A kind of histories.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) level: Level,
    pub(crate) form: Form,
    pub(crate) loses_power: bool,
}

/// A session, and the transaction that it has begun.
struct Actor {
    process: usize,
    client: Client,
    open: Option<Open>,
}

struct Open {
    operations: Vec<Operation>,
    /// Operations that are still to come.
    left: u64,
}

/// How a step went.
enum Step {
    Goes,
    /// The power has failed.
    Dark,
}

struct History {
    plan: Plan,
    random: Random,
    lists: Lists,
    journal: Journal,
    elements: u64,
    processes: usize,
}

/// Plays the history of a seed. An error is a wrong answer or an error that no session should get.
pub(crate) fn play(plan: Plan, seed: u64) -> Result<Journal, String> {
    let mut random = Random(seed);
    let lists = Lists::new(&mut random);
    let mut disk = SimulatedDisk::new(seed, Faults::default());
    {
        let database = open(&disk).map_err(|error| error.to_string())?;
        let session = database.session();
        for statement in lists.made(plan.form) {
            run(&session, &statement).map_err(|error| format!("{statement}: {error}"))?;
        }
    }
    let mut history = History { plan, random, lists, journal: Journal::default(), elements: 0, processes: 0 };
    let lives = if plan.loses_power { 3 } else { 1 };
    // Of about as many as a life has.
    let calls = if plan.form == Form::Hot { 50 } else { 160 };
    for life in 0..lives {
        // The last life ends as it should.
        let crash_at_call = (life + 1 < lives).then(|| 1 + history.random.below(calls));
        disk = disk.crash_with(Faults { crash_at_call, ..Faults::default() });
        match open(&disk) {
            Ok(database) => history.life(&database)?,
            // The power failed while the database was opened.
            Err(error) if crash_at_call.is_some() && error.kind() == ErrorKind::Io => {
                history.journal.counts.power_losses += 1;
            }
            Err(error) => return Err(format!("open: {error}")),
        }
    }
    Ok(history.journal)
}

fn open(disk: &SimulatedDisk) -> forebay::Result<Database> {
    Database::open_on(Arc::new(disk.clone()), &Options { threads: Some(1), ..Options::default() })
}

impl History {
    /// All that sessions do until the power fails or enough has happened.
    fn life(&mut self, database: &Database) -> Result<(), String> {
        let mut actors: Vec<Actor> = (0..3).map(|_| self.actor(database)).collect();
        match self.look(&mut actors[0])? {
            Step::Goes => {}
            Step::Dark => return Ok(()),
        }
        for _ in 0..30 + self.random.below(30) {
            let number = self.random.below(actors.len() as u64) as usize;
            if let Step::Dark = self.step(&mut actors[number])? {
                self.fall(actors);
                return Ok(());
            }
        }
        // Those that are still open are rolled back.
        let mut reader = self.actor(database);
        self.fall(actors);
        self.look(&mut reader).map(drop)
    }

    fn actor(&mut self, database: &Database) -> Actor {
        self.processes += 1;
        Actor { process: self.processes, client: Client::new(database.session(), self.lists), open: None }
    }

    /// What there is when nobody else works.
    fn look(&mut self, actor: &mut Actor) -> Result<Step, String> {
        match actor.client.all() {
            Ok(lists) => self.journal.lists_are(actor.process, &lists).map(|()| Step::Goes),
            Err(error) => self.failed("look", &error),
        }
    }

    /// Whose transactions end without COMMIT.
    fn fall(&mut self, actors: Vec<Actor>) {
        for actor in actors {
            if let Some(open) = actor.open {
                self.journal.ends(actor.process, &open.operations, End::Failed);
            }
        }
    }

    fn failed(&mut self, what: &str, error: &Error) -> Result<Step, String> {
        match error.kind() {
            ErrorKind::Io if self.plan.loses_power => {
                self.journal.counts.power_losses += 1;
                Ok(Step::Dark)
            }
            _ => Err(format!("{what}: {error}\n{}", self.journal.text())),
        }
    }

    fn step(&mut self, actor: &mut Actor) -> Result<Step, String> {
        match actor.open.take() {
            None => self.begin(actor),
            Some(open) if open.left == 0 => self.end(actor, open),
            Some(open) => self.operate(actor, open),
        }
    }

    fn begin(&mut self, actor: &mut Actor) -> Result<Step, String> {
        let freezes = match self.plan.form {
            Form::Hot => false,
            Form::Frozen => self.random.once_in(2),
            Form::Mixed => self.random.once_in(6),
        };
        if freezes {
            match run(&actor.client.session, "CHECKPOINT") {
                Ok(_) => {}
                Err(error) if is_conflict(error.kind()) => {}
                Err(error) => return self.failed("CHECKPOINT", &error),
            }
        }
        self.journal.begins(actor.process);
        let left = 1 + self.random.below(4);
        actor.open = Some(Open { operations: Vec::new(), left });
        match run(&actor.client.session, self.plan.level.begin()) {
            Ok(_) => Ok(Step::Goes),
            Err(error) => self.failed("BEGIN", &error),
        }
    }

    fn operate(&mut self, actor: &mut Actor, mut open: Open) -> Result<Step, String> {
        open.left -= 1;
        let list = self.random.below(LISTS);
        let went = match self.random.below(10) {
            0 => actor.client.all().map(|lists| {
                open.operations.extend(lists.into_iter().map(|(list, elements)| Operation::Read(list, elements)));
            }),
            1..=4 => actor.client.read(list, &mut self.random).map(|elements| {
                open.operations.push(Operation::Read(list, elements));
            }),
            5 => self.undone(actor, list),
            _ => {
                self.elements += 1;
                let element = self.elements;
                open.operations.push(Operation::Append(list, element));
                actor.client.append(self.plan.level, list, element, &mut self.random)
            }
        };
        match went {
            Ok(()) => {
                actor.open = Some(open);
                Ok(Step::Goes)
            }
            Err(error) if is_conflict(error.kind()) => {
                self.journal.ends(actor.process, &open.operations, End::Failed);
                match run(&actor.client.session, "ROLLBACK") {
                    Ok(_) => Ok(Step::Goes),
                    Err(error) => self.failed("ROLLBACK", &error),
                }
            }
            Err(error) => {
                actor.open = Some(open);
                self.failed("an operation", &error)
            }
        }
    }

    /// Appends an element and goes back to a savepoint, so that nobody may see it.
    fn undone(&mut self, actor: &mut Actor, list: u64) -> forebay::Result<()> {
        run(&actor.client.session, "SAVEPOINT before")?;
        self.elements += 1;
        match actor.client.append(self.plan.level, list, self.elements, &mut self.random) {
            Err(error) if !is_conflict(error.kind()) => return Err(error),
            _ => {}
        }
        run(&actor.client.session, "ROLLBACK TO before").map(drop)
    }

    fn end(&mut self, actor: &mut Actor, open: Open) -> Result<Step, String> {
        let commits = !self.random.once_in(8);
        let ended = run(&actor.client.session, if commits { "COMMIT" } else { "ROLLBACK" });
        let (end, step) = match ended {
            Ok(_) if commits => (End::Committed, Ok(Step::Goes)),
            Ok(_) => (End::Failed, Ok(Step::Goes)),
            Err(error) if is_conflict(error.kind()) => (End::Failed, Ok(Step::Goes)),
            Err(error) => {
                let end = if commits { End::Unknown } else { End::Failed };
                (end, self.failed("COMMIT", &error))
            }
        };
        self.journal.ends(actor.process, &open.operations, end);
        step
    }
}
