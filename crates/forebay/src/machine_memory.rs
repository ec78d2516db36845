//! How much memory there is.

use std::path::Path;

/// What stands before a control group's name in `/proc/self/cgroup`, where the groups are, and the file that holds the
/// memory limit: of version 2, and of version 1.
const CONTROL_GROUPS: [(&str, &str, &str); 2] =
    [("::/", "/sys/fs/cgroup", "memory.max"), (":memory:/", "/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// Memory of this machine, or what a container may use of it.
pub(crate) fn machine_memory_bytes() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let total = read(Path::new("/proc/meminfo")).and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    let total = total.map_or(4 << 30, |kib| kib * 1024);
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limit = group_memory_bytes(&groups, read);
    limit.map_or(total, |limit| limit.min(total)).max(super::LEAST_MEMORY_BYTES)
}

/// Least memory limit of the control groups that this process is in: `groups` is its `/proc/self/cgroup`, which names the
/// innermost one.
fn group_memory_bytes(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let least_of = |(mark, root, file): &(&str, &str, &str)| {
        let innermost = groups.lines().find_map(|line| Some(line.split_once(mark)?.1)).unwrap_or_default();
        let innermost = Path::new(root).join(innermost);
        let all = innermost.ancestors().take_while(|group| group.starts_with(root));
        all.filter_map(|group| read(&group.join(file))?.trim().parse::<u64>().ok()).min()
    };
    CONTROL_GROUPS.iter().filter_map(least_of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let read = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("1000\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("3000\n".to_owned()),
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => Some("500\n".to_owned()),
            "/sys/fs/cgroup/memory/memory.limit_in_bytes" => Some("9223372036854771712\n".to_owned()),
            _ => None,
        };
        assert_eq!(group_memory_bytes("1:cpu:/x\n0::/a/b\n", read), Some(1000));
        assert_eq!(group_memory_bytes("0::/\n", read), Some(3000));
        assert_eq!(group_memory_bytes("4:memory:/c\n1:cpu:/x\n0::/a/b\n", read), Some(500));
        assert_eq!(group_memory_bytes("", read), Some(3000));
        assert_eq!(group_memory_bytes("0::/a/b\n", |_| None), None);
    }
}
