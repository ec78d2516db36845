//! Values of a few bytes each that are moved, whatever they mean: in the order of row numbers, with fewer bytes where these suffice.
//!
//! Invariant: widths are 0, 1, 2, 4, 8 or 16 bytes; a width of 0 stands for zeros alone. Numbers are little-endian, so that bytes
//! that are cut off are the high ones.

/// Bytes that each of some values needs: those of the widest, without zeros in front.
pub(super) fn needed_width(values: &[u8], width: usize) -> usize {
    let all: u64 = match width {
        1 => bits_of::<1>(values),
        2 => bits_of::<2>(values),
        4 => bits_of::<4>(values),
        8 => bits_of::<8>(values),
        _ => return width,
    };
    match u64::BITS - all.leading_zeros() {
        0 => 0,
        1..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    }
}

/// Which bits some value has.
fn bits_of<const WIDTH: usize>(values: &[u8]) -> u64 {
    let word = |value: &[u8; WIDTH]| {
        let mut bytes = [0; 8];
        bytes[..WIDTH].copy_from_slice(value);
        u64::from_le_bytes(bytes)
    };
    values.as_chunks::<WIDTH>().0.iter().fold(0, |all, value| all | word(value))
}

/// Calls a function with the two widths, of which the first is the larger one, as constants.
macro_rules! with_widths {
    ($wide:expr, $narrow:expr, $function:ident($($argument:expr),*)) => {
        match ($wide, $narrow) {
            (1, 1) => $function::<1, 1>($($argument),*),
            (2, 1) => $function::<2, 1>($($argument),*),
            (2, 2) => $function::<2, 2>($($argument),*),
            (4, 1) => $function::<4, 1>($($argument),*),
            (4, 2) => $function::<4, 2>($($argument),*),
            (4, 4) => $function::<4, 4>($($argument),*),
            (8, 1) => $function::<8, 1>($($argument),*),
            (8, 2) => $function::<8, 2>($($argument),*),
            (8, 4) => $function::<8, 4>($($argument),*),
            (8, 8) => $function::<8, 8>($($argument),*),
            (16, 16) => $function::<16, 16>($($argument),*),
            (wide, narrow) => unreachable!("values of {wide} bytes are not cut to {narrow}"),
        }
    };
}

/// Writes the low `narrow` bytes of the values of these rows to `out`, which has room for as many.
pub(super) fn take(values: &[u8], (wide, narrow): (usize, usize), rows: &[u32], out: &mut [u8]) {
    if narrow > 0 {
        with_widths!(wide, narrow, take_each(values, rows, out));
    }
}

fn take_each<const WIDE: usize, const NARROW: usize>(values: &[u8], rows: &[u32], out: &mut [u8]) {
    let values = values.as_chunks::<WIDE>().0;
    for (to, row) in out.as_chunks_mut::<NARROW>().0.iter_mut().zip(rows) {
        to.copy_from_slice(&values[*row as usize][..NARROW]);
    }
}

/// Appends `rows` values of `narrow` bytes as such of `wide` bytes.
pub(super) fn widen(values: &[u8], (narrow, wide): (usize, usize), rows: usize, out: &mut Vec<u8>) {
    if narrow == wide {
        return out.extend_from_slice(values);
    }
    let start = out.len();
    out.resize(start + rows * wide, 0);
    if narrow > 0 {
        with_widths!(wide, narrow, widen_each(values, &mut out[start..]));
    }
}

fn widen_each<const WIDE: usize, const NARROW: usize>(values: &[u8], out: &mut [u8]) {
    for (to, value) in out.as_chunks_mut::<WIDE>().0.iter_mut().zip(values.as_chunks::<NARROW>().0) {
        to[..NARROW].copy_from_slice(value);
    }
}

/// Pairs of a number and a row in the order of their numbers; those with equal ones stay as they are. By the bytes that differ, from the lowest
/// on, so that it takes as long as there are of these.
pub(super) fn sort(pairs: &mut Vec<(u64, u32)>, spare: &mut Vec<(u64, u32)>) {
    let Some((first, _)) = pairs.first().copied() else { return };
    let differing = pairs.iter().fold(0, |bits, (number, _)| bits | (number ^ first));
    for shift in (0..u64::BITS).step_by(8).filter(|shift| differing >> shift & 0xff != 0) {
        let byte = |number: u64| (number >> shift & 0xff) as usize;
        let mut places = [0_usize; 256];
        pairs.iter().for_each(|(number, _)| places[byte(*number)] += 1);
        let mut start = 0;
        places.iter_mut().for_each(|place| start += std::mem::replace(place, start));
        spare.clear();
        spare.resize(pairs.len(), (0, 0));
        for pair in &*pairs {
            let place = &mut places[byte(pair.0)];
            spare[*place] = *pair;
            *place += 1;
        }
        std::mem::swap(pairs, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_what_they_are_by_fewer_bytes() {
        for (width, greatest) in
            [(1, 0), (1, 255), (2, 255), (2, 256), (4, 0), (4, 65_536), (8, 1 << 20), (8, u64::MAX)]
        {
            let numbers: Vec<u64> = (0..100).map(|row| if row == 7 { greatest } else { row.min(greatest) }).collect();
            let values: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()[..width].to_vec()).collect();
            let narrow = needed_width(&values, width);
            assert!(narrow <= width && (narrow == 8 || greatest < 1 << (8 * narrow)), "{greatest} in {narrow} bytes");
            let rows: Vec<u32> = (0..100).rev().collect();
            let mut taken = vec![0; 100 * narrow];
            take(&values, (width, narrow), &rows, &mut taken);
            let mut back = vec![9];
            widen(&taken, (narrow, width), 100, &mut back);
            let reversed: Vec<u8> = values.chunks(width).rev().flatten().copied().collect();
            assert_eq!(back[1..], reversed, "{greatest} of {width} bytes");
        }
        let wide: Vec<u8> = (0..64).collect();
        assert_eq!(needed_width(&wide, 16), 16);
    }

    #[test]
    fn pairs_are_sorted_as_by_a_stable_sort() {
        for (factor, kept) in [(1, u64::MAX), (0x9e37_79b9_7f4a_7c15, u64::MAX), (7, 0xff00_0f00), (3, 0)] {
            let mut pairs: Vec<(u64, u32)> =
                (0..3000).map(|row| ((u64::from(row) % 900).wrapping_mul(factor) & kept, row)).collect();
            let mut wanted = pairs.clone();
            wanted.sort_by_key(|(number, _)| *number);
            sort(&mut pairs, &mut Vec::new());
            assert!(pairs == wanted, "{factor} {kept}");
        }
        sort(&mut Vec::new(), &mut Vec::new());
    }
}
