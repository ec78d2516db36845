//! What the rest needs of a device: memory, streams, events, copies, kernels, and what each of them cost.
//!
//! Shaped after the CUDA driver's functions, so that an implementation by them is thin: handles are numbers, memory is
//! addresses, work is put into streams and waited for. Every error is returned, also those of earlier asynchronous work,
//! by the call that meets them first.
//! Invariants: only memory that a device gave out is copied from or to; host memory takes part as pinned memory.
//! Must not know: pipelines, blocks, what kernels compute.

use std::fmt;
use std::sync::Arc;

use forebay_base::Result;

/// Where memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// On the device.
    Device,
    /// On the host, fixed in place, so that copies run beside the host's work.
    Pinned,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device memory",
            Self::Pinned => "pinned memory of the host",
        })
    }
}

/// A place in memory that a device gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u64);

/// A queue of work that is done in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// A point in a stream that others can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event(pub u64);

/// A kernel that can be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function(pub u64);

/// A compiled kernel text: a cubin, or a shared object for the emulated device.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(pub Arc<[u8]>);

/// How many threads run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Shared memory of a block beyond what the kernel declares.
    pub shared_bytes: u32,
}

/// What a device has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Its name, for messages.
    pub name: String,
    /// Bytes of memory that can be given out.
    pub memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block can have without asking for more.
    pub shared_bytes: u32,
}

/// What was done since the device was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that crossed the link to the device.
    pub to_device_bytes: u64,
    /// Bytes that crossed the link from the device.
    pub to_host_bytes: u64,
    /// Bytes copied and filled within the device.
    pub within_device_bytes: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Times that the host waited.
    pub synchronizations: u64,
    /// Texts compiled.
    pub compilations: u64,
    /// Time of copies over the link in ns, as the device saw it; of those that somebody has waited for.
    pub copy_ns: u64,
    /// Time of kernels in ns, likewise.
    pub kernel_ns: u64,
    /// Bytes of device memory given out now.
    pub device_bytes: u64,
    /// The most that were given out at a time.
    pub peak_device_bytes: u64,
    /// Bytes of pinned memory given out now.
    pub pinned_bytes: u64,
}

/// A device. All calls may come from any thread.
pub trait Device: fmt::Debug + Send + Sync {
    /// What it has.
    fn limits(&self) -> &Limits;

    /// What was done so far.
    fn counters(&self) -> Counters;

    /// Memory, aligned to 256 bytes, that holds anything. [`forebay_base::ErrorKind::OutOfMemory`] where there is too little.
    fn allocate(&self, memory: Memory, bytes: u64) -> Result<Address>;

    /// Gives memory back, which must be the beginning of what was allocated. Work that was put in before may still use it: nobody else
    /// gets it before that is over.
    fn free(&self, address: Address) -> Result<()>;

    /// The bytes of pinned memory, wholly within one allocation. No work that is not waited for may use them, nobody else may
    /// look at them meanwhile, and the allocation may not be given back.
    fn pinned(&self, at: Address, bytes: u64, visit: &mut dyn FnMut(&mut [u8])) -> Result<()>;

    /// A new stream.
    fn stream(&self) -> Result<Stream>;

    /// A new event, which nothing waits for until it is recorded.
    fn event(&self) -> Result<Event>;

    /// The event is over when the work is that is in the stream now.
    fn record(&self, event: Event, stream: Stream) -> Result<()>;

    /// What is put into the stream from now on begins when the event, as it was last recorded, is over.
    fn wait(&self, stream: Stream, event: Event) -> Result<()>;

    /// Copies between any two places.
    fn copy(&self, stream: Stream, to: Address, from: Address, bytes: u64) -> Result<()>;

    /// Sets device memory to one byte.
    fn fill(&self, stream: Stream, to: Address, byte: u8, bytes: u64) -> Result<()>;

    /// Compiles a kernel text, which includes the headers of [`crate::kernels`].
    fn compile(&self, text: &str) -> Result<Image>;

    /// Whether the image of a text is at hand, so that to compile it takes no time that a query would notice.
    fn has_image(&self, text: &str) -> bool;

    /// A kernel of an image by name. The image stays loaded while the device is open.
    fn load(&self, image: &Image, name: &str) -> Result<Function>;

    /// How many blocks of so many threads and bytes of shared memory a multiprocessor runs at a time, at least one.
    fn resident_blocks(&self, function: Function, threads: u32, shared_bytes: u32) -> Result<u32>;

    /// Runs a kernel on parameters that are copied at once: the bytes of its one parameter, a struct.
    fn launch(&self, stream: Stream, function: Function, grid: Grid, parameters: &[u8]) -> Result<()>;

    /// Waits for the work of a stream.
    fn synchronize(&self, stream: Stream) -> Result<()>;
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes)", self.0.len())
    }
}

impl Address {
    /// A place some bytes behind this one.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// Memory of a device that is given back when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    device: Arc<dyn Device>,
    address: Address,
    bytes: u64,
}

impl Buffer {
    /// Allocates.
    pub fn new(device: &Arc<dyn Device>, memory: Memory, bytes: u64) -> Result<Self> {
        Ok(Self { device: Arc::clone(device), address: device.allocate(memory, bytes)?, bytes })
    }

    /// Where it begins.
    pub fn address(&self) -> Address {
        self.address
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A device that is lost has no memory that could leak.
        let _ = self.device.free(self.address);
    }
}
