//! The lists of a column, and a column of lists made from chosen elements.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, new_null_array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, internal_err};
use forebay_functions::function::refused;

/// The type of lists of such elements.
pub(crate) fn list_of(element: &DataType) -> DataType {
    DataType::new_list(element.clone(), true)
}

/// The type of the elements; those of NULL are NULL. `None` of what is no list.
pub(crate) fn element_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        DataType::Null => Some(data_type),
        _ => None,
    }
}

/// The lists of a column.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The elements of all lists, and others.
    pub(crate) values: ArrayRef,
    /// Where those of each list are; `None` of NULL.
    pub(crate) ranges: Vec<Option<(usize, usize)>>,
}

impl Lists {
    /// Those of a column of lists, or of NULL alone.
    pub(crate) fn of(column: &ArrayRef) -> Result<Self> {
        let column = match column.data_type() {
            DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                &cast(column, &list_of(field.data_type()))?
            }
            _ => column,
        };
        match column.data_type() {
            DataType::Null => Ok(Self { values: new_null_array(&DataType::Null, 0), ranges: vec![None; column.len()] }),
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                let ends = lists.value_offsets();
                let range = |row: usize| lists.is_valid(row).then(|| (ends[row] as usize, ends[row + 1] as usize));
                Ok(Self { values: Arc::clone(lists.values()), ranges: (0..lists.len()).map(range).collect() })
            }
            other => internal_err!("{other} is no list"),
        }
    }

    /// The elements of the lists within, `[[1], [2]]` as `[1, 2]`, as lists of a type; `None` stands for that of their elements.
    pub(crate) fn without_inner(&self, result: Option<&DataType>) -> Result<ArrayRef> {
        let inner = Self::of(&self.values)?;
        let mut chosen = Chosen::default();
        for range in &self.ranges {
            let ranges = range.iter().flat_map(|(begin, end)| &inner.ranges[*begin..*end]).flatten();
            for place in ranges.flat_map(|(begin, end)| *begin..*end) {
                chosen.push(Some(place));
            }
            chosen.end_list(range.is_some());
        }
        match result {
            Some(result) => chosen.finish(&inner.values, result),
            None => chosen.finish(&inner.values, &list_of(inner.values.data_type())),
        }
    }
}

/// Lists that are made element by element, of the places of others.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    places: Vec<Option<u64>>,
    ends: Vec<usize>,
    valid: Vec<bool>,
}

impl Chosen {
    /// Adds an element to the list at hand: the one at this place, or NULL.
    pub(crate) fn push(&mut self, place: Option<usize>) {
        self.places.push(place.map(|place| place as u64));
    }

    /// Ends the list at hand.
    pub(crate) fn end_list(&mut self, is_valid: bool) {
        self.ends.push(self.places.len());
        self.valid.push(is_valid);
    }

    /// A column of this type, whose elements are taken from `values`.
    pub(crate) fn finish(self, values: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
        let values = take(values, &UInt64Array::from(self.places), None)?;
        lists_of(values, &self.ends, self.valid, result)
    }
}

/// A column of lists of this type, whose elements lie one behind the other.
pub(crate) fn lists_of(values: ArrayRef, ends: &[usize], valid: Vec<bool>, result: &DataType) -> Result<ArrayRef> {
    let element = element_of(result).unwrap_or(&DataType::Null);
    let values = if values.data_type() == element { values } else { cast(&values, element)? };
    let mut offsets = vec![0_i32];
    for end in ends {
        let end = i32::try_from(*end);
        offsets.push(end.map_err(|_| refused("the lists have more than 2147483647 elements", "Make shorter ones"))?);
    }
    let field = Arc::new(Field::new_list_field(element.clone(), true));
    let nulls = NullBuffer::from(valid);
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, Some(nulls))?))
}
