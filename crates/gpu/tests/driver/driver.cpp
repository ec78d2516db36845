// A stand-in for the CUDA driver, for tests of what calls it: memory of the host, work done at once, kernels that do nothing.
// FAKE_DRIVER says how it fails: none (no GPU), empty (none in the list), old, broken, lost (after the first launch).
// -DINCOMPLETE leaves a function out.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

const size_t MEMORY_BYTES = 64 << 20;

std::map<uint64_t, size_t> allocated;
size_t used = 0;
int64_t handles = 0;
int contexts = 0;
void* current = nullptr;
int lost_in = -1;

bool is(const char* mode) {
    const char* given = std::getenv("FAKE_DRIVER");
    return given != nullptr && std::strcmp(given, mode) == 0;
}

// Every call needs a context; a context that has failed says so for ever.
int state() {
    if (current == nullptr) return 201;
    return lost_in == contexts ? ILLEGAL_ADDRESS : SUCCESS;
}

int give(void** handle) {
    if (int code = state()) return code;
    *handle = reinterpret_cast<void*>(++handles);
    return SUCCESS;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return is("none") ? NO_DEVICE : is("broken") ? 999 : SUCCESS; }

int cuDriverGetVersion(int* version) {
    *version = is("old") ? 11040 : 12080;
    return SUCCESS;
}

int cuGetErrorName(int code, const char** text) {
    *text = code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return SUCCESS;
}

int cuGetErrorString(int code, const char** text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : code == NO_DEVICE ? "no CUDA-capable device is detected" : "an error";
    return SUCCESS;
}

int cuDeviceGetCount(int* count) {
    *count = is("empty") ? 0 : 1;
    return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char* name, int bytes, int) {
    std::strncpy(name, "Stand-in", bytes);
    return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 4 : 49152;
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = MEMORY_BYTES;
    return SUCCESS;
}

int cuCtxCreate_v2(void** context, unsigned, int) {
    *context = current = reinterpret_cast<void*>(static_cast<int64_t>(++contexts));
    return SUCCESS;
}

int cuCtxDestroy_v2(void*) {
    for (auto& known : allocated) std::free(reinterpret_cast<void*>(known.first));
    allocated.clear();
    used = 0;
    return SUCCESS;
}

int cuCtxSetCurrent(void* context) {
    current = context;
    return SUCCESS;
}

int cuCtxSynchronize() { return state(); }

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    *free = MEMORY_BYTES - used;
    *total = MEMORY_BYTES;
    return state();
}

int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    if (int code = state()) return code;
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > MEMORY_BYTES - used) return OUT_OF_MEMORY;
    *address = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::memset(reinterpret_cast<void*>(*address), 0xA5, bytes);
    allocated[*address] = bytes;
    used += bytes;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t address) {
    auto known = allocated.find(address);
    if (known == allocated.end()) return INVALID_VALUE;
    used -= known->second;
    allocated.erase(known);
    std::free(reinterpret_cast<void*>(address));
    return state();
}

int cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    return cuMemAlloc_v2(reinterpret_cast<uint64_t*>(pointer), bytes);
}

int cuMemFreeHost(void* pointer) { return cuMemFree_v2(reinterpret_cast<uint64_t>(pointer)); }

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void*) {
    if (int code = state()) return code;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
}

int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void*) {
    if (int code = state()) return code;
    std::memset(reinterpret_cast<void*>(to), byte, bytes);
    return SUCCESS;
}

// 1 is "non-blocking" of streams; 0 of events is with timing, 2 without.
int cuStreamCreate(void** stream, unsigned flags) { return flags == 1 ? give(stream) : INVALID_VALUE; }
int cuStreamSynchronize(void* stream) { return stream == nullptr ? INVALID_VALUE : state(); }
int cuStreamWaitEvent(void*, void*, unsigned) { return state(); }
int cuEventCreate(void** event, unsigned flags) { return flags == 2 || flags == 0 ? give(event) : INVALID_VALUE; }

int cuEventElapsedTime(float* milliseconds, void*, void*) {
    *milliseconds = 0.25f;
    return state();
}


// Work that fails later is not known yet.
int cuEventRecord(void*, void*) { return current == nullptr ? 201 : SUCCESS; }

int cuModuleLoadData(void** module, const void* image) {
    return std::memcmp(image, "\x7f" "ELF", 4) == 0 ? give(module) : 200;
}

int cuModuleGetFunction(void** function, void*, const char* name) {
    return std::strcmp(name, "pipeline") == 0 ? give(function) : NOT_FOUND;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
    *blocks = 4;
    return state();
}

#ifndef INCOMPLETE
// Its one effect: the first word of the parameters is an address, and the number of blocks is written there.
int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                   void** parameters, void** extra) {
    if (int code = state()) return code;
    bool is_buffer = parameters == nullptr && extra[0] == reinterpret_cast<void*>(1) &&
                     extra[2] == reinterpret_cast<void*>(2) && extra[4] == nullptr;
    if (!is_buffer || *static_cast<size_t*>(extra[3]) < 8) return INVALID_VALUE;
    uint64_t address;
    std::memcpy(&address, extra[1], 8);
    std::memcpy(reinterpret_cast<void*>(address), &blocks, 4);
    if (is("lost")) lost_in = contexts;
    return SUCCESS;
}
#endif

}
