//! Rows of a block are read from the frames that hold them, whatever the other bytes of the chunk are.

mod cases;

use cases::{Aligned, Case, Cell, any_encoding, read};
use forebay_base::{ErrorKind, PhysicalType, Result, limits};
use forebay_block::{
    BlockRows, ChunkOptions, ChunkPart, Compression, Encoding, InflatedChunk, PortableUnpack, Scheme, SealedChunk,
    seal_chunk,
};
use proptest::prelude::*;

fn sealed(cases: &[(Case, Option<Encoding>)], compression: Compression) -> SealedChunk {
    let (mut encoded, mut offsets) = (vec![], vec![]);
    for (case, force) in cases {
        offsets.push(encoded.len() as u32);
        encoded.extend_from_slice(case.encode(*force).0.bytes());
    }
    seal_chunk(&encoded, &offsets, &ChunkOptions { compression }).expect("valid blocks seal")
}

/// These rows, with the bytes that were asked for; `spoil` may change them on their way.
fn rows_of(
    sealed: &SealedChunk,
    physical: PhysicalType,
    (block, rows): (usize, &[u16]),
    spoil: &mut dyn FnMut(&mut Vec<u8>),
) -> Result<(InflatedChunk, usize, usize)> {
    let mut wanted = BlockRows::new(&sealed.directory, physical, block, rows.to_vec())?;
    let (mut rounds, mut bytes) = (0, 0);
    loop {
        let places = wanted.wanted()?;
        if places.is_empty() {
            return Ok((wanted.finish()?, rounds, bytes));
        }
        assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "places ascend");
        rounds += 1;
        assert!(rounds <= 3, "three rounds are enough");
        let read: Vec<Aligned> = places
            .iter()
            .map(|place| {
                bytes += place.len();
                let mut stored = sealed.bytes[place.clone()].to_vec();
                spoil(&mut stored);
                Aligned::new(&stored)
            })
            .collect();
        let parts =
            places.iter().zip(&read).map(|(place, bytes)| ChunkPart { start: place.start, bytes: bytes.bytes() });
        wanted.take(&parts.collect::<Vec<_>>(), &PortableUnpack)?;
    }
}

fn any_compression() -> impl Strategy<Value = Compression> {
    let forced = prop::sample::select(&Scheme::ALL[..]).prop_map(Compression::Force);
    prop_oneof![Just(Compression::Balanced), Just(Compression::BestRatio), forced]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn rows_read_back_in_the_order_in_which_they_were_asked_for(
        physical in 0..12usize,
        shapes in prop::collection::vec((0..=cases::RUNS, 1usize..20_000, any_encoding()), 1..4),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        of in any::<prop::sample::Index>(),
        nulls in prop::sample::select(vec![0, 5, 100]),
        compression in any_compression(),
        seed: u64,
    ) {
        let physical = PhysicalType::ALL[physical];
        let of_shape = |(shape, rows, force)| (Case::generate(physical, shape, rows, nulls, seed), force);
        let cases: Vec<_> = shapes.into_iter().map(of_shape).collect();
        let sealed = sealed(&cases, compression);
        let block = of.index(cases.len());
        let cells = &cases[block].0.cells;
        let rows: Vec<u16> = picks.iter().map(|pick| pick.index(cells.len()) as u16).collect();
        let (found, ..) = rows_of(&sealed, physical, (block, &rows), &mut |_| {}).expect("own rows are read");
        prop_assert_eq!((found.blocks(), found.block(0).rows()), (1, rows.len()));
        for (index, row) in rows.iter().enumerate() {
            prop_assert_eq!(read(&found.block(0), index), cells[usize::from(*row)].clone(), "row {}", row);
        }
        let mut is_flipped = false;
        let flipped = rows_of(&sealed, physical, (block, &rows), &mut |bytes| {
            bytes[0] ^= 1;
            is_flipped = true;
        });
        prop_assert_eq!(is_flipped, flipped.is_err(), "a flipped byte");
        let mut is_cut = false;
        let cut = rows_of(&sealed, physical, (block, &rows), &mut |bytes| {
            bytes.clear();
            is_cut = true;
        });
        prop_assert_eq!(is_cut, cut.is_err(), "bytes that are cut off");
    }
}

#[test]
fn a_row_takes_few_frames() {
    let cell =
        |row: usize| Some(Cell::Bytes(format!("the text of row {row}, which is not that of others").into_bytes()));
    let cells: Vec<_> = (0..limits::BLOCK_ROWS).map(cell).collect();
    for force in [Encoding::Uncompressed, Encoding::Dictionary] {
        let case = Case { physical: PhysicalType::Bytes, cells: cells.clone() };
        let sealed = sealed(&[(case, Some(force))], Compression::Force(Scheme::Plain));
        let rows = [40_000];
        let (found, rounds, bytes) = rows_of(&sealed, PhysicalType::Bytes, (0, &rows), &mut |_| {}).expect("own rows");
        assert_eq!(read(&found.block(0), 0), cells[40_000]);
        assert_eq!(rounds, if force == Encoding::Dictionary { 3 } else { 2 }, "{force:?}");
        assert!(bytes <= rounds * 2 * limits::FRAME_BYTES, "{bytes} bytes, {force:?}");
        assert!(sealed.bytes.len() > 20 * limits::FRAME_BYTES);
    }
}

#[test]
fn rows_and_blocks_that_are_not_there_are_refused() {
    let case = Case::generate(PhysicalType::I64, 1, 100, 0, 7);
    let sealed = sealed(&[(case, None)], Compression::Balanced);
    for (block, row) in [(0, 100), (1, 0)] {
        let error = BlockRows::new(&sealed.directory, PhysicalType::I64, block, vec![row]).expect_err("is not there");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    let wrong = BlockRows::new(&sealed.directory, PhysicalType::Bytes, 0, vec![0]).expect_err("of another type");
    assert_eq!(wrong.kind(), ErrorKind::Corrupt);
}
