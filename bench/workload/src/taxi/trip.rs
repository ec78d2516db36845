//! One trip: what its columns hold, as integers.

use super::calendar::Turn;
use super::zones::{JFK, NEWARK, Zones, is_airport, is_congested};
use crate::random::RowRandom;

/// The first months with a surcharge for crowded streets, and with a fee of airports; it is NULL before.
const FIRST_CONGESTION_MONTH: usize = 13;
const FIRST_AIRPORT_FEE_MONTH: usize = 39;

/// The months in which streets were empty.
const QUIET_MONTHS: std::ops::Range<usize> = 26..36;

/// Rows come at most so many seconds after their turn.
const LATENESS_SECONDS: u64 = 1_200;

const SECONDS_OF_HOUR: i64 = 3_600;
const SECONDS_OF_DAY: i64 = 86_400;

/// Speeds by hour, in hundredths of a mile per hour.
const SPEEDS: [i64; 24] = [
    1500, 1550, 1600, 1700, 1850, 1900, 1550, 1150, 950, 930, 930, 920, 910, 910, 880, 860, 900, 890, 930, 1020, 1120,
    1180, 1250, 1370,
];

/// A trip. Times are seconds since 1970-01-01, distances hundredths of miles, amounts cents.
#[derive(Debug, Clone)]
pub(super) struct Trip {
    pub(super) vendor: i32,
    pub(super) pickup: i64,
    pub(super) dropoff: i64,
    pub(super) passengers: Option<i64>,
    pub(super) distance: i64,
    pub(super) rate_code: Option<i64>,
    pub(super) is_stored_first: Option<bool>,
    pub(super) pickup_zone: i32,
    pub(super) dropoff_zone: i32,
    pub(super) payment_type: i64,
    pub(super) amounts: Amounts,
}

/// What a trip costs.
#[derive(Debug, Clone, Default)]
pub(super) struct Amounts {
    pub(super) fare: i64,
    pub(super) extra: i64,
    pub(super) tax: i64,
    pub(super) tip: i64,
    pub(super) tolls: i64,
    pub(super) improvement: i64,
    pub(super) total: i64,
    pub(super) congestion: Option<i64>,
    pub(super) airport: Option<i64>,
}

/// What is wrong with a few rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Oddity {
    None,
    /// The clock was years behind.
    PickupYearsAgo,
    AbsurdDistance,
    AbsurdFare,
    /// The trip ended a day later.
    MeterLeftOn,
    NoDistance,
    NoDuration,
    EndsBeforeItBegins,
}

/// How a trip went, before anything is recorded of it.
struct Course {
    turn: Turn,
    vendor: i32,
    pickup: i64,
    duration: i64,
    distance: i64,
    from: u16,
    to: u16,
    is_across_water: bool,
    rate_code: i64,
    payment_type: i64,
}

impl Trip {
    /// The trip at this turn, of these random numbers.
    pub(super) fn new(mut random: RowRandom, turn: Turn, zones: &Zones) -> Self {
        let oddity = Oddity::draw(&mut random);
        let course = Course::draw(&mut random, turn, zones);
        let mut amounts = course.amounts(&mut random);
        let (mut pickup, mut distance, mut duration) = (course.pickup, course.distance, course.duration);
        match oddity {
            Oddity::None => {}
            Oddity::PickupYearsAgo => pickup -= i64::from(random.range(3_300, 6_200)) * SECONDS_OF_DAY,
            Oddity::AbsurdDistance => distance = i64::from(random.range(1_000_000, 35_000_000)),
            Oddity::AbsurdFare => amounts.charge(i64::from(random.range(100_000, 70_000_000))),
            Oddity::MeterLeftOn => duration = SECONDS_OF_DAY - random.below(SECONDS_OF_HOUR as u64) as i64,
            Oddity::NoDistance => distance = 0,
            Oddity::NoDuration => duration = 0,
            Oddity::EndsBeforeItBegins => duration = -i64::from(random.range(1, 4_000)),
        }
        let recorded = |value: i64| (!turn.is_incomplete).then_some(value);
        Self {
            vendor: course.vendor,
            pickup,
            dropoff: pickup + duration,
            passengers: recorded(passengers(&mut random, course.vendor)),
            distance,
            rate_code: recorded(course.rate_code),
            is_stored_first: (!turn.is_incomplete).then(|| course.vendor == 1 && random.below(80) == 0),
            pickup_zone: i32::from(course.from),
            dropoff_zone: i32::from(course.to),
            payment_type: course.payment_type,
            amounts,
        }
    }
}

impl Oddity {
    fn draw(random: &mut RowRandom) -> Self {
        match random.below(1_000_000) {
            0..4 => Self::PickupYearsAgo,
            4..8 => Self::AbsurdDistance,
            8..11 => Self::AbsurdFare,
            11..2_800 => Self::MeterLeftOn,
            2_800..8_000 => Self::NoDistance,
            8_000..8_700 => Self::NoDuration,
            8_700..8_720 => Self::EndsBeforeItBegins,
            _ => Self::None,
        }
    }
}

impl Course {
    fn draw(random: &mut RowRandom, turn: Turn, zones: &Zones) -> Self {
        let pickup = turn.second + random.below(LATENESS_SECONDS) as i64;
        let hour = hour_of(pickup);
        let vendor = match random.below(1_000) {
            0..3 if turn.month < 24 => 4,
            0..60 if turn.is_incomplete => 6,
            0..340 => 1,
            _ => 2,
        };
        let from = zones.pickup(random, hour);
        let to = zones.dropoff(random, from);
        let (start, end) = (zones.place(from), zones.place(to));
        let detour = i64::from(random.range(88, 130));
        let distance = start.distance(end) * detour / 100 + i64::from(random.range(20, 75));
        let mut speed = SPEEDS[hour as usize] + (distance / 2).min(1_500);
        if !is_workday(pickup) {
            speed = speed * 115 / 100;
        }
        if QUIET_MONTHS.contains(&turn.month) {
            speed = speed * 125 / 100;
        }
        speed = speed * i64::from(random.range(72, 132)) / 100;
        let duration = distance * SECONDS_OF_HOUR / speed + i64::from(random.range(30, 150));
        let rate_code = match random.below(100_000) {
            0..600 => 5,
            600..700 => 4,
            700..704 => 6,
            704..720 => 99,
            _ if to == NEWARK => 3,
            _ if (from == JFK && is_congested(to)) || (to == JFK && is_congested(from)) => 2,
            _ => 1,
        };
        // Fewer and fewer people pay cash.
        let cash_per_mille = 285 - turn.month as u64 * 2;
        let payment_type = match random.below(1_000) {
            _ if turn.is_incomplete => 0,
            share if share < cash_per_mille => 2,
            share if share < cash_per_mille + 6 => 3,
            share if share < cash_per_mille + 9 => 4,
            _ => 1,
        };
        let is_across_water = start.is_across_water() != end.is_across_water();
        Self { turn, vendor, pickup, duration, distance, from, to, is_across_water, rate_code, payment_type }
    }

    /// What the trip costs: round amounts, and the tip.
    fn amounts(&self, random: &mut RowRandom) -> Amounts {
        let month = self.turn.month;
        let congestion = if is_congested(self.from) || is_congested(self.to) { 250 } else { 0 };
        let airport = if is_airport(self.from) { 125 } else { 0 };
        let mut amounts = Amounts {
            fare: self.fare(random),
            extra: self.extra(),
            tax: if matches!(self.rate_code, 1 | 2) { 50 } else { 0 },
            improvement: if month == 59 { 100 } else { 30 },
            congestion: (month >= FIRST_CONGESTION_MONTH).then_some(congestion),
            airport: (month >= FIRST_AIRPORT_FEE_MONTH).then_some(airport),
            ..Amounts::default()
        };
        if self.is_across_water && random.below(10) < 6 {
            amounts.tolls = match month {
                0..15 => 576,
                15..39 => 612,
                _ => 655,
            };
        }
        if matches!(self.payment_type, 0 | 1) {
            amounts.tip = tip(random, amounts.fare + amounts.extra + amounts.tax + amounts.congestion.unwrap_or(0));
        }
        // What is refunded stands there with a minus.
        if matches!(self.payment_type, 3 | 4) && random.below(10) < 4 {
            amounts.refund();
        }
        amounts.sum_up();
        if self.turn.is_incomplete {
            // They are part of the total, and not recorded.
            (amounts.congestion, amounts.airport) = (None, None);
        }
        amounts
    }

    fn fare(&self, random: &mut RowRandom) -> i64 {
        let slow_minutes = (self.duration - self.distance * SECONDS_OF_HOUR / 1_200).max(0) / 60;
        let metered = 250 + 50 * (self.distance / 20 + slow_minutes);
        if self.turn.is_incomplete {
            return metered + i64::from(random.range(0, 799));
        }
        match self.rate_code {
            2 => 5_200,
            3 => metered + 1_750,
            5 => 100 * i64::from(random.range(10, 120)),
            _ => metered,
        }
    }

    fn extra(&self) -> i64 {
        let hour = hour_of(self.pickup);
        let by_hour = match hour {
            _ if self.rate_code == 5 || self.turn.is_incomplete => 0,
            16..20 if is_workday(self.pickup) => 100,
            20..24 | 0..6 => 50,
            _ => 0,
        };
        // This vendor's meters add the surcharge here, too.
        let is_doubled = self.vendor == 1 && self.turn.month >= FIRST_CONGESTION_MONTH && is_congested(self.from);
        by_hour + if is_doubled { 250 } else { 0 }
    }
}

impl Amounts {
    fn refund(&mut self) {
        for amount in [&mut self.fare, &mut self.extra, &mut self.tax, &mut self.tolls, &mut self.improvement] {
            *amount = -*amount;
        }
        self.congestion = self.congestion.map(|amount| -amount);
        self.airport = self.airport.map(|amount| -amount);
    }

    fn sum_up(&mut self) {
        let recorded = self.congestion.unwrap_or(0) + self.airport.unwrap_or(0);
        self.total = self.fare + self.extra + self.tax + self.tip + self.tolls + self.improvement + recorded;
    }

    /// Another fare.
    fn charge(&mut self, fare: i64) {
        self.total += fare - self.fare;
        self.fare = fare;
    }
}

/// What is given for a trip of this price: a share that the terminal offers, whole dollars, or nothing.
fn tip(random: &mut RowRandom, price: i64) -> i64 {
    match random.below(100) {
        0..5 => 0,
        5..50 => price * 20 / 100,
        50..64 => price * 25 / 100,
        64..72 => price * 30 / 100,
        _ => 100 * random.choose(&[1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 10]),
    }
}

/// One most often; this many only in vans, which one vendor has, and none where the other's drivers forget to say.
fn passengers(random: &mut RowRandom, vendor: i32) -> i64 {
    match random.below(1_000) {
        0..720 => 1,
        720..865 => 2,
        865..905 => 3,
        905..925 => 4,
        925..970 if vendor == 2 => 5,
        970..999 if vendor == 2 => 6,
        925..965 if vendor == 1 => 0,
        999 if vendor == 2 => i64::from(random.range(7, 9)),
        _ => 1,
    }
}

fn hour_of(second: i64) -> i64 {
    second.rem_euclid(SECONDS_OF_DAY) / SECONDS_OF_HOUR
}

/// 1970-01-01 was a Thursday.
fn is_workday(second: i64) -> bool {
    (second.div_euclid(SECONDS_OF_DAY) + 3).rem_euclid(7) < 5
}
