//! Named windows, written out where they are used: `OVER w`, and `OVER (w …)`, which adds to `w` what it lacks. The planner
//! knows the first alone, reads the second as if `w` were not there, and loses windows that are named by others. And ORDER BY
//! among a function's arguments, `string_agg(s, ',' ORDER BY s) OVER (PARTITION BY g)`, which it does not know at all; and EXCLUDE,
//! which the parser does not know: it is a text among the keys of PARTITION BY until the frame is looked at.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, NamedWindowDefinition,
    NamedWindowExpr, Select, Value, ValueWithSpan, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};
use forebay_base::{Error, ErrorKind, Result};

/// Window functions without arguments, in whose parentheses an order may stand; the parser is given a NULL before it.
pub const WITHOUT_ARGUMENTS: [&str; 5] = ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist"];

/// What EXCLUDE may name, and the texts that stand for it in PARTITION BY.
pub const EXCLUSIONS: [(&str, &str); 3] =
    [("current row", "exclude current row"), ("group", "exclude group"), ("ties", "exclude ties")];

/// Takes out of a window what its frame leaves out.
pub fn take_exclusion(window: &mut WindowSpec) -> Option<&'static str> {
    let place = window.partition_by.iter().position(|key| exclusion(key).is_some())?;
    exclusion(&window.partition_by.remove(place))
}

/// What EXCLUDE names, where this is the text for it.
fn exclusion(key: &Expr) -> Option<&'static str> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = key else { return None };
    EXCLUSIONS.iter().find(|(_, known)| known == text).map(|(name, _)| *name)
}

/// The text of an expression with EXCLUDE where it was written.
pub fn as_written(mut text: String) -> String {
    for (name, known) in EXCLUSIONS {
        let key = format!("PARTITION BY '{known}'");
        while let Some(place) = text.find(&key) {
            let rest = &text[place + key.len()..];
            let rest = rest
                .strip_prefix(", ")
                .map_or_else(|| rest.trim_start().to_owned(), |keys| format!("PARTITION BY {keys}"));
            let mut depth = 0_i32;
            let end = rest.char_indices().find(|(_, letter)| {
                depth += match letter {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                depth < 0
            });
            let end = end.map_or(rest.len(), |(end, _)| end);
            text = format!("{}{} EXCLUDE {}{}", &text[..place], &rest[..end], name.to_uppercase(), &rest[end..]);
        }
    }
    text
}

/// The windows that the SELECTs around a place name, the innermost SELECT last.
#[derive(Debug, Default)]
pub struct Windows(Vec<Vec<(String, WindowSpec)>>);

impl Windows {
    /// Takes the definitions out of a SELECT whose expressions come next. Errors: a name that is defined twice, or that a
    /// definition refers to before it is there; a definition that changes what it refers to.
    pub fn enter(&mut self, select: &mut Select) -> Result<()> {
        self.0.push(Vec::new());
        for NamedWindowDefinition(name, definition) in std::mem::take(&mut select.named_window) {
            let spec = match definition {
                NamedWindowExpr::NamedWindow(other) => self.find(&other)?.clone(),
                NamedWindowExpr::WindowSpec(spec) => self.complete(spec)?,
            };
            let key = key(&name);
            let windows = self.0.last_mut().ok_or_else(|| Error::internal("no SELECT was entered"))?;
            if windows.iter().any(|(other, _)| *other == key) {
                return Err(Error::input(format!("window {name} is defined twice")));
            }
            windows.push((key, spec));
        }
        Ok(())
    }

    /// Leaves the SELECT that was entered last.
    pub fn leave(&mut self) {
        self.0.pop();
    }

    /// Writes out the window of a call. Errors: as [`Windows::enter`].
    pub fn write_out(&self, window: &mut WindowType) -> Result<()> {
        match window {
            WindowType::NamedWindow(name) => *window = WindowType::WindowSpec(self.find(name)?.clone()),
            WindowType::WindowSpec(spec) if spec.window_name.is_some() => *spec = self.complete(spec.clone())?,
            WindowType::WindowSpec(_) => {}
        }
        Ok(())
    }

    fn find(&self, name: &Ident) -> Result<&WindowSpec> {
        let wanted = key(name);
        let found = self.0.last().and_then(|windows| windows.iter().find(|(other, _)| *other == wanted));
        let missing = || Error::new(ErrorKind::NotFound, format!("window {name} does not exist"));
        found.map(|(_, spec)| spec).ok_or_else(missing)
    }

    /// `spec` with what the window that it names has.
    fn complete(&self, mut spec: WindowSpec) -> Result<WindowSpec> {
        let Some(name) = spec.window_name.take() else { return Ok(spec) };
        let base = self.find(&name)?;
        let twice = |clause: &str| {
            Err(Error::input(format!("window {name} has {clause} already"))
                .hint(format!("Write the whole window, or leave out {clause}")))
        };
        if base.window_frame.is_some() {
            return Err(Error::input(format!("window {name} has a frame, so that nothing can be added to it"))
                .hint(format!("Write OVER {name} without parentheses, or the whole window")));
        }
        if !base.partition_by.is_empty() {
            if spec.partition_by.iter().any(|key| exclusion(key).is_none()) {
                return twice("PARTITION BY");
            }
            spec.partition_by.extend_from_slice(&base.partition_by);
        }
        if !base.order_by.is_empty() {
            if !spec.order_by.is_empty() {
                return twice("ORDER BY");
            }
            spec.order_by.clone_from(&base.order_by);
        }
        Ok(spec)
    }
}

/// Aggregates that add up the rows of an order one after the other, which those of a window do not.
const ADDED_UP: [&str; 3] = ["avg", "mean", "sum"];

/// Moves the order of a call's arguments to its window, where that has neither an order nor a frame: the rows of the whole
/// partition, in that order.
pub fn move_order(function: &mut Function) {
    let Function { over: Some(WindowType::WindowSpec(window)), args: FunctionArguments::List(list), .. } = function
    else {
        return;
    };
    let FunctionArgumentList { clauses, duplicate_treatment: None, .. } = list else { return };
    let name = function.name.to_string().to_lowercase();
    if !window.order_by.is_empty() || window.window_frame.is_some() || ADDED_UP.contains(&name.as_str()) {
        return;
    }
    let is_order = |clause: &mut FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    for clause in clauses.extract_if(.., is_order) {
        if let FunctionArgumentClause::OrderBy(keys) = clause {
            window.order_by.extend(keys);
        }
    }
    if !window.order_by.is_empty() {
        if WITHOUT_ARGUMENTS.contains(&name.as_str()) {
            list.args.clear();
        }
        window.window_frame = Some(WindowFrame {
            units: WindowFrameUnits::Rows,
            start_bound: WindowFrameBound::Preceding(None),
            end_bound: Some(WindowFrameBound::Following(None)),
        });
    }
}

/// A name as others find it.
fn key(name: &Ident) -> String {
    name.value.to_lowercase()
}
