// Meter: what a device's memory and matrix products were asked for.
#pragma once
#include <array>
#include <cstdint>

#include "engine/plan/outcome.h"

namespace engine {

// Requested bytes by use, as the tuner's memory model counts them: not rounded, without the
// allocator's own overhead.
class Meter {
 public:
  void allocated(MemoryUse use, int64_t bytes) {
    in_use_[index(use)] += bytes;
    total_ += bytes;
    if (in_use_[index(use)] > peaks_[index(use)]) peaks_[index(use)] = in_use_[index(use)];
    if (total_ > peak_total_) {
      peak_total_ = total_;
      at_peak_ = in_use_;
    }
  }
  void released(MemoryUse use, int64_t bytes) {
    in_use_[index(use)] -= bytes;
    total_ -= bytes;
  }
  void multiplied(double flops) { matmul_flops_ += flops; }

  int64_t in_use(MemoryUse use) const { return in_use_[index(use)]; }
  int64_t in_use() const { return total_; }
  int64_t peak(MemoryUse use) const { return peaks_[index(use)]; }       // of this use alone
  int64_t peak() const { return peak_total_; }                           // of all uses together
  int64_t at_peak(MemoryUse use) const { return at_peak_[index(use)]; }  // these sum to peak()
  double matmul_flops() const { return matmul_flops_; }                  // 2 m n k of every product

  void restart_flops() { matmul_flops_ = 0; }
  // Begins a new period: peaks fall to what is in use, FLOPs to 0.
  void restart() {
    peaks_ = at_peak_ = in_use_;
    peak_total_ = total_;
    matmul_flops_ = 0;
  }

 private:
  static size_t index(MemoryUse use) { return static_cast<size_t>(use); }
  std::array<int64_t, kMemoryUses> in_use_{}, peaks_{}, at_peak_{};
  int64_t total_ = 0, peak_total_ = 0;
  double matmul_flops_ = 0;
};

}  // namespace engine
