// The engine computes what PyTorch computes with the same weights; see tests/data/pytorch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/comm/local_communicator.h"
#include "engine/nn/chunk.h"
#include "engine/plan/hf_config.h"
#include "engine/train/sharded_parameters.h"

namespace engine {
namespace {

class Expected {
 public:
  explicit Expected(const std::string& path) : file_(path) {}
  template <class T>
  std::vector<T> values(const std::string& name) const {
    for (const TensorEntry& tensor : file_.tensors())
      if (tensor.name == name) {
        std::vector<T> values(static_cast<size_t>(tensor.elements()));
        std::memcpy(values.data(), file_.data(tensor), values.size() * sizeof(T));
        return values;
      }
    ADD_FAILURE() << file_.path() << " has no " << name;
    return {};
  }
  std::vector<int64_t> shape(const std::string& name) const {
    for (const TensorEntry& tensor : file_.tensors())
      if (tensor.name == name) return tensor.shape;
    return {};
  }

 private:
  SafetensorsFile file_;
};

// Of a vector of numbers the largest difference, over the largest number.
double difference(const std::vector<float>& ours, const std::vector<float>& theirs) {
  if (ours.size() != theirs.size()) return 1e30;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    worst = std::max(worst, std::abs(double{ours[i]} - double{theirs[i]}));
    largest = std::max(largest, std::abs(double{theirs[i]}));
  }
  return worst / largest;
}

// The gradient in the place it has in the checkpoint's tensor.
void place(const Parameter& p, std::vector<float>& whole) {
  const auto& shape = p.checkpoint_shape;
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  whole.resize(static_cast<size_t>(count));
  const int64_t row_step = p.transposed ? 1 : shape.back();
  const int64_t column_step = p.transposed ? shape.back() : 1;
  const auto* gradient = static_cast<const float*>(p.gradient.data);
  for (int64_t r = 0; r < p.rows - padding_rows(p); ++r)
    for (int64_t c = 0; c < p.columns; ++c)
      whole[static_cast<size_t>((p.first_row + r) * row_step +
                                (p.first_column + c) * column_step)] = gradient[r * p.columns + c];
}

void expect_the_same(const std::string& name, AttentionKind attention) {
  const std::string folder = std::string(AUTOTUNE_SOURCE_DIR) + "/tests/data/pytorch/" + name;
  const std::string config = folder + "/config.json";
  const ModelSpec model =
      model_spec_from_hf_config(parse_json(read_text_file(config), config), config);
  const Expected expected(folder + "/expected.safetensors");
  const auto shape = expected.shape("tokens");
  const int64_t sequences = shape[0], seq = shape[1] - 1;
  const auto tokens = expected.values<int32_t>("tokens");
  std::vector<int32_t> ids, targets;
  for (int64_t i = 0; i < sequences * (seq + 1); ++i) {
    if (i % (seq + 1) < seq) ids.push_back(tokens[static_cast<size_t>(i)]);
    if (i % (seq + 1) > 0) targets.push_back(tokens[static_cast<size_t>(i)]);
  }
  run_local(1, [&](Communicator& ranks) {
    const auto device = make_cpu_device(1);
    World world(ranks, Grid(1, 1, 1, 1));
    LayerContext context(*device, world, {model, DType::f32, attention, sequences, seq, false, 1});
    context.set_dropout(false);
    ParameterSet set;
    const Chunk chunk(context, set, {{0, static_cast<int>(model.layers)}, true, true}, {});
    ShardedParameters storage(context, set, 0);
    storage.clear_gradients();
    const CheckpointReader reader(folder, model);
    for (const Parameter& p : set.all())
      reader.read_weight({p.name, p.checkpoint_shape, p.transposed, p.first_row, p.first_column,
                          p.rows, p.columns},
                         p.weight);

    Chunk::Saved saved;
    Tensor loss(*device, {1, 1}, DType::f64, MemoryUse::workspace);
    chunk.forward(context, storage, {}, ids.data(), targets.data(), loss, {}, saved);
    const auto count = static_cast<double>(sequences * seq);
    EXPECT_NEAR(*loss.as<double>() / count, expected.values<float>("loss").at(0), 2e-6);

    std::vector<float> logits;
    for (int64_t token = 0; token < sequences * seq; ++token) {
      const float* row = saved.head.logits.as<float>() + token * saved.head.logits.view().stride;
      logits.insert(logits.end(), row, row + model.vocab);
    }
    EXPECT_LT(difference(logits, expected.values<float>("logits")), 2e-6);

    chunk.backward(context, storage, {}, 1 / count, {}, std::move(saved));
    std::map<std::string, std::vector<float>> gradients;
    for (const Parameter& p : set.all()) place(p, gradients[p.name]);
    EXPECT_GT(gradients.size(), 10u);
    for (const auto& [weight, gradient] : gradients)
      EXPECT_LT(difference(gradient, expected.values<float>(weight)), 5e-6) << weight;
  });
}

class PyTorch : public testing::TestWithParam<const char*> {};
TEST_P(PyTorch, HasTheSameLogitsAndGradients) {
  for (const AttentionKind attention : {AttentionKind::unfused, AttentionKind::flash}) {
    SCOPED_TRACE(name_of(attention));
    expect_the_same(GetParam(), attention);
  }
}
INSTANTIATE_TEST_SUITE_P(Golden, PyTorch, testing::Values("gpt2", "llama"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace engine
