//! Aggregate functions as what pipelines accumulate, and what is made of it afterwards.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction as PlanFunction;
use forebay_pipeline::ir::{Aggregate, AggregateFunction, Arithmetic, Comparison, Typed, ValueType};

use crate::carver::expression::Scope;
use crate::carver::{Carver, MostRows};
use crate::facts::{Literal, Range, ValueFacts};
use crate::number::float_of_decimal;
use crate::reason::Reason;
use crate::relation::{Aggregate as Groups, Call, Relation, count_bounds, countable, filtered};
use crate::scalar::{Node, Scalar};
use crate::types::decimal;
use forebay_pipeline::interval::Interval;

impl Carver<'_> {
    /// The scalar of an aggregate over at most `rows` rows; what it needs is added to `calls`.
    pub fn call(
        &mut self,
        expr: &Expr,
        field: &Field,
        scope: &Scope<'_>,
        rows: MostRows,
        calls: &mut Vec<Call>,
    ) -> Result<Scalar, Reason> {
        let expr = match expr {
            Expr::Alias(alias) => &*alias.expr,
            expr => expr,
        };
        let Expr::AggregateFunction(function) = expr else {
            return Err(Reason::new(format!("aggregate {}", expr.variant_name())));
        };
        let name = function.func.name();
        let refused = |what: &str| Err(Reason::new(format!("aggregate {name}{what}")));
        let params = &function.params;
        if !params.order_by.is_empty() || params.null_treatment.is_some() {
            return refused(" with ORDER BY");
        }
        if params.distinct && !matches!(name, "min" | "max" | "bool_and" | "bool_or") {
            return refused(" of DISTINCT values");
        }
        let [argument] = params.args.as_slice() else { return refused(" of several arguments") };
        let argument_type = scope.data_type(argument)?;
        let argument = self.argument(function, argument, scope)?;
        let result = field.data_type();
        match name {
            "count" if result == &DataType::Int64 => Ok(self.count(argument, field.name(), rows, calls)),
            // false is less than true.
            "min" | "max" | "bool_and" | "bool_or" if result == &argument_type => {
                let is_least = matches!(name, "min" | "bool_and");
                let function = if is_least { AggregateFunction::Min } else { AggregateFunction::Max };
                let interval = argument.facts().interval;
                Ok(self.add(function, Some(argument), interval, field.name(), calls))
            }
            "sum" => self.sum(argument, &argument_type, field, rows, calls),
            "avg" => self.average(argument, &argument_type, field, rows, calls),
            _ => refused(""),
        }
    }

    /// The argument, or NULL where the function's FILTER is not true.
    fn argument(&mut self, function: &PlanFunction, argument: &Expr, scope: &Scope<'_>) -> Result<Scalar, Reason> {
        let argument = self.expression(argument, scope)?;
        match &function.params.filter {
            None => Ok(argument),
            Some(filter) => {
                let condition = self.expression(filter, scope)?;
                let null = Scalar::null(argument.facts().value);
                Scalar::case(vec![(condition, argument)], null)
            }
        }
    }

    /// One row with the value of the only row of `relation`, which is NULL where that has none. Several rows fail, and the
    /// operator asks DataFusion, which says what is wrong.
    pub fn only_row(&mut self, relation: Relation, value: Scalar) -> Result<(Relation, Scalar), Reason> {
        let mut calls = Vec::with_capacity(2);
        let (interval, bounds) = (value.facts().interval, count_bounds(relation.most_rows(self).to_come));
        let value = self.add(AggregateFunction::Min, Some(value), interval, "value", &mut calls);
        let rows = self.add(AggregateFunction::CountRows, None, bounds, "rows", &mut calls);
        let is_several = Scalar::compare(Comparison::Greater, rows, Scalar::integer(1))?;
        let divisor = Scalar::case(vec![(is_several, Scalar::integer(0))], Scalar::integer(1))?;
        let checked = Scalar::arithmetic(Arithmetic::Divide, Range::I64, Scalar::integer(1), divisor)?;
        let is_one = Scalar::compare(Comparison::Equal, checked, Scalar::integer(1))?;
        let input = Box::new(relation);
        let aggregate = Relation::Aggregate(Groups { input, keys: Vec::new(), calls });
        Ok((filtered(aggregate, vec![is_one]), value))
    }

    /// Adds an aggregate unless it is there; gives its result.
    fn add(
        &mut self,
        function: AggregateFunction,
        argument: Option<Scalar>,
        interval: Interval,
        name: &str,
        calls: &mut Vec<Call>,
    ) -> Scalar {
        if let Some(known) = calls.iter().find(|call| call.function == function && call.argument == argument) {
            return self.scalar(known.result);
        }
        let typed = argument.as_ref().map(|argument| {
            let facts = argument.facts();
            Typed { value: facts.value, nullable: facts.nullable }
        });
        let result = Aggregate { function, argument: typed }.result();
        let facts = ValueFacts { value: result.value, nullable: result.nullable, interval };
        let result = self.result(name, facts);
        calls.push(Call { function, argument, result });
        self.scalar(result)
    }

    fn count(&mut self, argument: Scalar, name: &str, rows: MostRows, calls: &mut Vec<Call>) -> Scalar {
        let never_null = !argument.facts().nullable && !matches!(argument.as_constant(), Some(Literal::Null));
        let (function, argument) = match never_null {
            true => (AggregateFunction::CountRows, None),
            false => (AggregateFunction::Count, Some(argument)),
        };
        self.add(function, argument, count_bounds(rows.to_come), name, calls)
    }

    fn sum(
        &mut self,
        argument: Scalar,
        argument_type: &DataType,
        field: &Field,
        rows: MostRows,
        calls: &mut Vec<Call>,
    ) -> Result<Scalar, Reason> {
        match (field.data_type(), argument_type) {
            (DataType::Float64, DataType::Float64) => {
                Ok(self.add(AggregateFunction::Sum, Some(argument), Interval::I128, field.name(), calls))
            }
            (DataType::Int64, DataType::Int64) => {
                let wide = AggregateFunction::Sum;
                self.integer_sum(argument, wide, rows, field.name(), calls)
            }
            // A sum that does not fit 16 bytes fails, and the operator asks DataFusion.
            (result, argument_type) if decimal(result).is_some() && decimal(argument_type).is_some() => {
                let wide = AggregateFunction::SumWide;
                self.integer_sum(argument, wide, rows, field.name(), calls)
            }
            (result, _) => Err(Reason::new(format!("a sum of type {result}"))),
        }
    }

    /// The sum of integers, in eight bytes where any sum of the rows fits; otherwise `wide` sums what has eight bytes.
    fn integer_sum(
        &mut self,
        argument: Scalar,
        wide: AggregateFunction,
        rows: MostRows,
        name: &str,
        calls: &mut Vec<Call>,
    ) -> Result<Scalar, Reason> {
        if let Some(sum) = self.sum_of_shifted(&argument, rows, name, calls)? {
            return Ok(sum);
        }
        let bounds = argument.facts().interval;
        let (mut most, fitting) = (rows.to_come, self.fitting(&[bounds], rows));
        let function = match argument.facts().value {
            // All rows count here: this sum is not checked.
            ValueType::I64 if fitting.is_some() => {
                most = fitting.unwrap_or(most);
                AggregateFunction::SumFitting
            }
            ValueType::I64 => wide,
            ValueType::I128 => AggregateFunction::Sum,
            other => return Err(Reason::new(format!("a sum of {other:?}"))),
        };
        let limits = if function == AggregateFunction::Sum {
            ValueFacts::of(argument.facts().value, true).interval
        } else {
            Interval::I128
        };
        let interval = bounds.sum(countable(most)).map_or(limits, |sum| sum.within(limits));
        Ok(self.add(function, Some(argument), interval, name, calls))
    }

    /// Whether the sums of values in each of these bounds fit eight bytes: those of as many rows as there may come, or else those
    /// of the rows of now, to which the plan is tied then. Gives that number.
    fn fitting(&mut self, bounds: &[Interval], rows: MostRows) -> Option<i128> {
        let fit = |rows: i128| {
            bounds.iter().all(|bounds| bounds.sum(rows).is_some_and(|sum| Interval::I64.contains(sum))).then_some(rows)
        };
        fit(rows.to_come).or_else(|| fit(rows.now).inspect(|_| self.rows_are_exact = true))
    }

    /// `sum(x + 5)` as `sum(x) + 5 * count(x)` where both must fit eight bytes: sums of one column share what they add up.
    fn sum_of_shifted(
        &mut self,
        argument: &Scalar,
        rows: MostRows,
        name: &str,
        calls: &mut Vec<Call>,
    ) -> Result<Option<Scalar>, Reason> {
        let Node::Arithmetic(op @ (Arithmetic::Add | Arithmetic::Subtract), left, right) = argument.node() else {
            return Ok(None);
        };
        let (base, shift) = match (left.as_constant(), right.as_constant(), op) {
            (None, Some(Literal::Int(shift)), _) => (left, *shift),
            (Some(Literal::Int(shift)), None, Arithmetic::Add) => (right, *shift),
            _ => return Ok(None),
        };
        let is_narrow = |scalar: &Scalar| scalar.facts().value == ValueType::I64 && !scalar.fallible();
        let bounds = [base.facts().interval, argument.facts().interval, Interval::only(shift)];
        if !is_narrow(base) || !is_narrow(argument) || self.fitting(&bounds, rows).is_none() {
            return Ok(None);
        }
        let sum = self.integer_sum(base.clone(), AggregateFunction::Sum, rows, name, calls)?;
        let count = self.count(base.clone(), name, rows, calls);
        // Proven above for as many rows as there are, which is what a count's own bounds need not say.
        let shifted = Scalar::arithmetic(Arithmetic::Multiply, Range::I64, count, Scalar::integer(shift))?;
        Ok(Some(Scalar::arithmetic(*op, Range::I64, sum, shifted)?))
    }

    /// Sum over count, as a float.
    fn average(
        &mut self,
        argument: Scalar,
        argument_type: &DataType,
        field: &Field,
        rows: MostRows,
        calls: &mut Vec<Call>,
    ) -> Result<Scalar, Reason> {
        let count = self.count(argument.clone(), &format!("count for {}", field.name()), rows, calls);
        let sum_name = format!("sum for {}", field.name());
        match (field.data_type(), decimal(argument_type)) {
            (DataType::Float64, None) if argument_type == &DataType::Float64 => {
                let sum = self.add(AggregateFunction::Sum, Some(argument), Interval::I128, &sum_name, calls);
                Scalar::arithmetic(Arithmetic::Divide, Range::Float, sum, count.to_float()?)
            }
            (DataType::Float64, Some((_, scale, _))) => {
                let sum = self.integer_sum(argument, AggregateFunction::SumWide, rows, &sum_name, calls)?;
                // A group has a row at least wherever its sum is not NULL, and NULL divided by 0 is NULL.
                Scalar::arithmetic(Arithmetic::Divide, Range::Float, float_of_decimal(sum, scale)?, count.to_float()?)
            }
            (result, ..) => Err(Reason::new(format!("an average of type {result}"))),
        }
    }
}
