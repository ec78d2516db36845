//! How alike two texts are, byte by byte.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;

use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["levenshtein", "editdist3"],
        shape: count_shape,
        compute: |call| counts(call, |a, b| Ok(levenshtein(a, b))),
    },
    Definition {
        names: &["damerau_levenshtein"],
        shape: count_shape,
        compute: |call| counts(call, |a, b| Ok(damerau(a, b))),
    },
    Definition { names: &["hamming", "mismatches"], shape: count_shape, compute: |call| counts(call, hamming) },
    Definition { names: &["jaccard"], shape: share_shape, compute: |call| shares(call, jaccard) },
    Definition { names: &["jaro_similarity"], shape: from_cutoff_shape, compute: |call| from_cutoff(call, jaro) },
    Definition {
        names: &["jaro_winkler_similarity"],
        shape: from_cutoff_shape,
        compute: |call| from_cutoff(call, winkler),
    },
];

fn shape(types: &[DataType], result: DataType) -> Option<Shape> {
    let fits = types.len() == 2 && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; 2], result })
}

fn count_shape(types: &[DataType]) -> Option<Shape> {
    shape(types, DataType::Int64)
}

fn share_shape(types: &[DataType]) -> Option<Shape> {
    shape(types, DataType::Float64)
}

fn pair<'a>(call: &'a Call<'_>, row: usize) -> Option<(&'a [u8], &'a [u8])> {
    let (first, second) = (call.texts(0), call.texts(1));
    let both = first.is_valid(row) && second.is_valid(row);
    both.then(|| (first.value(row).as_bytes(), second.value(row).as_bytes()))
}

fn counts(call: &Call<'_>, count: fn(&[u8], &[u8]) -> Result<usize>) -> Result<ArrayRef> {
    call.values_of::<Int64Type>(|row| {
        Ok(pair(call, row).map(|(a, b)| count(a, b)).transpose()?.map(|count| count as i64))
    })
}

fn shares(call: &Call<'_>, share: fn(&[u8], &[u8]) -> Result<f64>) -> Result<ArrayRef> {
    call.values_of::<Float64Type>(|row| pair(call, row).map(|(a, b)| share(a, b)).transpose())
}

/// Two texts, and the least share that is not 0 instead.
fn from_cutoff_shape(types: &[DataType]) -> Option<Shape> {
    let [both @ .., cutoff] = types else { return None };
    if both.len() != 2 {
        return share_shape(types);
    }
    let mut shape = share_shape(both).filter(|_| cutoff.is_numeric() || is_text(cutoff))?;
    shape.arguments.push(DataType::Float64);
    Some(shape)
}

fn from_cutoff(call: &Call<'_>, share: fn(&[u8], &[u8]) -> f64) -> Result<ArrayRef> {
    let cutoffs = call.arguments.get(2).map(|_| call.floats(2));
    call.values_of::<Float64Type>(|row| {
        let share = pair(call, row).map(|(a, b)| share(a, b));
        Ok(match cutoffs {
            Some(cutoffs) if cutoffs.is_null(row) => None,
            Some(cutoffs) => share.map(|share| if share < cutoffs.value(row) { 0.0 } else { share }),
            None => share,
        })
    })
}

fn levenshtein(a: &[u8], b: &[u8]) -> usize {
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, left) in a.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, right) in b.iter().enumerate() {
            let replaced = last[column] + usize::from(left != right);
            next.push(replaced.min(last[column + 1] + 1).min(next[column] + 1));
        }
        last = next;
    }
    last[b.len()]
}

/// Where two neighbours may change places (Lowrance and Wagner, 1975).
fn damerau(a: &[u8], b: &[u8]) -> usize {
    let (height, width, most) = (a.len() + 2, b.len() + 2, a.len() + b.len());
    let mut distance = vec![most; height * width];
    let at = |row: usize, column: usize| row * width + column;
    for row in 0..=a.len() {
        distance[at(row + 1, 1)] = row;
    }
    for column in 0..=b.len() {
        distance[at(1, column + 1)] = column;
    }
    let mut last_row = [0; 256];
    for row in 1..=a.len() {
        let mut last_column = 0;
        for column in 1..=b.len() {
            let (from_row, from_column) = (last_row[usize::from(b[column - 1])], last_column);
            let is_equal = a[row - 1] == b[column - 1];
            if is_equal {
                last_column = column;
            }
            let replaced = distance[at(row, column)] + usize::from(!is_equal);
            let added = distance[at(row + 1, column)] + 1;
            let removed = distance[at(row, column + 1)] + 1;
            let swapped = distance[at(from_row, from_column)] + (row - from_row - 1) + 1 + (column - from_column - 1);
            distance[at(row + 1, column + 1)] = replaced.min(added).min(removed).min(swapped);
        }
        last_row[usize::from(a[row - 1])] = row;
    }
    distance[at(a.len() + 1, b.len() + 1)]
}

fn hamming(a: &[u8], b: &[u8]) -> Result<usize> {
    if a.len() != b.len() || a.is_empty() {
        return Err(refused("hamming takes two texts of the same length, which are not empty", "Use levenshtein"));
    }
    Ok(a.iter().zip(b).filter(|(left, right)| left != right).count())
}

fn jaccard(a: &[u8], b: &[u8]) -> Result<f64> {
    if a.is_empty() || b.is_empty() {
        return Err(refused("jaccard takes texts that are not empty", "Use nullif(x, '')"));
    }
    let set = |text: &[u8]| {
        let mut set = [false; 256];
        text.iter().for_each(|byte| set[usize::from(*byte)] = true);
        set
    };
    let pairs = || std::iter::zip(set(a), set(b));
    let (both, any) = (pairs().filter(|(a, b)| *a && *b).count(), pairs().filter(|(a, b)| *a || *b).count());
    Ok(both as f64 / any as f64)
}

fn jaro(a: &[u8], b: &[u8]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let (mut is_matched, mut matched) = (vec![false; b.len()], Vec::new());
    for (place, byte) in a.iter().enumerate() {
        let (from, to) = (place.saturating_sub(reach), (place + reach + 1).min(b.len()));
        if let Some(other) = (from..to).find(|other| !is_matched[*other] && b[*other] == *byte) {
            is_matched[other] = true;
            matched.push(*byte);
        }
    }
    if matched.is_empty() {
        return 0.0;
    }
    let others = b.iter().zip(&is_matched).filter(|(_, matched)| **matched).map(|(byte, _)| byte);
    let transposed = matched.iter().zip(others).filter(|(left, right)| left != right).count() / 2;
    let count = matched.len() as f64;
    (count / a.len() as f64 + count / b.len() as f64 + (count - transposed as f64) / count) / 3.0
}

/// Where what both begin with counts more.
fn winkler(a: &[u8], b: &[u8]) -> f64 {
    let share = jaro(a, b);
    let prefix = a.iter().zip(b).take(4).take_while(|(left, right)| left == right).count();
    if share > 0.7 { share + prefix as f64 * 0.1 * (1.0 - share) } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_bytes() {
        let two = |a: &'static str, b: &'static str| (a.as_bytes(), b.as_bytes());
        for ((a, b), near, swaps) in [
            (two("duck", "db"), 3, 3),
            (two("ca", "abc"), 3, 2),
            (two("ab", "ba"), 2, 1),
            (two("ä", "ö"), 1, 1),
            (two("", "abc"), 3, 3),
        ] {
            assert_eq!((levenshtein(a, b), damerau(a, b)), (near, swaps));
        }
        assert!((jaro(b"MARTHA", b"MARHTA") - 0.944_444_444).abs() < 1e-8);
        assert!((winkler(b"DIXON", b"DICKSONX") - 0.813_333_333).abs() < 1e-8);
        assert_eq!((winkler(b"", b""), jaro(b"ab", b"cd")), (0.0, 0.0));
        assert!(hamming(b"a", b"ab").is_err() && jaccard(b"", b"a").is_err());
    }
}
