//! Byte planes: byte j of every group of `stride` bytes, next to each other. A codec that works on bytes finds the
//! regularity of the high bytes of numbers in them.

/// The allowed strides.
pub(crate) const STRIDES: [u8; 4] = [1, 2, 4, 8];

/// Splits `plain` into `stride` planes in `planes`, of the same length, a multiple of `stride`.
pub(crate) fn split(stride: u8, plain: &[u8], planes: &mut [u8]) {
    match stride {
        2 => split_planes::<2>(plain, planes),
        4 => split_planes::<4>(plain, planes),
        8 => split_planes::<8>(plain, planes),
        _ => planes.copy_from_slice(plain),
    }
}

/// Undoes [`split`].
pub(crate) fn merge(stride: u8, planes: &[u8], plain: &mut [u8]) {
    match stride {
        2 => merge_planes::<2>(planes, plain),
        4 => merge_planes::<4>(planes, plain),
        8 => merge_planes::<8>(planes, plain),
        _ => plain.copy_from_slice(planes),
    }
}

fn split_planes<const STRIDE: usize>(plain: &[u8], planes: &mut [u8]) {
    let groups = plain.as_chunks::<STRIDE>().0;
    for (j, plane) in planes.chunks_exact_mut(groups.len().max(1)).enumerate() {
        split_plane(groups, 8 * j as u32, plane);
    }
}

/// Copies the byte at `shift` bits of every group. Shifted words instead of bytes at a distance, and a shift that the
/// compiler does not know, let it use vectors.
#[inline(never)]
fn split_plane<const STRIDE: usize>(groups: &[[u8; STRIDE]], shift: u32, plane: &mut [u8]) {
    for (byte, group) in plane.iter_mut().zip(groups) {
        let mut word = [0; 8];
        word[..STRIDE].copy_from_slice(group);
        *byte = (u64::from_le_bytes(word) >> shift) as u8;
    }
}

fn merge_planes<const STRIDE: usize>(planes: &[u8], plain: &mut [u8]) {
    let groups = plain.as_chunks_mut::<STRIDE>().0;
    let count = groups.len();
    let planes: [&[u8]; STRIDE] = std::array::from_fn(|j| &planes[j * count..(j + 1) * count]);
    for (i, group) in groups.iter_mut().enumerate() {
        *group = std::array::from_fn(|j| planes[j][i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_hold_bytes_of_equal_weight() {
        let plain = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut planes = [0; 8];
        split(4, &plain, &mut planes);
        assert_eq!(planes, [1, 5, 2, 6, 3, 7, 4, 8]);
    }

    #[test]
    fn merge_undoes_split() {
        let plain: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for stride in STRIDES {
            for length in [0, 64, 128, 4096] {
                let (mut planes, mut back) = (vec![0; length], vec![0; length]);
                split(stride, &plain[..length], &mut planes);
                merge(stride, &planes, &mut back);
                assert_eq!(back, plain[..length], "stride {stride}");
            }
        }
    }
}
