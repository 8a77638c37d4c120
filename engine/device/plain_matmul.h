// Matrix products by plain loops: in double, and where no library of products is at hand.
#pragma once
#include "engine/device/device.h"

namespace engine {

// `product` as Device::multiply gets it, of f32, bf16 (summed in f32) or f64; its activation is not
// applied.
void multiply_plainly(const Matmul& product);

}  // namespace engine
