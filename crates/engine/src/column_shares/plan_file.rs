//! The goals of columns as bytes, for the next process. `docs/format.md`, "Plan of shares".
//!
//! Invariant: bytes that are none of these are no goals, and no error. Must not know: where the bytes lie.

use forebay_base::{ColumnId, Result, TableId};
use forebay_cache::{ColumnKey, Goal, Goals};
use forebay_store::serial::{Reader, Writer};

pub(super) fn to_bytes(goals: &Goals) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.count(goals.len());
    for (key, goal) in goals {
        writer.u64(key.table.0);
        writer.u32(key.column.0);
        [goal.inflated, goal.stored, goal.bytes].into_iter().for_each(|part| writer.u64(part.to_bits()));
    }
    writer.bytes
}

pub(super) fn of_bytes(bytes: &[u8]) -> Goals {
    read(bytes).unwrap_or_default()
}

fn read(bytes: &[u8]) -> Result<Goals> {
    let mut reader = Reader::new(bytes, "the plan of shares");
    let mut goals = Goals::new();
    for _ in 0..reader.u32()? {
        let key = ColumnKey { table: TableId(reader.u64()?), column: ColumnId(reader.u32()?) };
        let mut part = || reader.u64().map(f64::from_bits);
        let goal = Goal { inflated: part()?, stored: part()?, bytes: part()? };
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if is_share(goal.inflated) && is_share(goal.stored) && goal.bytes.is_finite() {
            goals.insert(key, goal);
        }
    }
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_come_back() {
        let goal = |inflated, stored| Goal { inflated, stored, bytes: 1e9 };
        let key = |column| ColumnKey { table: TableId(7), column: ColumnId(column) };
        let goals = Goals::from([(key(1), goal(0.25, 0.5)), (key(2), goal(1.0, 0.0))]);
        let bytes = to_bytes(&goals);
        assert_eq!((of_bytes(&bytes), of_bytes(&to_bytes(&Goals::new()))), (goals, Goals::new()));
        for end in 0..bytes.len() {
            assert_eq!(of_bytes(&bytes[..end]), Goals::new());
        }
        let wrong = Goals::from([(key(1), goal(f64::NAN, 0.0)), (key(2), goal(0.0, 2.0)), (key(3), goal(0.5, 0.5))]);
        assert_eq!(of_bytes(&to_bytes(&wrong)).into_keys().collect::<Vec<_>>(), [key(3)]);
    }
}
