// Kernels that wait for memory, compiled for GPUs: element-wise, over rows, over columns.
#include "kernels/cuda/column_kernels.h"
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/row_kernels.h"

namespace kernels::cuda {

template void launch_blocks(cudaStream_t, int64_t, const NormForwardRow<128>&);
template void launch_blocks(cudaStream_t, int64_t, const NormForwardRow<512>&);
template void launch_blocks(cudaStream_t, int64_t, const NormBackwardRow<128>&);
template void launch_blocks(cudaStream_t, int64_t, const NormBackwardRow<512>&);
template void launch_blocks(cudaStream_t, int64_t, const EmbeddingBackwardRows&);
template void launch_blocks(cudaStream_t, int64_t, const CrossEntropySumsPieces&);
template void launch_blocks(cudaStream_t, int64_t, const CrossEntropyBackwardPieces&);
template void launch_blocks(cudaStream_t, int64_t, const ColumnPartials<NormTerms>&);
template void launch_blocks(cudaStream_t, int64_t, const ColumnPartials<ColumnSumTerms>&);
template void launch_blocks(cudaStream_t, int64_t, const AddColumnPartials<1>&);
template void launch_blocks(cudaStream_t, int64_t, const AddColumnPartials<2>&);
template void launch_blocks(cudaStream_t, int64_t, const PieceMap<BiasDropoutAddPieces>&);
template void launch_blocks(cudaStream_t, int64_t, const PieceMap<RotaryPieces>&);
template void launch_blocks(cudaStream_t, int64_t, const AdamTiles&);
template void launch_blocks(cudaStream_t, int64_t, const SquaresParts&);

#define KERNELS_LAUNCH_ACTIVATION(F)                                                            \
  template void launch_blocks(cudaStream_t, int64_t, const PieceMap<BiasActivationPieces<F>>&); \
  template void launch_blocks(cudaStream_t, int64_t,                                            \
                              const PieceMap<BiasActivationBackwardPieces<F>>&);                \
  template void launch_blocks(cudaStream_t, int64_t, const PieceMap<GatedPieces<F>>&);          \
  template void launch_blocks(cudaStream_t, int64_t, const PieceMap<GatedBackwardPieces<F>>&)
KERNELS_LAUNCH_ACTIVATION(Gelu);
KERNELS_LAUNCH_ACTIVATION(GeluTanh);
KERNELS_LAUNCH_ACTIVATION(Relu);
KERNELS_LAUNCH_ACTIVATION(Silu);

}  // namespace kernels::cuda
