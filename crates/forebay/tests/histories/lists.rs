//! Lists as tables: one row with a text for each list, or one row for each element, and the ways to append to them and to read them.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use forebay::{ErrorKind, Params, Prepared, QueryResult, Result, Session, arrow};

use crate::answers::{integers, run};
use crate::random::Random;

/// Lists of a history.
pub(crate) const LISTS: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Snapshot,
    Serializable,
    ReadCommitted,
}

impl Level {
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Snapshot => "BEGIN",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
            Self::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
        }
    }

    /// The consistency model of its histories: each transaction sees all that was acknowledged before it began.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Snapshot => "strong-snapshot-isolation",
            Self::Serializable => "strict-serializable",
            Self::ReadCommitted => "strong-read-committed",
        }
    }
}

/// Where the rows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Hot,
    /// In segments, whenever somebody begins to read them.
    Frozen,
    Mixed,
}

/// How lists are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// `lists (k, v)`, a text of elements for each list.
    Texts,
    /// `entries (k, n, v)`, where n counts the elements of a list.
    Rows,
}

/// How a session appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Prepared,
    Text,
    Planned,
    Upsert,
    Merge,
    /// Deletes the row and adds one: what it reads may be older than what it writes at READ COMMITTED.
    Replace,
}

/// The tables of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lists {
    kept: Kept,
    /// Whether the segment of the rows is so large that rows are deleted from it one by one.
    is_large: bool,
}

impl Lists {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self { kept: random.choose(&[Kept::Texts, Kept::Rows]), is_large: random.once_in(4) }
    }

    /// Statements that make the tables.
    pub(crate) fn made(&self, form: Form) -> Vec<String> {
        let mut made = vec![match self.kept {
            Kept::Texts => "CREATE TABLE lists (k BIGINT PRIMARY KEY, v VARCHAR)".to_owned(),
            Kept::Rows => "CREATE TABLE entries (k BIGINT, n BIGINT, v BIGINT, PRIMARY KEY (k, n))".to_owned(),
        }];
        if self.is_large {
            made.push(match self.kept {
                Kept::Texts => {
                    "INSERT INTO lists SELECT 1000 + i, md5(CAST(i AS VARCHAR)) FROM range(6000) AS r(i)".to_owned()
                }
                Kept::Rows => {
                    "INSERT INTO entries SELECT 1000 + i // 3, i, i * 7919 % 100003 FROM range(20000) AS r(i)"
                        .to_owned()
                }
            });
        }
        if self.kept == Kept::Texts {
            let rows: Vec<String> = (0..LISTS).map(|list| format!("({list}, '')")).collect();
            made.push(format!("INSERT INTO lists VALUES {}", rows.join(", ")));
        }
        if form != Form::Hot {
            made.push("CHECKPOINT".to_owned());
        }
        made
    }

    /// All lists, read by one statement.
    pub(crate) fn all(&self, session: &Session) -> Result<Vec<(u64, Vec<u64>)>> {
        match self.kept {
            Kept::Texts => {
                let lists = rows(execute(session, &format!("SELECT k, v FROM lists WHERE k < {LISTS} ORDER BY k"))?)?;
                Ok(lists.into_iter().map(|(list, text)| (list, elements(&text))).collect())
            }
            Kept::Rows => {
                let text = format!("SELECT k, v FROM entries WHERE k < {LISTS} ORDER BY k, n");
                let mut lists: Vec<(u64, Vec<u64>)> = (0..LISTS).map(|list| (list, Vec::new())).collect();
                for (list, element) in rows(execute(session, &text)?)? {
                    lists[list as usize].1.extend(elements(&element));
                }
                Ok(lists)
            }
        }
    }
}

fn execute(session: &Session, text: &str) -> Result<QueryResult> {
    session.execute(&forebay::Statement { text: text.to_owned() })
}

/// Rows of a number and a value, as text.
fn rows(mut result: QueryResult) -> Result<Vec<(u64, String)>> {
    let mut rows = Vec::new();
    while let Some(batch) = result.next_batch()? {
        let [numbers, texts] = batch.columns() else { panic!("two columns") };
        let numbers = arrow::compute::cast(numbers, &DataType::Int64).expect("integers");
        let texts = arrow::compute::cast(texts, &DataType::Utf8).expect("texts");
        let (numbers, texts) = (numbers.as_primitive::<Int64Type>(), texts.as_string::<i32>());
        rows.extend((0..batch.num_rows()).map(|row| {
            assert!(!texts.is_null(row), "a list is never NULL");
            (numbers.value(row) as u64, texts.value(row).to_owned())
        }));
    }
    Ok(rows)
}

/// The elements of `1,2,`.
fn elements(text: &str) -> Vec<u64> {
    text.split(',').filter(|element| !element.is_empty()).map(|element| element.parse().expect("a number")).collect()
}

/// A session that works with the lists.
pub(crate) struct Client {
    pub(crate) session: Session,
    lists: Lists,
    read: Prepared,
    append: Prepared,
    last: Prepared,
    is_planned: bool,
}

impl Client {
    pub(crate) fn new(session: Session, lists: Lists) -> Self {
        run(&session, "SET lock_timeout = 0").expect("a setting");
        let [read, append, last] = match lists.kept {
            Kept::Texts => [
                "SELECT k, v FROM lists WHERE k = $1",
                "UPDATE lists SET v = v || $2 WHERE k = $1",
                "SELECT count(*) FROM lists WHERE k = $1",
            ],
            Kept::Rows => [
                "SELECT n, v FROM entries WHERE k = $1 ORDER BY n",
                "INSERT INTO entries VALUES ($1, $2, $3)",
                "SELECT max(n) FROM entries WHERE k = $1",
            ],
        };
        let prepare = |sql: &str| session.prepare(sql).expect("it parses");
        let [read, append, last] = [prepare(read), prepare(append), prepare(last)];
        Self { session, lists, read, append, last, is_planned: false }
    }

    /// Has the next statements of this session planned, or run by key where they can be.
    fn plan(&mut self, is_planned: bool) -> Result<()> {
        if self.is_planned != is_planned {
            run(&self.session, if is_planned { "SET point_access = off" } else { "SET point_access = on" })?;
            self.is_planned = is_planned;
        }
        Ok(())
    }

    pub(crate) fn all(&mut self) -> Result<Vec<(u64, Vec<u64>)>> {
        self.lists.all(&self.session)
    }

    /// What a list has, read in one of the ways.
    pub(crate) fn read(&mut self, list: u64, random: &mut Random) -> Result<Vec<u64>> {
        self.plan(random.once_in(3))?;
        let found = match random.once_in(2) {
            true => self.session.execute_prepared(&self.read, &Params::new().push(list as i64))?,
            false => {
                let text = match self.lists.kept {
                    Kept::Texts => format!("SELECT k, v FROM lists WHERE k = {list}"),
                    Kept::Rows => format!("SELECT n, v FROM entries WHERE k = {list} ORDER BY n"),
                };
                execute(&self.session, &text)?
            }
        };
        Ok(rows(found)?.into_iter().flat_map(|(_, text)| elements(&text)).collect())
    }

    /// Appends an element in one of the ways.
    pub(crate) fn append(&mut self, level: Level, list: u64, element: u64, random: &mut Random) -> Result<()> {
        let all = [Way::Prepared, Way::Prepared, Way::Text, Way::Planned, Way::Upsert, Way::Merge, Way::Replace];
        let ways = if level == Level::ReadCommitted { &all[..all.len() - 1] } else { &all[..] };
        let way = random.choose(ways);
        self.plan(way == Way::Planned || (way == Way::Replace && random.once_in(2)))?;
        match self.lists.kept {
            Kept::Texts => self.append_text(way, list, element),
            Kept::Rows => self.append_row(way, list, element),
        }
    }

    fn append_text(&mut self, way: Way, list: u64, element: u64) -> Result<()> {
        let added = format!("'{element},'");
        let merge = |source: &str| {
            format!(
                "MERGE INTO lists AS l USING ({source}) AS s ON l.k = s.k
                 WHEN MATCHED THEN UPDATE SET v = l.v || s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)"
            )
        };
        let update = format!("UPDATE lists SET v = v || {added} WHERE k = {list}");
        let statement = match way {
            Way::Prepared => {
                let params = Params::new().push(list as i64).push(format!("{element},"));
                self.session.execute_prepared(&self.append, &params)?;
                return Ok(());
            }
            Way::Text | Way::Planned => update,
            Way::Upsert => format!(
                "INSERT INTO lists VALUES ({list}, {added}) ON CONFLICT (k) DO UPDATE SET v = lists.v || excluded.v"
            ),
            Way::Merge => merge(&format!("SELECT {list} AS k, {added} AS v")),
            Way::Replace => {
                let before = rows(execute(&self.session, &format!("SELECT k, v FROM lists WHERE k = {list}"))?)?;
                let before = before.into_iter().next().map(|(_, text)| text).unwrap_or_default();
                run(&self.session, &format!("DELETE FROM lists WHERE k = {list}"))?;
                format!("INSERT INTO lists VALUES ({list}, '{before}{element},')")
            }
        };
        run(&self.session, &statement).map(drop)
    }

    fn append_row(&mut self, way: Way, list: u64, element: u64) -> Result<()> {
        let next = |last: Vec<i64>| last.first().copied().unwrap_or(0).max(0) + 1;
        let last = format!("SELECT max(n) FROM entries WHERE k = {list}");
        let statement = match way {
            Way::Prepared => {
                let last = self.session.execute_prepared(&self.last, &Params::new().push(list as i64))?;
                let params = Params::new().push(list as i64).push(next(integers(last)?)).push(element as i64);
                self.session.execute_prepared(&self.append, &params)?;
                return Ok(());
            }
            Way::Text | Way::Replace => {
                let next = next(run(&self.session, &last)?);
                format!("INSERT INTO entries VALUES ({list}, {next}, {element})")
            }
            Way::Planned | Way::Upsert => format!(
                "INSERT INTO entries SELECT {list}, coalesce(max(n), 0) + 1, {element} FROM entries WHERE k = {list}"
            ),
            Way::Merge => format!(
                "MERGE INTO entries AS e USING (SELECT {list} AS k, coalesce(max(n), 0) + 1 AS n FROM entries WHERE k = {list}) AS s
                 ON e.k = s.k AND e.n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n, {element})"
            ),
        };
        run(&self.session, &statement).map(drop)
    }
}

/// Whether a statement may fail so beside others: it found that they have changed the same.
pub(crate) fn is_conflict(kind: ErrorKind) -> bool {
    // Two that give an element the same number, of which one has committed.
    matches!(kind, ErrorKind::Conflict | ErrorKind::Constraint)
}
