//! What a pipeline takes: the most of some bounds, each of which is linear in the shares of its columns.
//!
//! Two models. The physical one knows that columns share one disk, that a missing chunk is read in stored bytes and kept in
//! inflated ones, that inflating is work of the same cores, and that reading and computing may hide less than all of each other; that of
//! the paper (HPCache §4.1) divides a pipeline over its columns
//! by their size and takes the slowest one. Must not know: how shares are chosen.

/// A column, all of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Column {
    /// Bytes as they lie on disk, and in memory where they are kept stored.
    pub stored_bytes: f64,
    /// Bytes of memory once inflated.
    pub inflated_bytes: f64,
}

/// What a pipeline needs of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Which one of the workload's columns.
    pub column: usize,
    /// Bytes of it as they are stored.
    pub stored_bytes: f64,
    /// The same once inflated.
    pub inflated_bytes: f64,
    /// Seconds of one core to inflate them.
    pub inflate_s: f64,
}

/// A pipeline that ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pipeline {
    /// How much it counts; more than 0.
    pub weight: f64,
    /// The columns that it reads.
    pub needs: Vec<Need>,
    /// Seconds of one core that it computes once its chunks are there and inflated.
    pub work_s: f64,
}

/// What pipelines run on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// What the disk gives.
    pub disk_bytes_per_s: f64,
    /// What memory gives.
    pub memory_bytes_per_s: f64,
    /// Threads that compute at once.
    pub cores: f64,
    /// Of the shorter one of reading and computing, the part that the longer one does not hide: 0 where they go on beside each other,
    /// 1 where each waits for the other.
    pub exposed: f64,
}

/// How times are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// One disk for all columns, stored and inflated bytes, inflating as work.
    #[default]
    Physical,
    /// Equations 1 to 3 of the paper; nothing is kept stored.
    Paper,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Physical, Self::Paper];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Paper => "paper",
        }
    }
}

/// The shares of a column that are in memory; the rest is on disk. Both are at least 0, and together at most 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shares {
    /// The inflated share.
    pub inflated: f64,
    /// The stored share.
    pub stored: f64,
}

/// The forms in which columns may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Forms {
    /// Inflated.
    pub inflated: bool,
    /// As they are stored.
    pub stored: bool,
}

impl Forms {
    /// Either of them.
    pub const BOTH: Self = Self { inflated: true, stored: true };
    /// Inflated alone.
    pub const INFLATED: Self = Self { inflated: true, stored: false };
    /// Stored alone.
    pub const STORED: Self = Self { inflated: false, stored: true };
}

impl Default for Forms {
    fn default() -> Self {
        Self::BOTH
    }
}

/// Pipelines over columns on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The columns.
    pub columns: Vec<Column>,
    /// The pipelines.
    pub pipelines: Vec<Pipeline>,
    /// The machine.
    pub machine: Machine,
    /// How times are told.
    pub model: Model,
    /// The forms in which columns may stay; with the paper's model they never stay stored.
    pub forms: Forms,
}

/// A pipeline takes no less than this: `seconds`, and for each column its shares times these.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Bound {
    pub(crate) seconds: f64,
    /// The column, seconds for all of it inflated, seconds for all of it stored.
    pub(crate) columns: Vec<(usize, f64, f64)>,
}

impl Bound {
    fn at(&self, shares: &[Shares]) -> f64 {
        let of = |(column, inflated, stored): &(usize, f64, f64)| {
            inflated * shares[*column].inflated + stored * shares[*column].stored
        };
        self.seconds + self.columns.iter().map(of).sum::<f64>()
    }
}

impl Workload {
    /// Seconds that each pipeline takes with these shares, one for each column.
    pub fn times(&self, shares: &[Shares]) -> Vec<f64> {
        let time = |pipeline| self.bounds(pipeline).iter().map(|bound| bound.at(shares)).fold(0.0, f64::max);
        self.pipelines.iter().map(time).collect()
    }

    /// The weighted sum of the pipelines' seconds.
    pub fn time(&self, shares: &[Shares]) -> f64 {
        self.pipelines.iter().zip(self.times(shares)).map(|(pipeline, time)| pipeline.weight * time).sum()
    }

    /// The share of a column that takes least time: all of it.
    pub(crate) fn all(&self) -> Shares {
        match self.forms.inflated {
            true => Shares { inflated: 1.0, stored: 0.0 },
            false => Shares { inflated: 0.0, stored: 1.0 },
        }
    }

    /// Bytes of memory that these shares take.
    pub fn memory_bytes(&self, shares: &[Shares]) -> f64 {
        let of = |(column, shares): (&Column, &Shares)| {
            column.inflated_bytes * shares.inflated + column.stored_bytes * shares.stored
        };
        self.columns.iter().zip(shares).map(of).sum()
    }

    /// What bounds a pipeline's time from below.
    pub(crate) fn bounds(&self, pipeline: &Pipeline) -> Vec<Bound> {
        match self.model {
            Model::Physical => self.physical(pipeline),
            Model::Paper => self.of_paper(pipeline),
        }
    }

    fn physical(&self, pipeline: &Pipeline) -> Vec<Bound> {
        let Machine { disk_bytes_per_s, memory_bytes_per_s, cores, exposed } = self.machine;
        let sum = |of: fn(&Need) -> f64| pipeline.needs.iter().map(of).sum::<f64>();
        let read = |need: &Need| need.stored_bytes / disk_bytes_per_s;
        let inflate = |need: &Need| need.inflate_s / cores;
        let read_s = sum(|need| need.stored_bytes) / disk_bytes_per_s;
        let work_s = (pipeline.work_s + sum(|need| need.inflate_s)) / cores;
        // What is in memory is not read, and what is inflated there is not inflated.
        let bound = |reads: f64, works: f64| Bound {
            seconds: reads * read_s + works * work_s,
            columns: pipeline
                .needs
                .iter()
                .map(|need| {
                    let not_read = reads * read(need);
                    (need.column, -not_read - works * inflate(need), -not_read)
                })
                .collect(),
        };
        let memory = Bound { seconds: sum(|need| need.inflated_bytes) / memory_bytes_per_s, columns: Vec::new() };
        vec![bound(1.0, exposed), bound(exposed, 1.0), memory]
    }

    fn of_paper(&self, pipeline: &Pipeline) -> Vec<Bound> {
        let Machine { disk_bytes_per_s, memory_bytes_per_s, cores, exposed: _ } = self.machine;
        let all_bytes: f64 = pipeline.needs.iter().map(|need| need.stored_bytes).sum();
        let of = |need: &Need| {
            let (read, scan) = (need.stored_bytes / disk_bytes_per_s, need.inflated_bytes / memory_bytes_per_s);
            let share = if all_bytes > 0.0 { need.stored_bytes / all_bytes } else { 0.0 };
            [
                Bound { seconds: read, columns: vec![(need.column, -read, 0.0)] },
                Bound { seconds: 0.0, columns: vec![(need.column, scan, 0.0)] },
                Bound { seconds: share * pipeline.work_s / cores, columns: Vec::new() },
            ]
        };
        pipeline.needs.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two columns of 1 GB that inflate to 3 GB in a second, read by one pipeline of 2 seconds, on a disk of 0.5 GB/s.
    fn workload(model: Model) -> Workload {
        let need = |column| Need { column, stored_bytes: 1e9, inflated_bytes: 3e9, inflate_s: 1.0 };
        Workload {
            columns: vec![Column { stored_bytes: 1e9, inflated_bytes: 3e9 }; 2],
            pipelines: vec![Pipeline { weight: 2.0, needs: vec![need(0), need(1)], work_s: 2.0 }],
            machine: Machine { disk_bytes_per_s: 0.5e9, memory_bytes_per_s: 10e9, cores: 2.0, exposed: 0.0 },
            model,
            forms: Forms::BOTH,
        }
    }

    fn shares(of: [(f64, f64); 2]) -> Vec<Shares> {
        of.into_iter().map(|(inflated, stored)| Shares { inflated, stored }).collect()
    }

    #[test]
    fn the_slowest_part_tells() {
        let workload = workload(Model::Physical);
        let time = |of| workload.times(&shares(of))[0];
        assert_eq!(time([(0.0, 0.0), (0.0, 0.0)]), 4.0, "both columns over one disk");
        assert_eq!(time([(0.5, 0.0), (0.0, 0.0)]), 3.0);
        assert_eq!(time([(0.0, 1.0), (0.0, 0.5)]), 2.0, "work and inflating on two cores");
        assert_eq!(time([(1.0, 0.0), (0.5, 0.5)]), 1.25);
        assert_eq!(time([(1.0, 0.0), (1.0, 0.0)]), 1.0);
        assert_eq!(workload.time(&shares([(1.0, 0.0), (1.0, 0.0)])), 2.0, "it counts twice");
        assert_eq!(workload.memory_bytes(&shares([(0.5, 0.25), (0.0, 1.0)])), 2.75e9);
    }

    #[test]
    fn what_is_not_hidden_counts() {
        let mut workload = workload(Model::Physical);
        workload.machine.exposed = 0.5;
        let time = |of| workload.times(&shares(of))[0];
        assert_eq!(time([(0.0, 0.0), (0.0, 0.0)]), 5.0, "4 s of reading, half of 2 s of work");
        assert_eq!(time([(0.0, 1.0), (0.0, 1.0)]), 2.0, "nothing is read");
        assert_eq!(time([(0.0, 1.0), (0.0, 0.5)]), 2.5, "2 s of work, half of a second of reading");
        assert_eq!(time([(1.0, 0.0), (0.5, 0.0)]), 1.75, "1.25 and half of 1");
    }

    #[test]
    fn the_paper_takes_the_slowest_column() {
        let workload = workload(Model::Paper);
        let time = |of| workload.times(&shares(of))[0];
        assert_eq!(time([(0.0, 0.0), (0.0, 0.0)]), 2.0, "each column as if it had the disk");
        assert_eq!(time([(1.0, 0.0), (0.5, 0.0)]), 1.0);
        assert_eq!(time([(1.0, 0.0), (1.0, 0.0)]), 0.5);
    }
}
