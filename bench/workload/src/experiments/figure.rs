//! What an experiment gives: a table for people, points for plots and programs.

use serde_json::{Value, json};

use super::plot;
use crate::report::Columns;

/// Points of one name.
pub(crate) type Series = (String, Vec<(f64, f64)>);

/// The result of an experiment.
pub(crate) struct Figure {
    /// What was measured, and on what.
    pub(crate) title: String,
    /// What the paper shows, and where.
    pub(crate) paper: &'static str,
    /// Of the table; the first column names rows.
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// What the axes of the plot are.
    pub(crate) axes: (&'static str, &'static str),
    /// Names of x = 0, 1, 2, … where they are no numbers.
    pub(crate) ticks: Vec<String>,
    pub(crate) series: Vec<Series>,
}

impl Figure {
    /// The table under its title.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            let cells = std::iter::once(&self.headings).chain(&self.rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let columns = Columns::new(&(0..self.headings.len()).map(width).collect::<Vec<_>>());
        let row = |cells: &Vec<String>| columns.row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
        let mut lines = vec![String::new(), self.title.clone(), String::new(), row(&self.headings), columns.rule()];
        lines.extend(self.rows.iter().map(row));
        lines.extend([String::new(), format!("Paper: {}", self.paper)]);
        lines.join("\n")
    }

    pub(crate) fn json(&self) -> Value {
        let series = self.series.iter().map(|(name, points)| json!({ "name": name, "points": points }));
        json!({
            "title": self.title,
            "paper": self.paper,
            "headings": self.headings,
            "rows": self.rows,
            "x": self.axes.0,
            "y": self.axes.1,
            "ticks": self.ticks,
            "series": series.collect::<Vec<_>>(),
        })
    }

    pub(crate) fn svg(&self) -> String {
        plot::svg(&self.title, self.axes, &self.ticks, &self.series)
    }
}
