//! How fast frames are decoded and decoded bytes are scanned, by one core.
//!
//! Invariants: rates are powers of 2^(1/4), so that two measurements on one machine mostly give the same table, and the same
//! plans. Must not know: clocks; who measures brings the times.

use crate::frame::Scheme;

/// What was measured: so many plain bytes in so many seconds of one core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Bytes in memory.
    pub plain_bytes: u64,
    /// Seconds, above 0.
    pub seconds: f64,
}

/// Bytes per second and core that every scheme decodes to, and that a scan looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// In the order of [`Scheme::ALL`].
    schemes: [f64; Scheme::ALL.len()],
    scan: f64,
}

/// Megabytes per second of one core of a server with AVX-512 and portable loops, checksums and checks of the blocks
/// included, as `examples/rates.rs` measured them.
fn fixed_mb_per_s(scheme: Scheme) -> f64 {
    match scheme {
        Scheme::Plain => 6000.0,
        Scheme::Lz4 => 1800.0,
        Scheme::Zstd => 1100.0,
        Scheme::Snappy => 1500.0,
        Scheme::Deflate => 1100.0,
        Scheme::BitPacked => 6000.0,
        // Faster only where it has fewer bits to unpack: both decode what is packed in the same bits alike.
        Scheme::Patched => 6000.0,
        Scheme::Delta => 3600.0,
        // Of runs and of what are none: long ones decode three times as fast.
        Scheme::RunLength => 3000.0,
        Scheme::Rans => 640.0,
        Scheme::Fsst => 1800.0,
        Scheme::Alp => 3000.0,
    }
}

/// The same for a scan: a comparison of codes in memory with a constant.
const FIXED_SCAN_MB_PER_S: f64 = 24_000.0;

impl Rates {
    /// Those of a common machine, for who has measured nothing.
    pub fn fixed() -> Self {
        Self {
            schemes: Scheme::ALL.map(|scheme| quantised(fixed_mb_per_s(scheme) * 1e6)),
            scan: quantised(FIXED_SCAN_MB_PER_S * 1e6),
        }
    }

    /// Those that were measured, and the fixed ones in place of others. Several timings of a scheme count together.
    pub fn measured(schemes: &[(Scheme, Timing)], scan: Option<Timing>) -> Self {
        let mut rates = Self::fixed();
        for (rate, scheme) in rates.schemes.iter_mut().zip(Scheme::ALL) {
            let timings = schemes.iter().filter(|(timed, _)| *timed == scheme);
            let sum = timings.fold(Timing { plain_bytes: 0, seconds: 0.0 }, |sum, (_, timing)| Timing {
                plain_bytes: sum.plain_bytes + timing.plain_bytes,
                seconds: sum.seconds + timing.seconds,
            });
            *rate = sum.rate().unwrap_or(*rate);
        }
        rates.scan = scan.and_then(|scan| scan.rate()).unwrap_or(rates.scan);
        rates
    }

    /// The same, with a rate that was measured of one scheme, quantised.
    pub fn with(mut self, scheme: Scheme, bytes_per_s: f64) -> Self {
        self.schemes[scheme.index()] = quantised(bytes_per_s);
        self
    }

    /// Bytes per second and core that frames of this scheme decode to.
    pub fn of(&self, scheme: Scheme) -> f64 {
        self.schemes[scheme.index()]
    }

    /// Bytes per second and core of decoded blocks that a scan looks at.
    pub fn scan(&self) -> f64 {
        self.scan
    }
}

impl Timing {
    /// Bytes per second, quantised; `None` where nothing was measured.
    pub fn rate(&self) -> Option<f64> {
        let rate = self.plain_bytes as f64 / self.seconds;
        (rate.is_finite() && rate > 0.0).then(|| quantised(rate))
    }
}

/// Powers of 2^(1/4) between 1 and 2.
const QUARTERS: [f64; 5] = [1.0, 1.189_207_115_002_721, std::f64::consts::SQRT_2, 1.681_792_830_507_429, 2.0];

/// The geometric means of each and the next.
const MIDDLES: [f64; 4] =
    [1.090_507_732_665_257_7, 1.296_839_554_651_009_6, 1.542_210_825_407_940_7, 1.834_008_086_409_342_4];

/// The power of 2^(1/4) that is next to a rate, at least 1. By bits and a table, which are the same on every machine.
fn quantised(rate: f64) -> f64 {
    const FRACTION_BITS: u32 = 52;
    let bits = rate.max(1.0).to_bits();
    let power = f64::from_bits(bits >> FRACTION_BITS << FRACTION_BITS);
    let fraction = rate.max(1.0) / power;
    power * QUARTERS[MIDDLES.iter().filter(|middle| fraction >= **middle).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_powers_of_the_fourth_root_of_two() {
        for quarter in 0..160 {
            let exact = (f64::from(quarter) / 4.0).exp2();
            for near in [exact, exact * 1.09, exact / 1.09] {
                assert!((quantised(near) / exact - 1.0).abs() < 1e-12, "{near}: {}", quantised(near));
            }
        }
        assert_eq!([0.0, -1.0, f64::NAN, 0.5].map(quantised), [1.0; 4]);
    }

    #[test]
    fn measured_rates_replace_fixed_ones() {
        let timing = |plain_bytes, seconds| Timing { plain_bytes, seconds };
        let timings = [
            (Scheme::Lz4, timing(3 << 30, 1.0)),
            (Scheme::Lz4, timing(1 << 30, 3.0)),
            (Scheme::Zstd, timing(1 << 30, 0.0)),
            (Scheme::Delta, timing(0, 1.0)),
        ];
        let rates = Rates::measured(&timings, Some(timing(1 << 33, 1.02)));
        assert_eq!(rates.of(Scheme::Lz4), f64::from(1 << 30));
        assert_eq!(rates.scan(), 8.0 * f64::from(1 << 30));
        // Nothing was measured of these.
        for scheme in [Scheme::Zstd, Scheme::Delta, Scheme::Rans] {
            assert_eq!(rates.of(scheme), Rates::fixed().of(scheme));
        }
        assert_eq!(Rates::measured(&[], None), Rates::fixed());
    }
}
