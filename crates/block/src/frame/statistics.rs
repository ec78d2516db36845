//! What the choice of a scheme needs to know of a frame's integers: one pass over them.

use super::delta::LANE_ROWS;
use super::word::{Word, bit_length};

/// Facts about the integers of a frame.
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    /// Number of values, at least one.
    pub(crate) count: usize,
    /// Smallest value.
    pub(crate) low: u64,
    /// Largest value.
    pub(crate) high: u64,
    /// Runs of equal values.
    pub(crate) runs: usize,
    /// Smallest and largest signed step from a value to the next, wrapping in the values' width, and 0; not those from one
    /// lane to the next, since lanes begin anew.
    pub(crate) steps: (i64, i64),
    /// Values by the bits that their distance from the smallest needs; of many values those of a sample, scaled up.
    pub(crate) by_width: [usize; 65],
    /// Steps within lanes by the bits that their distance from the smallest step needs, counted in the same way.
    pub(crate) by_step_width: [usize; 65],
}

/// Values next to each other that are looked at for [`Statistics::by_width`]: neighbours, since columns have periods.
const SAMPLE_ROWS: usize = 64;
const _: () = assert!(SAMPLE_ROWS == LANE_ROWS, "steps are counted within lanes");
/// From one sampled run to the next where there are many values.
const SAMPLE_STEP: usize = 1024;
/// So many values are looked at one by one.
const FEW_VALUES: usize = 4096;

impl Statistics {
    /// Of `values`, which are not empty.
    pub(crate) fn of<T: Word>(values: &[T]) -> Self {
        let first = values[0];
        let (mut low, mut high) = (first, first);
        for value in values {
            low = low.min(*value);
            high = high.max(*value);
        }
        // A step is a difference of neighbours with its sign; adding half the range makes an unsigned number of it that
        // orders alike.
        let half = T::from_low_bits(1 << (T::BITS - 1));
        let (mut least, mut most) = (half, half);
        for lane in values.chunks(LANE_ROWS) {
            for (value, next) in lane.iter().zip(&lane[1..]) {
                let step = next.minus(*value).plus(half);
                least = least.min(step);
                most = most.max(step);
            }
        }
        let signed = |step: T| (step.number().wrapping_sub(half.number())) as i64;
        let steps = (signed(least), signed(most));
        let changes = values.iter().zip(&values[1..]).filter(|(value, next)| value != next).count();
        let (mut by_width, mut by_step_width) = ([0; 65], [0; 65]);
        let (step, scale) = match values.len() {
            ..=FEW_VALUES => (SAMPLE_ROWS, 1),
            _ => (SAMPLE_STEP, SAMPLE_STEP / SAMPLE_ROWS),
        };
        for sample in values.chunks(step) {
            // As long as a lane.
            let sample = &sample[..sample.len().min(SAMPLE_ROWS)];
            for value in sample {
                by_width[bit_length(value.number() - low.number()) as usize] += scale;
            }
            for (value, next) in sample.iter().zip(&sample[1..]) {
                let step = next.minus(*value).plus(half);
                by_step_width[bit_length(step.number() - least.number()) as usize] += scale;
            }
        }
        let (low, high) = (low.number(), high.number());
        Self { count: values.len(), low, high, runs: changes + 1, steps, by_width, by_step_width }
    }

    /// Bits that the largest distance from the smallest value needs.
    pub(crate) fn width(&self) -> u32 {
        bit_length(self.high - self.low)
    }
}
