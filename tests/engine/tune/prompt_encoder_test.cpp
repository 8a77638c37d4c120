// The encoders of virtual tokens: their gradients are the directional derivatives.
#include "engine/tune/prompt_encoder.h"

#include <gtest/gtest.h>

#include <cmath>

namespace engine {
namespace {

std::vector<float> waves(size_t count, double frequency) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(std::sin(frequency * static_cast<double>(i + 1)));
  return values;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

class Encoder : public testing::TestWithParam<PromptSource> {};

TEST_P(Encoder, GradientIsTheDirectionalDerivative) {
  constexpr int64_t kTokens = 5, kHidden = 6;
  const auto encoder = make_prompt_encoder(GetParam(), waves(kTokens * kHidden, 0.7), kHidden, 3);
  ASSERT_EQ(encoder->tokens(), kTokens);
  const std::vector<float> weights = waves(kTokens * kHidden, 1.3);
  const std::vector<float> start = encoder->parameters();
  const std::vector<float> direction = waves(start.size(), 2.1);
  encoder->forward();
  const double along = dot(encoder->backward(weights), direction);
  const auto loss_at = [&](double step) {
    for (size_t i = 0; i < start.size(); ++i)
      encoder->parameters()[i] = static_cast<float>(double{start[i]} + step * double{direction[i]});
    return dot(encoder->forward(), weights);
  };
  constexpr double kStep = 2e-3;
  EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), along,
              2e-3 * (1 + std::abs(along)));
}

TEST_P(Encoder, TheSameSeedGivesTheSame) {
  const auto make = [&](uint64_t seed) {
    return make_prompt_encoder(GetParam(), waves(12, 0.7), 4, seed)->forward();
  };
  EXPECT_EQ(make(3), make(3));
  EXPECT_EQ(make(3) == make(4), GetParam() == PromptSource::table);
}

INSTANTIATE_TEST_SUITE_P(
    All, Encoder, testing::Values(PromptSource::table, PromptSource::mlp, PromptSource::lstm),
    [](const auto& source) { return std::string(kPromptSourceNames[size_t(source.param)]); });

}  // namespace
}  // namespace engine
