//! A disk that fails and loses power on request, replayed from a seed: for crash tests.
//!
//! Invariants: the same seed and the same calls give the same bytes, the same faults and the same survivors. Synced
//! content and synced names always survive; everything else may survive in any combination that POSIX allows.
//! Must not know: what is stored, nor any clock or source of chance but the seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::content::{Change, Content, SECTOR_BYTES};
use crate::locks::LockTable;
use crate::namespace::{Entry, Namespace};
use crate::path::{normalize, normalize_absolute, parent};
use crate::random::Random;
use crate::subtree::Subtree;
use crate::{Disk, DiskDirectory, DiskFile, LockKind, OpenMode, check_writable, too_short};

/// What goes wrong in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The drive fails: any call. A failed write has written some first sectors, a failed sync leaves its writes in doubt.
    Eio,
    /// The disk is full: calls that change something, as with [`FaultKind::Eio`].
    Enospc,
    /// The file seems to end early: reads.
    ShortRead,
    /// One bit of what is read is wrong, and nothing says so: reads.
    BitFlip,
    /// The program panics in any call, before it has done anything.
    Panic,
}

/// What goes wrong and when. Calls are counted from 1; a fault that does not fit its call does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// This call meets this fault.
    pub fail_call: Option<(u64, FaultKind)>,
    /// The power goes during this call. It and all later calls fail.
    pub crash_at_call: Option<u64>,
}

/// A simulated disk. Clones share it.
#[derive(Debug, Clone)]
pub struct SimulatedDisk {
    machine: Arc<Mutex<Machine>>,
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self::from_machine(Machine {
            seed,
            random: Random::new(seed),
            faults,
            calls: 0,
            is_dead: false,
            names: Namespace::new(),
            durable_names: Namespace::new(),
            pending: Vec::new(),
            contents: BTreeMap::new(),
            next_file: 0,
            locks: LockTable::default(),
            full: BTreeMap::new(),
        })
    }

    fn from_machine(machine: Machine) -> Self {
        Self { machine: Arc::new(Mutex::new(machine)) }
    }

    /// The disk as it is found after the power is lost now, without further faults. Handles of this one fail from now
    /// on, and its locks do not exist there.
    pub fn crash(&self) -> Self {
        self.crash_with(Faults::default())
    }

    /// [`SimulatedDisk::crash`], with `faults` for the time after: counts of calls begin again.
    pub fn crash_with(&self, faults: Faults) -> Self {
        let mut machine = self.machine.lock();
        machine.is_dead = true;
        Self::from_machine(machine.after_power_loss(faults))
    }

    /// Whether the drive of the directory at the absolute `path` is full from now on: every write to a file in it fails as
    /// with [`FaultKind::Enospc`]. A power loss does not change that.
    pub fn set_full(&self, path: &str, is_full: bool) -> Result<()> {
        let (mut machine, name) = (self.machine.lock(), normalize_absolute(path)?);
        match is_full {
            true => machine.full.insert(name, 0),
            false => machine.full.remove(&name),
        };
        Ok(())
    }

    /// Whether writes to a file in the directory at the absolute `path` fail from now on as with [`FaultKind::Enospc`] that end behind so
    /// many bytes of it.
    pub fn limit_files(&self, path: &str, bytes: u64) -> Result<()> {
        self.machine.lock().full.insert(normalize_absolute(path)?, bytes);
        Ok(())
    }

    /// Calls so far: every call of [`Disk`] and [`DiskFile`] that can fail. `read_direct` and `submit_reads` count once per
    /// request that they serve, waiting for a ticket not at all.
    pub fn calls(&self) -> u64 {
        self.machine.lock().calls
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId(u64);

#[derive(Debug)]
struct Machine {
    seed: u64,
    random: Random,
    faults: Faults,
    calls: u64,
    is_dead: bool,
    names: Namespace<FileId>,
    /// Names that survive for certain. A name may be here before its directory is: that is an orphan if power is lost.
    durable_names: Namespace<FileId>,
    /// Changes of names that are not durable, in order.
    pending: Vec<NameChange>,
    contents: BTreeMap<FileId, Content>,
    next_file: u64,
    locks: LockTable,
    /// Normalized paths of directories in which no file can be written any more.
    full: BTreeMap<String, u64>,
}

/// A change of names. It is durable when the directory of one of its paths is synced.
#[derive(Debug, Clone)]
enum NameChange {
    Put(String, Entry<FileId>),
    Remove(String),
    Rename(String, String, FileId),
}

impl NameChange {
    fn paths(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Put(path, _) | Self::Remove(path) => (path, None),
            Self::Rename(from, to, _) => (from, Some(to)),
        };
        [Some(first), second].into_iter().flatten().map(String::as_str)
    }

    fn apply(&self, names: &mut Namespace<FileId>) {
        match self {
            Self::Put(path, entry) => names.put(path, entry.clone()),
            Self::Remove(path) => drop(names.take(path)),
            Self::Rename(from, to, file) => {
                names.take(from);
                names.put(to, Entry::File(*file));
            }
        }
    }
}

/// What a call meets.
enum Fate {
    Works,
    Fails(FaultKind, Error),
    /// The power goes meanwhile: what the call does may or may not have reached the disk.
    Dies(Error),
}

impl Machine {
    /// Counts a call and decides how it goes. `operation` completes "cannot …".
    fn begin(&mut self, operation: &str) -> Result<Fate> {
        self.calls += 1;
        let gone = || Error::new(ErrorKind::Io, format!("cannot {operation}: the simulated machine lost power"));
        if self.is_dead {
            return Err(gone());
        }
        if self.faults.crash_at_call.is_some_and(|call| self.calls >= call) {
            self.is_dead = true;
            return Ok(Fate::Dies(gone()));
        }
        let code = match self.faults.fail_call {
            Some((call, kind)) if call == self.calls => match kind {
                FaultKind::Panic => panic!("cannot {operation}: the simulated program fails"),
                FaultKind::Enospc => (kind, libc::ENOSPC),
                _ => (kind, libc::EIO),
            },
            _ => return Ok(Fate::Works),
        };
        let os = std::io::Error::from_raw_os_error(code.1);
        Ok(Fate::Fails(code.0, Error::io(operation, &os)))
    }

    /// A call that changes nothing; the fault that is left is one of reads.
    fn begin_reading(&mut self, operation: &str) -> Result<Option<FaultKind>> {
        match self.begin(operation)? {
            Fate::Works | Fate::Fails(FaultKind::Enospc, _) => Ok(None),
            Fate::Fails(FaultKind::Eio | FaultKind::Panic, error) | Fate::Dies(error) => Err(error),
            Fate::Fails(kind @ (FaultKind::ShortRead | FaultKind::BitFlip), _) => Ok(Some(kind)),
        }
    }

    /// A call that changes names. `change` does it and says what it did.
    fn change_names(
        &mut self,
        operation: &str,
        change: impl FnOnce(&mut Self) -> Result<Vec<NameChange>>,
    ) -> Result<()> {
        let outcome = match self.begin(operation)? {
            Fate::Fails(FaultKind::Eio | FaultKind::Enospc | FaultKind::Panic, error) => return Err(error),
            Fate::Works | Fate::Fails(..) => Ok(()),
            Fate::Dies(error) => Err(error),
        };
        let changes = change(self)?;
        self.pending.extend(changes);
        outcome
    }

    fn change_content(&mut self, file: FileId, path: &str, operation: &str, change: Change) -> Result<()> {
        let mut fate = self.begin(operation)?;
        let is_inside = |directory: &str| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
        let end = match &change {
            Change::Write(offset, bytes) => offset + bytes.len() as u64,
            _ => 0,
        };
        let has_room = self.full.iter().all(|(directory, bytes)| end <= *bytes || !is_inside(directory));
        if matches!(fate, Fate::Works) && !has_room {
            let os = std::io::Error::from_raw_os_error(libc::ENOSPC);
            fate = Fate::Fails(FaultKind::Enospc, Error::io(operation, &os));
        }
        let random = &mut self.random;
        let content = self.contents.entry(file).or_default();
        match fate {
            Fate::Works | Fate::Fails(FaultKind::ShortRead | FaultKind::BitFlip, _) => content.change(path, change),
            Fate::Dies(error) => content.change(path, change).and(Err(error)),
            Fate::Fails(FaultKind::Eio | FaultKind::Enospc | FaultKind::Panic, error) => {
                if let Change::Write(offset, mut bytes) = change {
                    let sectors = random.below(bytes.len() as u64 / SECTOR_BYTES as u64 + 1) as usize;
                    bytes.truncate(sectors * SECTOR_BYTES);
                    content.change(path, Change::Write(offset, bytes))?;
                }
                Err(error)
            }
        }
    }

    /// Makes the pending changes in `directory` durable, with the earlier ones that touch the same names.
    fn sync_names(&mut self, directory: &str) {
        let mut chosen = vec![false; self.pending.len()];
        for last in (0..self.pending.len()).rev() {
            let is_inside = |path: &str| parent(path) == Some(directory);
            let is_needed =
                |later: usize| self.pending[later].paths().any(|a| self.pending[last].paths().any(|b| a == b));
            chosen[last] = self.pending[last].paths().any(is_inside)
                || (last + 1..chosen.len()).any(|later| chosen[later] && is_needed(later));
        }
        let mut kept = Vec::new();
        for (change, is_chosen) in std::mem::take(&mut self.pending).into_iter().zip(chosen) {
            if is_chosen {
                change.apply(&mut self.durable_names);
            } else {
                kept.push(change);
            }
        }
        self.pending = kept;
    }

    fn after_power_loss(&mut self, faults: Faults) -> Self {
        let mut names = self.durable_names.clone();
        for change in &self.pending {
            if self.random.coin() {
                change.apply(&mut names);
            }
        }
        names.drop_orphans();
        let mut contents = BTreeMap::new();
        for file in names.files() {
            let content = self.contents.get(file).expect("every named file has content");
            let survived = content.after_power_loss("a simulated file", &mut self.random);
            contents.insert(*file, survived.expect("what was in memory once fits again"));
        }
        Self {
            seed: self.seed,
            random: Random::new(self.random.next()),
            faults,
            calls: 0,
            is_dead: false,
            durable_names: names.clone(),
            names,
            pending: Vec::new(),
            contents,
            next_file: self.next_file,
            locks: LockTable::default(),
            full: self.full.clone(),
        }
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        let name = normalize(path)?;
        let mut machine = self.machine.lock();
        if mode == OpenMode::Create {
            machine.change_names(&format!("create {path}"), |machine| {
                let file = FileId(machine.next_file);
                machine.names.create(&name, file)?;
                machine.next_file += 1;
                machine.contents.insert(file, Content::default());
                Ok(vec![NameChange::Put(name.clone(), Entry::File(file))])
            })?;
        } else {
            machine.begin_reading(&format!("open {path}"))?;
        }
        let file = *machine.names.file(&name)?;
        Ok(Arc::new(SimulatedFile { path: path.to_owned(), mode, file, machine: Arc::clone(&self.machine) }))
    }

    fn exists(&self, path: &str) -> Result<bool> {
        let mut machine = self.machine.lock();
        machine.begin_reading(&format!("look for {path}"))?;
        Ok(machine.names.contains(&normalize(path)?))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let mut machine = self.machine.lock();
        machine.begin_reading(&format!("list {directory}"))?;
        machine.names.list(&normalize(directory)?)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        let name = normalize(path)?;
        self.machine.lock().change_names(&format!("create directory {path}"), |machine| {
            let made = machine.names.create_directory(&name)?;
            Ok(made.into_iter().map(|directory| NameChange::Put(directory, Entry::Directory)).collect())
        })
    }

    fn remove(&self, path: &str) -> Result<()> {
        let name = normalize(path)?;
        self.machine.lock().change_names(&format!("remove {path}"), |machine| {
            machine.names.remove(&name)?;
            Ok(vec![NameChange::Remove(name.clone())])
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (normalize(from)?, normalize(to)?);
        self.machine.lock().change_names(&format!("rename {from} to {to}"), |machine| {
            let file = machine.names.rename(&from, &to)?;
            Ok(vec![NameChange::Rename(from.clone(), to.clone(), file)])
        })
    }

    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>> {
        let name = normalize(path)?;
        let mut machine = self.machine.lock();
        machine.begin_reading(&format!("open directory {path}"))?;
        machine.names.check_directory(&name, "open directory")?;
        Ok(Box::new(SimulatedDirectory { name, machine: Arc::clone(&self.machine) }))
    }

    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        let mut machine = self.machine.lock();
        machine.begin_reading(&format!("lock {path}"))?;
        machine.locks.lock(&normalize(path)?, kind, holder)
    }

    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>> {
        Subtree::open(Arc::new(self.clone()), path)
    }

    fn canonical_path(&self) -> Result<String> {
        Ok("/".to_owned())
    }

    fn describe(&self) -> String {
        format!("simulated disk of seed {}", self.machine.lock().seed)
    }
}

#[derive(Debug)]
struct SimulatedDirectory {
    name: String,
    machine: Arc<Mutex<Machine>>,
}

impl DiskDirectory for SimulatedDirectory {
    fn sync(&self) -> Result<()> {
        let mut machine = self.machine.lock();
        match machine.begin(&format!("sync directory {}", self.name))? {
            Fate::Fails(FaultKind::Eio | FaultKind::Enospc | FaultKind::Panic, error) | Fate::Dies(error) => {
                return Err(error);
            }
            Fate::Works | Fate::Fails(..) => machine.sync_names(&self.name),
        }
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    path: String,
    mode: OpenMode,
    file: FileId,
    machine: Arc<Mutex<Machine>>,
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut machine = self.machine.lock();
        let fault = machine.begin_reading(&format!("read {} bytes at {offset} of {}", buffer.len(), self.path))?;
        let content = &machine.contents[&self.file];
        if fault == Some(FaultKind::ShortRead) {
            return Err(too_short(&self.path, offset, buffer.len(), content.len() as u64));
        }
        content.read(&self.path, offset, buffer)?;
        if fault == Some(FaultKind::BitFlip) && !buffer.is_empty() {
            let bit = machine.random.below(buffer.len() as u64 * 8) as usize;
            buffer[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_writable(&self.path, self.mode)?;
        let operation = format!("write {} bytes at {offset} of {}", bytes.len(), self.path);
        let change = Change::Write(offset, bytes.to_owned());
        self.machine.lock().change_content(self.file, &self.path, &operation, change)
    }

    fn sync(&self) -> Result<()> {
        let mut machine = self.machine.lock();
        let fate = machine.begin(&format!("sync {}", self.path))?;
        let content = machine.contents.entry(self.file).or_default();
        match fate {
            Fate::Fails(FaultKind::Eio | FaultKind::Enospc | FaultKind::Panic, error) => {
                content.fail_sync();
                Err(error)
            }
            Fate::Dies(error) => Err(error),
            Fate::Works | Fate::Fails(..) => content.sync(&self.path),
        }
    }

    fn len(&self) -> Result<u64> {
        let mut machine = self.machine.lock();
        machine.begin_reading(&format!("find the length of {}", self.path))?;
        Ok(machine.contents[&self.file].len() as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        check_writable(&self.path, self.mode)?;
        let operation = format!("set the length of {} to {bytes}", self.path);
        self.machine.lock().change_content(self.file, &self.path, &operation, Change::SetLen(bytes))
    }

    fn path(&self) -> &str {
        &self.path
    }
}
