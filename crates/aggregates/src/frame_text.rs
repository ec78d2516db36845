//! What a call over a frame of its own kind asks for, as a text: it goes from the syntax tree to the plan as the first argument of
//! [`FRAMED`]. The other arguments follow in the order of [`FrameSpec::split`].

use datafusion::common::{Result, internal_datafusion_err};

/// The function that calls over such frames are written as.
pub const FRAMED: &str = "framed";

/// What a frame counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Units {
    /// Rows.
    Rows,
    /// Values of the order.
    Range,
    /// Rows that are equal by the order.
    Groups,
}

/// One end of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The end of the partition on this side.
    Unbounded,
    /// The row, or those that are equal to it.
    Current,
    /// So far before it.
    Preceding,
    /// So far behind it.
    Following,
}

impl Bound {
    /// Whether there is an argument that tells how far.
    pub fn has_distance(self) -> bool {
        matches!(self, Self::Preceding | Self::Following)
    }
}

/// Rows that a frame leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// None.
    Nothing,
    /// The row itself.
    CurrentRow,
    /// The row and those that are equal by the order.
    Group,
    /// Those that are equal to the row, but not itself.
    Ties,
}

/// The order of one key among a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyOrder {
    /// From the greatest to the least.
    pub descending: bool,
    /// NULLs stand first.
    pub nulls_first: bool,
}

/// A call over a frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FrameSpec {
    /// The function's name, in lower case.
    pub function: String,
    /// How many arguments the function itself has.
    pub arguments: usize,
    /// Equal arguments count once.
    pub is_distinct: bool,
    /// Rows whose first argument is NULL do not count.
    pub ignores_nulls: bool,
    /// There is a condition on rows.
    pub has_filter: bool,
    /// The order of the rows of a frame, if it is not the window's.
    pub orders: Vec<KeyOrder>,
    /// What the bounds count.
    pub units: Units,
    /// Where the frame begins.
    pub start: Bound,
    /// Where it ends.
    pub end: Bound,
    /// What it leaves out.
    pub exclusion: Exclusion,
    /// The window's first key goes from the greatest to the least.
    pub is_descending: bool,
}

/// A call's arguments by what they are for.
#[derive(Debug)]
pub struct Split<'a, T> {
    /// The function's own.
    pub own: &'a [T],
    /// The condition.
    pub filter: Option<&'a T>,
    /// The keys of the order among the arguments.
    pub orders: &'a [T],
    /// For ROWS and GROUPS a count, for RANGE the value of the order at which the frame begins.
    pub start: Option<&'a T>,
    /// As `start`, where it ends.
    pub end: Option<&'a T>,
    /// The keys of the window's order.
    pub keys: &'a [T],
}

impl FrameSpec {
    /// The arguments of a call, without its text. Errors: too few.
    pub fn split<'a, T>(&self, all: &'a [T]) -> Result<Split<'a, T>> {
        let missing = || internal_datafusion_err!("{} lacks arguments of its frame", self.function);
        let mut rest = all;
        let mut next = |count: usize| {
            let (these, others) = rest.split_at_checked(count).ok_or_else(missing)?;
            rest = others;
            Ok::<&'a [T], datafusion::common::DataFusionError>(these)
        };
        let own = next(self.arguments)?;
        let filter = next(usize::from(self.has_filter))?.first();
        let orders = next(self.orders.len())?;
        let start = next(usize::from(self.start.has_distance()))?.first();
        let end = next(usize::from(self.end.has_distance()))?.first();
        Ok(Split { own, filter, orders, start, end, keys: rest })
    }

    /// The text.
    pub fn to_text(&self) -> String {
        let orders = self.orders.iter().map(|order| {
            let direction = if order.descending { 'd' } else { 'a' };
            let nulls = if order.nulls_first { 'f' } else { 'l' };
            format!("{direction}{nulls}")
        });
        let flag = |is_set: bool| if is_set { "1" } else { "0" };
        let parts = [
            self.function.clone(),
            self.arguments.to_string(),
            flag(self.is_distinct).to_owned(),
            flag(self.ignores_nulls).to_owned(),
            flag(self.has_filter).to_owned(),
            orders.collect::<Vec<_>>().join(","),
            name_in(&UNITS, self.units).to_owned(),
            name_in(&BOUNDS, self.start).to_owned(),
            name_in(&BOUNDS, self.end).to_owned(),
            name_in(&EXCLUSIONS, self.exclusion).to_owned(),
            flag(self.is_descending).to_owned(),
        ];
        parts.join(" ")
    }

    /// Reads a text. `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [function, arguments, distinct, ignores, filter, orders, units, start, end, exclusion, descending] =
            parts.as_slice()
        else {
            return None;
        };
        let order = |text: &str| KeyOrder { descending: text.starts_with('d'), nulls_first: text.ends_with('f') };
        Some(Self {
            function: (*function).to_owned(),
            arguments: arguments.parse().ok()?,
            is_distinct: *distinct == "1",
            ignores_nulls: *ignores == "1",
            has_filter: *filter == "1",
            orders: orders.split(',').filter(|order| !order.is_empty()).map(order).collect(),
            units: named(&UNITS, units)?,
            start: named(&BOUNDS, start)?,
            end: named(&BOUNDS, end)?,
            exclusion: named(&EXCLUSIONS, exclusion)?,
            is_descending: *descending == "1",
        })
    }
}

const UNITS: [(&str, Units); 3] = [("rows", Units::Rows), ("range", Units::Range), ("groups", Units::Groups)];

const BOUNDS: [(&str, Bound); 4] = [
    ("unbounded", Bound::Unbounded),
    ("current", Bound::Current),
    ("preceding", Bound::Preceding),
    ("following", Bound::Following),
];

const EXCLUSIONS: [(&str, Exclusion); 4] = [
    ("nothing", Exclusion::Nothing),
    ("current", Exclusion::CurrentRow),
    ("group", Exclusion::Group),
    ("ties", Exclusion::Ties),
];

fn name_in<T: PartialEq>(names: &[(&'static str, T)], wanted: T) -> &'static str {
    names.iter().find(|(_, value)| *value == wanted).map_or("", |(name, _)| name)
}

fn named<T: Copy>(names: &[(&str, T)], wanted: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        let order = KeyOrder { descending: true, nulls_first: false };
        let spec = FrameSpec {
            function: "sum".to_owned(),
            arguments: 1,
            is_distinct: false,
            ignores_nulls: true,
            has_filter: true,
            orders: vec![order, KeyOrder { descending: false, nulls_first: true }],
            units: Units::Groups,
            start: Bound::Preceding,
            end: Bound::Unbounded,
            exclusion: Exclusion::Ties,
            is_descending: true,
        };
        assert_eq!(FrameSpec::parse(&spec.to_text()), Some(spec.clone()));
        assert_eq!(FrameSpec::parse("sum"), None);
        let split = spec.split(&[1, 2, 3, 4, 5, 6]).expect("enough");
        assert_eq!((split.own, split.filter, split.orders), (&[1][..], Some(&2), &[3, 4][..]));
        assert_eq!((split.start, split.end, split.keys), (Some(&5), None, &[6][..]));
        spec.split(&[1]).expect_err("too few");
    }
}
