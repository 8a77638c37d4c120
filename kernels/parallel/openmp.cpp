// parallel_for by OpenMP.
#include <algorithm>

#include "kernels/parallel/parallel.h"

namespace kernels {

void parallel_for(int threads, int64_t count, int64_t grain,
                  void (*body)(const void* context, int64_t begin, int64_t end),
                  const void* context) {
  const int64_t pieces = (count + grain - 1) / grain;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t piece = 0; piece < pieces; ++piece)
    body(context, piece * grain, std::min(count, (piece + 1) * grain));
}

}  // namespace kernels
