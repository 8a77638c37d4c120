// parallel_for by threads that live for one call.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/parallel/parallel.h"

namespace kernels {

void parallel_for(int threads, int64_t count, int64_t grain,
                  void (*body)(const void* context, int64_t begin, int64_t end),
                  const void* context) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain))
      body(context, begin, std::min(count, begin + grain));
  };
  std::vector<std::jthread> team;
  for (int i = 1; i < threads; ++i) team.emplace_back(work);
  work();
}

}  // namespace kernels
