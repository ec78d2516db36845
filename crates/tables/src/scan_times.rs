//! What a scan cost as EXPLAIN ANALYZE tells it: a sentence, and lanes that show when.
//!
//! Must not know: where they stand in a plan.

use forebay_base::units::{format_bytes, format_count, format_seconds};
use forebay_engine::timeline::{Lanes, SourceTimeline, SourceTimes};

/// Characters of a lane.
const COLUMNS: usize = 60;

/// Shares from nothing to all, in eighths.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bytes read from disk, the time that workers waited for them and that they took to inflate them, and what else they did;
/// `None` where a scan did nothing.
pub fn sentence((read_bytes, wait_ns, inflate_ns): (u64, u64, u64), times: Option<&SourceTimes>) -> Option<String> {
    let seconds = |ns: u64| format_seconds(ns as f64 / 1e9);
    let computed = times.map(|times| times.compute_ns).filter(|ns| *ns > 0).map(seconds);
    if read_bytes == 0 {
        return computed.map(|computed| format!("read nothing from disk: workers computed for {computed}"));
    }
    let (read, waited, inflated) = (format_bytes(read_bytes), seconds(wait_ns), seconds(inflate_ns));
    let begins = format!("read {read} from disk: workers waited {waited} for it");
    Some(match computed {
        Some(computed) => format!("{begins}, inflated it in {inflated} and computed for {computed}"),
        None => format!("{begins} and inflated it in {inflated}"),
    })
}

/// Says that chunks were not read as a whole, if any were not.
pub fn in_part(chunks: u64) -> Option<String> {
    match chunks {
        0 => None,
        1 => Some("of 1 chunk only the blocks that were needed were read".to_owned()),
        _ => Some(format!("of {} chunks only the blocks that were needed were read", format_count(chunks))),
    }
}

/// The lanes of a scan over the statement's time, and below them the time; nothing where nothing was noted.
pub fn drawn(timeline: Option<&SourceTimeline>) -> Vec<String> {
    timeline.map(|timeline| draw(&timeline.lanes(COLUMNS))).unwrap_or_default()
}

fn draw(lanes: &Lanes) -> Vec<String> {
    let named = [("read", &lanes.read), ("inflate", &lanes.inflate), ("compute", &lanes.compute)];
    let named = named.into_iter().filter(|(_, shares)| !shares.is_empty());
    let mut lines: Vec<String> = named.map(|(name, shares)| format!("{name:7} {}", lane(shares))).collect();
    if !lines.is_empty() {
        lines.push(format!("        {}", axis(lanes.elapsed_ns)));
    }
    lines
}

/// A lane between bars, so that its ends are seen where nothing was done.
fn lane(shares: &[f64]) -> String {
    // Whatever was done at all is seen.
    let level = |share: &f64| LEVELS[((share * 8.0).ceil() as usize).min(8)];
    format!("▕{}▏", shares.iter().map(level).collect::<String>())
}

/// The time at the beginning, the middle and the end of the lanes.
fn axis(elapsed_ns: u64) -> String {
    let [middle, end] = [0.5, 1.0].map(|share| format_seconds(elapsed_ns as f64 * share / 1e9));
    format!(" {:<26}{middle:^8}{end:>26}", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_says_what_it_did() {
        let times = SourceTimes { compute_ns: 2_500_000, ..SourceTimes::default() };
        let all = "read 1.00 KiB from disk: workers waited 1.0 ms for it, inflated it in 20 µs and computed for 2.5 ms";
        assert_eq!(sentence((1024, 1_000_000, 20_000), Some(&times)).as_deref(), Some(all));
        let cached = "read nothing from disk: workers computed for 2.5 ms";
        assert_eq!(sentence((0, 0, 0), Some(&times)).as_deref(), Some(cached));
        assert_eq!(sentence((0, 0, 0), Some(&SourceTimes::default())), None);
        let unknown = "read 1.00 KiB from disk: workers waited 0 µs for it and inflated it in 20 µs";
        assert_eq!(sentence((1024, 0, 20_000), None).as_deref(), Some(unknown));
    }

    #[test]
    fn lanes_show_shares_and_time() {
        assert_eq!(draw(&Lanes::default()), [""; 0]);
        let mut read = vec![0.0; COLUMNS];
        (read[0], read[1], read[59]) = (0.01, 0.5, 1.0);
        let drawn = draw(&Lanes { elapsed_ns: 48_000_000, read, inflate: Vec::new(), compute: vec![1.0; COLUMNS] });
        let [read, compute, axis] = &drawn[..] else { panic!("{drawn:?}") };
        assert_eq!(*read, format!("read    ▕▁▄{}█▏", " ".repeat(57)));
        assert_eq!(*compute, format!("compute ▕{}▏", "█".repeat(60)));
        assert_eq!(*axis, format!("         0{}24.0 ms{}48.0 ms", " ".repeat(25), " ".repeat(20)));
    }
}
