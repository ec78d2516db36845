//! Aggregates of floats that are all there.

/// Their mean.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Their sum, with what each addition lost.
pub(super) fn kahan_sum(values: &[f64]) -> Option<f64> {
    let (mut sum, mut lost) = (0.0, 0.0);
    for value in values {
        let term = value - lost;
        let next = sum + term;
        (lost, sum) = ((next - sum) - term, next);
    }
    (!values.is_empty()).then_some(sum)
}

/// The value at this share of them in their order, between two where there is none.
pub(super) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (values.len().checked_sub(1)? as f64) * share.clamp(0.0, 1.0);
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(if below == above { below } else { below + (above - below) * place.fract() })
}

/// The median of the distances from the median.
pub(super) fn absolute_deviation(values: &[f64]) -> Option<f64> {
    let median = quantile(values, 0.5)?;
    quantile(&values.iter().map(|value| (value - median).abs()).collect::<Vec<_>>(), 0.5)
}

/// The variance, of so many fewer degrees of freedom, by Welford's recurrence.
pub(super) fn variance(values: &[f64], fewer: usize) -> Option<f64> {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let distance = value - mean;
        mean += distance / (index + 1) as f64;
        squares += distance * (value - mean);
    }
    (values.len() > fewer).then(|| if values.len() == 1 { 0.0 } else { squares / (values.len() - fewer) as f64 })
}

/// Sums of the first four powers.
fn powers(values: &[f64]) -> [f64; 4] {
    values.iter().fold([0.0; 4], |sums, value| {
        [sums[0] + value, sums[1] + value.powf(2.0), sums[2] + value.powf(3.0), sums[3] + value.powf(4.0)]
    })
}

/// How far they lean to one side.
pub(super) fn skewness(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if n <= 2.0 {
        return None;
    }
    let [sum, squares, cubes, _] = powers(values);
    let share = 1.0 / n;
    let spread = (share * (squares - sum * sum * share)).powf(3.0).max(0.0);
    if spread == 0.0 {
        return Some(f64::NAN);
    }
    let factor = (n * (n - 1.0)).sqrt() / (n - 2.0);
    Some(factor * share * (cubes - 3.0 * squares * sum * share + 2.0 * sum.powf(3.0) * share * share) / spread.sqrt())
}

fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let share = 1.0 / values.len() as f64;
    let [sum, squares, cubes, fourths] = powers(values);
    let second = share * (squares - sum * sum * share);
    let fourth = share
        * (fourths - 4.0 * cubes * sum * share + 6.0 * squares * sum * sum * share * share
            - 3.0 * sum.powf(4.0) * share.powf(3.0));
    (second > 0.0).then_some((second, fourth))
}

/// How heavy their ends are, of a sample.
pub(super) fn kurtosis(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let (second, fourth) = if n > 3.0 { moments(values)? } else { return None };
    Some((n - 1.0) * ((n + 1.0) * fourth / (second * second) - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0)))
}

/// How heavy their ends are, of all there are.
pub(super) fn kurtosis_pop(values: &[f64]) -> Option<f64> {
    let (second, fourth) = if values.len() > 1 { moments(values)? } else { return None };
    Some(fourth / (second * second) - 3.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!((quantile(&[4.0, 1.0, 2.0], 0.5), quantile(&[1.0, 2.0], 0.5)), (Some(2.0), Some(1.5)));
        assert_eq!((quantile(&[], 0.5), absolute_deviation(&[1.0, 2.0, 9.0])), (None, Some(1.0)));
    }

    #[test]
    fn variances_of_one_value() {
        assert_eq!((variance(&[3.0], 0), variance(&[3.0], 1), variance(&[1.0, 2.0], 1)), (Some(0.0), None, Some(0.5)));
    }
}
