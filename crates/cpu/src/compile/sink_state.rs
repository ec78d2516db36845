//! What a worker's pipeline fills.

use forebay_base::{Error, Result};

use super::context::{CURSOR, GROUP_CURSORS, GROUP_DIRECTORY, GROUP_ROWS, GROUP_SHIFT, GROUP_TOUCHED, LIMIT};
use super::{Compiled, SinkKind};
use crate::groups::{GroupPart, GroupPlan};
use crate::rows::RowBuffer;
use crate::runs::{Partitions, RunLayout, WriteRun};

/// One worker's part of the state or result; the functions that compiled code calls work on it.
pub(super) enum SinkState {
    Rows(RowBuffer),
    Groups(Box<GroupPart>),
    Marks,
}

impl SinkState {
    /// Nothing yet. `groups` says how the groups are found that the pipeline fills.
    pub(super) fn new(compiled: &Compiled, groups: Option<&GroupPlan>) -> Result<Self> {
        Ok(match &compiled.sink {
            SinkKind::Build(words) | SinkKind::Collect(words) => Self::Rows(RowBuffer::new(*words)),
            SinkKind::Mark => Self::Marks,
            SinkKind::Aggregate(state) => {
                let plan = groups.ok_or_else(|| Error::internal("a worker without a plan of its groups"))?;
                if compiled.layouts.groups != Some(plan.layout()) {
                    return Err(Error::internal("groups of another layout than was compiled for"));
                }
                Self::Groups(Box::new(GroupPart::new(state, plan)))
            }
        })
    }

    /// Bytes of memory that it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Rows(buffer) => buffer.memory_bytes(),
            Self::Groups(part) => part.memory_bytes(),
            Self::Marks => 0,
        }
    }

    /// Gives all as runs, and is empty then. Not for dense groups.
    pub(super) fn take_runs(
        &mut self,
        layout: &RunLayout,
        partitions: &Partitions,
        write: &mut WriteRun<'_>,
    ) -> Result<()> {
        match self {
            Self::Rows(buffer) => buffer.take_runs(layout, partitions, write),
            Self::Groups(part) => part.take_runs(layout, partitions, write),
            Self::Marks => Ok(()),
        }
    }

    /// Says in the context where its memory lies.
    pub(super) fn open(&mut self, context: &mut [u64]) {
        match self {
            Self::Rows(buffer) => {
                context[CURSOR] = buffer.cursor();
                context[LIMIT] = buffer.limit();
            }
            Self::Groups(part) => {
                let addresses = part.addresses();
                context[GROUP_ROWS] = addresses.rows;
                context[GROUP_TOUCHED] = addresses.touched;
                context[GROUP_DIRECTORY] = addresses.directory;
                context[GROUP_SHIFT] = u64::from(addresses.shift);
                context[GROUP_CURSORS] = addresses.cursors;
            }
            Self::Marks => {}
        }
    }
}
