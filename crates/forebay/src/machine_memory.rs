//! How much memory there is: the machine's, or what the control groups that this process is in leave to it.
//!
//! Groups are nested, and each may have a limit; there are hierarchies of version 2 and of version 1, which a machine may have
//! both of (cgroups(7)). Where they lie says `/proc/self/mountinfo`; a container may see no more than its own group there, though
//! `/proc/self/cgroup` names the ones above it, too.
//! Invariant: what cannot be read is no limit.

use std::path::{Path, PathBuf};

/// Bytes of a machine that does not say.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// Memory of this machine, or what a container may use of it.
pub(crate) fn machine_memory_bytes() -> u64 {
    memory_bytes(Path::new("/"))
}

/// The same, where the system's files are below `root`.
fn memory_bytes(root: &Path) -> u64 {
    let total = read(&root.join("proc/meminfo")).and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    let total = total.map_or(UNKNOWN_BYTES, |kib| kib * 1024);
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let hierarchies = mounts.lines().filter_map(Hierarchy::of_mount);
    hierarchies.filter_map(|hierarchy| hierarchy.least_limit(root, &groups)).fold(total, u64::min)
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// A hierarchy of control groups that limit memory.
struct Hierarchy {
    /// The group that is mounted.
    mounted: PathBuf,
    /// Where.
    place: PathBuf,
    is_version_2: bool,
}

impl Hierarchy {
    /// That of a line of `mountinfo`, which has the mounted directory as its fourth field, the place as the fifth, and behind a
    /// hyphen the type and, as the third from there, options (proc_pid_mountinfo(5)).
    fn of_mount(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (mounted, place) = (PathBuf::from(mount.next()?), PathBuf::from(mount.next()?));
        let mut file_system = file_system.split(' ');
        let is_version_2 = match file_system.next()? {
            "cgroup2" => true,
            "cgroup" if file_system.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Self { mounted, place, is_version_2 })
    }

    /// The group of this hierarchy that the process is in, as `/proc/self/cgroup` says: lines of a number, controllers and a path,
    /// without controllers for version 2.
    fn group<'a>(&self, groups: &'a str) -> Option<&'a Path> {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_own = match self.is_version_2 {
                true => number == "0" && controllers.is_empty(),
                false => controllers.split(',').any(|controller| controller == "memory"),
            };
            is_own.then(|| Path::new(path))
        })
    }

    /// The least limit of the group that the process is in and those above it, as far as they can be seen.
    fn least_limit(&self, root: &Path, groups: &str) -> Option<u64> {
        let below = |path: &Path| path.strip_prefix("/").map_or_else(|_| path.to_owned(), Path::to_owned);
        let top = root.join(below(&self.place));
        let group = self.group(groups).unwrap_or(Path::new("/"));
        // A group that is not below what is mounted is one of another namespace: the mounted one is all that is seen.
        let innermost = top.join(group.strip_prefix(&self.mounted).unwrap_or(Path::new("")));
        let file = if self.is_version_2 { "memory.max" } else { "memory.limit_in_bytes" };
        let all = innermost.ancestors().take_while(|group| group.starts_with(&top));
        // Without a limit version 2 says `max`, and version 1 more than there ever is.
        all.filter_map(|group| read(&group.join(file))?.trim().parse::<u64>().ok()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "36 32 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:15 - cgroup cgroup rw,memory\n";
    const BOTH: &str = "35 32 0:30 / /sys/fs/cgroup/cpu,memory rw - cgroup cgroup rw,cpu,memory\n\
                        33 32 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                        37 32 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n";
    const KIB: u64 = 1 << 10;

    /// The memory of a machine of 8 GiB with these files.
    fn memory_of(mounts: &str, groups: &str, files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().expect("a folder");
        let own =
            [("proc/self/mountinfo", mounts), ("proc/self/cgroup", groups), ("proc/meminfo", "MemTotal: 8388608 kB\n")];
        for (path, text) in own.iter().chain(files) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("it is below the folder")).expect("folders");
            std::fs::write(path, text).expect("a file");
        }
        memory_bytes(root.path())
    }

    #[test]
    fn without_limits_it_is_the_machine_s() {
        assert_eq!(memory_of("", "", &[]), 8 << 30);
        assert_eq!(memory_of(V2, "0::/\n", &[]), 8 << 30);
        assert_eq!(memory_of(V2, "0::/a\n", &[("sys/fs/cgroup/a/memory.max", "max\n")]), 8 << 30);
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory_of(V1, "4:memory:/\n", &[none]), 8 << 30);
        assert_eq!(memory_of(V2, "0::/a\n", &[("sys/fs/cgroup/a/memory.max", "much\n")]), 8 << 30);
        let empty = tempfile::tempdir().expect("a folder");
        assert_eq!(memory_bytes(empty.path()), UNKNOWN_BYTES);
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let nested = [
            ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.max", "2048\n"),
            ("sys/fs/cgroup/a/memory.max", "1024\n"),
            ("sys/fs/cgroup/other/memory.max", "1\n"),
        ];
        assert_eq!(memory_of(V2, "0::/a/b/c\n", &nested), KIB);
        assert_eq!(memory_of(V2, "1:cpu:/other\n0::/a/b/c/gone\n", &nested), KIB, "as far as they are there");
        assert_eq!(memory_of(V2, "0::/a/b/c\n", &nested[..2]), 2 * KIB);
        let old = [
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n"),
        ];
        assert_eq!(memory_of(V1, "5:cpuset:/\n4:memory:/a/b\n0::/x\n", &old), 4 * KIB);
    }

    #[test]
    fn both_versions_count_wherever_they_lie() {
        let files = [
            ("sys/fs/cgroup/cpu,memory/a/memory.limit_in_bytes", "4096\n"),
            ("sys/fs/cgroup/unified/b/memory.max", "2048\n"),
            ("sys/fs/cgroup/devices/memory.max", "1\n"),
        ];
        assert_eq!(memory_of(BOTH, "3:cpu,memory:/a\n0::/b\n", &files), 2 * KIB);
        assert_eq!(memory_of(BOTH, "3:cpu,memory:/a\n0::/\n", &files), 4 * KIB);
        assert_eq!(memory_of(BOTH, "3:cpu,memory:/\n0::/\n", &files), 8 << 30);
    }

    #[test]
    fn a_container_sees_its_own_group() {
        let container = "30 23 0:26 /docker/1a /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let files = [("sys/fs/cgroup/memory.max", "2048\n"), ("sys/fs/cgroup/job/memory.max", "1024\n")];
        assert_eq!(memory_of(container, "0::/docker/1a\n", &files), 2 * KIB);
        assert_eq!(memory_of(container, "0::/docker/1a/job\n", &files), KIB);
        assert_eq!(memory_of(container, "0::/\n", &files), 2 * KIB, "a namespace of its own");
    }
}
