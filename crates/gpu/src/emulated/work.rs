//! Streams as queues, and doing what is in them.
//!
//! Invariants: the pieces of a stream are done in order; a piece that waits for an event is done after it. Among the pieces
//! that could be next, the seed chooses.
//! Must not know: how kernels are made.

use std::collections::VecDeque;
use std::time::Instant;

use forebay_base::{Error, Result};

use super::order::{Access, Clock};
use super::{EmulatedDevice, State};
use crate::device::{Address, Event, Function, Grid, Memory, Stream};
use crate::driver::{KernelRun, TouchedBuffer, run_kernel};

/// One thing to do.
#[derive(Debug)]
pub(super) enum Piece {
    Copy { to: Address, from: Address, bytes: u64 },
    Fill { to: Address, byte: u8, bytes: u64 },
    Launch { function: Function, grid: Grid, parameters: Vec<u64> },
    Record { event: Event, time: u64 },
    Wait { event: Event, time: u64 },
}

/// A piece with what the host had waited for when it put it in.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) piece: Piece,
    pub(super) host: Clock,
}

/// A stream.
#[derive(Debug)]
pub(super) struct Queue {
    work: VecDeque<Work>,
    clock: Clock,
}

impl Queue {
    pub(super) fn new(clock: Clock) -> Self {
        Self { work: VecDeque::new(), clock }
    }

    pub(super) fn put(&mut self, work: Work) {
        self.work.push_back(work);
    }

    pub(super) fn clear(&mut self) {
        self.work.clear();
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Does what is ready until a stream is empty, or all are.
pub(super) fn drain(device: &EmulatedDevice, state: &mut State, until: Option<Stream>) -> Result<()> {
    loop {
        let is_over = match until {
            Some(stream) => state.queue(stream)?.work.is_empty(),
            None => state.queues.iter().all(|queue| queue.work.is_empty()),
        };
        if is_over {
            return Ok(());
        }
        let ready: Vec<usize> = (0..state.queues.len()).filter(|stream| state.is_ready(*stream)).collect();
        if ready.is_empty() {
            return Err(Error::internal("streams wait for each other, or for an event that no stream reaches"));
        }
        let choice = (state.next_random() % ready.len() as u64) as usize;
        state.step(device, ready[choice])?;
    }
}

impl State {
    /// SplitMix64.
    pub(super) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }

    fn is_ready(&self, stream: usize) -> bool {
        match self.queues[stream].work.front().map(|work| &work.piece) {
            None => false,
            Some(Piece::Wait { event, time }) => self.events[event.0 as usize].reached >= *time,
            Some(_) => true,
        }
    }

    /// Does the next piece of a stream.
    fn step(&mut self, device: &EmulatedDevice, stream: usize) -> Result<()> {
        let queue = &mut self.queues[stream];
        let Some(Work { piece, host }) = queue.work.pop_front() else { return Ok(()) };
        queue.clock.join(&host);
        let time = queue.clock.tick(stream);
        let mut clock = queue.clock.clone();
        match piece {
            Piece::Record { event, time } => {
                let known = self.event(event)?;
                known.reached = known.reached.max(time);
                known.clock = clock;
            }
            Piece::Wait { event, .. } => {
                clock = self.event(event)?.clock.clone();
                self.queues[stream].clock.join(&clock);
            }
            Piece::Copy { to, from, bytes } => {
                self.touch(from.0, bytes, false, stream, time, &clock)?;
                self.touch(to.0, bytes, true, stream, time, &clock)?;
                let started = Instant::now();
                if self.copy(to, from, bytes)? {
                    self.counters.copy_ns += started.elapsed().as_nanos() as u64;
                }
            }
            Piece::Fill { to, byte, bytes } => {
                self.touch(to.0, bytes, true, stream, time, &clock)?;
                let (allocation, inside) = self.find(to, bytes, "a fill")?;
                allocation.block.bytes()[inside..][..bytes as usize].fill(byte);
                self.counters.within_device_bytes += bytes;
            }
            Piece::Launch { function, grid, parameters } => {
                let (kernel, name) = self.kernels[function.0 as usize].clone();
                let of =
                    |(from, allocation): (&u64, &super::Allocation)| TouchedBuffer::new(*from, from + allocation.bytes);
                // Kernels reach the device's own memory only.
                let on_device = self.allocations.iter().filter(|(_, known)| known.memory == Memory::Device);
                let mut buffers: Vec<TouchedBuffer> = on_device.map(of).collect();
                let seed = self.next_random();
                let started = Instant::now();
                run_kernel(
                    device.runtime,
                    &mut KernelRun {
                        kernel: kernel.0,
                        parameters: &parameters,
                        buffers: &mut buffers,
                        blocks: grid.blocks,
                        threads: grid.threads,
                        // What the kernel declares itself comes on top.
                        shared_bytes: grid.shared_bytes + DECLARED_BYTES,
                        workers: device.options.workers,
                        seed,
                    },
                )
                .map_err(|error| error.context(format!("kernel {name}")))?;
                self.counters.kernel_ns += started.elapsed().as_nanos() as u64;
                for buffer in &buffers {
                    for (range, writes) in buffer.touched().into_iter().zip([false, true]) {
                        let Some((from, to)) = range else { continue };
                        self.touch(from, to - from, writes, stream, time, &clock)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn touch(&mut self, at: u64, bytes: u64, writes: bool, stream: usize, time: u64, clock: &Clock) -> Result<()> {
        let (allocation, _) = self.find(Address(at), bytes, "an access")?;
        let access = Access { bytes: at..at + bytes, writes, stream: Some(stream), time };
        allocation.history.add(access, clock)
    }

    /// Copies; whether that was over the link.
    fn copy(&mut self, to: Address, from: Address, bytes: u64) -> Result<bool> {
        let (source, inside) = self.find(from, bytes, "a copy")?;
        let from_memory = source.memory;
        let copied = source.block.bytes()[inside..][..bytes as usize].to_vec();
        let (target, inside) = self.find(to, bytes, "a copy")?;
        let to_memory = target.memory;
        target.block.bytes()[inside..][..bytes as usize].copy_from_slice(&copied);
        match (from_memory, to_memory) {
            (Memory::Pinned, Memory::Device) => self.counters.to_device_bytes += bytes,
            (Memory::Device, Memory::Pinned) => self.counters.to_host_bytes += bytes,
            (Memory::Device, Memory::Device) => self.counters.within_device_bytes += bytes,
            (Memory::Pinned, Memory::Pinned) => {}
        }
        Ok(from_memory != to_memory)
    }
}

/// Shared memory that a kernel can declare itself.
const DECLARED_BYTES: u32 = 1024;
