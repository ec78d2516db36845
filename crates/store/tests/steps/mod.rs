//! Random transactions of the crash tests, and what they make of the model.

use forebay_base::{Durability, ProjectionId, Result, TableId};
use forebay_store::{Cell, Deleted, ReplacedCopies, RowChanges, SealedSegment, Store, TableSnapshot, Transaction};

use crate::Knowledge;
use crate::model::{
    Random, definition, note, observe, projection, read_places, write_fact, write_segment, write_striped,
};

/// Rows in one segment, or in one for each data directory.
fn write(store: &Store, rows: &[i64]) -> Result<Vec<SealedSegment>> {
    match store.directories().len() {
        1 => write_segment(store, rows).map(|sealed| vec![sealed]),
        _ => write_striped(store, rows),
    }
}

/// The same rows for every projection of a table, in another order; its segments `all` of them go before.
fn write_copies(store: &Store, table: &TableSnapshot, rows: &[i64], all: bool) -> Result<ReplacedCopies> {
    let turned: Vec<i64> = rows.iter().rev().copied().collect();
    let copy = |copy: &std::sync::Arc<TableSnapshot>| {
        let old = if all { copy.segments.versions() } else { Vec::new() };
        Ok((copy.copy_id(), (old, write(store, &turned)?)))
    };
    table.copies().iter().map(copy).collect()
}

/// Hot rows may have become segments by themselves, which changes nothing else.
fn follow_freezing(store: &Store, known: &mut Knowledge) -> Result<()> {
    let catalog = store.catalog();
    let hot = |name: &str| -> Option<u64> {
        let segments = &catalog.table("main", name)?.segments;
        Some(segments.iter().filter(|segment| segment.is_hot()).map(|segment| segment.rows()).sum())
    };
    let is_frozen = |(name, rows): (&String, &Vec<i64>)| hot(name).is_some_and(|hot| hot < rows.len() as u64);
    if known.acknowledged.hot.iter().any(is_frozen) {
        let seen = observe(store)?;
        if seen.clone().unordered() == known.acknowledged.clone().unordered() {
            known.acknowledged = seen;
        }
    }
    Ok(())
}

/// One random transaction; `known` follows it.
pub(crate) fn step(store: &Store, random: &mut Random, known: &mut Knowledge) -> Result<()> {
    follow_freezing(store, known)?;
    let mut after = known.acknowledged.clone();
    let tables: Vec<String> = after.tables.keys().cloned().collect();
    let pick = |random: &mut Random| tables[random.below(tables.len() as u64) as usize].clone();
    let id = |name: &str| -> TableId { store.catalog().table("main", name).expect("the model has it").id };
    let mut rows = |random: &mut Random| -> Vec<i64> {
        let first = known.next_id;
        known.next_id += 1 + random.below(25) as i64;
        (first..known.next_id).collect()
    };
    let fresh = format!("t{}", random.below(1000));
    // Segments are written before the transaction, as a load does.
    let choice = random.below(if tables.is_empty() { 2 } else { 28 });
    let of = |name: &str| store.catalog().table("main", name).expect("the model has it").clone();
    let mut transaction = match choice {
        0 => {
            let mut transaction = store.begin()?;
            if after.tables.insert(fresh.clone(), vec![]).is_none() {
                let table = transaction.create_table(definition(&fresh))?;
                let (left, right) = (rows(random), rows(random));
                let sealed = [write(store, &left)?, write(store, &right)?];
                transaction.publish(table, sealed.into_iter().flatten().collect())?;
                after.tables.insert(fresh, vec![left, right]);
            } else {
                after = known.acknowledged.clone();
            }
            transaction
        }
        1 => {
            let mut transaction = store.begin()?;
            // Some are large enough that the manifest grows, and shrinks when it is closed.
            let name = format!("v{}", random.below(3));
            let sql = fresh.repeat(if random.below(3) == 0 { 100_000 } else { 1 });
            transaction.create_view("main", &name, &sql, true)?;
            after.views.insert(name, sql);
            transaction
        }
        2..=4 => {
            let (table, rows) = (pick(random), rows(random));
            let sealed = write(store, &rows)?;
            let copies = write_copies(store, &of(&table), &rows, false)?;
            let mut transaction = store.begin()?;
            transaction.change_rows(id(&table), vec![(Vec::new(), sealed)], copies)?;
            after.tables.get_mut(&table).expect("picked").push(rows);
            transaction
        }
        5 => {
            let table = pick(random);
            let mut transaction = store.begin()?;
            transaction.drop_table(id(&table))?;
            after.tables.remove(&table);
            after.hot.remove(&table);
            after.facts.remove(&table);
            transaction
        }
        6 => {
            let table = pick(random);
            let mut transaction = store.begin()?;
            if !after.tables.contains_key(&fresh) {
                transaction.rename_table(id(&table), &fresh)?;
                let segments = after.tables.remove(&table).expect("picked");
                after.tables.insert(fresh.clone(), segments);
                if let Some(rows) = after.hot.remove(&table) {
                    after.hot.insert(fresh.clone(), rows);
                }
                if let Some(facts) = after.facts.remove(&table) {
                    after.facts.insert(fresh, facts);
                }
            }
            transaction
        }
        7 => {
            // All segments of a table become one.
            let table = pick(random);
            let merged = [after.tables[&table].concat(), after.hot.remove(&table).unwrap_or_default()].concat();
            let sealed = write(store, &merged)?;
            let old = of(&table).segments.versions();
            let copies = write_copies(store, &of(&table), &merged, true)?;
            let mut transaction = store.begin()?;
            match random.below(2) {
                0 => transaction.change_rows(id(&table), vec![(old, sealed)], copies)?,
                _ => {
                    transaction.lay_out(id(&table), ProjectionId::TABLE, &old, sealed)?;
                    for (copy, (old, new)) in copies {
                        transaction.lay_out(id(&table), copy, &old, new)?;
                    }
                }
            }
            after.tables.insert(table, vec![merged]);
            transaction
        }
        8 => {
            // A fact about a table, in place of the first one that there is.
            let name = pick(random);
            if after.hot.contains_key(&name) {
                return Ok(());
            }
            let content = vec![random.below(256) as u8; random.below(9000) as usize];
            let (sealed, first) = {
                let catalog = store.catalog();
                let table = catalog.table("main", &name).expect("picked");
                (write_fact(store, table, &content)?, catalog.facts_of(table.id).next().map(|fact| fact.id()))
            };
            let mut transaction = store.begin()?;
            let facts = after.facts.entry(name).or_default();
            if let Some(first) = first.filter(|_| facts.len() > 2) {
                transaction.drop_fact(first)?;
                facts.remove(0);
            }
            transaction.publish_fact(sealed)?;
            facts.push(content);
            transaction
        }
        9 => {
            // A fact that is given up.
            let catalog = store.catalog();
            let table = catalog.table("main", &pick(random)).expect("picked");
            if after.hot.contains_key(&table.name) {
                return Ok(());
            }
            let mut transaction = store.begin()?;
            transaction.publish_fact(write_fact(store, table, b"nobody will read this")?)?;
            return Ok(());
        }
        10 => {
            // Given up: leaves nothing.
            let (table, rows) = (pick(random), rows(random));
            let copies = write_copies(store, &of(&table), &rows, false)?;
            let mut transaction = store.begin()?;
            transaction.change_rows(id(&table), vec![(Vec::new(), write(store, &rows)?)], copies)?;
            return Ok(());
        }
        11 | 12 => {
            // One more copy of a table, or one less.
            let table = of(&pick(random));
            match table.projections.last().filter(|_| table.projections.len() > 1) {
                None if after.hot.contains_key(&table.name) => {
                    let mut transaction = store.begin()?;
                    transaction.freeze_hot(table.id)?;
                    let rows = after.hot.remove(&table.name).unwrap_or_default();
                    after.tables.get_mut(&table.name).expect("picked").push(rows);
                    transaction
                }
                None => {
                    let all = after.tables[&table.name].concat();
                    let sealed = write(store, &all.iter().rev().copied().collect::<Vec<_>>())?;
                    let mut transaction = store.begin()?;
                    let name = format!("p{}", table.projections.len());
                    transaction.add_projection(table.id, projection(&name), &table.segments.versions(), sealed)?;
                    transaction
                }
                Some(last) => {
                    let mut transaction = store.begin()?;
                    transaction.drop_projection(table.id, &last.definition.name)?;
                    transaction
                }
            }
        }
        13 => {
            // All rows of a table go, in all copies.
            let table = of(&pick(random));
            let copies = table.copies().iter().map(|copy| (copy.copy_id(), (copy.segments.versions(), Vec::new())));
            let mut transaction = store.begin()?;
            transaction.change_rows(table.id, vec![(table.segments.versions(), Vec::new())], copies.collect())?;
            after.tables.insert(table.name.clone(), Vec::new());
            after.hot.remove(&table.name);
            transaction
        }
        14..=16 => {
            // Several changes, with one that is taken back, beside a transaction that adds rows to the same table and commits first.
            let (table, own, theirs) = (pick(random), rows(random), rows(random));
            let mut beside = store.begin_on(store.catalog())?;
            let (sealed, copies) = (write(store, &own)?, write_copies(store, &of(&table), &own, false)?);
            beside.change_rows(id(&table), vec![(Vec::new(), sealed)], copies)?;
            let before = beside.moment();
            beside.drop_table(id(&table))?;
            beside.return_to(&before).expect("nothing is in the way");
            beside.create_view("main", "of several", &fresh, true)?;
            let (sealed, copies) = (write(store, &theirs)?, write_copies(store, &of(&table), &theirs, false)?);
            let mut alone = store.begin()?;
            alone.change_rows(id(&table), vec![(Vec::new(), sealed)], copies)?;
            after.tables.get_mut(&table).expect("picked").push(theirs);
            known.in_doubt = Some(after.clone());
            alone.commit()?;
            known.acknowledge(after.clone(), Durability::Full);
            after.tables.get_mut(&table).expect("picked").push(own);
            after.views.insert("of several".into(), fresh);
            beside
        }
        17 | 18 => {
            // Some rows go, or all, of a segment that stays else.
            let table = of(&pick(random));
            let segments = &table.segments;
            if !table.projections.is_empty() || segments.is_empty() {
                return Ok(());
            }
            let segment = &segments[random.below(segments.len() as u64) as usize];
            let share = 1 + random.below(4);
            let mut gone = read_places(segment)?;
            gone.retain(|_| random.below(4) < share);
            let places: Vec<u64> = gone.iter().map(|(place, _)| *place).collect();
            let deleted = Deleted { segment: segment.as_version(), rows: segment.rows_at(&places)? };
            let deleted = if places.is_empty() { Vec::new() } else { vec![(deleted, Vec::new())] };
            let mut transaction = store.begin()?;
            transaction.change_rows(table.id, RowChanges { replaced: Vec::new(), deleted }, ReplacedCopies::new())?;
            let is_left = |id: &i64| gone.iter().all(|(_, other)| other != id);
            after.hot.values_mut().for_each(|rows| rows.retain(is_left));
            after.hot.retain(|_, rows| !rows.is_empty());
            let lists = after.tables.get_mut(&table.name).expect("picked");
            // A segment goes with its last row; one that was written without rows stays.
            lists.retain_mut(|list| {
                let before = list.len();
                list.retain(is_left);
                before == 0 || !list.is_empty()
            });
            transaction
        }
        19 | 20 => {
            if known.is_in_checkpoint {
                return Ok(());
            }
            let mut between = Ok(());
            known.is_in_checkpoint = true;
            let made = store.checkpoint_beside(|| {
                known.returns_to.clear();
                for _ in 0..random.below(4) {
                    between = std::mem::replace(&mut between, Ok(())).and_then(|()| step(store, random, known));
                }
            });
            known.is_in_checkpoint = false;
            return made.and(between);
        }
        21 => {
            drop(write(store, &rows(random))?);
            return Ok(());
        }
        _ => {
            // Hot rows come, change and go; a part of that is taken back, and frozen rows come beside them.
            let table = of(&pick(random));
            if !table.projections.is_empty() {
                return Ok(());
            }
            let mut transaction =
                if random.below(2) == 0 { store.begin()? } else { store.begin_on(store.catalog())? };
            let hot = after.hot.entry(table.name.clone()).or_default();
            change_hot(&mut transaction, table.id, random, (&mut rows, hot))?;
            if random.below(3) == 0 {
                let moment = transaction.moment();
                change_hot(&mut transaction, table.id, random, (&mut rows, &mut hot.clone()))?;
                transaction.return_to(&moment).expect("nothing is in the way");
                change_hot(&mut transaction, table.id, random, (&mut rows, hot))?;
            }
            if hot.is_empty() {
                after.hot.remove(&table.name);
            }
            let stored: Vec<_> = table.segments.iter().filter(|segment| !segment.is_hot()).collect();
            if !stored.is_empty() && random.below(3) == 0 {
                let segment = stored[random.below(stored.len() as u64) as usize];
                let mut gone = read_places(segment)?;
                gone.retain(|_| random.below(4) == 0);
                let places: Vec<u64> = gone.iter().map(|(place, _)| *place).collect();
                for (block, rows) in segment.rows_at(&places)?.blocks() {
                    for row in rows.rows() {
                        transaction.delete_stored(table.id, segment.id(), block, row as u16)?;
                    }
                }
                let lists = after.tables.get_mut(&table.name).expect("picked");
                lists.retain_mut(|list| {
                    let before = list.len();
                    list.retain(|id| gone.iter().all(|(_, other)| other != id));
                    before == 0 || !list.is_empty()
                });
            }
            if random.below(3) == 0 {
                let frozen = rows(random);
                transaction.publish(table.id, write(store, &frozen)?)?;
                after.tables.get_mut(&table.name).expect("picked").push(frozen);
            }
            transaction
        }
    };
    let durability = if random.below(3) == 0 { Durability::Off } else { Durability::Full };
    transaction.set_durability(durability);
    known.in_doubt = Some(after.clone());
    let before = store.catalog().commit_number();
    transaction.commit()?;
    match store.catalog().commit_number() == before {
        // Nothing was to be committed, and so nothing is durable that was not before.
        true => known.in_doubt = None,
        false => known.acknowledge(after, durability),
    }
    Ok(())
}

/// Gives numbers that no row has had.
type Fresh<'f> = &'f mut dyn FnMut(&mut Random) -> Vec<i64>;

/// Changes some hot rows of a table; `hot`, its rows before, follows.
fn change_hot(
    transaction: &mut Transaction,
    table: TableId,
    random: &mut Random,
    (fresh, hot): (Fresh<'_>, &mut Vec<i64>),
) -> Result<()> {
    let ids = transaction.hot_row_ids(table)?;
    assert_eq!(ids.len(), hot.len());
    let mut kept = Vec::new();
    for (id, row) in ids.into_iter().zip(hot.drain(..)) {
        match random.below(4) {
            0 => assert!(transaction.delete_hot(table, id)?),
            1 => {
                let new = fresh(random)[0];
                let note = note(new);
                let note = note.as_ref().map_or(Cell::Null, |note| Cell::Bytes(note.as_bytes()));
                assert!(transaction.update_hot(table, id, &[(1, note), (0, Cell::i64(new))])?);
                kept.push(new);
            }
            _ => kept.push(row),
        }
    }
    for new in fresh(random) {
        let note = note(new);
        let note = note.as_ref().map_or(Cell::Null, |note| Cell::Bytes(note.as_bytes()));
        transaction.insert_hot(table, &[Cell::i64(new), note])?;
        kept.push(new);
    }
    *hot = kept;
    Ok(())
}
