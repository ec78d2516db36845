//! What survives of one simulated file: durable bytes, and the changes since, each with what is known of it.
//!
//! Invariant: `now` is `durable` with every change of `log` applied in order. Must not know: names, faults, calls.

use forebay_base::Result;

use crate::memory::{read_slice, resize, write_slice};
use crate::random::Random;

/// The unit in which a drive writes all or nothing.
pub(crate) const SECTOR_BYTES: usize = 512;

/// A change to a file.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Bytes at an offset.
    Write(u64, Vec<u8>),
    /// A new length.
    SetLen(u64),
}

/// What is known of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Not synced yet.
    Pending,
    /// A sync failed over it: the kernel calls it clean, and no later sync writes it again.
    Doubtful,
    /// Synced, behind a doubtful change.
    Durable,
}

/// A simulated file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    durable: Vec<u8>,
    log: Vec<(Change, Standing)>,
    now: Vec<u8>,
}

impl Content {
    pub(crate) fn len(&self) -> usize {
        self.now.len()
    }

    pub(crate) fn read(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_slice(&self.now, path, offset, buffer)
    }

    pub(crate) fn change(&mut self, path: &str, change: Change) -> Result<()> {
        apply(&mut self.now, path, &change)?;
        self.log.push((change, Standing::Pending));
        Ok(())
    }

    /// A sync that worked. Changes behind the first doubtful one stay in the log: their order with it matters.
    pub(crate) fn sync(&mut self, path: &str) -> Result<()> {
        self.settle(Standing::Durable);
        let certain = self.log.iter().take_while(|(_, standing)| *standing == Standing::Durable).count();
        for (change, _) in self.log.drain(..certain) {
            apply(&mut self.durable, path, &change)?;
        }
        Ok(())
    }

    /// A sync that failed.
    pub(crate) fn fail_sync(&mut self) {
        self.settle(Standing::Doubtful);
    }

    fn settle(&mut self, outcome: Standing) {
        for (_, standing) in self.log.iter_mut().filter(|(_, standing)| *standing == Standing::Pending) {
            *standing = outcome;
        }
    }

    /// The file after a power loss: every change that is not durable is kept, lost or torn.
    pub(crate) fn after_power_loss(&self, path: &str, random: &mut Random) -> Result<Self> {
        let mut survived = self.durable.clone();
        for (change, standing) in &self.log {
            let fate = if *standing == Standing::Durable { 0 } else { random.below(3) };
            match (fate, change) {
                (0, _) => apply(&mut survived, path, change)?,
                (1, Change::Write(offset, bytes)) => tear(&mut survived, path, *offset, bytes, random)?,
                _ => {}
            }
        }
        Ok(Self { durable: survived.clone(), log: Vec::new(), now: survived })
    }
}

fn apply(content: &mut Vec<u8>, path: &str, change: &Change) -> Result<()> {
    match change {
        Change::Write(offset, bytes) => write_slice(content, path, *offset, bytes),
        Change::SetLen(len) => resize(content, path, *len),
    }
}

/// Writes some sectors of `bytes` and not others. The length may reach the end of the write all the same.
fn tear(content: &mut Vec<u8>, path: &str, offset: u64, bytes: &[u8], random: &mut Random) -> Result<()> {
    let end = offset + bytes.len() as u64;
    if end > content.len() as u64 && random.coin() {
        resize(content, path, end)?;
    }
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let in_sector = SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
        let next = bytes.len().min(done + in_sector);
        if random.coin() {
            write_slice(content, path, at, &bytes[done..next])?;
        }
        done = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(content: &mut Content, byte: u8) {
        content.change("f", Change::Write(0, vec![byte; 4 * SECTOR_BYTES])).expect("memory");
    }

    fn outcomes(content: &Content) -> Vec<Vec<u8>> {
        (0..200).map(|seed| content.after_power_loss("f", &mut Random::new(seed)).expect("memory").now).collect()
    }

    #[test]
    fn synced_bytes_stay_and_others_are_kept_lost_or_torn_in_sectors() {
        let mut content = Content::default();
        written(&mut content, 1);
        content.sync("f").expect("memory");
        assert!(outcomes(&content).iter().all(|bytes| bytes == &content.now));
        written(&mut content, 2);
        let outcomes = outcomes(&content);
        for kind in [1, 2] {
            assert!(outcomes.iter().any(|bytes| bytes.iter().all(|byte| *byte == kind)), "all of {kind}");
        }
        assert!(outcomes.iter().any(|bytes| bytes.contains(&1) && bytes.contains(&2)), "torn");
        for sector in outcomes.iter().flat_map(|bytes| bytes.chunks(SECTOR_BYTES)) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
        }
    }

    #[test]
    fn a_later_sync_does_not_mend_a_failed_one() {
        let mut content = Content::default();
        written(&mut content, 1);
        content.fail_sync();
        content.change("f", Change::Write(0, vec![9; SECTOR_BYTES])).expect("memory");
        content.sync("f").expect("memory");
        let outcomes = outcomes(&content);
        assert!(outcomes.iter().any(|bytes| bytes.len() == SECTOR_BYTES), "the doubtful write is lost");
        assert!(outcomes.iter().all(|bytes| bytes[..SECTOR_BYTES] == [9; SECTOR_BYTES]), "the synced one is not");
    }
}
