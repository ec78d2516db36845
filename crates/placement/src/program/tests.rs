//! The program beside trying out all shares of a grid.

use super::*;
use crate::model::{Machine, Need, Pipeline};

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn workload(&mut self, columns: usize, pipelines: usize, (model, forms): (Model, Forms)) -> Workload {
        let columns: Vec<Column> = (0..columns)
            .map(|_| {
                let stored_bytes = (1 + self.next(1000)) as f64 * 1e6;
                Column { stored_bytes, inflated_bytes: stored_bytes * (1.0 + self.next(40) as f64 / 10.0) }
            })
            .collect();
        let mut pipeline = || {
            let mut needs = Vec::new();
            for (column, size) in columns.iter().enumerate() {
                if self.next(3) > 0 {
                    let part = (1 + self.next(4)) as f64 / 4.0;
                    let inflated_bytes = size.inflated_bytes * part;
                    let inflate_s = inflated_bytes / ((1 + self.next(40)) as f64 * 1e8);
                    needs.push(Need { column, stored_bytes: size.stored_bytes * part, inflated_bytes, inflate_s });
                }
            }
            Pipeline { weight: (1 + self.next(10)) as f64 / 10.0, needs, work_s: self.next(2000) as f64 / 1000.0 }
        };
        let pipelines = (0..pipelines).map(|_| pipeline()).collect();
        let disk_bytes_per_s = (2 + self.next(60)) as f64 * 1e8;
        let machine = Machine {
            disk_bytes_per_s,
            memory_bytes_per_s: 2e10,
            cores: (1 + self.next(8)) as f64,
            exposed: self.next(3) as f64 / 4.0,
        };
        Workload { columns, pipelines, machine, model, forms }
    }
}

/// What programs differ by.
const KINDS: [(Model, Forms); 4] = [
    (Model::Physical, Forms::BOTH),
    (Model::Paper, Forms::BOTH),
    (Model::Physical, Forms::INFLATED),
    (Model::Physical, Forms::STORED),
];

/// All shares of a grid that a workload may have.
fn grid(workload: &Workload, steps: usize) -> Vec<Vec<Shares>> {
    let mut all = vec![Vec::new()];
    let most_inflated = if workload.forms.inflated { steps } else { 0 };
    let may_be_stored = workload.forms.stored && workload.model == Model::Physical;
    for _ in &workload.columns {
        let mut longer = Vec::new();
        for shares in &all {
            for inflated in 0..=most_inflated {
                let stored = if may_be_stored { steps - inflated } else { 0 };
                for stored in 0..=stored {
                    let [inflated, stored] = [inflated, stored].map(|step| step as f64 / steps as f64);
                    longer.push([&shares[..], &[Shares { inflated, stored }]].concat());
                }
            }
        }
        all = longer;
    }
    all
}

fn check_shares(shares: &[Shares]) {
    for of in shares {
        assert!(of.inflated >= 0.0 && of.stored >= 0.0 && of.inflated + of.stored <= 1.0 + 1e-12, "{of:?}");
    }
}

#[test]
fn no_shares_of_a_grid_take_less_time() {
    for seed in 1..=300_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kind = KINDS[seed as usize % KINDS.len()];
        let (columns, pipelines) = (1 + random.next(3) as usize, 1 + random.next(4) as usize);
        let workload = random.workload(columns, pipelines, kind);
        let all_bytes: f64 = workload.columns.iter().map(|column| column.inflated_bytes).sum();
        let budget = all_bytes * random.next(110) as f64 / 100.0;
        let shares = least_time(&workload, budget, &[]).expect("it has a solution");
        check_shares(&shares);
        assert!(workload.memory_bytes(&shares) <= budget, "seed {seed}");
        let least = grid(&workload, 6)
            .into_iter()
            .filter(|shares| workload.memory_bytes(shares) <= budget)
            .map(|shares| workload.time(&shares))
            .fold(f64::INFINITY, f64::min);
        let nothing = workload.time(&vec![Shares::default(); columns]);
        let time = workload.time(&shares);
        assert!(time <= least + nothing * 1.5e-3, "seed {seed}: {time} is more than {least}");
    }
}

#[test]
fn no_shares_of_a_grid_take_less_memory() {
    for seed in 1..=300_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let kind = KINDS[seed as usize % KINDS.len()];
        let (columns, pipelines) = (1 + random.next(3) as usize, 1 + random.next(4) as usize);
        let workload = random.workload(columns, pipelines, kind);
        let all = vec![workload.all(); columns];
        let slowdown = 1.0 + random.next(20) as f64 / 10.0;
        let most = workload.time(&all) * slowdown;
        let shares = least_memory(&workload, slowdown, &[]).expect("it has a solution");
        check_shares(&shares);
        assert!(workload.time(&shares) <= most * 1.0001, "seed {seed}: {} of {most}", workload.time(&shares));
        let least = grid(&workload, 6)
            .into_iter()
            .filter(|shares| workload.time(shares) <= most)
            .map(|shares| workload.memory_bytes(&shares))
            .fold(f64::INFINITY, f64::min);
        let bytes = workload.memory_bytes(&shares);
        assert!(bytes <= least + workload.memory_bytes(&all) * 1.5e-3, "seed {seed}: {bytes} is more than {least}");
    }
}

/// Whatever moves is paid for by time: among optima that are equal, those of today stay; and a small change of what was measured
/// moves nothing that is not worth it.
#[test]
fn nothing_moves_for_nothing() {
    for seed in 1..=200_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut workload = random.workload(8, 6, (Model::Physical, Forms::BOTH));
        let all_bytes: f64 = workload.columns.iter().map(|column| column.inflated_bytes).sum();
        let budget = all_bytes * 0.4;
        let mut now = least_time(&workload, budget, &[]).expect("it has a solution");
        for step in 0..6 {
            if step == 3 {
                workload.pipelines.iter_mut().for_each(|pipeline| pipeline.work_s *= 1.001);
            }
            let next = least_time(&workload, budget, &now).expect("it has a solution");
            let square = |a: f64, b: f64| (a - b) * (a - b);
            let moved = now.iter().zip(&next).map(|(a, b)| square(a.inflated, b.inflated) + square(a.stored, b.stored));
            let nothing = workload.time(&vec![Shares::default(); workload.columns.len()]);
            let gain = (workload.time(&now) - workload.time(&next)) / nothing;
            let cost = moved.sum::<f64>() * STAYING / workload.columns.len() as f64;
            assert!(cost <= gain + 1e-6, "seed {seed}, step {step}: {cost} was paid for {gain}");
            now = next;
        }
    }
}

#[test]
fn nothing_to_do_is_done() {
    let machine = Machine { disk_bytes_per_s: 1e9, memory_bytes_per_s: 1e10, cores: 2.0, exposed: 0.0 };
    let (model, forms) = (Model::Physical, Forms::BOTH);
    let empty = Workload { columns: Vec::new(), pipelines: Vec::new(), machine, model, forms };
    assert_eq!(least_time(&empty, 0.0, &[]), Some(Vec::new()));
    assert_eq!(least_memory(&empty, 1.1, &[]), Some(Vec::new()));
    let column = Column { stored_bytes: 1e9, inflated_bytes: 2e9 };
    let need = Need { column: 0, stored_bytes: 1e9, inflated_bytes: 2e9, inflate_s: 0.0 };
    let one = |work_s| Workload {
        columns: vec![column],
        pipelines: vec![Pipeline { weight: 1.0, needs: vec![need], work_s }],
        ..empty.clone()
    };
    assert_eq!(least_time(&one(1.0), 0.0, &[]), Some(vec![Shares::default()]));
    // It computes for longer than it reads.
    let bound = least_time(&one(10.0), 1e9, &[]).expect("it has a solution");
    assert!(bound[0].inflated < 1e-3 && bound[0].stored < 1e-3, "{bound:?}");
    // Inflating costs nothing: memory is the limit, which four fifths of it stored reach.
    let fast = least_time(&one(0.0), 1e9, &[]).expect("it has a solution");
    assert!((one(0.0).time(&fast) - 0.2).abs() < 1e-3, "{fast:?}");
    // The disk takes 1 s, computing 0.6 s: two fifths in memory are enough for it, in their smaller form.
    let least = least_memory(&one(1.2), 1.0, &[]).expect("it has a solution");
    assert!((least[0].stored + least[0].inflated - 0.4).abs() < 1e-3 && least[0].inflated < 1e-2, "{least:?}");
    // The paper has no stored form, and here may be no other one.
    let none = Workload { model: Model::Paper, forms: Forms::STORED, ..one(0.0) };
    assert_eq!(least_time(&none, 1e9, &[]), Some(vec![Shares::default()]));
    assert_eq!(least_memory(&none, 1.0, &[]), Some(vec![Shares::default()]), "nothing is any faster");
}
