//! The goals of columns as bytes, for the next process, and how fast the machine was. `docs/format.md`, "Plan of shares".
//!
//! Invariant: bytes that are none of these are no goals, and no error. Must not know: where the bytes lie.

use forebay_base::{ColumnId, Result, TableId};
use forebay_cache::{ColumnKey, Goal, Goals};
use forebay_store::serial::{Reader, Writer};

use super::history::Rates;

/// What a process knows, for the next one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) goals: Goals,
    pub(super) rates: Rates,
}

pub(super) fn to_bytes(kept: &Kept) -> Vec<u8> {
    let mut writer = Writer::default();
    let key = |writer: &mut Writer, key: &ColumnKey| {
        writer.u64(key.table.0);
        writer.u32(key.column.0);
    };
    writer.count(kept.goals.len());
    for (column, goal) in &kept.goals {
        key(&mut writer, column);
        [goal.inflated, goal.stored, goal.bytes].into_iter().for_each(|part| writer.u64(part.to_bits()));
    }
    writer.u64(kept.rates.disk_bytes_per_s.unwrap_or_default().to_bits());
    writer.count(kept.rates.inflate_bytes_per_s.len());
    for (column, rate) in &kept.rates.inflate_bytes_per_s {
        key(&mut writer, column);
        writer.u64(rate.to_bits());
    }
    writer.bytes
}

pub(super) fn of_bytes(bytes: &[u8]) -> Kept {
    let mut reader = Reader::new(bytes, "the plan of shares");
    let Ok(goals) = read_goals(&mut reader) else { return Kept::default() };
    // Earlier versions end here.
    let rates = read_rates(&mut reader).unwrap_or_default();
    Kept { goals, rates }
}

fn read_key(reader: &mut Reader<'_>) -> Result<ColumnKey> {
    Ok(ColumnKey { table: TableId(reader.u64()?), column: ColumnId(reader.u32()?) })
}

fn read_goals(reader: &mut Reader<'_>) -> Result<Goals> {
    let mut goals = Goals::new();
    for _ in 0..reader.u32()? {
        let key = read_key(reader)?;
        let mut part = || reader.u64().map(f64::from_bits);
        let goal = Goal { inflated: part()?, stored: part()?, bytes: part()? };
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if is_share(goal.inflated) && is_share(goal.stored) && goal.bytes.is_finite() {
            goals.insert(key, goal);
        }
    }
    Ok(goals)
}

fn read_rates(reader: &mut Reader<'_>) -> Result<Rates> {
    let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
    let mut rates = Rates { disk_bytes_per_s: Some(f64::from_bits(reader.u64()?)).filter(is_rate), ..Rates::default() };
    for _ in 0..reader.u32()? {
        let (key, rate) = (read_key(reader)?, f64::from_bits(reader.u64()?));
        if is_rate(&rate) {
            rates.inflate_bytes_per_s.insert(key, rate);
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let goal = |inflated, stored| Goal { inflated, stored, bytes: 1e9 };
        let key = |column| ColumnKey { table: TableId(7), column: ColumnId(column) };
        let goals = Goals::from([(key(1), goal(0.25, 0.5)), (key(2), goal(1.0, 0.0))]);
        let rates = Rates { disk_bytes_per_s: Some(5e8), inflate_bytes_per_s: [(key(1), 3e9)].into() };
        let kept = Kept { goals: goals.clone(), rates };
        let (bytes, nothing) = (to_bytes(&kept), Kept::default());
        assert_eq!((of_bytes(&bytes), of_bytes(&to_bytes(&nothing))), (kept.clone(), nothing.clone()));
        let of_goals = to_bytes(&Kept { goals: goals.clone(), ..Kept::default() }).len() - 12;
        for end in 0..bytes.len() {
            let expected =
                if end < of_goals { nothing.clone() } else { Kept { goals: goals.clone(), ..Kept::default() } };
            assert_eq!(of_bytes(&bytes[..end]), expected, "{end}");
        }
        let wrong = Goals::from([(key(1), goal(f64::NAN, 0.0)), (key(2), goal(0.0, 2.0)), (key(3), goal(0.5, 0.5))]);
        let rates = Rates {
            disk_bytes_per_s: Some(-1.0),
            inflate_bytes_per_s: [(key(1), f64::INFINITY), (key(2), 0.0)].into(),
        };
        let wrong = of_bytes(&to_bytes(&Kept { goals: wrong, rates }));
        assert_eq!((wrong.goals.into_keys().collect::<Vec<_>>(), wrong.rates), (vec![key(3)], Rates::default()));
    }
}
