// Matrix products in double, for the checks of gradients; oneDNN has none.
#pragma once
#include "engine/device/device.h"

namespace engine {

// `product` as Device::multiply gets it, of type f64; its activation is not applied.
void multiply_f64(const Matmul& product);

}  // namespace engine
