//! Fact files: what was found out about tables and is kept beside their rows, such as filters and histograms that rule out what
//! need not be read. `docs/format.md`, "Fact file".
//!
//! A fact is made from some versions of some tables, which its row in the manifest names: who uses one compares them with the
//! tables' own. No answer may depend on one that is out of date, so none has to go when a table changes; it goes with its table.
//!
//! Invariants: a fact file never changes after it is published, and outlives the last snapshot that names it; its content is
//! verified before it is handed out. Must not know: what facts say.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, Context, DirectoryId, Error, ErrorKind, FactId, Result, TableId, limits};

use crate::catalog::{Catalog, Objects};
use crate::data_file::DataFile;
use crate::serial::{Reader, Writer};
use crate::transaction::Transaction;
use crate::volume::{FilePlace, Volume};

/// First bytes of a fact file.
pub(crate) const FACT_MAGIC: [u8; 8] = *b"FBAYFACT";
/// Layout of its header page.
pub(crate) const FACT_VERSION: u32 = 1;
/// Bytes of the header page, and so the offset of the content.
pub(crate) const FACT_HEADER_BYTES: u64 = limits::IO_ALIGN as u64;
/// Flag of a fact that programs who do not know its kind may do without.
pub(crate) const FACT_OPTIONAL: u16 = 1;

/// Facts that tell the values of blocks as sets of bins: their kind, and the version of their content.
pub const BIN_SETS: (u16, u32) = (1, 1);

/// Facts that tell the values of chunks by Bloom filters, likewise.
pub const BLOOM_FILTERS: (u16, u32) = (2, 1);

/// Kinds of facts that this program knows, each with the version of its content.
const KNOWN_KINDS: [(u16, u32); 2] = [BIN_SETS, BLOOM_FILTERS];

/// Bytes of a source in the manifest.
const SOURCE_BYTES: usize = 16;

/// What the manifest says of a fact besides where its file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactDefinition {
    /// What the content is.
    pub kind: u16,
    /// Version of that kind's content.
    pub version: u32,
    /// Programs that do not know the kind may do without the fact; others refuse the database.
    pub optional: bool,
    /// The table that it is about.
    pub table: TableId,
    /// The columns of that table that it is about; none if it is about whole rows.
    pub columns: Vec<ColumnId>,
    /// The tables that it was made from, ascending by id; the table that it is about is one of them.
    pub sources: Vec<FactSource>,
}

/// A table that a fact was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactSource {
    /// The table.
    pub table: TableId,
    /// Its [version](crate::Table::version) then. Of a table that the commit changes which publishes the fact, the version after it.
    pub version: u64,
}

/// A fact file. Shared by every snapshot that names it.
#[derive(Debug)]
pub struct Fact {
    id: FactId,
    definition: FactDefinition,
    content_bytes: u64,
    content_crc: u32,
    file: DataFile,
}

/// A finished fact file that the catalog does not name yet. Dropped unpublished, it removes the file.
#[derive(Debug)]
pub struct SealedFact {
    fact: Fact,
}

impl FactDefinition {
    /// What is wrong with it.
    fn check(&self) -> std::result::Result<(), &'static str> {
        if !self.sources.is_sorted_by(|a, b| a.table < b.table) || !self.is_from(self.table) {
            return Err("its tables are not in order, or its own one is missing");
        }
        let different: BTreeSet<ColumnId> = self.columns.iter().copied().collect();
        match different.len() == self.columns.len() {
            true => Ok(()),
            false => Err("it names a column twice"),
        }
    }

    /// Whether it was made from this table.
    pub fn is_from(&self, table: TableId) -> bool {
        self.sources.iter().any(|source| source.table == table)
    }

    /// Whether all tables that it was made from are in the catalog as they were then.
    pub fn is_current(&self, catalog: &Catalog) -> bool {
        let is_current = |source: &FactSource| {
            catalog.table_by_id(source.table).is_some_and(|table| table.version == source.version)
        };
        self.sources.iter().all(is_current)
    }

    /// An error if a program that knows these kinds can neither read the fact nor do without it.
    fn check_kind(&self, known: &[(u16, u32)]) -> Result<()> {
        if self.optional || known.contains(&(self.kind, self.version)) {
            return Ok(());
        }
        let message = format!(
            "the database has a fact of kind {} in version {}, which this program cannot read",
            self.kind, self.version
        );
        Err(Error::new(ErrorKind::Version, message).hint("Upgrade Forebay"))
    }
}

impl SealedFact {
    /// Its id.
    pub fn id(&self) -> FactId {
        self.fact.id
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        self.fact.file_bytes()
    }

    /// Writes a file and makes it durable but for its directory entry, which the commit that names it does.
    pub(crate) fn write(
        volume: &Arc<Volume>,
        place: FilePlace,
        definition: FactDefinition,
        content: &[u8],
    ) -> Result<Self> {
        let wrong = |what| Error::internal(format!("a fact about table {} is refused: {what}", definition.table));
        definition.check().map_err(wrong)?;
        definition.check_kind(&KNOWN_KINDS)?;
        let id = FactId(place.number);
        let file = volume.create_file(place)?;
        let data_file = DataFile::unnamed(Arc::clone(volume), place);
        let mut padded = content.to_vec();
        padded.resize(content.len().next_multiple_of(limits::IO_ALIGN), 0);
        file.write_at(0, &header_page(id))?;
        file.write_at(FACT_HEADER_BYTES, &padded)?;
        volume.sync(&*file)?;
        let (content_bytes, content_crc) = (content.len() as u64, crc32c(content));
        Ok(Self { fact: Fact { id, definition, content_bytes, content_crc, file: data_file } })
    }
}

impl Fact {
    /// Its id, which is also its file's name.
    pub fn id(&self) -> FactId {
        self.id
    }

    /// What it is about.
    pub fn definition(&self) -> &FactDefinition {
        &self.definition
    }

    /// Bytes of its content.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        FACT_HEADER_BYTES + self.content_bytes.next_multiple_of(limits::IO_ALIGN as u64)
    }

    /// The directory that the file is in, and so the drive.
    pub fn data_directory(&self) -> DirectoryId {
        self.file.directory()
    }

    /// Path of the file: in the database directory, or from the root where it is in another data directory.
    pub fn path(&self) -> String {
        self.file.path()
    }

    /// Its content, verified.
    ///
    /// # Errors
    /// `Corrupt` where the file is not what was written, `NotFound` where it is missing.
    pub fn read(&self) -> Result<Vec<u8>> {
        let read = || {
            let file = self.file.open()?;
            let bytes = file.len()?;
            // A hostile length is refused before memory is taken for it.
            if bytes != self.file_bytes() {
                return Err(Error::corrupt(format!("the file has {bytes} bytes instead of {}", self.file_bytes())));
            }
            let expected = header_page(self.id);
            let mut header = vec![0; expected.len()];
            file.read_at(0, &mut header)?;
            if header != expected {
                return Err(Error::corrupt("the header page is damaged"));
            }
            let too_large = |_| Error::corrupt("the fact is too large");
            let mut content = vec![0; usize::try_from(self.content_bytes).map_err(too_large)?];
            file.read_at(FACT_HEADER_BYTES, &mut content)?;
            match crc32c(&content) == self.content_crc {
                true => Ok(content),
                false => Err(Error::corrupt("checksum mismatch in the content")),
            }
        };
        read().context(|| format!("fact file {}", self.path()))
    }

    /// Some bytes of its content, which nobody has verified.
    ///
    /// # Errors
    /// `Corrupt` where the content or the file ends before them, `NotFound` where the file is missing.
    pub fn read_part(&self, bytes: Range<u64>) -> Result<Vec<u8>> {
        let read = || {
            let length = bytes.end.checked_sub(bytes.start).filter(|_| bytes.end <= self.content_bytes);
            let length = length.and_then(|length| usize::try_from(length).ok());
            let length = length.ok_or_else(|| Error::corrupt("bytes that are not in the content"))?;
            let mut part = vec![0; length];
            self.file.open()?.read_at(FACT_HEADER_BYTES + bytes.start, &mut part)?;
            Ok(part)
        };
        read().context(|| format!("fact file {}", self.path()))
    }

    pub(crate) fn data_file(&self) -> &DataFile {
        &self.file
    }

    /// Its row in the manifest.
    pub(crate) fn encode(&self, directory: DirectoryId) -> Writer {
        let mut row = Writer::default();
        let FactDefinition { kind, version, optional, table, columns, sources } = &self.definition;
        row.u64(table.0);
        row.u16(*kind);
        row.u16(if *optional { FACT_OPTIONAL } else { 0 });
        row.u32(*version);
        row.count(columns.len());
        columns.iter().for_each(|column| row.u32(column.0));
        row.count(sources.len());
        for source in sources {
            row.u64(source.table.0);
            row.u64(source.version);
        }
        row.u32(directory.0);
        row.u64(self.content_bytes);
        row.u32(self.content_crc);
        row
    }

    /// The fact of a row.
    ///
    /// # Errors
    /// `Version` where this program can neither read such a fact nor do without it.
    pub(crate) fn decode(reader: &mut Reader<'_>, id: FactId, volume: &Arc<Volume>) -> Result<Self> {
        let (table, kind) = (TableId(reader.u64()?), reader.u16()?);
        let optional = match reader.u16()? {
            0 => false,
            FACT_OPTIONAL => true,
            _ => return Err(reader.wrong("it has an unknown flag")),
        };
        let version = reader.u32()?;
        let columns = (0..reader.count(4)?).map(|_| reader.u32().map(ColumnId)).collect::<Result<_>>()?;
        let source = |reader: &mut Reader<'_>| Ok(FactSource { table: TableId(reader.u64()?), version: reader.u64()? });
        let sources = (0..reader.count(SOURCE_BYTES)?).map(|_| source(reader)).collect::<Result<_>>()?;
        let definition = FactDefinition { kind, version, optional, table, columns, sources };
        definition.check().map_err(|what| reader.wrong(what))?;
        definition.check_kind(&KNOWN_KINDS)?;
        let (directory, content_bytes, content_crc) = (DirectoryId(reader.u32()?), reader.u64()?, reader.u32()?);
        if volume.directory(directory).is_none() {
            return Err(reader.wrong(&format!("the database has no data directory {directory}")));
        }
        let most_bytes = u64::MAX - FACT_HEADER_BYTES - limits::IO_ALIGN as u64;
        if content_bytes > most_bytes {
            return Err(reader.wrong("its file is too large"));
        }
        let file = DataFile::named(Arc::clone(volume), FilePlace::of_fact(directory, id));
        Ok(Self { id, definition, content_bytes, content_crc, file })
    }
}

/// The header page: says what the file is, for people and recovery tools.
fn header_page(id: FactId) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&FACT_MAGIC);
    writer.u32(FACT_VERSION);
    writer.u64(id.0);
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes.resize(limits::IO_ALIGN, 0);
    writer.bytes
}

impl Catalog {
    /// All facts, by id; also those of kinds that this program does not know.
    pub fn facts(&self) -> impl Iterator<Item = &Arc<Fact>> {
        self.objects.facts.values()
    }

    /// The facts about a table, by id, whether they are [current](FactDefinition::is_current) or not.
    pub fn facts_of(&self, table: TableId) -> impl Iterator<Item = &Arc<Fact>> {
        self.facts().filter(move |fact| fact.definition.table == table)
    }

    /// The fact with this id, if it is there.
    pub fn fact(&self, id: FactId) -> Option<&Arc<Fact>> {
        self.objects.facts.get(&id)
    }
}

impl Objects {
    /// Takes out the facts that were made from a table that goes.
    pub(crate) fn forget_facts_of(&mut self, table: TableId) {
        self.facts.retain(|_, fact| !fact.definition.is_from(table));
    }

    /// Takes out the facts about a column that goes.
    pub(crate) fn forget_facts_of_column(&mut self, table: TableId, column: ColumnId) {
        let is_about = |fact: &Fact| fact.definition.table == table && fact.definition.columns.contains(&column);
        self.facts.retain(|_, fact| !is_about(fact));
    }
}

impl Transaction {
    /// Adds a fact. That is no change of its tables, whose versions stay.
    ///
    /// # Errors
    /// `NotFound` if a table that it was made from, or a column that it is about, is no longer there.
    pub fn publish_fact(&mut self, sealed: SealedFact) -> Result<FactId> {
        let SealedFact { fact } = sealed;
        let FactDefinition { table, columns, sources, .. } = &fact.definition;
        let find = |id: &TableId| {
            let gone = || Error::new(ErrorKind::NotFound, format!("table number {id} does not exist"));
            self.catalog().table_by_id(*id).map(|table| &**table).ok_or_else(gone)
        };
        sources.iter().try_for_each(|source| find(&source.table).map(drop))?;
        let about = find(table)?;
        columns.iter().try_for_each(|column| about.column_or_error(*column).map(drop))?;
        let id = fact.id;
        self.change().facts.insert(id, Arc::new(fact));
        Ok(id)
    }

    /// Drops a fact. It stays readable for snapshots that have it.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    pub fn drop_fact(&mut self, id: FactId) -> Result<()> {
        match self.change().facts.remove(&id) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::NotFound, format!("fact number {id} does not exist"))),
        }
    }
}

#[cfg(test)]
mod tests;
