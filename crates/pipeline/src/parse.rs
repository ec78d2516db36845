//! Reads the text form back: `Program::parse(&program.to_string())` is the program, but for tests on key sets, which are
//! not written out. Layout does not matter; `#` begins a comment.

use std::ops::Bound;

use forebay_base::{Result, Value};

use crate::ir::*;
use crate::names::Named;
use crate::text::{AGGREGATE_LETTER, JOIN_LETTER};
use crate::tokens::{Token, Tokens};
use crate::{ColumnPredicate, Predicate};

impl Program {
    /// Reads a program; an error says its line.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_from(text, 1)
    }

    /// As [`Program::parse`], of a text whose first line has this number.
    pub(crate) fn parse_from(text: &str, first_line: usize) -> Result<Self> {
        let tokens = &mut Tokens::new(text, first_line)?;
        tokens.expect_word("program")?;
        let dictionaries = number(tokens)?;
        tokens.expect_word("dictionaries")?;
        let mut program = Self { dictionaries, ..Self::default() };
        while tokens.accept_word("state") {
            program.states.push(state(tokens, program.states.len())?);
        }
        while tokens.accept_word("pipeline") {
            program.pipelines.push(pipeline(tokens)?);
        }
        match tokens.peek() {
            Token::End => Ok(program),
            _ => Err(tokens.unexpected("`state`, `pipeline` or the end")),
        }
    }
}

fn state(tokens: &mut Tokens, position: usize) -> Result<State> {
    let letter = match tokens.peek_at(2) {
        Token::Word(word) if word == "join" => JOIN_LETTER,
        _ => AGGREGATE_LETTER,
    };
    let name = format!("{letter}{position}");
    tokens.expect_word(&name)?;
    tokens.expect(":")?;
    if tokens.accept_word("join") {
        let keys = tokens.list("(", ")", typed)?;
        tokens.expect("->")?;
        let payload = tokens.list("(", ")", typed)?;
        let keeps_all = tokens.accept_word("keeps");
        if keeps_all {
            tokens.expect_word("all")?;
        }
        return Ok(State::Join(JoinState { keys, payload, keeps_all }));
    }
    tokens.expect_word("aggregate")?;
    let keys = tokens.list("(", ")", typed)?;
    let aggregates = tokens.list("{", "}", |tokens| {
        let function = named(tokens, "an aggregate function")?;
        let argument = if tokens.accept("(") { Some(typed(tokens)?) } else { None };
        if argument.is_some() {
            tokens.expect(")")?;
        }
        Ok(Aggregate { function, argument })
    })?;
    Ok(State::Aggregate(AggregateState { keys, aggregates }))
}

fn pipeline(tokens: &mut Tokens) -> Result<Pipeline> {
    let source = source(tokens)?;
    let mut steps = Vec::new();
    loop {
        if tokens.accept_word("filter") {
            steps.push(Step::Filter(register(tokens)?));
        } else if tokens.accept_word("probe") {
            steps.push(Step::Probe(probe(tokens)?));
        } else if matches!(tokens.peek_at(1), Token::Symbol(":")) {
            steps.push(Step::Compute(compute(tokens)?));
        } else {
            return Ok(Pipeline { source, steps, sink: sink(tokens)? });
        }
    }
}

fn source(tokens: &mut Tokens) -> Result<Source> {
    if tokens.accept_word("scan") {
        return table(tokens).map(Source::Table);
    }
    if tokens.accept_word("groups") {
        let state = state_id(tokens, AGGREGATE_LETTER)?;
        return Ok(Source::Groups { state, columns: registers(tokens)? });
    }
    if tokens.accept_word("build") {
        tokens.expect_word("rows")?;
        let state = state_id(tokens, JOIN_LETTER)?;
        let matched = tokens.accept_word("matched");
        if !matched {
            tokens.expect_word("unmatched")?;
        }
        return Ok(Source::BuildRows { state, matched, columns: registers(tokens)? });
    }
    Err(tokens.unexpected("a source: `scan`, `groups` or `build rows`"))
}

fn table(tokens: &mut Tokens) -> Result<TableSource> {
    let (table, name) = (number(tokens)?, name(tokens)?);
    let columns = tokens.list("(", ")", source_column)?;
    let mut tests = Vec::new();
    if tokens.accept_word("where") {
        loop {
            tokens.expect_word("column")?;
            tests.push(ColumnPredicate { column: number(tokens)?, test: test(tokens)? });
            if !tokens.accept(",") {
                break;
            }
        }
    }
    Ok(TableSource { table, name, columns, tests })
}

fn source_column(tokens: &mut Tokens) -> Result<SourceColumn> {
    let to = register(tokens)?;
    tokens.expect(":")?;
    let typed = typed(tokens)?;
    tokens.expect("=")?;
    tokens.expect_word("column")?;
    let (column, name) = (number(tokens)?, name(tokens)?);
    let physical = named(tokens, "a physical type")?;
    let dictionary = match tokens.accept_word("in") {
        true => Some(DictionaryId(tokens.word("a dictionary", |word| numbered(word, 'd'))?)),
        false => None,
    };
    Ok(SourceColumn { column, name, physical, typed, dictionary, to })
}

fn test(tokens: &mut Tokens) -> Result<Predicate> {
    let token = tokens.take();
    let low = match &token {
        Token::Symbol("=") => return Ok(Predicate::equal(value(tokens)?)),
        Token::Symbol("<>") => return Ok(Predicate::NotEqual(value(tokens)?)),
        Token::Symbol("<") => {
            return Ok(Predicate::Range { low: Bound::Unbounded, high: Bound::Excluded(value(tokens)?) });
        }
        Token::Symbol("<=") => {
            return Ok(Predicate::Range { low: Bound::Unbounded, high: Bound::Included(value(tokens)?) });
        }
        Token::Symbol(">") => Bound::Excluded(value(tokens)?),
        Token::Symbol(">=") => Bound::Included(value(tokens)?),
        Token::Word(word) => return named_test(tokens, word),
        _ => return Err(tokens.reject("a test")),
    };
    let mut high = Bound::Unbounded;
    if tokens.accept_word("and") {
        let is_included = tokens.accept("<=");
        if !is_included {
            tokens.expect("<")?;
        }
        let value = value(tokens)?;
        high = if is_included { Bound::Included(value) } else { Bound::Excluded(value) };
    }
    Ok(Predicate::Range { low, high })
}

fn named_test(tokens: &mut Tokens, word: &str) -> Result<Predicate> {
    Ok(match word {
        "unbounded" => Predicate::Range { low: Bound::Unbounded, high: Bound::Unbounded },
        "never" => Predicate::Never,
        "in" => Predicate::In(tokens.list("(", ")", value)?),
        "like" => like(tokens, false)?,
        "not" => {
            if tokens.accept_word("like") {
                return like(tokens, true);
            }
            tokens.expect_word("in")?;
            Predicate::NotIn(tokens.list("(", ")", value)?)
        }
        "is" => {
            let is_not = tokens.accept_word("not");
            tokens.expect_word("null")?;
            if is_not { Predicate::IsNotNull } else { Predicate::IsNull }
        }
        _ => return Err(tokens.reject("a test")),
    })
}

fn like(tokens: &mut Tokens, negated: bool) -> Result<Predicate> {
    Ok(Predicate::Like { pattern: quoted(tokens, "a pattern in quotes")?.into(), negated })
}

fn compute(tokens: &mut Tokens) -> Result<Compute> {
    let to = register(tokens)?;
    tokens.expect(":")?;
    let typed = typed(tokens)?;
    tokens.expect("=")?;
    let op = op(tokens)?;
    let fits = tokens.accept_word("fits");
    let guard = if tokens.accept_word("if") { Some(register(tokens)?) } else { None };
    Ok(Compute { to, typed, op, guard, fits })
}

fn op(tokens: &mut Tokens) -> Result<Op> {
    let word = tokens.word("an operation", |word| Some(word.to_owned()))?;
    if let Some(arithmetic) = Arithmetic::from_name(&word) {
        return pair(tokens).map(|(a, b)| Op::Arithmetic(arithmetic, a, b));
    }
    if let Some(comparison) = Comparison::from_name(&word) {
        return pair(tokens).map(|(a, b)| Op::Compare(comparison, a, b));
    }
    if let Some(part) = DatePart::from_name(&word) {
        return register(tokens).map(|value| Op::DatePart(part, value));
    }
    Ok(match word.as_str() {
        "const" => Op::Constant(constant(tokens)?),
        "neg" => Op::Negate(register(tokens)?),
        "and" => pair(tokens).map(|(a, b)| Op::And(a, b))?,
        "or" => pair(tokens).map(|(a, b)| Op::Or(a, b))?,
        "not" => Op::Not(register(tokens)?),
        "is_null" => Op::IsNull(register(tokens)?),
        "coalesce" => pair(tokens).map(|(a, b)| Op::Coalesce(a, b))?,
        "convert" => Op::Convert(register(tokens)?),
        "length" => Op::Length(register(tokens)?),
        "select" => {
            let (condition, then) = pair(tokens)?;
            tokens.expect(",")?;
            Op::Select { condition, then, otherwise: register(tokens)? }
        }
        "like" => {
            let value = register(tokens)?;
            tokens.expect(",")?;
            Op::Like { value, pattern: quoted(tokens, "a pattern in quotes")?.into() }
        }
        "in" => {
            let value = register(tokens)?;
            tokens.expect(",")?;
            Op::In { value, list: tokens.list("(", ")", constant)?.into() }
        }
        "substring" => {
            let value = register(tokens)?;
            tokens.expect(",")?;
            let start = number(tokens)?;
            let length = if tokens.accept(",") { Some(number(tokens)?) } else { None };
            Op::Substring { value, start, length }
        }
        _ => return Err(tokens.reject("an operation")),
    })
}

fn probe(tokens: &mut Tokens) -> Result<Probe> {
    let word = tokens.word("a kind of probe", |word| Some(word.to_owned()))?;
    let kind = match word.as_str() {
        "inner" => ProbeKind::Inner,
        "left" => ProbeKind::Left,
        "semi" => ProbeKind::Semi,
        "anti" => ProbeKind::Anti,
        "mark" => ProbeKind::Mark(register(tokens)?),
        _ => return Err(tokens.reject("a kind of probe")),
    };
    let (state, keys, columns, condition) = lookup(tokens)?;
    Ok(Probe { state, kind, keys, columns, condition })
}

/// What probes and [`Sink::Mark`] have in common.
type Lookup = (StateId, Vec<Register>, Vec<(usize, Register)>, Option<Condition>);

fn lookup(tokens: &mut Tokens) -> Result<Lookup> {
    let state = state_id(tokens, JOIN_LETTER)?;
    let keys = registers(tokens)?;
    tokens.expect("->")?;
    let columns = tokens.list("(", ")", |tokens| Ok((number(tokens)?, register(tokens)?)))?;
    let condition = if tokens.accept_word("when") { Some(condition(tokens)?) } else { None };
    Ok((state, keys, columns, condition))
}

fn condition(tokens: &mut Tokens) -> Result<Condition> {
    tokens.expect("{")?;
    let mut computes = Vec::new();
    while matches!(tokens.peek_at(1), Token::Symbol(":")) {
        computes.push(compute(tokens)?);
        tokens.expect(";")?;
    }
    let passes = register(tokens)?;
    tokens.expect("}")?;
    Ok(Condition { computes, passes })
}

fn sink(tokens: &mut Tokens) -> Result<Sink> {
    if tokens.accept_word("build") {
        let (state, keys) = (state_id(tokens, JOIN_LETTER)?, registers(tokens)?);
        tokens.expect("->")?;
        return Ok(Sink::Build { state, keys, payload: registers(tokens)? });
    }
    if tokens.accept_word("mark") {
        let (state, keys, columns, condition) = lookup(tokens)?;
        return Ok(Sink::Mark { state, keys, columns, condition });
    }
    if tokens.accept_word("aggregate") {
        let (state, keys) = (state_id(tokens, AGGREGATE_LETTER)?, registers(tokens)?);
        let arguments =
            tokens.list("{", "}", |tokens| if tokens.accept("-") { Ok(None) } else { register(tokens).map(Some) })?;
        return Ok(Sink::Aggregate { state, keys, arguments });
    }
    if tokens.accept_word("collect") {
        return Ok(Sink::Collect { columns: registers(tokens)? });
    }
    Err(tokens.unexpected("a step or a sink"))
}

/// Reads a constant, as operations and rows of tables have them.
pub(crate) fn constant(tokens: &mut Tokens) -> Result<Constant> {
    if matches!(tokens.peek(), Token::Quoted(_)) {
        return Ok(Constant::Bytes(quoted(tokens, "a constant")?.into()));
    }
    tokens.word("a constant", |word| match word {
        "null" => Some(Constant::Null),
        "true" => Some(Constant::Bool(true)),
        "false" => Some(Constant::Bool(false)),
        _ => {
            let integer = word.parse().ok().map(Constant::Int);
            // A number that is too long for an integer is not meant as a float.
            let is_float = word.contains(|c: char| !c.is_ascii_digit() && c != '-');
            integer.or_else(|| word.parse().ok().filter(|_| is_float).map(Constant::Float))
        }
    })
}

fn value(tokens: &mut Tokens) -> Result<Value> {
    match constant(tokens)? {
        Constant::Int(value) => Ok(Value::Int(value)),
        Constant::Float(value) => Ok(Value::Float(value)),
        Constant::Bytes(value) => Ok(Value::Bytes(value.to_vec())),
        Constant::Null | Constant::Bool(_) => Err(tokens.reject("a number or quoted bytes")),
    }
}

fn typed(tokens: &mut Tokens) -> Result<Typed> {
    let value = named(tokens, "a type")?;
    Ok(Typed { value, nullable: tokens.accept("?") })
}

fn named<T: Named>(tokens: &mut Tokens, what: &str) -> Result<T> {
    tokens.word(what, T::from_name)
}

fn number<T: std::str::FromStr>(tokens: &mut Tokens) -> Result<T> {
    tokens.word("a number", |word| word.parse().ok())
}

/// The number after the letter of a name such as `r7`.
fn numbered(word: &str, letter: char) -> Option<u32> {
    word.strip_prefix(letter)?.parse().ok()
}

fn register(tokens: &mut Tokens) -> Result<Register> {
    tokens.word("a register", |word| numbered(word, 'r')).map(Register)
}

fn registers(tokens: &mut Tokens) -> Result<Vec<Register>> {
    tokens.list("(", ")", register)
}

fn pair(tokens: &mut Tokens) -> Result<(Register, Register)> {
    let first = register(tokens)?;
    tokens.expect(",")?;
    Ok((first, register(tokens)?))
}

fn state_id(tokens: &mut Tokens, letter: char) -> Result<StateId> {
    let what = if letter == JOIN_LETTER { "a join state" } else { "an aggregate state" };
    tokens.word(what, |word| numbered(word, letter)).map(StateId)
}

fn name(tokens: &mut Tokens) -> Result<String> {
    if matches!(tokens.peek(), Token::Quoted(_)) {
        let bytes = quoted(tokens, "a name")?;
        return String::from_utf8(bytes).map_err(|_| tokens.reject("a name of UTF-8"));
    }
    tokens.word("a name", |word| Some(word.to_owned()))
}

fn quoted(tokens: &mut Tokens, what: &str) -> Result<Vec<u8>> {
    match tokens.peek() {
        Token::Quoted(bytes) => {
            let bytes = bytes.clone();
            tokens.take();
            Ok(bytes)
        }
        _ => Err(tokens.unexpected(what)),
    }
}
