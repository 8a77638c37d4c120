// What every device does alike: metering, the capacity, checks of products.
#include "engine/device/device.h"

#include <fmt/format.h>

#include <chrono>
#include <new>

#include "engine/base/units.h"

namespace engine {

namespace {

class HostClock final : public DeviceClock {
 public:
  void mark() override { marks_.push_back(std::chrono::steady_clock::now()); }
  std::vector<double> read() override {
    std::vector<double> seconds;
    for (size_t i = 1; i < marks_.size(); ++i)
      seconds.push_back(std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count());
    marks_.clear();
    return seconds;
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<DeviceClock> Device::make_clock() { return std::make_unique<HostClock>(); }

OutOfMemory::OutOfMemory(int64_t requested, int64_t in_use, int64_t capacity, MemoryUse use)
    : Error(
          ExitCode::nothing_fits,
          fmt::format("out of memory: {} more wanted with {} in use{}; use more ranks, {}",
                      format_bytes(static_cast<double>(requested)),
                      format_bytes(static_cast<double>(in_use)),
                      capacity == std::numeric_limits<int64_t>::max()
                          ? ""
                          : " of " + format_bytes(static_cast<double>(capacity)),
                      use == MemoryUse::kv_cache ? "fewer sequences in flight or shorter ones"
                                                 : "a smaller micro-batch or more recomputation")),
      requested_(requested),
      in_use_(in_use),
      capacity_(capacity),
      use_(use) {}

void* Device::allocate(int64_t bytes, MemoryUse use) {
  expect(bytes >= 0, "an allocation has a size");
  if (bytes > capacity_ - meter_.in_use())
    throw OutOfMemory(bytes, meter_.in_use(), capacity_, use);
  void* data = nullptr;
  try {
    data = take(bytes);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(bytes, meter_.in_use(), capacity_, use);
  }
  meter_.allocated(use, bytes);
  return data;
}

void Device::release(void* data, int64_t bytes, MemoryUse use) noexcept {
  give_back(data, bytes);
  meter_.released(use, bytes);
}

void Device::matmul(const Matmul& p) {
  const int64_t rows_a = p.transpose_a ? p.a.cols : p.a.rows;
  const int64_t rows_b = p.transpose_b ? p.b.cols : p.b.rows;
  const int64_t cols_b = p.transpose_b ? p.b.rows : p.b.cols;
  expect(rows_a == p.m() && rows_b == p.k() && cols_b == p.n(),
         fmt::format("a product's shapes agree: [{}, {}] · [{}, {}] = [{}, {}]", rows_a, p.k(),
                     rows_b, cols_b, p.m(), p.n()));
  expect(p.a.type == p.b.type, "a product's factors have one type");
  expect(p.c.type == p.a.type || (p.a.type == DType::bf16 && p.c.type == DType::f32),
         "a product has its factors' type, or f32 for bf16");
  const bool epilogue = !p.bias.empty() || p.activation.has_value();
  expect(!epilogue || (p.alpha == 1 && p.beta == 0), "an epilogue stands alone");
  expect(p.bias.empty() || (p.bias.cols == p.n() && p.bias.rows == 1 && p.bias.type == p.a.type),
         "a product's bias is [1, n] of its factors' type");
  if (!multiplies(p.a.type))
    throw Error(ExitCode::environment,
                fmt::format("{} does not multiply {} matrices at speed; use --precision f32",
                            description(), kernels::name_of(p.a.type)));
  if (p.m() == 0 || p.n() == 0 || p.batch == 0) return;
  expect(p.k() > 0, "a product sums over something");
  meter_.multiplied(2.0 * static_cast<double>(p.m()) * static_cast<double>(p.n()) *
                    static_cast<double>(p.k()) * static_cast<double>(p.batch));
  multiply(p);
}

}  // namespace engine
