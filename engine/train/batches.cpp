// Sequences of random tokens.
#include "engine/train/batches.h"

#include "kernels/random.h"

namespace engine {

void SyntheticBatches::read(int64_t index, std::span<int32_t> tokens) {
  const auto numbers =
      kernels::row_stream(kernels::make_stream(seed_, kernels::Purpose::data, 0, 0), index);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(
        uint64_t{numbers.bits(static_cast<uint32_t>(i))} * static_cast<uint64_t>(vocab_) >> 32);
}

}  // namespace engine
