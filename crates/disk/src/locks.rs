//! Locks between handles of one process, for disks that live in memory.
//!
//! Invariant: a name has either shared holders or one exclusive holder. Must not know: files.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::Result;
use parking_lot::Mutex;

use crate::{LockKind, locked};

/// All locks of one disk. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LockTable {
    held: Arc<Mutex<BTreeMap<String, Held>>>,
}

#[derive(Debug)]
struct Held {
    kind: LockKind,
    holder: String,
    count: usize,
}

impl LockTable {
    pub(crate) fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        let mut table = self.held.lock();
        let new = Held {
            kind,
            holder: if kind == LockKind::Exclusive { holder.to_owned() } else { String::new() },
            count: 0,
        };
        let held = table.entry(path.to_owned()).or_insert(new);
        if held.count > 0 && (kind, held.kind) != (LockKind::Shared, LockKind::Shared) {
            return Err(locked(path, &held.holder));
        }
        held.count += 1;
        Ok(Box::new(Guard { table: self.clone(), path: path.to_owned() }))
    }
}

struct Guard {
    table: LockTable,
    path: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut table = self.table.held.lock();
        if let Some(held) = table.get_mut(&self.path) {
            held.count -= 1;
            if held.count == 0 {
                table.remove(&self.path);
            }
        }
    }
}
