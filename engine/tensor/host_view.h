// HostView: a contiguous view of a device's memory as the host reads and writes it.
#pragma once
#include <vector>

#include "engine/tensor/tensor.h"

namespace engine {

// Where the device's memory is the host's it is that memory itself, else a copy of it.
class HostView {
 public:
  HostView(Device& device, const View& view) : device_(device), origin_(view), view_(view) {
    if (device.shares_host_memory()) return;
    copy_.resize(static_cast<size_t>(bytes()));
    view_.data = copy_.data();
  }
  // What the device's memory holds now.
  const View& fetch() {
    if (!copy_.empty()) device_.copy_to_host(view_.data, origin_.data, bytes());
    return view_;
  }
  // To be written, and then stored.
  const View& view() const { return view_; }
  void store() {
    if (!copy_.empty()) device_.copy_to_device(origin_.data, view_.data, bytes());
  }

 private:
  int64_t bytes() const { return origin_.elements() * kernels::bytes_of(origin_.type); }
  Device& device_;
  View origin_, view_;
  std::vector<std::byte> copy_;
};

}  // namespace engine
