//! Every size in one place, with its reason.

/// Rows of a full block (Data Blocks §3: up to 2^16 records). Positions in a block fit `u16`.
pub const BLOCK_ROWS: usize = 1 << 16;

/// A block is cut early when the plain values of all columns reach this many bytes, so that neither long values nor many
/// columns make one that does not fit in memory. Rows of up to 512 bytes fill whole blocks. One row may be larger: it is
/// then alone in its block.
pub const BLOCK_BYTES: usize = 32 << 20;

/// Blocks of a row group as loads make it: the unit in which tables are loaded and scanned. Chunks never cross it.
pub const GROUP_BLOCKS: usize = 8;

/// Joins that a fact about the rows of other tables goes over at most.
pub const FACT_HOPS: usize = 4;

/// Bytes of the file that takes records of queries; with the one before it there are twice as many. Ten thousand queries of a
/// usual length, so that the last days of most databases are there, and little beside the tables.
pub const LOG_FILE_BYTES: usize = 4 << 20;

/// Bytes of the longest record of a query.
pub const LOG_RECORD_BYTES: usize = 64 << 10;

/// Bytes of a statement's text in its record. Longer ones are cut: they were made by programs, and hold data.
pub const LOGGED_TEXT_BYTES: usize = 16 << 10;

/// Bytes of the redo log from which on the manifest is written and the log begun anew. Replaying as much takes well under a second, and
/// ten thousand small commits share one checkpoint.
pub const REDO_LOG_BYTES: u64 = 16 << 20;

/// Memory of hot rows in bytes up to which they stay hot where nobody changes them: above, cold ones become segments.
pub const HOT_BYTES: u64 = 256 << 20;

/// Segments with at most so many rows are written anew in less time than it takes to plan a statement that changes some of them.
pub const SMALL_SEGMENT_ROWS: u64 = 8_192;

/// Rows of segments that may be deleted one by one before they are marked in their segments.
pub const DELETED_ONE_BY_ONE: usize = 1 << 12;

/// Bytes of a segment, its zeros not counted, up to which it lies in the redo log until the next checkpoint, in place of a file of its
/// own that would be synced by itself. What is larger is written once only.
pub const SMALL_SEGMENT_BYTES: u64 = 64 << 10;

/// Bytes of all segments that lie in memory and in no file yet, from which on others get files at once.
pub const SMALL_SEGMENTS_BYTES: u64 = 32 << 20;

/// Most blocks of a row group that a segment file may have: chunks of one column become as long as experiments with large
/// reads need them (GOLAP, Fig. 11), and rows of a group are still counted in 4 bytes.
pub const GROUP_BLOCKS_MAX: usize = 256;

/// A row group ends early when the encoded blocks of all columns reach this many bytes: every worker of a load and of a scan
/// holds a whole one in memory. Columns still have chunks of [`CHUNK_TARGET_BYTES`] in it when there are a hundred.
pub const GROUP_BYTES: usize = 128 << 20;

/// Encoded bytes that a chunk aims for when its number of blocks 2^k is chosen: reads of about a megabyte reach the
/// bandwidth of an NVMe drive (Haas & Leis 2023) and still leave several per scan in flight.
pub const CHUNK_TARGET_BYTES: usize = 1 << 20;

/// Largest encoded chunk: one block of one column with one longest value and its offsets.
pub const CHUNK_MAX_BYTES: usize = STRING_MAX_BYTES + (4 << 20);

/// Alignment of chunks in a segment file and of every direct read or write.
pub const IO_ALIGN: usize = 4096;

/// A huge page. A drive moves a megabyte in one piece where it lies together in memory, and in 256 where it does not: on a
/// virtual drive that halves the bandwidth.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes that a pool of buffers asks of the system at once: whole huge pages, and few enough regions to keep lists short.
pub const POOL_REGION_BYTES: usize = 32 << 20;

/// Bytes of one read in flight; longer requests are split so that every request keeps the drive's queue full.
pub const READ_PIECE_BYTES: usize = 1 << 20;

/// Bytes between two parts of a chunk that are read with them, when only these are needed: a drive that answers in a tenth of a
/// millisecond and reads some gigabytes a second moves about as many in the time that another request takes.
pub const READ_GAP_BYTES: usize = 256 << 10;

/// Reads in flight per disk with io_uring, over all threads: far more than any drive needs to reach its bandwidth.
pub const READ_QUEUE_DEPTH: usize = 32;

/// Bytes in flight per disk from which on no further read is given to it: what a drive of some gigabytes a second reads in a few
/// milliseconds. A drive serves what it has in any order, so that a read that somebody waits for overtakes only those that are not
/// in flight yet.
pub const READ_IN_FLIGHT_BYTES: usize = 8 << 20;

/// Reading threads of a disk where there is no io_uring; each has one read in flight.
pub const READ_THREADS: usize = 4;

/// Bytes of encoded chunk that are compressed and checksummed on their own, so that many inflate in parallel.
pub const FRAME_BYTES: usize = 64 << 10;

/// Segment files that are kept open for reading, with up to two descriptors each: small INSERTs make thousands of segments,
/// and a process may have as few as 256 descriptors. To open a file takes microseconds, to read a chunk of it more.
pub const OPEN_SEGMENTS: usize = 64;

/// Data directories of a database: more drives than a machine has. Each is a disk of its own, with a ring or threads for its
/// reads.
pub const DATA_DIRECTORIES: usize = 64;

/// Most bytes of stored chunks that are on their way from disk to inflation, over all scans.
pub const READ_POOL_BYTES: usize = 256 << 20;

/// The part of the memory that stored chunks take at most, where that is less than [`READ_POOL_BYTES`]: inflated chunks are
/// larger and in use for longer, and queries need theirs.
pub const READ_POOL_SHARE: usize = 8;

/// The part of the read buffers that reads ahead leave to reads that somebody waits for.
pub const READ_NOW_SHARE: usize = 4;

/// Bytes of stored chunks that a scan has on their way before anybody needs them, for each data directory that its table
/// lies in: enough to keep a drive busy while the workers inflate and test, and few enough for a query of 256 MB.
pub const READ_AHEAD_BYTES: usize = 32 << 20;

/// Bytes of inflated chunks that are kept at the first time that they are read, of tables whose files are no larger than that:
/// a small database is all in memory after one look, and so are the dimensions of a large one.
pub const KEPT_AT_ONCE_BYTES: usize = 128 << 20;

/// Chunks whose first read is remembered: some hundred gigabytes of them, in some tens of megabytes.
pub const SEEN_CHUNKS: usize = 1 << 18;

/// Spans of one statement's timeline: one per chunk and morsel of some tens of gigabytes, in about six megabytes. Where there
/// are more, neighbours are joined.
pub const TIMELINE_SPANS: usize = 1 << 16;

/// Bytes in whole multiples of which memory is reserved whose amount changes all the time: a worker fills them in some tens of
/// microseconds, and the account's lock is taken for less than one.
pub const RESERVED_STEP_BYTES: usize = 1 << 20;

/// Longest string or blob. 1 GiB keeps all offsets inside one block below 2^31, the limit of Arrow views.
pub const STRING_MAX_BYTES: usize = 1 << 30;

/// Bytes of a string kept as bound of a zone; longer maxima are rounded up.
pub const ZONE_STRING_BYTES: usize = 32;

/// Registers of the sketch that counts a column's different values: a kilobyte for a standard error of 3 %.
pub const SKETCH_REGISTERS: usize = 1 << 10;

/// Values of a column that a segment keeps as bounds of a histogram: ranges are estimated to about 2 % of the rows.
pub const SAMPLE_VALUES: usize = 64;

/// Digits of the widest decimal.
pub const DECIMAL_DIGITS: u8 = 38;

/// Digits of the widest decimal that is stored in 8 bytes.
pub const DECIMAL64_DIGITS: u8 = 18;

/// Columns of a table.
pub const TABLE_COLUMNS: usize = 4096;

/// Projections of a table: every load writes all of them.
pub const TABLE_PROJECTIONS: usize = 64;

/// Bytes of an identifier.
pub const NAME_BYTES: usize = 255;

/// Longest value of an option of a table or a column, which may be a type with all of its values or fields.
pub const OPTION_BYTES: usize = 1 << 20;

/// Longest line of a text file, or value over several, where its reader is not told otherwise: it is held in memory, more than
/// once. DuckDB takes lines of 2 MB and JSON objects of 16 MB.
pub const LINE_BYTES: usize = 32 << 20;

/// Levels of objects and lists in a line of JSON: readers descend into them, a frame of the stack for each.
pub const JSON_LEVELS: usize = 128;

/// Values that a line of delimited text may have where they are looked at before its columns are known.
pub const LINE_VALUES: usize = 1 << 16;

/// Bytes of text that a batch of rows is made of, where lines are so long that it must have fewer rows.
pub const BATCH_TEXT_BYTES: usize = 16 << 20;

/// Files that are remembered to be whole, with some hundred bytes for each.
pub const CHECKED_FILES: usize = 1024;

/// Rows of one batch that leaves a scan: fits caches together with a handful of columns.
pub const BATCH_ROWS: usize = 8192;

const _: () = assert!(POOL_REGION_BYTES.is_multiple_of(HUGE_PAGE_BYTES), "regions are whole huge pages");
const _: () = assert!(READ_PIECE_BYTES.is_multiple_of(IO_ALIGN), "pieces of a direct read are aligned");
const _: () = assert!(BLOCK_ROWS == u16::MAX as usize + 1, "positions in a block are u16");
const _: () = assert!(GROUP_BLOCKS <= GROUP_BLOCKS_MAX, "readers accept the row groups that loads make");
const _: () = assert!(GROUP_BLOCKS.is_power_of_two() && GROUP_BLOCKS_MAX.is_power_of_two(), "one chunk fills a group");
const _: () = assert!(GROUP_BLOCKS_MAX * BLOCK_ROWS < u32::MAX as usize, "positions in a row group are u32");
const _: () = assert!(SKETCH_REGISTERS.is_power_of_two(), "bits of a hash choose a register");
const _: () = assert!(FRAME_BYTES.is_multiple_of(16), "a frame holds whole values of every width");
const _: () = assert!(CHUNK_MAX_BYTES < u32::MAX as usize, "lengths inside a chunk are u32");
const _: () = assert!(GROUP_BYTES + CHUNK_MAX_BYTES < u32::MAX as usize, "offsets in a column of a row group are u32");
const _: () = assert!(LINE_VALUES > TABLE_COLUMNS, "a line of a table can be looked at");
const _: () = assert!(BLOCK_ROWS.is_multiple_of(BATCH_ROWS), "a full block is whole batches");
