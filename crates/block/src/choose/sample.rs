//! Which row groups are looked at before a plan is chosen for all (GOLAP §3.4: random chunks).
//!
//! Invariant: the same numbers give the same sample.

/// The indexes of `percent` of `groups` row groups, rounded up, at least one where there are any: ascending, at random by
/// `seed`.
pub fn sample(groups: usize, percent: u32, seed: u64) -> Vec<usize> {
    let count = (groups as u128 * u128::from(percent.min(100))).div_ceil(100) as usize;
    let mut wanted = count.max(1).min(groups);
    let mut chosen = Vec::with_capacity(wanted);
    let mut state = seed;
    // Knuth's selection sampling: each index with the chance that its part of the rest has.
    for index in 0..groups {
        let left = (groups - index) as u64;
        if next(&mut state) % left < wanted as u64 {
            chosen.push(index);
            wanted -= 1;
        }
    }
    chosen
}

/// The next number of a sequence that looks random (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_percentage_and_repeat() {
        for groups in [0, 1, 2, 19, 100, 1001] {
            for percent in [0, 1, 5, 10, 50, 100, 200] {
                for seed in 0..20 {
                    let chosen = sample(groups, percent, seed);
                    let wanted = (groups * percent.min(100) as usize).div_ceil(100).max(1).min(groups);
                    assert_eq!(chosen.len(), wanted, "{percent} % of {groups}");
                    assert!(chosen.is_sorted_by(|one, next| one < next) && chosen.iter().all(|index| *index < groups));
                    assert_eq!(chosen, sample(groups, percent, seed));
                }
            }
        }
    }

    #[test]
    fn every_group_is_chosen_about_as_often() {
        let mut times = [0; 40];
        for seed in 0..4000 {
            sample(40, 10, seed).into_iter().for_each(|index| times[index] += 1);
        }
        assert!(times.iter().all(|times| (300..500).contains(times)), "{times:?}");
    }
}
