//! A small database of version 2, byte for byte as a program wrote it that knew no later one: what every program since must
//! read, and make a database of today's version of.

use forebay_disk::{Disk, OpenMode};
use redb::backends::InMemoryBackend;
use redb::{Builder, ReadableDatabase, StorageBackend, TableDefinition};

use super::Model;

/// A file: its path, its length, and its bytes by offset; the others are 0.
type File = (&'static str, u64, &'static [(u64, &'static str)]);

const FILES: [File; 3] = [
    (
        "HEAD",
        8192,
        &[
            (0, "4642415948454144020000000200000000000000109735eb"),
            (4096, "464241594845414402000000030000000000000037ea09a2"),
        ],
    ),
    (
        "segments/0000000001.seg",
        40960,
        &[
            (0, "46424159534547310200000001000000000000004f754abb"),
            (
                4096,
                "4642434b010002014000000080000000000001000100000001000000000000000000000024000000ef58ef4a000000000000\
                000000000000000000008e40ac3828b52ffd2080dd0000884642424b0104010003008000400001020004100091068221c690",
            ),
            (
                8192,
                "4642434b010002014000000080000000000001000100000001000000000000000000000028000000c75a5497000000000000\
                00000000000000000000172abb0528b52ffd2080fd0000984642424b0104010003008000400003000102000510009146873d\
                de784002",
            ),
            (
                12288,
                "4642434b010002014000000080000000000001000100000001000000000000000000000028000000d2fb5ca3000000000000\
                000000000000000000005b7f45f928b52ffd2080fd0000984642424b0104010003008000400006000102000510009146873d\
                de784002",
            ),
            (
                16384,
                "4642434b0100020140000000000200000000010002000000010000000000000000000000000100005a00000010527a6f0000\
                00000000000000000000afad1ad228b52ffd60000185020094024642424b030c00010300000001000000400080000000c000\
                00000c000600066e6f74652031320333340f000147807086137ff302007a1d5852001096e29b7215307086f00e4031500837\
                08104509",
            ),
            (
                20480,
                "4642434b0100020140000000c0000000000001000100000001000000000000000000000043000000cfc7d289000000000000\
                00000000000000000000a56b595828b52ffd20c0d5010034024642424b030c00000300c00040000000800000001200060000\
                000c6e6f74652036303109004081a6c00161291700701dd53c607720310690",
            ),
            (
                24576,
                "4642434b010002014000000080000000000001000100000001000000000000000000000028000000ed1845ff000000000000\
                000000000000000000007ef6abf928b52ffd2080fd0000984642424b0104010003008000400009000102000510009146873d\
                de784002",
            ),
            (
                28672,
                "4642434b0100020140000000800000000000010001000000010000000000000000000000270000009a299eb0000000000000\
                0000000000000000000042b37ea928b52ffd2080f50000904642424b010401000200800040000c0001000510009270873dde\
                784002",
            ),
            (
                32768,
                "4642434b0100020140000000c00100000000010002000000010000000000000000000000000100006a000000d833de3c0000\
                00000000000000000000f94662d528b52ffd60c000050300c4024642424b030c00010300000001000000400080000000c000\
                00000c000500066e6f74652032340002c04035361500030335f1528d7b460c82e8cf4ef8188383951de88c68ee8195190063\
                29be295701036700b073ef81848142b84180284a",
            ),
            (
                36864,
                "46424159464f4f540200000001000000000000000e00000000000000020000000000000004010000000c0200000003000000\
                0300000003000000030000000000000000000000000010000000000000001000000000000080000000000000000020000000\
                0000000010000000000000800000000000000000300000000000000010000000000000800000000000000000000000010000\
                0000000000000000000000000000010200000000000000000000000000000000000000010300000000000000000000000000\
                0000010500000000000000000000000000000000000000010600000000000000000000000000000001080000000000000000\
                0000000000000001000000000000000000400000000000000010000000000000000200000000000000500000000000000010\
                000000000000c0000000000000000100000003060000006e6f7465203103060000006e6f746520320100000003060000006e\
                6f7465203303060000006e6f746520340000000003060000006e6f7465203003060000006e6f746520360200000003000000\
                0200000000000000000000000000600000000000000010000000000000800000000000000000700000000000000010000000\
                0000008000000000000000000000000109000000000000000000000000000000010b00000000000000000000000000000000\
                000000010c000000000000000000000000000000010d00000000000000000000000000000001000000000000000000800000\
                000000000010000000000000c0010000000000000100000003060000006e6f7465203203060000006e6f7465203400000000\
                03060000006e6f7465203503060000006e6f7465203600000000000000000000000000000000b3f40aa5",
            ),
        ],
    ),
    (
        "segments/0000000002.seg",
        20480,
        &[
            (0, "464241595345473102000000020000000000000026f20e60"),
            (
                4096,
                "4642434b010002014000000080000000000001000100000001000000000000000000000028000000f5d4b92a000000000000\
                000000000000000000004ad4cc6228b52ffd2080fd0000984642424b010401000300800040000e000102000510009146873d\
                de784002",
            ),
            (
                8192,
                "4642434b010002014000000080000000000001000100000001000000000000000000000028000000751f8660000000000000\
                00000000000000000000bc7ddd5028b52ffd2080fd0000984642424b0104010003008000400011000102000510009146873d\
                de784002",
            ),
            (
                12288,
                "4642434b0100020140000000c0010000000001000200000001000000000000000000000000010000720000000e8679080000\
                00000000000000000000e15373e228b52ffd60c000450300f4024642424b030c00010300000001000000400080000000c000\
                00000c000500066e6f74652030320003c0401212333435180041819d78a0b19448cf1c000b80783f4304384047de017519e8\
                8268c6819505006129be295701036700b073ef81848142b84180284a",
            ),
            (
                16384,
                "46424159464f4f540200000002000000000000000600000000000000020000000000000004010000000c0100000002000000\
                0300000003000000000000000000000000001000000000000000100000000000008000000000000000002000000000000000\
                10000000000000800000000000000000000000010e0000000000000000000000000000000110000000000000000000000000\
                0000000000000001110000000000000000000000000000000113000000000000000000000000000000010000000000000000\
                00300000000000000010000000000000c0010000000000000100000003060000006e6f7465203003060000006e6f74652032\
                0000000003060000006e6f7465203303060000006e6f7465203500000000000000000000000000000000414f5913",
            ),
        ],
    ),
];

/// Keys and rows of the manifest.
const ROWS: [(&str, &str); 6] = [
    ("000000000000000000", "0200000003000000000000000300000000000000030000000000000005000000000000002acb364f7eaeb90a"),
    ("010000000000000000", "040000006d61696e25f540c8"),
    (
        "020000000000000001",
        "040000006d61696e060000006f726465727302000000020000000000000002000000696406000000424947494e5400000001\
        000000040000006e6f7465070000005641524348415201000000000000884e35d0",
    ),
    ("030000000000000002", "040000006d61696e06000000726563656e740800000073656c65637420315f0deb86"),
    (
        "040000000000000001",
        "010000000000000000000000000000000e0000000000000000a000000000000000900000000000008202000000000000b3f4\
        0aa5020000000000000004010000000ce2dc88a4",
    ),
    (
        "040000000000000002",
        "010000000000000001000000000000000600000000000000005000000000000000400000000000002801000000000000414f\
        5913020000000000000004010000000cd8079462",
    ),
];

const MANIFEST: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("manifest");

/// What the database holds.
pub(crate) fn content() -> Model {
    let mut model = Model::default();
    model.tables.insert("orders".into(), vec![(0..14).collect(), (14..20).collect()]);
    model.views.insert("recent".into(), "select 1".into());
    model
}

/// Writes the database to an empty disk, durably.
pub(crate) fn write(disk: &dyn Disk) {
    disk.create_directory("segments").expect("a folder");
    for (path, bytes, content) in FILES {
        let content: Vec<(u64, Vec<u8>)> = content.iter().map(|(offset, text)| (*offset, unhex(text))).collect();
        write_file(disk, path, bytes, &content);
    }
    let manifest = manifest();
    write_file(disk, "forebay.redb", manifest.len() as u64, &[(0, manifest)]);
    disk.sync_directory("segments").expect("synced");
    disk.sync_directory("").expect("synced");
}

fn write_file(disk: &dyn Disk, path: &str, bytes: u64, content: &[(u64, Vec<u8>)]) {
    let file = disk.open(path, OpenMode::Create).expect("a file");
    file.set_len(bytes).expect("its length");
    for (offset, piece) in content {
        file.write_at(*offset, piece).expect("its bytes");
    }
    file.sync().expect("synced");
}

/// Format versions of the newest record of `HEAD` and of the manifest.
pub(crate) fn format_versions(disk: &dyn Disk) -> (u32, u32) {
    let head = read_file(disk, "HEAD");
    let number = |record: &[u8], at: usize| record[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let sound = |record: &&[u8]| number(record, 20) == Some(forebay_base::checksum::crc32c(&record[..20]));
    let newest = [&head[..24], &head[4096..4120]].into_iter().filter(sound).max_by_key(|record| number(record, 12));
    let head_version = newest.and_then(|record| number(record, 8)).expect("a record");
    let file = InMemoryBackend::new();
    let bytes = read_file(disk, "forebay.redb");
    file.set_len(bytes.len() as u64).expect("memory");
    file.write(0, &bytes).expect("memory");
    let database = Builder::new().create_with_backend(file).expect("a redb file");
    let transaction = database.begin_read().expect("a transaction");
    let root =
        transaction.open_table(MANIFEST).expect("the table").get([0; 9].as_slice()).expect("read").expect("a root");
    (head_version, number(root.value(), 0).expect("a version"))
}

fn read_file(disk: &dyn Disk, path: &str) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("its length") as usize];
    file.read_at(0, &mut bytes).expect("its bytes");
    bytes
}

/// A redb file with the rows, closed cleanly.
fn manifest() -> Vec<u8> {
    let file = SharedFile(std::sync::Arc::new(InMemoryBackend::new()));
    let database = Builder::new().create_with_backend(file.clone()).expect("a redb file");
    let transaction = database.begin_write().expect("a transaction");
    for (key, row) in ROWS {
        let mut table = transaction.open_table(MANIFEST).expect("the table");
        table.insert(unhex(key).as_slice(), unhex(row).as_slice()).expect("a row");
    }
    transaction.commit().expect("a commit");
    drop(database);
    let mut bytes = vec![0; file.0.len().expect("its length") as usize];
    file.0.read(0, &mut bytes).expect("its bytes");
    bytes
}

/// A file in memory that outlives the database on it.
#[derive(Debug, Clone)]
struct SharedFile(std::sync::Arc<InMemoryBackend>);

impl StorageBackend for SharedFile {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).expect("a digit") as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}
