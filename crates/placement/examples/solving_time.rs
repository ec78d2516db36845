//! How long the best shares take to find: 200 columns, 64 pipelines of 2 to 20 of them, ten times.
//!
//! `cargo run --release -p forebay-placement --example solving_time`

use std::time::Instant;

use forebay_placement::{Column, Forms, Machine, Model, Need, Pipeline, Workload, least_memory, least_time};

fn main() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let columns: Vec<Column> = (0..200)
        .map(|_| {
            let stored_bytes = (1 + random(1000)) as f64 * 1e6;
            Column { stored_bytes, inflated_bytes: stored_bytes * (1.0 + random(30) as f64 / 10.0) }
        })
        .collect();
    let mut pipeline = || {
        let mut needs = Vec::new();
        for _ in 0..2 + random(19) {
            let column = random(200) as usize;
            let size = columns[column];
            let inflate_s = size.inflated_bytes / 2e9;
            needs.push(Need {
                column,
                stored_bytes: size.stored_bytes,
                inflated_bytes: size.inflated_bytes,
                inflate_s,
            });
        }
        Pipeline { weight: (1 + random(10)) as f64 / 10.0, needs, work_s: random(5000) as f64 / 1000.0 }
    };
    let pipelines = (0..64).map(|_| pipeline()).collect();
    let machine = Machine { disk_bytes_per_s: 2e9, memory_bytes_per_s: 2e10, cores: 4.0, exposed: 0.0 };
    let workload = Workload { columns, pipelines, machine, model: Model::Physical, forms: Forms::BOTH };
    let all_bytes: f64 = workload.columns.iter().map(|column| column.inflated_bytes).sum();
    let mut now = Vec::new();
    for step in 1..=10 {
        let budget = all_bytes * f64::from(step) / 10.0;
        let started = Instant::now();
        let found = least_time(&workload, budget, &now);
        let elapsed = started.elapsed();
        let time = found.as_ref().map(|shares| workload.time(shares));
        println!("{:>3} % of the bytes: {elapsed:.1?}, {:.2} s", step * 10, time.unwrap_or(f64::NAN));
        now = found.unwrap_or_default();
    }
    let started = Instant::now();
    let found = least_memory(&workload, 1.1, &now);
    let bytes = found.map_or(f64::NAN, |shares| workload.memory_bytes(&shares));
    println!(
        "least memory for 1.1 times the time: {:.1?}, {:.0} % of the bytes",
        started.elapsed(),
        bytes / all_bytes * 100.0
    );
}
