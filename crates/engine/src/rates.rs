//! Rates of this machine in a small file, so that the plans of one day are those of the next.
//!
//! A file per machine, drive and number of threads: a line for its form, the whole key, a line for every rate that was
//! measured, a checksum. The name is a checksum of the key and the key is compared, so that two keys whose checksums agree
//! take turns at one file and are never mistaken for each other.
//! Invariants: a file is complete or is not there (it is renamed into place); what cannot be read or written is measured
//! again, and no statement fails for it. Must not know: how rates are measured, what a drive is.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use forebay_base::checksum::crc32c;
use forebay_block::Scheme;
use forebay_cpu::simd::SimdLevel;

/// The first line of a file, with the version of its form.
const HEAD: &str = "forebay rates 1";

/// What stands before the bandwidth of the drive, and before the checksum of all lines above.
const DISK: &str = "disk";
const CHECKSUM: &str = "checksum";

/// Bytes of a file that are looked at: it has some hundred.
const MOST_BYTES: u64 = 64 << 10;

/// Number of temporary files that this process has named.
static TEMPORARY_FILES: AtomicU64 = AtomicU64::new(0);

/// Which rates plans are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateSource {
    /// Those of this machine: as they were measured before, or else measured now.
    #[default]
    Measured,
    /// Those of this machine, measured now in any case.
    Remeasured,
    /// Those of a common machine, so that the same rows make the same files everywhere.
    Fixed,
}

impl RateSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Remeasured, Self::Fixed];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Remeasured => "remeasured",
            Self::Fixed => "fixed",
        }
    }
}

/// What was measured of a machine, in bytes per second, quantised by `forebay_block::choose`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MachineRates {
    /// Plain bytes that one core decodes frames of a scheme to, for those that were measured.
    pub(crate) schemes: Vec<(Scheme, f64)>,
    /// What the drive gives.
    pub(crate) disk_bytes_per_s: Option<f64>,
}

impl MachineRates {
    /// The rate of a scheme.
    pub(crate) fn of(&self, scheme: Scheme) -> Option<f64> {
        self.schemes.iter().find(|(known, _)| *known == scheme).map(|(_, rate)| *rate)
    }

    /// Takes note of the rate of a scheme, in place of an earlier one.
    pub(crate) fn set(&mut self, scheme: Scheme, bytes_per_s: f64) {
        match self.schemes.iter_mut().find(|(known, _)| *known == scheme) {
            Some((_, rate)) => *rate = bytes_per_s,
            None => self.schemes.push((scheme, bytes_per_s)),
        }
    }

    /// The lines of a file for `key`.
    fn to_text(&self, key: &str) -> String {
        let mut text = format!("{HEAD}\n{key}\n");
        let schemes = self.schemes.iter().map(|(scheme, rate)| (scheme.name(), *rate));
        for (name, rate) in schemes.chain(self.disk_bytes_per_s.map(|rate| (DISK, rate))) {
            // As few digits as tell this number from all others.
            writeln!(text, "{name} {rate}").expect("memory takes all bytes");
        }
        let checksum = crc32c(text.as_bytes());
        text + &format!("{CHECKSUM} {checksum:08x}\n")
    }

    /// What [`MachineRates::to_text`] wrote for `key`; `None` for anything else.
    fn parse(text: &str, key: &str) -> Option<Self> {
        let at = text.rfind(CHECKSUM)?;
        let (lines, checksum) = text.split_at(at);
        if checksum != format!("{CHECKSUM} {:08x}\n", crc32c(lines.as_bytes())) {
            return None;
        }
        let mut rates = Self::default();
        let rest = lines.strip_prefix(HEAD)?.strip_prefix('\n')?.strip_prefix(key)?.strip_prefix('\n')?;
        for line in rest.lines() {
            let (name, rate) = line.split_once(' ')?;
            let rate = rate.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 1.0)?;
            match Scheme::ALL.into_iter().find(|scheme| scheme.name() == name) {
                Some(scheme) => rates.set(scheme, rate),
                None if name == DISK => rates.disk_bytes_per_s = Some(rate),
                None => return None,
            }
        }
        Some(rates)
    }
}

/// Says once what processor and drive are.
type Place = LazyLock<String, Box<dyn FnOnce() -> String + Send>>;

/// Where the rates of this machine are kept: a folder, or nowhere.
#[derive(Debug, Default)]
pub struct KeptRates {
    kept: Option<(PathBuf, Place)>,
    /// By number of threads, what was kept when it was last looked at.
    known: Mutex<BTreeMap<usize, MachineRates>>,
}

impl KeptRates {
    /// In files of `folder`, which is made when it is needed. `place` names the processor and the drive that the database lies
    /// on; it is called when rates are asked for the first time.
    pub fn in_folder(folder: PathBuf, place: impl FnOnce() -> String + Send + 'static) -> Self {
        let on_one_line = || place().replace(['\n', '\r'], " ");
        Self { kept: Some((folder, LazyLock::new(Box::new(on_one_line)))), known: Mutex::default() }
    }

    /// The folder, and what decides how fast frames are decoded and read: the place and the program.
    fn folder_and_key(&self, threads: usize) -> Option<(&Path, String)> {
        let (folder, place) = self.kept.as_ref()?;
        let (version, level) = (env!("CARGO_PKG_VERSION"), SimdLevel::best().name());
        Some((folder, format!("forebay {version}; {}; {level}; threads: {threads}", **place)))
    }

    fn path(folder: &Path, key: &str) -> PathBuf {
        let (front, back) = key.split_at(key.floor_char_boundary(key.len() / 2));
        folder.join(format!("rates-{:08x}{:08x}", crc32c(front.as_bytes()), crc32c(back.as_bytes())))
    }

    /// The file for queries of so many threads.
    pub fn file(&self, threads: usize) -> Option<PathBuf> {
        let (folder, key) = self.folder_and_key(threads)?;
        Some(Self::path(folder, &key))
    }

    /// What was kept; nothing where the file is not there, or is not as it was written.
    pub(crate) fn get(&self, threads: usize) -> MachineRates {
        let read = || {
            let (folder, key) = self.folder_and_key(threads)?;
            let mut text = String::new();
            File::open(Self::path(folder, &key)).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
            MachineRates::parse(&text, &key)
        };
        read().unwrap_or_default()
    }

    /// What this process knows: what was kept when it was first asked, or what it has kept since. For who asks for every query.
    pub(crate) fn known(&self, threads: usize) -> MachineRates {
        self.lock().entry(threads).or_insert_with(|| self.get(threads)).clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, MachineRates>> {
        // Whatever a panicking holder left is whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps rates, if that is possible.
    pub(crate) fn put(&self, threads: usize, rates: &MachineRates) {
        self.lock().insert(threads, rates.clone());
        let Some((folder, key)) = self.folder_and_key(threads) else { return };
        if std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).is_err() {
            return;
        }
        let number = TEMPORARY_FILES.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("new-rates-{}-{number}", std::process::id()));
        let written = std::fs::write(&temporary, rates.to_text(&key))
            .and_then(|()| std::fs::rename(&temporary, Self::path(folder, &key)));
        if written.is_err() {
            // What could not even be written needs no removal.
            let _ = std::fs::remove_file(&temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that ends with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("forebay-rates-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn rates() -> MachineRates {
        let schemes = vec![(Scheme::Lz4, 1_805_811_301.113_843_4), (Scheme::Plain, 6_442_450_944.0)];
        MachineRates { schemes, disk_bytes_per_s: Some(1e9) }
    }

    #[test]
    fn rates_are_kept_for_their_place_and_threads() {
        let folder = Scratch::new("places");
        let kept =
            |place: &'static str| KeptRates::in_folder(folder.0.join("a").join("b"), move || String::from(place));
        let here = kept("a processor; ext4 /dev/x");
        assert_eq!((here.get(2), here.known(2)), (MachineRates::default(), MachineRates::default()));
        here.put(2, &rates());
        assert_eq!((here.known(2), here.known(3)), (rates(), MachineRates::default()));
        assert_eq!(kept("a processor; ext4 /dev/x").get(2), rates());
        for (other, threads) in [("a processor; ext4 /dev/x", 3), ("a processor; ext4 /dev/y", 2), ("", 2)] {
            assert_eq!(kept(other).get(threads), MachineRates::default(), "{other}");
        }
        let mut later = rates();
        later.set(Scheme::Lz4, 2.0);
        later.set(Scheme::Zstd, 4.0);
        here.put(2, &later);
        assert_eq!(here.get(2), later);
        assert_eq!([Scheme::Lz4, Scheme::Zstd, Scheme::Rans].map(|of| later.of(of)), [Some(2.0), Some(4.0), None]);
        assert_eq!(std::fs::read_dir(folder.0.join("a/b")).expect("a folder").count(), 1);
    }

    #[test]
    fn what_is_not_as_it_was_written_is_not_there() {
        let folder = Scratch::new("damage");
        let kept = KeptRates::in_folder(folder.0.clone(), || "two\nlines".to_owned());
        kept.put(1, &rates());
        let file = kept.file(1).expect("a folder");
        let whole = std::fs::read(&file).expect("it was written");
        assert_eq!(kept.get(1), rates());
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            for wrong in [&flipped[..], &whole[..at]] {
                std::fs::write(&file, wrong).expect("there is room");
                assert_eq!(kept.get(1), MachineRates::default(), "byte {at}");
            }
        }
        // Sound checksums do not make sense of nonsense.
        let key = "a key";
        for line in ["lz4 NaN", "lz4 inf", "lz4 0", "lz4 -5", "lz4", "lz4  7", "lz5 7", ""] {
            let text = format!("{HEAD}\n{key}\n{line}\n");
            let text = format!("{text}{CHECKSUM} {:08x}\n", crc32c(text.as_bytes()));
            assert_eq!(MachineRates::parse(&text, key), None, "{line:?}");
        }
        kept.put(1, &rates());
        assert_eq!(kept.get(1), rates());
    }

    #[test]
    fn no_folder_is_no_error() {
        for nowhere in [KeptRates::default(), KeptRates::in_folder("/dev/null/x".into(), || "here".to_owned())] {
            nowhere.put(1, &rates());
            assert_eq!(nowhere.get(1), MachineRates::default());
        }
    }
}
