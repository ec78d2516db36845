//! HippogriffDB, Figure 16, on the host: how many times longer Q1.1 takes from the drive than from memory, as the way there is
//! improved step by step.

use std::io::Write;

use forebay::Result;

use super::{
    BALANCED, BEST_RATIO, Storage, UNCOMPRESSED, cold, milliseconds, numbered, over, owned, rate, ssb, stored, warm,
};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::queries::queries;
use crate::run::machine::drop_page_cache;

/// Steps: name, whether it is nothing without the right to drop the page cache, how chunks are stored, settings.
const STEPS: [(&str, bool, Storage, [&str; 2]); 5] = [
    ("page cache", true, UNCOMPRESSED, ["SET io = buffered", "SET read_ahead = off"]),
    ("+ direct", false, UNCOMPRESSED, ["SET io = direct", "SET read_ahead = off"]),
    ("+ ahead", false, UNCOMPRESSED, ["SET io = direct", "SET read_ahead = on"]),
    ("+ balanced", false, BALANCED, ["SET io = direct", "SET read_ahead = on"]),
    ("best_ratio instead", false, BEST_RATIO, ["SET io = direct", "SET read_ahead = on"]),
];

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let query = &queries(Benchmark::Ssb, bench.options.scale_factor)[0];
    let may_drop = drop_page_cache().is_ok();
    let (mut rows, mut gaps, mut ticks) = (Vec::new(), Vec::new(), Vec::new());
    for (name, _, storage, settings) in STEPS.iter().filter(|(_, needs_right, ..)| may_drop || !needs_right) {
        let table = stored(&database, "lineorder", storage)?;
        let session = database.session();
        all(&session, settings)?;
        let sql = over(&query.sql, &table);
        let (from_drive, from_memory) = (cold(bench, &database, &session, &sql)?, warm(bench, &session, &sql)?);
        let gap = from_drive.seconds / from_memory.seconds;
        rows.push(vec![
            (*name).to_owned(),
            milliseconds(from_drive.seconds),
            rate(from_drive.effective()),
            milliseconds(from_memory.seconds),
            rate(from_memory.effective()),
            format!("{gap:.1} ×"),
        ]);
        gaps.push(gap);
        ticks.push((*name).to_owned());
    }
    Ok(Figure {
        title: format!("SSB Q1.1 from the drive and from memory, scale factor {}", bench.options.scale_factor),
        paper: "HippogriffDB, Figure 16: the GPU's kernel is 82 times as fast as the SSD at first, 38 times with direct I/O, \
                3.9 times with compression on top",
        headings: owned(["path", "cold", "effective", "warm", "effective", "gap"]),
        rows,
        axes: ("path", "cold over warm"),
        ticks,
        series: vec![("Q1.1".to_owned(), numbered(gaps))],
    })
}
