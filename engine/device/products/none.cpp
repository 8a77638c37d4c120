// Where oneDNN is missing: every product is made by plain loops.
#include "engine/device/products.h"

namespace engine {

class CpuProducts::Implementation {};

CpuProducts::CpuProducts(int) {}
CpuProducts::~CpuProducts() = default;
bool CpuProducts::multiplies(DType) const { return false; }
int64_t CpuProducts::scratch_bytes(const Matmul&) { return 0; }
void CpuProducts::run(const Matmul&, void*) { fail_expectation("products by plain loops"); }

}  // namespace engine
