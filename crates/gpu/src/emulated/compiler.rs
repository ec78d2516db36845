//! The host's C++ compiler: kernel texts become shared objects that call the emulated processor.
//!
//! Invariants: found at run time; files lie in a private folder of this device, made anew, which goes with it.
//! Must not know: what a text computes.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_base::{Error, Result};

use crate::kernels::HEADERS;

const RUNTIME: &str = include_str!("../../emulator/runtime.cpp");
const EMULATOR_HEADER: &str = include_str!("../../emulator/emulator.h");

/// Names that are tried after `$CXX`.
const NAMES: [&str; 3] = ["c++", "g++", "clang++"];

/// A compiler, and the folder that it works in.
#[derive(Debug)]
pub(super) struct Compiler {
    program: String,
    is_clang: bool,
    folder: PathBuf,
    files: AtomicU64,
}

impl Compiler {
    /// The first compiler that answers; an error says what to install where none does.
    pub(super) fn find() -> Result<Self> {
        let given = std::env::var("CXX").ok().filter(|name| !name.is_empty());
        let names: Vec<String> = given.into_iter().chain(NAMES.map(str::to_owned)).collect();
        let Some((program, version)) = names.iter().find_map(|name| Some((name.clone(), version(name)?))) else {
            let message = format!("the emulated device needs a C++ compiler; none of {} runs", names.join(", "));
            return Err(Error::unsupported(message).hint("Install g++ or clang++, or name one in CXX"));
        };
        let (folder, files) = (new_folder()?, AtomicU64::new(0));
        let compiler = Self { program, is_clang: version.contains("clang"), folder, files };
        for (name, text) in HEADERS.iter().copied().chain([("emulator.h", EMULATOR_HEADER)]) {
            compiler.write(name, text.as_bytes())?;
        }
        Ok(compiler)
    }

    /// What the compiler calls itself.
    pub(super) fn name(&self) -> String {
        version(&self.program).and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
    }

    /// The emulated processor as a shared object.
    pub(super) fn runtime(&self) -> Result<PathBuf> {
        let source = self.write("runtime.cpp", RUNTIME.as_bytes())?;
        let library = self.folder.join("runtime.so");
        let flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-pthread"];
        self.run(&flags, &source, &library, &["-ldl"])?;
        Ok(library)
    }

    /// A kernel text as the bytes of a shared object.
    pub(super) fn compile(&self, text: &str) -> Result<Vec<u8>> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let source = self.write(&format!("kernel-{number}.cpp"), text.as_bytes())?;
        let library = self.folder.join(format!("image-{number}.so"));
        // The sanitizer's calls are answered by the runtime: its own library must not be linked.
        let mut flags = vec!["-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-nostdlib", "-fsanitize=thread"];
        flags.extend(["-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing", "-ffp-contract=off"]);
        flags.push("-DFOREBAY_EMULATED");
        match self.is_clang {
            true => flags.extend(["-mllvm", "-tsan-instrument-func-entry-exit=0"]),
            false => flags.extend(["--param", "tsan-instrument-func-entry-exit=0"]),
        }
        self.run(&flags, &source, &library, &["-lgcc"])?;
        let bytes =
            std::fs::read(&library).map_err(|error| Error::io(format!("read {}", library.display()), &error))?;
        let _ = (std::fs::remove_file(&source), std::fs::remove_file(&library));
        Ok(bytes)
    }

    /// Writes an image where it can be loaded.
    pub(super) fn place(&self, image: &[u8]) -> Result<PathBuf> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        self.write(&format!("loaded-{number}.so"), image)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| Error::io(format!("write {}", path.display()), &error))?;
        Ok(path)
    }

    fn run(&self, flags: &[&str], source: &Path, library: &Path, libraries: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(flags).arg("-I").arg(&self.folder).arg(source).arg("-o").arg(library).args(libraries);
        let output = command.output().map_err(|error| Error::io(format!("run {}", self.program), &error))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let first: Vec<&str> = text.lines().filter(|line| line.contains("error")).take(3).collect();
        Err(Error::internal(format!("{} does not compile a kernel: {}", self.program, first.join("; "))))
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // Loaded libraries stay in memory without their files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A new folder that only this user can enter. What lies in it is loaded into the process: a name that is there already may
/// be somebody else's, and another one is tried.
fn new_folder() -> Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("forebay-emulated-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io(format!("create {}", folder.display()), &error)),
        }
    }
}

/// What a compiler says of itself, asked once; `None` where it does not run.
fn version(program: &str) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(program.to_owned()).or_insert_with(|| ask_version(program)).clone()
}

fn ask_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
