//! Where measured rates are kept: in the user's cache, by processor and drive.
//!
//! Must not know: what is measured, and how files of rates look.

use std::path::{Path, PathBuf};

use forebay_engine::KeptRates;

/// The rates of this machine for a database in this folder; in memory without one.
pub(crate) fn kept_rates(database: Option<&Path>) -> KeptRates {
    let Some(folder) = user_cache() else { return KeptRates::default() };
    let database = database.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    KeptRates::in_folder(folder, move || place(database.as_deref()))
}

/// The processor, and the drive that the folder of a database lies on.
fn place(database: Option<&Path>) -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let processor = processor(&cpuinfo).unwrap_or(std::env::consts::ARCH);
    let drive = match database {
        Some(path) => {
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            mounted(&read("/proc/self/mountinfo"), &path).unwrap_or_else(|| path.display().to_string())
        }
        None => "memory".to_owned(),
    };
    format!("{processor}; {drive}")
}

/// The program's folder in the user's cache, if there is a user.
fn user_cache() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("forebay"))
}

/// The model of the first processor in the text of `/proc/cpuinfo`.
fn processor(cpuinfo: &str) -> Option<&str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim())
    })
}

/// File system and device below an absolute path, as the text of `/proc/self/mountinfo` tells (proc_pid_mountinfo(5)).
fn mounted(mountinfo: &str, path: &Path) -> Option<String> {
    let mut found: Option<(usize, String)> = None;
    for line in mountinfo.lines() {
        let Some((mount, system)) = line.split_once(" - ") else { continue };
        let mut system = system.split(' ');
        let (Some(point), Some(kind), Some(device)) = (mount.split(' ').nth(4), system.next(), system.next()) else {
            continue;
        };
        let point = unescaped(point);
        // The longest mount point above the path is its own; of equal ones the later hides the earlier.
        let is_nearer = found.as_ref().is_none_or(|(bytes, _)| point.len() >= *bytes);
        if path.starts_with(&point) && is_nearer {
            found = Some((point.len(), format!("{kind} {device}")));
        }
    }
    found.map(|(_, text)| text)
}

/// A path with its octal escapes resolved: of space, tab, line feed and backslash.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (escape, character)| path.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_names() {
        let text = "processor\t: 0\nmodel name\t: A Processor 9\n\nprocessor\t: 1\nmodel name\t: Another\n";
        assert_eq!(processor(text), Some("A Processor 9"));
        assert_eq!(processor("processor : 0\nBogoMIPS : 50.00\n"), None);
        assert_eq!(processor(""), None);
    }

    #[test]
    fn the_nearest_mount_point_counts() {
        let text = "\
            22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
            30 22 0:25 / /tmp rw - tmpfs tmpfs rw\n\
            31 22 259:1 / /mnt/fast\\040drive rw shared:9 master:2 - xfs /dev/nvme0n1p1 rw\n\
            32 22 259:2 / /mnt rw - ext4 /dev/sda1 rw\n\
            33 22 259:3 / /mnt rw - ext4 /dev/sdb1 rw\n\
            a line of another kind\n";
        let of = |path: &str| mounted(text, Path::new(path)).expect("everything lies below the root");
        assert_eq!(of("/srv/shop.db"), "ext4 /dev/root");
        assert_eq!(of("/tmp/shop.db"), "tmpfs tmpfs");
        assert_eq!(of("/tmpfile/shop.db"), "ext4 /dev/root");
        assert_eq!(of("/mnt/fast drive/shop.db"), "xfs /dev/nvme0n1p1");
        assert_eq!(of("/mnt/slow/shop.db"), "ext4 /dev/sdb1");
        assert_eq!(mounted("", Path::new("/srv")), None);
    }
}
