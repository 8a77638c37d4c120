// Keys and values in pages.
#include "engine/infer/kv_cache.h"

#include <algorithm>

#include "engine/nn/model_parameters.h"

namespace engine {
namespace {

// A shorter prompt is no work for the kernel that takes queries in tiles.
constexpr int64_t kShortPrompt = 8;

Tensor to_device(LayerContext& context, std::vector<int64_t> shape,
                 const std::vector<int32_t>& values) {
  Tensor tensor(context.device(), std::move(shape), DType::i32, MemoryUse::workspace);
  context.device().copy_to_device(tensor.data(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace

KvCache::KvCache(LayerContext& context, const ChunkLayers& layers, int64_t pages,
                 int64_t page_tokens)
    : layers_(layers), page_tokens_(page_tokens) {
  const RankHeads heads = rank_heads(context.model(), context.tp(), context.tp_rank());
  const int64_t width = heads.kv_count * context.model().head_dim;
  const auto make = [&] {
    return Tensor(context.device(), {layers.count * pages * page_tokens, width}, context.type(),
                  MemoryUse::kv_cache);
  };
  keys_ = make();
  values_ = make();
}

void KvCache::add_run(int64_t count, bool whole_prompt) {
  if (!whole_prompt && !runs_.empty() && !runs_.back().whole_prompt) {
    runs_.back().count += count;
    return;
  }
  const int64_t first = runs_.empty() ? 0 : runs_.back().first + runs_.back().count;
  runs_.push_back({first, count, whole_prompt});
}

void KvCache::begin_pass(LayerContext& context, const StepBatch& batch) {
  size_t most_pages = 1;
  for (const Segment& segment : batch.segments)
    most_pages = std::max(most_pages, segment.pages.size());
  const size_t segments = batch.segments.size();
  std::vector<int32_t> tables(segments * most_pages), sequences, visible, rows;
  runs_.clear();
  for (size_t i = 0; i < segments; ++i) {
    const Segment& segment = batch.segments[i];
    std::copy(segment.pages.begin(), segment.pages.end(),
              tables.begin() + static_cast<std::ptrdiff_t>(i * most_pages));
    for (int32_t place = segment.first_place; place < segment.first_place + segment.tokens;
         ++place) {
      const int64_t page = segment.pages[static_cast<size_t>(place / page_tokens_)];
      sequences.push_back(static_cast<int32_t>(i));
      visible.push_back(place + 1);
      rows.push_back(static_cast<int32_t>(page * page_tokens_ + place % page_tokens_));
    }
    add_run(segment.tokens, segment.first_place == 0 && segment.tokens >= kShortPrompt);
  }
  const auto tokens = static_cast<int64_t>(rows.size());
  tables_ = to_device(context, {static_cast<int64_t>(segments), static_cast<int64_t>(most_pages)},
                      tables);
  sequences_ = to_device(context, {1, tokens}, sequences);
  visible_ = to_device(context, {1, tokens}, visible);
  rows_ = to_device(context, {1, tokens}, rows);
}

View KvCache::of_layer(const Tensor& tensor, int64_t layer) const {
  const int64_t rows = tensor.dim(0) / layers_.count;
  return tensor.view().row_range((layer - layers_.first) * rows, rows);
}

void KvCache::attend(LayerContext& context, int64_t layer, ConstView query, ConstView key,
                     ConstView value, View out, const kernels::AttentionShape& shape) {
  kernels::Kernels& kernels = context.kernels();
  const View keys = of_layer(keys_, layer), values = of_layer(values_, layer);
  kernels.scatter_rows(key, rows_, keys);
  kernels.scatter_rows(value, rows_, values);
  for (const Run& run : runs_) {
    const auto part = [&](const auto& matrix) { return matrix.row_range(run.first, run.count); };
    if (run.whole_prompt) {
      kernels::AttentionShape prompt;
      prompt.queries = prompt.keys = run.count;
      prompt.heads = shape.heads;
      prompt.kv_heads = shape.kv_heads;
      prompt.head_dim = shape.head_dim;
      prompt.scale = shape.scale;
      const Tensor log_sum(context.device(), {shape.heads, run.count}, context.arithmetic(),
                           MemoryUse::workspace);
      kernels.attention_forward(part(query), part(key), part(value), part(out), log_sum, prompt);
    } else {
      const auto columns = [&](const Tensor& tensor) {
        return tensor.view().columns(run.first, run.count);
      };
      kernels.paged_attention(
          part(query), keys, values, tables_, columns(sequences_), columns(visible_), part(out),
          {shape.heads, shape.kv_heads, shape.head_dim, page_tokens_, shape.scale});
    }
  }
}

}  // namespace engine
