//! The best shares, by a linear program: a pipeline's time is a variable that is no less than each of its bounds.
//!
//! minimise Σ weight·time + ε·‖shares − shares now‖², so that nothing moves among optima that are equal, subject to
//! time ≥ every bound (see [`crate::model`]), inflated + stored ≤ 1, and Σ (inflated·bytes inflated + stored·bytes stored) ≤ budget; or
//! the other way round, the least memory for a time. Solved by an interior-point method (crate `clarabel`), whose answer is then
//! moved into the budget. Must not know: whose pipelines they are.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};

use crate::model::{Bound, Column, Forms, Model, Shares, Workload};

/// What staying counts, beside 1 for the time with nothing in memory.
const STAYING: f64 = 1e-3;

/// The shares with which the workload takes least time, in at most `budget_bytes` of memory; `now` are those of today, which stay
/// where others are no better. `None` where the solver finds none.
pub fn least_time(workload: &Workload, budget_bytes: f64, now: &[Shares]) -> Option<Vec<Shares>> {
    let mut program = Program::new(workload, now);
    if budget_bytes < 1.0 || program.forms() == 0 {
        return Some(vec![Shares::default(); workload.columns.len()]);
    }
    let scale = program.time_scale;
    let times: Vec<_> = program.weighted_times(scale).collect();
    program.cost(times);
    let memory = program.memory(budget_bytes);
    program.at_most(memory, 1.0);
    let mut shares = program.solve()?;
    // Of what the solver leaves over its precision.
    fit(workload, budget_bytes, &mut shares);
    Some(shares)
}

/// The shares that take least memory while the workload takes at most `slowdown` times as long as with all of it in memory, in the
/// fastest form that it may have.
pub fn least_memory(workload: &Workload, slowdown: f64, now: &[Shares]) -> Option<Vec<Shares>> {
    let all = vec![workload.all(); workload.columns.len()];
    let (most_time, all_bytes) = (workload.time(&all) * slowdown.max(1.0), workload.memory_bytes(&all));
    if all_bytes < 1.0 || workload.time(&vec![Shares::default(); workload.columns.len()]) <= most_time {
        return Some(vec![Shares::default(); workload.columns.len()]);
    }
    let mut program = Program::new(workload, now);
    let memory = program.memory(all_bytes);
    program.cost(memory);
    let times: Vec<_> = program.weighted_times(most_time).collect();
    program.at_most(times, 1.0);
    program.solve()
}

/// Shrinks shares until they take no more than a budget.
fn fit(workload: &Workload, budget_bytes: f64, shares: &mut [Shares]) {
    let bytes = workload.memory_bytes(shares);
    if bytes > budget_bytes {
        // A little more than is needed, for what rounding takes.
        let part = budget_bytes / bytes * (1.0 - f64::EPSILON * 8.0);
        for of in shares {
            *of = Shares { inflated: of.inflated * part, stored: of.stored * part };
        }
    }
}

/// A variable times a number, and more of them.
type Sum = Vec<(usize, f64)>;

/// Variables: the inflated shares and the stored ones, where columns may stay so, and the times as parts of what they are with
/// nothing in memory.
struct Program<'a> {
    workload: &'a Workload,
    /// Those that there are variables for.
    forms: Forms,
    /// Seconds of each pipeline with nothing in memory.
    scales: Vec<f64>,
    /// Their weighted sum.
    time_scale: f64,
    quadratic: Vec<f64>,
    linear: Vec<f64>,
    /// Sums that are at most so much.
    rows: Vec<(Sum, f64)>,
}

impl<'a> Program<'a> {
    fn new(workload: &'a Workload, now: &[Shares]) -> Self {
        let nothing = vec![Shares::default(); workload.columns.len()];
        let scales = workload.times(&nothing);
        let time_scale = workload.time(&nothing).max(f64::MIN_POSITIVE);
        let Forms { inflated, stored } = workload.forms;
        let forms = Forms { inflated, stored: stored && workload.model == Model::Physical };
        let mut program =
            Self { workload, forms, scales, time_scale, quadratic: Vec::new(), linear: Vec::new(), rows: Vec::new() };
        program.stay(now);
        program.bound_shares();
        program.bound_times();
        program
    }

    fn columns(&self) -> usize {
        self.workload.columns.len()
    }

    /// Forms that there are variables for.
    fn forms(&self) -> usize {
        usize::from(self.forms.inflated) + usize::from(self.forms.stored)
    }

    /// The variable of a column's inflated share.
    fn inflated(&self, column: usize) -> Option<usize> {
        self.forms.inflated.then_some(column)
    }

    /// The variable of a column's stored share.
    fn stored(&self, column: usize) -> Option<usize> {
        self.forms.stored.then(|| self.columns() * (self.forms() - 1) + column)
    }

    /// The variable of a pipeline's time.
    fn time(&self, pipeline: usize) -> usize {
        self.columns() * self.forms() + pipeline
    }

    /// ε·‖shares − now‖², but for a constant: half of 2ε·x², less 2ε·now·x.
    fn stay(&mut self, now: &[Shares]) {
        let variables = self.time(self.workload.pipelines.len());
        (self.quadratic, self.linear) = (vec![0.0; variables], vec![0.0; variables]);
        let epsilon = STAYING / self.columns().max(1) as f64;
        for column in 0..self.columns() {
            let now = now.get(column).copied().unwrap_or_default();
            let inflated = self.inflated(column).map(|variable| (variable, now.inflated));
            let stored = self.stored(column).map(|variable| (variable, now.stored));
            for (variable, now) in [inflated, stored].into_iter().flatten() {
                self.quadratic[variable] = 2.0 * epsilon;
                self.linear[variable] = -2.0 * epsilon * now;
            }
        }
    }

    fn at_most(&mut self, sum: Sum, most: f64) {
        self.rows.push((sum, most));
    }

    fn cost(&mut self, sum: Sum) {
        sum.into_iter().for_each(|(variable, cost)| self.linear[variable] += cost);
    }

    fn bound_shares(&mut self) {
        for column in 0..self.columns() {
            let variables: Vec<usize> = [self.inflated(column), self.stored(column)].into_iter().flatten().collect();
            for variable in &variables {
                self.at_most(vec![(*variable, -1.0)], 0.0);
            }
            self.at_most(variables.into_iter().map(|variable| (variable, 1.0)).collect(), 1.0);
        }
    }

    fn bound_times(&mut self) {
        for (number, pipeline) in self.workload.pipelines.iter().enumerate() {
            let (time, scale) = (self.time(number), self.scales[number].max(f64::MIN_POSITIVE));
            for Bound { seconds, columns } in self.workload.bounds(pipeline) {
                let mut sum = vec![(time, -1.0)];
                for (column, inflated, stored) in columns {
                    sum.extend(self.inflated(column).map(|variable| (variable, inflated / scale)));
                    sum.extend(self.stored(column).map(|variable| (variable, stored / scale)));
                }
                self.at_most(sum, -seconds / scale);
            }
        }
    }

    /// The weighted sum of times, as a part of `seconds`.
    fn weighted_times(&self, seconds: f64) -> impl Iterator<Item = (usize, f64)> {
        let weight = move |number: usize| self.workload.pipelines[number].weight * self.scales[number] / seconds;
        (0..self.workload.pipelines.len()).map(move |number| (self.time(number), weight(number)))
    }

    /// The memory that shares take, as a part of `bytes`.
    fn memory(&self, bytes: f64) -> Sum {
        let of = |(number, column): (usize, &Column)| {
            let inflated = self.inflated(number).map(|variable| (variable, column.inflated_bytes / bytes));
            let stored = self.stored(number).map(|variable| (variable, column.stored_bytes / bytes));
            [inflated, stored]
        };
        self.workload.columns.iter().enumerate().flat_map(of).flatten().collect()
    }

    fn solve(&self) -> Option<Vec<Shares>> {
        let variables = self.linear.len();
        let mut by_variable: Vec<Vec<(usize, f64)>> = vec![Vec::new(); variables];
        for (row, (sum, _)) in self.rows.iter().enumerate() {
            for (variable, factor) in sum {
                match by_variable[*variable].last_mut() {
                    // A column that a pipeline needs twice.
                    Some((last, known)) if *last == row => *known += factor,
                    _ => by_variable[*variable].push((row, *factor)),
                }
            }
        }
        let diagonal = (0..variables).map(|variable| vec![(variable, self.quadratic[variable])]).collect::<Vec<_>>();
        let matrix = |rows: usize, columns: &[Vec<(usize, f64)>]| {
            let mut starts = vec![0];
            starts.extend(columns.iter().scan(0, |end, column| {
                *end += column.len();
                Some(*end)
            }));
            let (places, values) = columns.iter().flatten().copied().unzip();
            CscMatrix::new(rows, columns.len(), starts, places, values)
        };
        let limits: Vec<f64> = self.rows.iter().map(|(_, most)| *most).collect();
        let settings = DefaultSettings { verbose: false, ..DefaultSettings::default() };
        let mut solver = DefaultSolver::new(
            &matrix(variables, &diagonal),
            &self.linear,
            &matrix(self.rows.len(), &by_variable),
            &limits,
            &[NonnegativeConeT(limits.len())],
            settings,
        );
        solver.solve();
        let is_solved = matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved);
        is_solved.then(|| (0..self.columns()).map(|column| self.shares(column, &solver.solution.x)).collect())
    }

    /// A column's shares in a solution, within what shares can be.
    fn shares(&self, column: usize, solution: &[f64]) -> Shares {
        let at = |variable: Option<usize>| variable.map_or(0.0, |variable| solution[variable]);
        let (inflated, stored) = (at(self.inflated(column)).clamp(0.0, 1.0), at(self.stored(column)));
        Shares { inflated, stored: stored.clamp(0.0, 1.0 - inflated) }
    }
}

#[cfg(test)]
mod tests;
