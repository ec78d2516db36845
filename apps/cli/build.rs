//! Asks the linker to put the functions that every start and most queries run side by side in the program, with the data and
//! constants in front of them, and to write the places that the loader has to relocate in a few bits each instead of 24 bytes.
//!
//! A process maps its program and reads a page when it is first touched, with as many pages around it as the drive's
//! read-ahead says, which may be megabytes. What a query touches of Forebay's code is a tenth of it, but scattered over all
//! of it, so that a process that starts from a cold disk read nearly the whole program. `functions.order` lists what was run
//! (made by `scripts/function-order`); names that the program does not have, as with another compiler, are skipped, and
//! linkers that do not know the option are not given it. `sections.ld` puts what a start reads at the head of the file, where
//! the kernel's read-ahead brings it with the first page. Neither changes any result.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ORDER: &str = "functions.order";
const SECTIONS: &str = "sections.ld";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(variable("OUT_DIR"));
    let order =
        [format!("-Wl,--symbol-ordering-file={}", copied(ORDER, &out)), "-Wl,--no-warn-symbol-ordering".to_owned()];
    let sections = [format!("-Wl,-T,{}", copied(SECTIONS, &out))];
    // The loader of glibc before 2.36 does not know them, and says so.
    let packed_relocations = ["-Wl,-z,pack-relative-relocs".to_owned()];
    // The sections are for linkers that put functions in order.
    let has_order = asks_for(&order, &out);
    if has_order {
        asks_for(&sections, &out);
    }
    asks_for(&packed_relocations, &out);
}

/// Gives the linker these arguments if they work here.
fn asks_for(arguments: &[String], out: &Path) -> bool {
    let works = is_linux() && works_with(arguments, out);
    if works {
        arguments.iter().for_each(|argument| println!("cargo:rustc-link-arg-bins={argument}"));
    }
    works
}

/// The path of a copy of a file of this folder, beside the build's own files: clones that share a target directory also share
/// what this program prints, and one of them may be gone when another links.
fn copied(name: &str, out: &Path) -> String {
    println!("cargo:rerun-if-changed={name}");
    let copy = out.join(name);
    let source = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join(name);
    fs::copy(source, &copy).unwrap_or_else(|error| panic!("{name} cannot be copied: {error}"));
    copy.display().to_string()
}

/// A variable that Cargo sets for build scripts.
fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("Cargo did not set {name}"))
}

fn is_linux() -> bool {
    variable("CARGO_CFG_TARGET_OS") == "linux"
}

/// Whether the linker that the program will be linked with takes these arguments, and the loader here what it makes of them:
/// an empty program is linked and run.
fn works_with(arguments: &[String], out: &Path) -> bool {
    let source = out.join("empty.rs");
    if fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let program = out.join("empty");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg("--target").arg(variable("TARGET")).arg("-o").arg(&program);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    for argument in arguments {
        rustc.arg("-C").arg(format!("link-arg={argument}"));
    }
    rustc.arg(&source);
    let succeeds =
        |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    succeeds(&mut rustc) && succeeds(&mut Command::new(&program))
}
