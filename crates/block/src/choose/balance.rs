//! Plans for the columns of a table that are read together, so that decoding does not outrun reading (HippogriffDB §3.2).
//!
//! The choice begins with what is cheapest to decode and takes other plans one by one, those first that save the most bytes
//! per second of decoding, as long as a scan of all columns does not get slower. HippogriffDB's own condition, that reading
//! takes at least as long as computing, implies that: then fewer bytes are less time. It is not asked for literally, since
//! it would leave the most compressible columns as they are: what a run of a million equal values takes to read is less
//! than what it takes to look at.
//!
//! Invariant: a scan of the chosen plans takes no longer, and no more bytes, than one of those that are cheapest to decode.
//! Must not know: what plans are.

use super::Cost;

/// The times of a scan over several columns.
#[derive(Clone, Copy, Default)]
struct Scan {
    read_seconds: f64,
    compute_seconds: f64,
}

impl Scan {
    /// Over these plans of all columns.
    fn of(columns: &[&[Cost]], chosen: &[usize]) -> Self {
        columns.iter().zip(chosen).fold(Self::default(), |sum, (costs, plan)| Self {
            read_seconds: sum.read_seconds + costs[*plan].read_seconds,
            compute_seconds: sum.compute_seconds + costs[*plan].compute_seconds(),
        })
    }

    fn seconds(&self) -> f64 {
        self.read_seconds.max(self.compute_seconds)
    }
}

/// The index of a plan for every column, by bytes saved per second of decoding; `columns` has the costs of the plans for
/// each. `None` where a column has none.
pub fn balance(columns: &[&[Cost]]) -> Option<Vec<usize>> {
    let mut chosen = cheapest(columns)?;
    let mut seconds = Scan::of(columns, &chosen).seconds();
    while let Some((column, plan)) = best_step(columns, &mut chosen, seconds) {
        chosen[column] = plan;
        seconds = Scan::of(columns, &chosen).seconds();
    }
    Some(chosen)
}

/// The column and plan that save the most bytes per second of decoding and leave the scan at most `seconds` long. `chosen`
/// is as before in the end.
fn best_step(columns: &[&[Cost]], chosen: &mut [usize], seconds: f64) -> Option<(usize, usize)> {
    let mut best: Option<(f64, u64, (usize, usize))> = None;
    for (column, costs) in columns.iter().enumerate() {
        let (before, current) = (chosen[column], costs[chosen[column]]);
        for (plan, cost) in costs.iter().enumerate().filter(|(_, cost)| cost.stored_bytes < current.stored_bytes) {
            let saved_bytes = current.stored_bytes - cost.stored_bytes;
            let more_seconds = cost.compute_seconds() - current.compute_seconds();
            let worth = if more_seconds > 0.0 { saved_bytes as f64 / more_seconds } else { f64::INFINITY };
            if best.is_some_and(|(most, bytes, _)| (worth, saved_bytes) <= (most, bytes)) {
                continue;
            }
            chosen[column] = plan;
            if Scan::of(columns, chosen).seconds() <= seconds {
                best = Some((worth, saved_bytes, (column, plan)));
            }
        }
        chosen[column] = before;
    }
    best.map(|(_, _, step)| step)
}

/// The paper's greedy order (GFC, Fig. 6), to compare with: for every column either what is cheapest to decode or the
/// smallest plan, which columns take in the order of the time that it decodes, while reading all takes at least as long as
/// computing. `None` where a column has no plan.
pub fn balance_gfc(columns: &[&[Cost]]) -> Option<Vec<usize>> {
    let mut chosen = cheapest(columns)?;
    let smallest = least(columns, Cost::by_bytes)?;
    let mut order: Vec<usize> = (0..columns.len()).collect();
    let decode_seconds = |column: &usize| columns[*column][smallest[*column]].decode_seconds;
    order.sort_by(|one, other| decode_seconds(one).total_cmp(&decode_seconds(other)));
    for column in order {
        let before = std::mem::replace(&mut chosen[column], smallest[column]);
        let scan = Scan::of(columns, &chosen);
        if scan.read_seconds < scan.compute_seconds {
            chosen[column] = before;
        }
    }
    Some(chosen)
}

/// What is cheapest to decode of every column, the smallest of several.
fn cheapest(columns: &[&[Cost]]) -> Option<Vec<usize>> {
    least(columns, |one, other| {
        one.compute_seconds().total_cmp(&other.compute_seconds()).then_with(|| one.by_bytes(other))
    })
}

/// The least plan of every column in an order, the first of several.
fn least(columns: &[&[Cost]], order: impl Fn(&Cost, &Cost) -> std::cmp::Ordering) -> Option<Vec<usize>> {
    let of_column =
        |costs: &&[Cost]| costs.iter().enumerate().min_by(|one, other| order(one.1, other.1)).map(|(index, _)| index);
    columns.iter().map(of_column).collect()
}
