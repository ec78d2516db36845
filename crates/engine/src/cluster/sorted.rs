//! The way of sorted rows into blocks.
//!
//! Invariant: what does not fill a block stays for the rows that come behind, so that parts leave no short blocks.

use std::sync::Arc;

use forebay_base::{Error, PhysicalType, Result, canonical_f32, canonical_f64, limits};
use forebay_block::{PlainColumn, PlainValues};
use forebay_cpu::dictionary::Strings;
use forebay_pipeline::ir::SourceColumn;

use super::carried::{Carried, ColumnRows, Rows};
use super::moved;
use super::parts::{Part, PartsFile, Piece};
use crate::Loader;

/// The texts that ids stand for.
pub(crate) struct Dictionaries(Vec<Arc<Strings>>);

/// One worker's way.
pub(crate) struct SortedLoad<'s> {
    loader: Loader,
    columns: &'s [SourceColumn],
    /// By dictionary, all texts.
    texts: Vec<Vec<&'s [u8]>>,
    rows: Rows,
    /// Memory that is used over and over.
    pairs: Vec<(u64, u32)>,
    spare: Vec<(u64, u32)>,
    order: Vec<u32>,
    block: Block,
}

/// The values of a column in a block.
#[derive(Default)]
struct Block {
    values: Vec<u8>,
    validity: Vec<u8>,
    bitmap: Vec<u8>,
}

impl Dictionaries {
    /// As they are when all rows have been seen.
    pub(crate) fn of(carried: &Carried) -> Self {
        Self(carried.dictionaries.iter().map(|dictionary| dictionary.snapshot()).collect())
    }
}

impl<'s> SortedLoad<'s> {
    pub(crate) fn new(loader: Loader, carried: &'s Carried, dictionaries: &'s Dictionaries) -> Self {
        let all = |strings: &'s Arc<Strings>| (0..strings.len() as u32).map(|id| strings.get(id)).collect();
        Self {
            loader,
            columns: &carried.source.columns,
            texts: dictionaries.0.iter().map(all).collect(),
            rows: carried.no_rows(),
            pairs: Vec::new(),
            spare: Vec::new(),
            order: Vec::new(),
            block: Block::default(),
        }
    }

    /// Takes in a part, whose rows come behind all before. One with a single number may have any number of rows: of it `most` bytes, about, are
    /// in memory at a time.
    pub(super) fn add(&mut self, part: &Part, file: &PartsFile, most: u64) -> Result<()> {
        let mut rest: &[Piece] = &part.pieces;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |piece: &&Piece| {
                let before = bytes;
                bytes += piece.bytes();
                before < most
            };
            let count = if part.has_one_number() { rest.iter().take_while(fits).count() } else { rest.len() };
            let (now, later) = rest.split_at(count);
            file.read(now, &mut self.rows)?;
            self.sort();
            self.load_blocks(false)?;
            rest = later;
        }
        Ok(())
    }

    /// Takes in these of some rows with the same columns, as they lie, behind all before.
    pub(crate) fn add_rows(&mut self, rows: &Rows, taken: &[u32]) -> Result<()> {
        self.rows.append(rows, taken);
        if self.rows.len() >= limits::BLOCK_ROWS || self.rows.bytes() >= limits::BLOCK_BYTES {
            self.sort();
            self.load_blocks(false)?;
        }
        Ok(())
    }

    /// Hands in what is left.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.sort();
        self.load_blocks(true)?;
        self.loader.finish()
    }

    fn sort(&mut self) {
        let room = self.rows.len() + self.rows.len() / 8;
        self.pairs.clear();
        self.pairs.reserve_exact(room);
        self.spare.reserve_exact(room.saturating_sub(self.spare.len()));
        self.pairs.extend(self.rows.numbers().zip(0..));
        moved::sort(&mut self.pairs, &mut self.spare);
        self.order.clear();
        self.order.extend(self.pairs.iter().map(|(_, row)| *row));
    }

    /// Loads all blocks that are full; the last one too where it `is_end`.
    fn load_blocks(&mut self, is_end: bool) -> Result<()> {
        let mut done = 0;
        while let Some((count, is_full)) = self.next_block(&self.order[done..])
            && (is_full || is_end)
        {
            let Self { loader, columns, texts, rows, block, .. } = self;
            let order = &self.order[done..done + count];
            loader.push_block(count, |index, add| {
                let (column, values) = (&columns[index], &rows.columns[index]);
                let texts = column.dictionary.map(|id| texts[id.0 as usize].as_slice());
                block.fill(column.physical, values, order);
                let bitmap = (!block.bitmap.is_empty()).then_some(block.bitmap.as_slice());
                let plain = |values| PlainColumn { physical: column.physical, rows: count, validity: bitmap, values };
                let slices: Vec<&[u8]> = match texts {
                    Some(texts) => {
                        let is_known = |(row, id): (usize, usize)| id < texts.len() || block.is_null(row);
                        if !block.ids().enumerate().all(is_known) {
                            return Err(Error::internal("an id of a text is not in its dictionary"));
                        }
                        block.ids().map(|id| texts.get(id).copied().unwrap_or_default()).collect()
                    }
                    None if values.texts.is_some() => order.iter().map(|row| values.text(*row as usize)).collect(),
                    None => return add(&plain(PlainValues::Fixed(&block.values))),
                };
                add(&plain(PlainValues::Bytes(&slices)))
            })?;
            done += count;
        }
        self.rows.keep(&self.order[done..]);
        Ok(())
    }

    /// How many of these rows make the next block, and whether it is full then; `None` where there are none.
    fn next_block(&self, order: &[u32]) -> Option<(usize, bool)> {
        if order.is_empty() {
            return None;
        }
        let fixed_bytes: usize = self.columns.iter().filter_map(|column| column.physical.width()).sum();
        let has_texts = self.columns.iter().any(|column| column.physical == PhysicalType::Bytes);
        let most = limits::BLOCK_ROWS.min(order.len());
        let mut bytes = 0;
        // A row that is longer than a block is one by itself.
        let mut fits = |row: &u32| {
            bytes += if has_texts { fixed_bytes + self.text_bytes(*row as usize) } else { fixed_bytes };
            bytes <= limits::BLOCK_BYTES
        };
        let count = order[..most].iter().position(|row| !fits(row)).unwrap_or(most).max(1);
        Some((count, count == limits::BLOCK_ROWS || count < order.len()))
    }

    /// Bytes of the texts of a row.
    fn text_bytes(&self, row: usize) -> usize {
        let of_column = |(column, rows): (&SourceColumn, &ColumnRows)| match column.dictionary {
            _ if column.physical != PhysicalType::Bytes => 0,
            Some(id) => {
                let text = u32::from_le_bytes(rows.values.as_chunks().0[row]) as usize;
                self.texts[id.0 as usize].get(text).map_or(0, |text| text.len())
            }
            None => u32::from_le_bytes(rows.values.as_chunks().0[row]) as usize,
        };
        self.columns.iter().zip(&self.rows.columns).map(of_column).sum()
    }
}

impl Block {
    /// Takes the values of these rows.
    fn fill(&mut self, physical: PhysicalType, column: &ColumnRows, order: &[u32]) {
        let Self { values, validity, bitmap } = self;
        values.resize(order.len() * column.width, 0);
        moved::take(&column.values, (column.width, column.width), order, values);
        match physical {
            PhysicalType::F32 => values.as_chunks_mut().0.iter_mut().for_each(|bytes| {
                *bytes = canonical_f32(f32::from_le_bytes(*bytes)).to_le_bytes();
            }),
            PhysicalType::F64 => values.as_chunks_mut().0.iter_mut().for_each(|bytes| {
                *bytes = canonical_f64(f64::from_le_bytes(*bytes)).to_le_bytes();
            }),
            _ => {}
        }
        bitmap.clear();
        if column.validity.is_empty() {
            return;
        }
        validity.resize(order.len(), 0);
        moved::take(&column.validity, (1, 1), order, validity);
        if validity.contains(&0) {
            let byte = |rows: &[u8]| rows.iter().rev().fold(0, |bits, valid| bits << 1 | u8::from(*valid != 0));
            bitmap.extend(validity.chunks(8).map(byte));
        }
    }

    fn is_null(&self, row: usize) -> bool {
        self.bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 0)
    }

    /// The values as ids.
    fn ids(&self) -> impl Iterator<Item = usize> + '_ {
        self.values.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id) as usize)
    }
}
