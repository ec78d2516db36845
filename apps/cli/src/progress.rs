//! A progress bar with the time left, on stderr, for work that takes longer than a second.
//!
//! Invariants: drawn only on a terminal; whatever was drawn is gone when the [`Ticker`] is dropped. Must not know: what the
//! work is.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::terminal;

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

const BAR_COLUMNS: usize = 30;

/// Draws in a thread of its own until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    // Dropped first: the thread ends when its channel closes.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Draws what `look` reports: activity and fraction done. Draws nothing where stderr is no terminal.
    pub(crate) fn start(look: impl Fn() -> Option<(String, f64)> + Send + 'static) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { stop: None, thread: None };
        }
        let (stop, stopped) = channel();
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut pause = PATIENCE;
            let mut drawn = false;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = REDRAW;
                let Some((activity, fraction)) = look() else { continue };
                let columns = terminal::size().map_or(80, |(width, _)| width);
                draw(&bar(&activity, fraction, began.elapsed(), columns.saturating_sub(1)));
                drawn = true;
            }
            if drawn {
                draw("");
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to clean up.
            let _ = thread.join();
        }
    }
}

/// Replaces the current line; a terminal that cannot be written to shows no bar.
fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
}

/// `loading lineorder ██████░░░░ 43 % · 12 s left`, at most `columns` wide.
fn bar(activity: &str, fraction: f64, elapsed: Duration, columns: usize) -> String {
    let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
    let filled = (fraction * BAR_COLUMNS as f64).round() as usize;
    let mut text = format!("{}{} {:.0} %", "█".repeat(filled), "░".repeat(BAR_COLUMNS - filled), fraction * 100.0);
    // An estimate from less than a percent of the work is noise.
    if (0.01..1.0).contains(&fraction) {
        let left = elapsed.as_secs_f64() * (1.0 - fraction) / fraction;
        text.push_str(&format!(" · {} left", duration(left)));
    }
    if !activity.is_empty() {
        text = format!("{activity} {text}");
    }
    terminal::truncate(&text, columns)
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_tells_activity_share_and_time_left() {
        let text = bar("loading lineorder", 0.25, Duration::from_secs(30), 100);
        assert_eq!(text, "loading lineorder ████████░░░░░░░░░░░░░░░░░░░░░░ 25 % · 1 min 30 s left");
        assert_eq!(bar("", f64::NAN, Duration::ZERO, 10), "░░░░░░░░░…");
        assert!(!bar("", 1.5, Duration::from_secs(1), 100).contains("left"));
        assert_eq!(duration(7260.0), "2 h 01 min");
    }
}
