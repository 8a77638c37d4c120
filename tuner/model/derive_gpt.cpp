// A GPT shape for any number of parameters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/model/presets.h"

namespace tuner {
namespace {

constexpr double kSmallest = 1e6;
constexpr double kLargest = 10e12;
constexpr int64_t kNarrowest = 128;
constexpr int64_t kWidest = 65536;
constexpr int64_t kDeepest = 512;

// Depths that people chose for a width: GPT-3 (Brown et al. 2020, table 2.1), Narayanan et al.
// 2021, table 1, drawn out at both ends.
struct Depth {
  double hidden;
  double layers;
};
constexpr Depth kDepths[] = {{128, 8},    {768, 12},    {2048, 24},   {4096, 32},
                             {12288, 96}, {25600, 128}, {51200, 256}, {102400, 512}};

// Interpolated between the table's entries, both axes logarithmic.
double usual_layers(int64_t hidden) {
  const double width = static_cast<double>(hidden);
  const Depth* above = std::find_if(std::begin(kDepths) + 1, std::end(kDepths) - 1,
                                    [&](const Depth& depth) { return width <= depth.hidden; });
  const Depth* below = above - 1;
  const double part = std::log(width / below->hidden) / std::log(above->hidden / below->hidden);
  return below->layers * std::pow(above->layers / below->layers, part);
}

// The part of the common pipeline lengths that divide the layers.
double pipelines(int64_t layers) {
  constexpr int64_t kLengths[] = {2, 3, 4, 6, 8, 12, 16};
  const auto legal = std::count_if(std::begin(kLengths), std::end(kLengths),
                                   [&](int64_t length) { return layers % length == 0; });
  return static_cast<double>(legal) / static_cast<double>(std::size(kLengths));
}

// Widths of models that tensor parallelism splits: their heads divide among 4 GPUs, then among 8.
int64_t width_step(int64_t hidden) { return hidden < 2048 ? 128 : hidden < 4096 ? 512 : 1024; }

engine::ModelSpec gpt(int64_t hidden, int64_t layers) {
  engine::ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.head_dim = hidden < 2048 ? 64 : 128;
  model.heads = model.kv_heads = hidden / model.head_dim;
  model.ffn_hidden = 4 * hidden;
  // In the smallest models the rows of GPT-3's vocabulary would be nearly all parameters.
  model.vocab = hidden < 512 ? 2048 : 50257;
  model.positions = 2048;
  model.activation = engine::ActivationKind::gelu_tanh;
  model.default_seq = 2048;
  model.default_gbs = 1536;
  return model;
}

// What a count that is off costs: 1 at 5 %. Being convex, and the only cost that depends on the
// count asked for, it makes sure that a larger count never gives a smaller model.
double mismatch(double count, double wanted) {
  const double error = std::log(count / wanted) / 0.05;
  return error * error;
}

// What an awkward shape costs: an unusual depth, layers that few pipelines divide, heads that do
// not divide among eight GPUs.
double awkwardness(const engine::ModelSpec& model) {
  const double depth = std::log(static_cast<double>(model.layers) / usual_layers(model.hidden));
  const double shared = std::log2(static_cast<double>(std::gcd(model.heads, int64_t{8})));
  return depth * depth + 0.7 * (1 - pipelines(model.layers)) + 0.2 * (3 - shared);
}

// "42b", "1.5t", "350m"
std::string short_count(double count) {
  if (count >= 1e12) return fmt::format("{:.4g}t", count / 1e12);
  if (count >= 1e9) return fmt::format("{:.4g}b", count / 1e9);
  return fmt::format("{:.4g}m", count / 1e6);
}

}  // namespace

engine::ModelSpec derive_gpt(double parameters) {
  if (!(parameters >= kSmallest && parameters <= kLargest))
    throw engine::InputError(
        fmt::format("no shape can be derived for a model of {} parameters; sizes run from 1m to "
                    "10t, or give the path of a config.json",
                    engine::format_count(parameters)));
  constexpr double kFarthest = 0.1;  // relative error of a count worth looking at
  engine::ModelSpec best;
  double best_score = std::numeric_limits<double>::infinity();
  for (int64_t hidden = kNarrowest; hidden <= kWidest; hidden += width_step(hidden)) {
    const double one = static_cast<double>(engine::parameter_count(gpt(hidden, 1)));
    const double layer = static_cast<double>(engine::parameter_count(gpt(hidden, 2))) - one;
    const double depth = 1 + (parameters - one) / layer;
    const double spread = 1 + kFarthest * parameters / layer;
    const auto lowest = static_cast<int64_t>(std::max(1.0, depth - spread));
    const auto highest = static_cast<int64_t>(std::min(double{kDeepest}, depth + spread));
    for (int64_t layers = lowest; layers <= highest; ++layers) {
      const engine::ModelSpec model = gpt(hidden, layers);
      const double count = static_cast<double>(engine::parameter_count(model));
      const double score = mismatch(count, parameters) + awkwardness(model);
      if (score >= best_score) continue;
      best_score = score;
      best = model;
    }
  }
  engine::expect(best.layers > 0, "a shape for every count in range");
  best.name = "gpt-" + short_count(parameters);
  best.origin = fmt::format("derived for {} parameters in the proportions of GPT-3",
                            engine::format_count(parameters));
  return best;
}

}  // namespace tuner
