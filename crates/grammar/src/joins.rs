//! Joins that the parser does not know, as joins that it does, with a mark: `POSITIONAL JOIN` as `CROSS APPLY`, which means nothing
//! else here, and `ASOF JOIN` as a join whose condition, or whose columns, begin with [`ASOF_MARK`].

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, LimitClause, Select, TableFactor, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use forebay_base::{Error, Result};

use crate::expressions::call;
use crate::words::{closes, is_word, keyword, opens, places};

/// The first column of an ASOF JOIN's USING, and the first condition of its ON.
pub const ASOF_MARK: &str = "?asof";

/// The function that inequalities of an ASOF JOIN become: whether its argument holds, and for no row that is nearer.
pub const NEAREST_CONDITION: &str = "nearest_condition";

/// The function that the condition of a POSITIONAL JOIN is: whether two rows have the same place.
pub const POSITIONAL_CONDITION: &str = "positional_condition";

/// Checks the joins of a SELECT.
///
/// # Errors
/// One that has no condition, and is no CROSS JOIN.
pub fn check(select: &Select) -> Result<()> {
    use JoinOperator::{Anti, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightOuter, Semi};
    for join in select.from.iter().flat_map(|table| &table.joins) {
        if let Join(JoinConstraint::None)
        | Inner(JoinConstraint::None)
        | Left(JoinConstraint::None)
        | LeftOuter(JoinConstraint::None)
        | Right(JoinConstraint::None)
        | RightOuter(JoinConstraint::None)
        | FullOuter(JoinConstraint::None)
        | Semi(JoinConstraint::None)
        | LeftSemi(JoinConstraint::None)
        | Anti(JoinConstraint::None)
        | LeftAnti(JoinConstraint::None) = &join.join_operator
        {
            return Err(Error::input(format!("the join with {} has no condition", join.relation))
                .hint("Write ON or USING behind it, or CROSS JOIN for all pairs of rows"));
        }
    }
    Ok(())
}

/// The tokens with marks in the place of POSITIONAL and ASOF.
pub(crate) fn marked(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    for (index, place) in places.iter().enumerate().rev() {
        let next = places.get(index + 1).map_or(Keyword::NoKeyword, |next| keyword(&tokens[*next].token));
        if is_word(&tokens[*place].token, "positional") && next == Keyword::JOIN {
            tokens[*place].token = Token::make_keyword("CROSS");
            tokens[places[index + 1]].token = Token::make_keyword("APPLY");
        } else if keyword(&tokens[*place].token) == Keyword::ASOF && is_side(next) && mark(&mut tokens, *place) {
            tokens.remove(*place);
        }
    }
    tokens
}

fn is_side(word: Keyword) -> bool {
    use Keyword::{ANTI, FULL, INNER, JOIN, LEFT, RIGHT, SEMI};
    matches!(word, JOIN | LEFT | RIGHT | FULL | INNER | SEMI | ANTI)
}

/// Marks the condition of the join that begins at `start`; false where it has none.
fn mark(tokens: &mut Vec<TokenWithSpan>, start: usize) -> bool {
    let mut depth = 0_usize;
    for place in start + 1..tokens.len() {
        let token = &tokens[place].token;
        if opens(token) {
            depth += 1;
        } else if closes(token) {
            let Some(outer) = depth.checked_sub(1) else { return false };
            depth = outer;
        }
        let span = tokens[place].span;
        let name = Token::make_word(ASOF_MARK, Some('"'));
        let put = |tokens: &mut Vec<TokenWithSpan>, at: usize, marks: [Token; 2]| {
            tokens.splice(at..at, marks.map(|token| TokenWithSpan { token, span }));
        };
        match keyword(&tokens[place].token) {
            Keyword::ON if depth == 0 => {
                put(tokens, place + 1, [name, Token::make_keyword("AND")]);
                return true;
            }
            Keyword::USING if depth == 0 => {
                let open = (place + 1..tokens.len()).find(|at| tokens[*at].token == Token::LParen);
                let Some(open) = open else { return false };
                put(tokens, open + 1, [name, Token::Comma]);
                return true;
            }
            _ => {}
        }
    }
    false
}

/// The condition of an ASOF JOIN with each inequality, of which one tells the nearest row, as a call of [`NEAREST_CONDITION`].
pub fn name_nearest(condition: &mut Expr) -> Result<()> {
    let is_mark = |part: &Expr| matches!(part, Expr::Identifier(name) if name.value == ASOF_MARK);
    let mut found = Vec::new();
    conjuncts(condition, &mut found);
    if !found.iter().any(|part| is_mark(part)) {
        return Ok(());
    }
    let is_inequality = |part: &&mut Expr| {
        matches!(
            part,
            Expr::BinaryOp {
                op: BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq,
                ..
            }
        )
    };
    let mut parts: Vec<Expr> = found.into_iter().filter(|part| !is_mark(part)).cloned().collect();
    let mut inequalities = parts.iter_mut().filter(is_inequality).peekable();
    if inequalities.peek().is_none() {
        return Err(Error::input("ASOF JOIN takes exactly one inequality, which tells the nearest row")
            .hint("Write ASOF JOIN r ON l.key = r.key AND l.time >= r.time"));
    }
    for inequality in inequalities {
        *inequality = call(NEAREST_CONDITION, vec![inequality.clone()]);
    }
    let and = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    if let Some(all) = parts.into_iter().reduce(and) {
        *condition = all;
    }
    Ok(())
}

/// The parts of a conjunction.
fn conjuncts<'a>(condition: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        Expr::Nested(inner) if matches!(**inner, Expr::BinaryOp { .. }) => conjuncts(inner, parts),
        other => parts.push(other),
    }
}

/// Has the order of a subquery mean something: the planner forgets it, unless it says which rows there are.
pub fn keep_order(table: &mut TableFactor) {
    if let TableFactor::Derived { subquery, .. } = table
        && subquery.order_by.is_some()
        && subquery.limit_clause.is_none()
        && subquery.fetch.is_none()
    {
        let all = Expr::Value(Value::Number(i64::MAX.to_string(), false).into());
        subquery.limit_clause = Some(LimitClause::LimitOffset { limit: Some(all), offset: None, limit_by: Vec::new() });
    }
}
