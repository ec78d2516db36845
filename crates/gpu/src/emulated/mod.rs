//! A device without a GPU: memory of the host, kernels compiled by the host's C++ compiler, and every check that can be
//! made of them.
//!
//! Streams are queues that nobody works on until somebody waits; then work is taken from any stream whose next piece is
//! ready, as a seed says. Each such order is one that a GPU may choose.
//! Checked: addresses out of bounds, races within a block, barriers that not all threads reach (`emulator/runtime.cpp`);
//! and memory that two streams, or a stream and the host, use with no event or wait between them ([`order`]).
//! Must not know: pipelines.

mod compiler;
mod order;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use forebay_base::{Error, ErrorKind, Result};

use crate::device::{Address, Counters, Device, Event, Function, Grid, Image, Limits, Memory, Stream};
use crate::driver::{Block, KernelAddress, Library};
use compiler::Compiler;
use order::{Access, Clock, History};
use work::{Piece, Queue, Work};

/// Memory begins at multiples of so many bytes, and no two allocations lie closer.
const ALIGN: usize = 256;

/// What fresh memory holds.
const POISON: u8 = 0xA5;
/// Blocks that a multiprocessor runs at a time, whatever they need.
const RESIDENT_BLOCKS: u32 = 4;

/// How the device behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Multiprocessors that it says to have.
    pub multiprocessors: u32,
    /// Threads of the host that blocks run on.
    pub workers: u32,
    /// Chooses the order of streams and of threads.
    pub seed: u64,
    /// The allocation, counted from 0, that fails.
    pub fail_allocation: Option<u64>,
    /// Whether all allocations behind that one fail, too.
    pub stays_full: bool,
    /// The launch, counted from 0, that fails.
    pub fail_launch: Option<u64>,
    /// The call, counted from 0, at which the device is lost: that one fails and all that come later.
    pub lose_at_call: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            multiprocessors: 2,
            workers: 2,
            seed: 0,
            fail_allocation: None,
            stays_full: false,
            fail_launch: None,
            lose_at_call: None,
        }
    }
}

/// The emulated device.
#[derive(Debug)]
pub struct EmulatedDevice {
    options: Options,
    limits: Limits,
    compiler: Compiler,
    runtime: &'static Library,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Allocation {
    memory: Memory,
    block: Block,
    bytes: u64,
    history: History,
}

#[derive(Debug, Default)]
struct State {
    allocations: BTreeMap<u64, Allocation>,
    /// Allocations so far, those that failed too.
    allocations_asked: u64,
    /// Calls so far that can fail.
    calls: u64,
    queues: Vec<Queue>,
    events: Vec<EventState>,
    kernels: Vec<(KernelAddress, String)>,
    /// What the host has waited for.
    host: Clock,
    counters: Counters,
    random: u64,
    /// The first piece of work that failed: the device is lost.
    failed: Option<Error>,
}

/// An event: how often it was put into a stream, and how often that was reached.
#[derive(Debug, Default)]
struct EventState {
    recorded: u64,
    reached: u64,
    clock: Clock,
}

/// The processor's library, compiled and loaded once: all devices of the process share it.
fn runtime(compiler: &Compiler) -> Result<&'static Library> {
    static RUNTIME: OnceLock<Result<Library>> = OnceLock::new();
    let loaded = RUNTIME.get_or_init(|| Library::open(&compiler.runtime()?, true));
    loaded.as_ref().map_err(Clone::clone)
}

/// Images by text, of all devices of the process: a compiler takes half a second for one.
fn images() -> MutexGuard<'static, HashMap<String, Image>> {
    static IMAGES: OnceLock<Mutex<HashMap<String, Image>>> = OnceLock::new();
    IMAGES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kernels by image and name.
type Kernels = HashMap<(Arc<[u8]>, String), KernelAddress>;

/// The kernels of all devices of the process: what was loaded stays loaded.
fn kernels() -> MutexGuard<'static, Kernels> {
    static KERNELS: OnceLock<Mutex<Kernels>> = OnceLock::new();
    KERNELS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The compiler that the device would use, by its name; an error says what to install where there is none.
pub fn compiler_name() -> Result<String> {
    Ok(Compiler::find()?.name())
}

/// The texts that the devices of this process have compiled, in ascending order: what a real device would compile.
pub fn compiled_texts() -> Vec<String> {
    let mut texts: Vec<String> = images().keys().cloned().collect();
    texts.sort_unstable();
    texts
}

impl EmulatedDevice {
    /// Opens a device; an error where the host has no C++ compiler.
    pub fn open(options: Options) -> Result<Arc<Self>> {
        let compiler = Compiler::find()?;
        let limits = Limits {
            name: "emulated device".to_owned(),
            memory_bytes: options.memory_bytes,
            multiprocessors: options.multiprocessors,
            shared_bytes: 48 << 10,
        };
        let runtime = runtime(&compiler)?;
        let state = State { random: options.seed, ..State::default() };
        Ok(Arc::new(Self { options, limits, compiler, runtime, state: Mutex::new(state) }))
    }

    /// Allocations so far, those that failed too: how many failures of one there are to try.
    pub fn allocations(&self) -> u64 {
        self.state().allocations_asked
    }

    /// Calls so far at which the device could have been lost.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for a call that can fail: it does from the one on at which the device is lost.
    fn called(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.calls += 1;
        if self.options.lose_at_call.is_some_and(|call| call < state.calls) {
            let error = Error::new(ErrorKind::Io, format!("the {} was lost", self.limits.name));
            state.queues.iter_mut().for_each(Queue::clear);
            state.failed = Some(error.clone());
            return Err(error);
        }
        Ok(state)
    }

    /// A kernel of an image, loaded unless a device of the process has it.
    fn loaded(&self, image: &Image, name: &str) -> Result<KernelAddress> {
        let key = (Arc::clone(&image.0), name.to_owned());
        if let Some(known) = kernels().get(&key) {
            return Ok(*known);
        }
        let path = self.compiler.place(&image.0)?;
        let address = KernelAddress(Library::open(&path, false)?.function(name)?);
        kernels().insert(key, address);
        Ok(address)
    }

    /// Works until a stream has nothing left, or all of them.
    fn drain(&self, state: &mut State, until: Option<Stream>) -> Result<()> {
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let outcome = work::drain(self, state, until);
        if let Err(error) = &outcome {
            // As after an error on a device: what was to come is not done, and every later wait says so again. Whoever
            // met it first may have dropped it, as a buffer does that is given back.
            state.queues.iter_mut().for_each(Queue::clear);
            state.failed = Some(error.clone());
        }
        outcome
    }

    fn put(&self, stream: Stream, piece: Piece) -> Result<()> {
        let mut state = self.state();
        let host = state.host.clone();
        state.queue(stream)?.put(Work { piece, host });
        Ok(())
    }
}

fn no_such(what: &str) -> Error {
    Error::internal(format!("the device has no such {what}"))
}

impl State {
    fn queue(&mut self, stream: Stream) -> Result<&mut Queue> {
        self.queues.get_mut(stream.0 as usize).ok_or_else(|| no_such("stream"))
    }

    fn event(&mut self, event: Event) -> Result<&mut EventState> {
        self.events.get_mut(event.0 as usize).ok_or_else(|| no_such("event"))
    }

    /// The allocation that holds these bytes, and how far inside they begin.
    fn find(&mut self, at: Address, bytes: u64, what: &str) -> Result<(&mut Allocation, usize)> {
        let found = self.allocations.range_mut(..=at.0).next_back();
        let found = found
            .filter(|(from, allocation)| at.0.checked_add(bytes).is_some_and(|end| end <= **from + allocation.bytes));
        let Some((from, allocation)) = found else {
            return Err(Error::internal(format!("{what} of {bytes} bytes leaves the device's buffers")));
        };
        Ok((allocation, (at.0 - from) as usize))
    }
}

impl Device for EmulatedDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> Counters {
        self.state().counters
    }

    fn allocate(&self, memory: Memory, bytes: u64) -> Result<Address> {
        let mut state = self.called()?;
        state.allocations_asked += 1;
        let free = match memory {
            Memory::Device => self.options.memory_bytes.saturating_sub(state.counters.device_bytes),
            Memory::Pinned => u64::MAX,
        };
        let is_chosen = self.options.fail_allocation.is_some_and(|chosen| {
            let number = state.allocations_asked - 1;
            number == chosen || (number > chosen && self.options.stays_full)
        });
        if bytes > free || is_chosen {
            let message = format!("the {} has no {bytes} bytes of {memory} left", self.limits.name);
            return Err(Error::new(ErrorKind::OutOfMemory, message));
        }
        // Room behind each allocation, so that what runs over its end does not land in another.
        let block = Block::new(bytes as usize + ALIGN, ALIGN, POISON)?;
        let address = block.address();
        let counters = &mut state.counters;
        match memory {
            Memory::Device => counters.device_bytes += bytes,
            Memory::Pinned => counters.pinned_bytes += bytes,
        }
        counters.peak_device_bytes = counters.peak_device_bytes.max(counters.device_bytes);
        state.allocations.insert(address, Allocation { memory, block, bytes, history: History::default() });
        Ok(Address(address))
    }

    fn free(&self, address: Address) -> Result<()> {
        let mut state = self.state();
        let drained = self.drain(&mut state, None);
        let allocation = state.allocations.remove(&address.0).ok_or_else(|| no_such("allocation"))?;
        match allocation.memory {
            Memory::Device => state.counters.device_bytes -= allocation.bytes,
            Memory::Pinned => state.counters.pinned_bytes -= allocation.bytes,
        }
        drained
    }

    fn pinned(&self, at: Address, bytes: u64, visit: &mut dyn FnMut(&mut [u8])) -> Result<()> {
        let mut state = self.called()?;
        // Work that was put in but not waited for may touch the memory at any time: as a device may be quick, it is.
        let host = state.host.clone();
        self.drain(&mut state, None)?;
        let (allocation, inside) = state.find(at, bytes, "an access by the host")?;
        if allocation.memory != Memory::Pinned {
            return Err(Error::internal("the host looks at memory of the device"));
        }
        allocation.history.check(&Access::by_host(at.0..at.0 + bytes), &host)?;
        visit(&mut allocation.block.bytes()[inside..][..bytes as usize]);
        Ok(())
    }

    fn stream(&self) -> Result<Stream> {
        let mut state = self.called()?;
        let clock = state.host.clone();
        state.queues.push(Queue::new(clock));
        Ok(Stream(state.queues.len() as u64 - 1))
    }

    fn event(&self) -> Result<Event> {
        let mut state = self.called()?;
        state.events.push(EventState::default());
        Ok(Event(state.events.len() as u64 - 1))
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        let time = {
            let mut state = self.called()?;
            let known = state.event(event)?;
            known.recorded += 1;
            known.recorded
        };
        self.put(stream, Piece::Record { event, time })
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        let time = self.called()?.event(event)?.recorded;
        self.put(stream, Piece::Wait { event, time })
    }

    fn copy(&self, stream: Stream, to: Address, from: Address, bytes: u64) -> Result<()> {
        let mut state = self.called()?;
        state.find(to, bytes, "a copy")?;
        state.find(from, bytes, "a copy")?;
        drop(state);
        self.put(stream, Piece::Copy { to, from, bytes })
    }

    fn fill(&self, stream: Stream, to: Address, byte: u8, bytes: u64) -> Result<()> {
        self.called()?.find(to, bytes, "a fill")?;
        self.put(stream, Piece::Fill { to, byte, bytes })
    }

    fn compile(&self, text: &str) -> Result<Image> {
        self.state().counters.compilations += 1;
        if let Some(known) = images().get(text) {
            return Ok(known.clone());
        }
        let image = Image(self.compiler.compile(text)?.into());
        images().insert(text.to_owned(), image.clone());
        Ok(image)
    }

    /// Who asks for it is testing, and wants what a device gives.
    fn has_image(&self, _: &str) -> bool {
        true
    }

    fn load(&self, image: &Image, name: &str) -> Result<Function> {
        let mut state = self.called()?;
        let address = self.loaded(image, name)?;
        state.kernels.push((address, name.to_owned()));
        Ok(Function(state.kernels.len() as u64 - 1))
    }

    fn resident_blocks(&self, _: Function, _: u32, _: u32) -> Result<u32> {
        Ok(RESIDENT_BLOCKS)
    }

    fn launch(&self, stream: Stream, function: Function, grid: Grid, parameters: &[u8]) -> Result<()> {
        let mut state = self.called()?;
        let known = state.kernels.len() as u64;
        state.counters.launches += 1;
        if Some(state.counters.launches - 1) == self.options.fail_launch {
            return Err(Error::new(ErrorKind::Io, format!("the {} failed to launch a kernel", self.limits.name)));
        }
        drop(state);
        if function.0 >= known {
            return Err(no_such("kernel"));
        }
        if grid.threads == 0 || grid.threads > 1024 || grid.blocks == 0 {
            return Err(Error::internal(format!("a launch of {} blocks of {} threads", grid.blocks, grid.threads)));
        }
        let words = parameters.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        self.put(stream, Piece::Launch { function, grid, parameters: words.collect() })
    }

    fn synchronize(&self, stream: Stream) -> Result<()> {
        let mut state = self.called()?;
        state.counters.synchronizations += 1;
        self.drain(&mut state, Some(stream))?;
        let clock = state.queue(stream)?.clock().clone();
        state.host.join(&clock);
        Ok(())
    }
}
