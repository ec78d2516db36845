//! Walks over the syntax tree whose code exists once. The parser's own walks are generic: each visitor and each closure that is
//! handed to them compiles a walk over all of SQL anew, which takes seconds to build and hundreds of kilobytes in the program.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, ObjectName, OrderBy, Query, Select, SetExpr,
    Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// A part of the syntax tree.
pub trait Tree {
    /// Shows all parts to a visitor, until it breaks.
    fn walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// As [`Tree::walk`], for a visitor that changes what it sees.
    fn walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;
}

macro_rules! trees {
    ($($part:ty),+) => {$(
        impl Tree for $part {
            fn walk(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                Visit::visit(self, &mut Seen(visitor))
            }

            fn walk_mut(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                VisitMut::visit(self, &mut Changed(visitor))
            }
        }
    )+};
}

trees!(
    Statement,
    Query,
    SetExpr,
    Select,
    Expr,
    FunctionArguments,
    FunctionArg,
    FunctionArgExpr,
    Option<OrderBy>,
    Option<LimitClause>
);

/// The one visitor for which the parser's walk is compiled.
struct Seen<'a>(&'a mut dyn Visitor<Break = ()>);

/// As [`Seen`], for visitors that change what they see.
struct Changed<'a>(&'a mut dyn VisitorMut<Break = ()>);

macro_rules! handed_on {
    ($visitor:ident for $own:ident: $($method:ident($part:ty)),+ $(,)?) => {
        impl $visitor for $own<'_> {
            type Break = ();
            $(fn $method(&mut self, part: $part) -> ControlFlow<()> {
                self.0.$method(part)
            })+
        }
    };
}

handed_on!(Visitor for Seen:
    pre_visit_query(&Query), post_visit_query(&Query),
    pre_visit_select(&Select), post_visit_select(&Select),
    pre_visit_relation(&ObjectName), post_visit_relation(&ObjectName),
    pre_visit_table_factor(&TableFactor), post_visit_table_factor(&TableFactor),
    pre_visit_expr(&Expr), post_visit_expr(&Expr),
    pre_visit_statement(&Statement), post_visit_statement(&Statement),
    pre_visit_value(&ValueWithSpan), post_visit_value(&ValueWithSpan),
);

handed_on!(VisitorMut for Changed:
    pre_visit_query(&mut Query), post_visit_query(&mut Query),
    pre_visit_select(&mut Select), post_visit_select(&mut Select),
    pre_visit_relation(&mut ObjectName), post_visit_relation(&mut ObjectName),
    pre_visit_table_factor(&mut TableFactor), post_visit_table_factor(&mut TableFactor),
    pre_visit_expr(&mut Expr), post_visit_expr(&mut Expr),
    pre_visit_statement(&mut Statement), post_visit_statement(&mut Statement),
    pre_visit_value(&mut ValueWithSpan), post_visit_value(&mut ValueWithSpan),
);

/// Calls `work` for all expressions, each before its parts, until it breaks.
pub fn visit_expressions<E>(tree: &dyn Tree, mut work: impl FnMut(&Expr) -> ControlFlow<E>) -> ControlFlow<E> {
    broken(|end| tree.walk(&mut Expressions(&mut |expr| ended(work(expr), end))))
}

/// Whether some expression, or a part of one, is like this.
pub fn any_expression(tree: &dyn Tree, is_like: impl Fn(&Expr) -> bool) -> bool {
    let work = |expr: &Expr| if is_like(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    visit_expressions(tree, work).is_break()
}

/// Calls `work` for all expressions, each behind its parts, until it breaks.
pub fn visit_expressions_mut<E>(
    tree: &mut dyn Tree,
    mut work: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    broken(|end| tree.walk_mut(&mut ExpressionsMut(&mut |expr| ended(work(expr), end))))
}

/// Calls `work` for all names of relations, until it breaks.
pub fn visit_relations<E>(tree: &dyn Tree, mut work: impl FnMut(&ObjectName) -> ControlFlow<E>) -> ControlFlow<E> {
    broken(|end| tree.walk(&mut Relations(&mut |name| ended(work(name), end))))
}

/// What a walk ends with that keeps what it breaks with.
fn broken<E>(walk: impl FnOnce(&mut Option<E>) -> ControlFlow<()>) -> ControlFlow<E> {
    let mut end = None;
    let _ = walk(&mut end);
    end.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

fn ended<E>(flow: ControlFlow<E>, end: &mut Option<E>) -> ControlFlow<()> {
    flow.map_break(|broken| *end = Some(broken))
}

struct Expressions<'a>(&'a mut dyn FnMut(&Expr) -> ControlFlow<()>);

impl Visitor for Expressions<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        (self.0)(expr)
    }
}

struct ExpressionsMut<'a>(&'a mut dyn FnMut(&mut Expr) -> ControlFlow<()>);

impl VisitorMut for ExpressionsMut<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr)
    }
}

struct Relations<'a>(&'a mut dyn FnMut(&ObjectName) -> ControlFlow<()>);

impl Visitor for Relations<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        (self.0)(name)
    }
}
