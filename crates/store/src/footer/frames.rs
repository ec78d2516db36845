//! A section of frames: for every chunk of a column, in row order, what inflating needs to know of its frames.
//!
//! Must not know: what the directories say; they are bytes of the block format.

use std::ops::Range;

use forebay_base::{ColumnId, Result};

use super::Group;
use super::directory::{SECTION_FRAMES, describe};
use crate::serial::{Reader, Writer};

/// The directories of frames of all chunks of one column.
#[derive(Debug, Default)]
pub(crate) struct FrameDirectories {
    bytes: Vec<u8>,
    /// For every row group the places of its chunks' directories in `bytes`.
    places: Vec<Vec<Range<usize>>>,
}

/// The directories of some chunks, in the section's form.
pub(crate) fn encode<'a>(directories: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut writer = Writer::default();
    directories.for_each(|directory| writer.blob(directory));
    writer.bytes
}

/// What a section says whose checksum has been verified; `index` is the column's place in `groups`.
pub(crate) fn decode(bytes: Vec<u8>, id: ColumnId, groups: &[Group], index: usize) -> Result<FrameDirectories> {
    let what = describe(SECTION_FRAMES, id.0);
    let mut reader = Reader::new(&bytes, &what);
    let mut end = 0;
    let mut place = |reader: &mut Reader<'_>| {
        let start = end + size_of::<u32>();
        end = start + reader.blob()?.len();
        Ok(start..end)
    };
    let mut places = Vec::with_capacity(groups.len());
    for group in groups {
        let chunks = &group.columns[index].chunks;
        places.push(chunks.iter().map(|_| place(&mut reader)).collect::<Result<_>>()?);
    }
    reader.finish()?;
    Ok(FrameDirectories { bytes, places })
}

impl FrameDirectories {
    /// The directory of a chunk, by row group and number in it.
    pub(crate) fn of_chunk(&self, group: usize, chunk: usize) -> &[u8] {
        &self.bytes[self.places[group][chunk].clone()]
    }
}
