// parallel_for: shares out a range over threads. One of two implementations is linked: OpenMP,
// whose threads the matrix library then shares, or plain threads (for ThreadSanitizer, and without
// OpenMP).
#pragma once
#include <cstdint>

namespace kernels {

// Calls body(context, begin, end) for pieces of at most `grain` of [0, count), on `threads`
// threads, in any order, each index once; returns when all are done. The body must not throw.
void parallel_for(int threads, int64_t count, int64_t grain,
                  void (*body)(const void* context, int64_t begin, int64_t end),
                  const void* context);

}  // namespace kernels
