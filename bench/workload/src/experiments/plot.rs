//! Line plots as SVG: axes, ticks, one line for each series.

use std::fmt::Write;

use super::figure::Series;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Around the plot: left, right, top, bottom. Names of series stand on the right.
const MARGINS: (f64, f64, f64, f64) = (70.0, 190.0, 40.0, 70.0);
const COLOURS: [&str; 8] = ["#0b6e99", "#c4460f", "#3b7d23", "#7b3fa0", "#b08900", "#555555", "#d0387a", "#1c9a8e"];
/// Width of a letter, about: names that would run into each other are written aslant.
const LETTER: f64 = 6.5;
/// Lines across.
const STEPS: usize = 5;

/// Text as XML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A step that people can read: 1, 2 or 5 times a power of ten, at most [`STEPS`] of which reach `most`.
fn readable_step(most: f64) -> f64 {
    let rough = (most / STEPS as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(rough)
}

/// `series` over their x, from 0 up.
pub(super) fn svg(title: &str, axes: (&str, &str), ticks: &[String], series: &[Series]) -> String {
    let points = || series.iter().flat_map(|(_, points)| points.iter());
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    let step = readable_step(top);
    let top = (top / step).ceil().max(1.0) * step;
    let (left, right, above, below) = MARGINS;
    let x = |value: f64| left + (value - least) / (most - least).max(f64::MIN_POSITIVE) * (WIDTH - left - right);
    let y = |value: f64| HEIGHT - below - value / top * (HEIGHT - above - below);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{left}\" y=\"20\" \
         font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let mut put = |element: std::fmt::Arguments<'_>| {
        svg.write_fmt(element).and_then(|()| svg.write_char('\n')).expect("writing to a string cannot fail");
    };
    for number in 0..=(top / step).round() as usize {
        let value = number as f64 * step;
        let (from, to, height) = (left, WIDTH - right, y(value));
        put(format_args!("<line x1=\"{from}\" x2=\"{to}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"#dddddd\"/>"));
        let text = format!("{}", (value * 1e6).round() / 1e6);
        put(format_args!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", from - 6.0, height + 4.0));
    }
    let numbers: Vec<f64> =
        series.first().map(|(_, points)| points.iter().map(|point| point.0).collect()).unwrap_or_default();
    let names: Vec<String> = (numbers.iter().enumerate())
        .map(|(number, value)| ticks.get(number).cloned().unwrap_or_else(|| value.to_string()))
        .collect();
    let room = (WIDTH - left - right) / numbers.len().max(1) as f64;
    let is_narrow = names.iter().any(|name| name.chars().count() as f64 * LETTER > room);
    for (value, name) in numbers.iter().zip(&names) {
        let (across, down) = (x(*value), HEIGHT - below + 16.0);
        let place = match is_narrow {
            true => format!("text-anchor=\"end\" transform=\"rotate(-30 {across:.1} {down})\""),
            false => "text-anchor=\"middle\"".to_owned(),
        };
        put(format_args!("<text x=\"{across:.1}\" y=\"{down}\" {place}>{}</text>", escaped(name)));
    }
    put(format_args!("<text x=\"{left}\" y=\"{}\">{}</text>", HEIGHT - 20.0, escaped(axes.0)));
    put(format_args!("<text x=\"{left}\" y=\"{}\">{}</text>", above - 6.0, escaped(axes.1)));
    for (number, (name, points)) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> = points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        for (a, b) in points {
            put(format_args!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x(*a), y(*b)));
        }
        let (across, down) = (WIDTH - right + 14.0, above + 18.0 * number as f64);
        put(format_args!("<text x=\"{across}\" y=\"{down}\" fill=\"{colour}\">{}</text>", escaped(name)));
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_readable() {
        assert_eq!(readable_step(10.0), 2.0);
        assert_eq!(readable_step(0.7), 0.2);
        assert!(readable_step(0.0) > 0.0);
    }

    #[test]
    fn every_point_is_drawn() {
        let series = [("a < b".to_owned(), vec![(0.0, 1.0), (1.0, 4.0)]), ("c".to_owned(), vec![(0.5, 2.0)])];
        let svg = svg("t", ("x", "y"), &[], &series);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn names_that_run_into_each_other_are_aslant() {
        let series = [("a".to_owned(), (0..20).map(|x| (f64::from(x), 1.0)).collect())];
        let plot = |name: &str| svg("t", ("x", "y"), &vec![name.to_owned(); 20], &series);
        assert_eq!(plot("long name").matches("rotate(-30").count(), 20);
        assert!(!plot("n").contains("rotate"));
    }
}
