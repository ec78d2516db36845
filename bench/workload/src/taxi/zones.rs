//! The 265 zones of the city: how often trips begin and end there, and where they lie.

use crate::random::{RowRandom, Stream};

/// Number of zones; their ids are 1 to this.
pub(super) const ZONE_COUNT: u16 = 265;

/// The airports of the city, and the one across the river.
pub(super) const JFK: u16 = 132;
pub(super) const LA_GUARDIA: u16 = 138;
pub(super) const NEWARK: u16 = 1;

/// Of so many trips that begin in a popular zone as its weight, one begins in each zone that is not. More end there.
const POPULAR_PICKUPS: usize = 4;

struct Popular {
    zone: u16,
    weight: usize,
    place: Place,
}

/// Hundredths of miles east and north, along the streets of Manhattan, from its southern end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    east: i64,
    north: i64,
}

impl Place {
    /// Hundredths of miles along the streets.
    pub(super) fn distance(self, other: Self) -> i64 {
        (self.east - other.east).abs() + (self.north - other.north).abs()
    }

    /// Whether it lies off Manhattan, behind a bridge or a tunnel.
    pub(super) fn is_across_water(self) -> bool {
        !(-150..=200).contains(&self.east)
    }
}

const fn popular(zone: u16, weight: usize, east: i64, north: i64) -> Popular {
    Popular { zone, weight, place: Place { east, north } }
}

/// The zones with the most trips.
const POPULAR: [Popular; 48] = [
    popular(237, 47, 60, 520),
    popular(161, 46, 20, 430),
    popular(236, 44, 80, 590),
    popular(162, 38, 60, 420),
    popular(JFK, 37, 1150, -150),
    popular(186, 35, -30, 350),
    popular(230, 33, 0, 400),
    popular(142, 32, -10, 500),
    popular(170, 31, 50, 360),
    popular(LA_GUARDIA, 30, 560, 520),
    popular(234, 30, 30, 260),
    popular(48, 29, -40, 420),
    popular(239, 28, -10, 560),
    popular(163, 28, 10, 460),
    popular(141, 26, 60, 490),
    popular(79, 24, 60, 200),
    popular(68, 24, -40, 310),
    popular(107, 22, 50, 290),
    popular(140, 22, 80, 490),
    popular(164, 21, 10, 370),
    popular(263, 21, 90, 560),
    popular(249, 20, -30, 220),
    popular(238, 19, 0, 620),
    popular(246, 18, -70, 340),
    popular(100, 17, -10, 370),
    popular(229, 17, 80, 440),
    popular(43, 16, 20, 560),
    popular(113, 14, 10, 230),
    popular(90, 14, 10, 290),
    popular(233, 13, 80, 400),
    popular(262, 13, 110, 570),
    popular(148, 12, 60, 150),
    popular(231, 12, -20, 120),
    popular(114, 12, 10, 200),
    popular(143, 11, -40, 510),
    popular(137, 10, 70, 310),
    popular(144, 9, 30, 160),
    popular(50, 9, -70, 430),
    popular(75, 9, 110, 630),
    popular(151, 9, 10, 690),
    popular(87, 8, 20, 50),
    popular(211, 8, 0, 170),
    popular(13, 8, -30, 70),
    popular(125, 7, -30, 170),
    popular(158, 7, -50, 260),
    popular(261, 6, -20, 60),
    popular(166, 6, 10, 760),
    popular(74, 6, 130, 700),
];

/// Where people are at night.
const NIGHT: [u16; 8] = [79, 148, 249, 48, 230, 68, 114, 158];

/// What trips draw their zones from.
pub(super) struct Zones {
    /// Each zone as often as trips begin there.
    pickups: Vec<u16>,
    /// Each zone as often as they end there.
    dropoffs: Vec<u16>,
    /// By zone; zone 0 is none.
    places: Vec<Place>,
}

impl Zones {
    pub(super) fn new(seed: u64) -> Self {
        let mut places: Vec<Place> = (0..=u64::from(ZONE_COUNT))
            .map(|zone| {
                let mut random = RowRandom::new(seed, Stream::TripZone, zone);
                Place { east: i64::from(random.range(-200, 1_100)), north: i64::from(random.range(-600, 1_500)) }
            })
            .collect();
        places[usize::from(NEWARK)] = Place { east: -1_300, north: 50 };
        let (mut pickups, mut dropoffs): (Vec<u16>, Vec<u16>) = (1..=ZONE_COUNT).map(|zone| (zone, zone)).unzip();
        for popular in &POPULAR {
            places[usize::from(popular.zone)] = popular.place;
            pickups.extend(std::iter::repeat_n(popular.zone, popular.weight * POPULAR_PICKUPS));
            dropoffs.extend(std::iter::repeat_n(popular.zone, popular.weight));
        }
        Self { pickups, dropoffs, places }
    }

    pub(super) fn place(&self, zone: u16) -> Place {
        self.places[usize::from(zone)]
    }

    /// Where a trip of this hour begins.
    pub(super) fn pickup(&self, random: &mut RowRandom, hour: i64) -> u16 {
        let is_night = (0..5).contains(&hour);
        if is_night && random.below(2) == 0 { random.choose(&NIGHT) } else { random.choose(&self.pickups) }
    }

    /// Where a trip ends that begins in zone `from`: of two that come to mind, the one that is closer.
    pub(super) fn dropoff(&self, random: &mut RowRandom, from: u16) -> u16 {
        let (one, other) = (random.choose(&self.dropoffs), random.choose(&self.dropoffs));
        let distance = |zone| self.place(from).distance(self.place(zone));
        if distance(one) <= distance(other) { one } else { other }
    }
}

/// Whether trips that begin here pay the fee of an airport.
pub(super) fn is_airport(zone: u16) -> bool {
    zone == JFK || zone == LA_GUARDIA
}

/// Whether trips in this zone pay for the crowded streets there.
pub(super) fn is_congested(zone: u16) -> bool {
    !is_airport(zone) && POPULAR.iter().any(|popular| popular.zone == zone && popular.place.north < 620)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_drawn_by_popularity_and_trips_are_short() {
        let zones = Zones::new(1);
        let mut counts = [0u32; ZONE_COUNT as usize + 1];
        let mut distances = Vec::new();
        for row in 0..50_000 {
            let mut random = RowRandom::new(1, Stream::Trip, row);
            let from = zones.pickup(&mut random, 12);
            let to = zones.dropoff(&mut random, from);
            counts[usize::from(from)] += 1;
            distances.push(zones.place(from).distance(zones.place(to)));
        }
        assert!(counts[237] > 1_500 && counts[237] < 3_000, "{}", counts[237]);
        assert!(counts[1..].iter().all(|&count| count > 0) && counts[0] == 0);
        distances.sort_unstable();
        let (median, late) = (distances[25_000], distances[49_000]);
        assert!((80..300).contains(&median) && late > 600, "{median} {late}");
    }
}
