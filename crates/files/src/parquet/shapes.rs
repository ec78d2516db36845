//! The structures of Parquet's metadata: `parquet.thrift` of the format's specification.

use super::thrift::Shape::{self, Binary, Bool, Byte, Double, I16, I32, I64, List, Struct};

type Fields = &'static [(i16, Shape)];

/// At the end of a file.
pub(super) const FILE: Fields = &[
    (1, I32),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(&[(1, EMPTY)]))),
];

/// In [`FILE`]: the path to an element of the schema, and to the number of its children.
pub(super) const SCHEMA_PATH: &[i16] = &[2];
pub(super) const CHILDREN_PATH: &[i16] = &[2, 5];

const EMPTY: Shape = Struct(&[]);

const SCHEMA_ELEMENT: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];

const LOGICAL_TYPE: Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, EMPTY),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
];

const TIME: Fields = &[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))];

const ROW_GROUP: Fields = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]))),
    (5, I64),
    (6, I64),
    (7, I16),
];

const COLUMN_CHUNK: Fields =
    &[(1, Binary), (2, I64), (3, Struct(COLUMN_METADATA)), (4, I64), (5, I32), (6, I64), (7, I32)];

const COLUMN_METADATA: Fields = &[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&Struct(KEY_VALUE))),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, Struct(BOUNDING_BOX)), (2, List(&I32))])),
];

const BOUNDING_BOX: Fields =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

const KEY_VALUE: Fields = &[(1, Binary), (2, Binary)];

const STATISTICS: Fields =
    &[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Bool), (8, Bool)];

/// Where the pages of a column lie.
pub(super) const OFFSET_INDEX: Fields = &[(1, List(&Struct(&[(1, I64), (2, I32), (3, I64)]))), (2, List(&I64))];

/// Bounds of the pages of a column.
pub(super) const COLUMN_INDEX: Fields = &[
    (1, List(&Bool)),
    (2, List(&Binary)),
    (3, List(&Binary)),
    (4, I32),
    (5, List(&I64)),
    (6, List(&I64)),
    (7, List(&I64)),
];

/// In front of a page.
pub(super) const PAGE_HEADER: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, Struct(STATISTICS))])),
    (6, EMPTY),
    (7, Struct(&[(1, I32), (2, I32), (3, Bool)])),
    (8, Struct(PAGE_2_HEADER)),
];

const PAGE_2_HEADER: Fields =
    &[(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, Bool), (8, Struct(STATISTICS))];

/// In front of a Bloom filter.
pub(super) const BLOOM_FILTER: Fields =
    &[(1, I32), (2, Struct(&[(1, EMPTY)])), (3, Struct(&[(1, EMPTY)])), (4, Struct(&[(1, EMPTY)]))];
