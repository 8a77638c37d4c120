// Gradients of the whole model against the slope of its loss along a random direction.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "engine/comm/local_communicator.h"
#include "engine/data/batches.h"
#include "engine/nn/chunk.h"
#include "tests/support/tiny_models.h"

namespace engine {
namespace {

class NoAccess final : public ParameterAccess {
 public:
  void begin_forward(int64_t) override {}
  void end_forward(int64_t) override {}
  void begin_backward(int64_t) override {}
  void end_backward(int64_t) override {}
};

struct Case {
  std::string name;
  ModelSpec model;
  AttentionKind attention;
  Recompute recompute;
  DType type;
};

// One rank with the whole model, in memory of its own.
class Serial {
 public:
  Serial(const Case& c, Communicator& ranks)
      : device_(make_cpu_device(1)),
        world_(ranks, Grid(1, 1, 1, 1)),
        context_(*device_, world_, {c.model, c.type, c.attention, 2, 12, false, 7}),
        chunk_(context_, set_, {{0, static_cast<int>(c.model.layers)}, true, true}, c.recompute),
        ids_(24),
        targets_(24) {
    const DType sums = kernels::arithmetic_of(c.type);
    for (ParameterUnit& unit : set_.units()) {
      const auto take = [&](DType type, MemoryUse use) {
        memory_.emplace_back(*device_, std::vector{unit.elements}, type, use);
        return static_cast<std::byte*>(memory_.back().data());
      };
      std::byte* weights = take(c.type, MemoryUse::parameter);
      std::byte* gradients = take(sums, MemoryUse::gradient);
      for (Parameter* p : unit.parameters) {
        p->weight =
            View(weights + p->offset * kernels::bytes_of(c.type), c.type, p->rows, p->columns);
        p->gradient =
            View(gradients + p->offset * kernels::bytes_of(sums), sums, p->rows, p->columns);
        device_->kernels().fill(p->gradient, 0);
      }
    }
    for (const Parameter& p : set_.all()) initialise(context_, p);
    // Gradients of norms and biases count as much as others only away from their initial values.
    for (Parameter& p : set_.all())
      if (p.rows == 1) shift(p, 0.3, 99);
    SyntheticBatches batches(c.model.vocab, 3);
    std::vector<int32_t> tokens(13);
    for (int s = 0; s < 2; ++s) {
      batches.read(s, tokens);
      std::copy(tokens.begin(), tokens.end() - 1, ids_.begin() + 12 * s);
      std::copy(tokens.begin() + 1, tokens.end(), targets_.begin() + 12 * s);
    }
    targets_[5] = -1;
  }

  double loss(bool backward) {
    Chunk::Saved saved;
    NoAccess access;
    Tensor loss(*device_, {1, 1}, DType::f64, MemoryUse::workspace);
    chunk_.forward(context_, access, {}, ids_.data(), targets_.data(), loss, {}, saved);
    if (backward) chunk_.backward(context_, access, {}, 0.5, {}, std::move(saved));
    return *loss.as<double>();
  }
  // Adds `step` times the random direction.
  void move(double step) {
    for (Parameter& p : set_.all()) shift(p, step, 5);
  }
  // The gradient of half the loss along the direction.
  double slope() {
    double sum = 0;
    for (Parameter& p : set_.all()) {
      const Tensor d = direction(p, 5);
      for (int64_t i = 0; i < p.elements(); ++i)
        sum += d.as<double>()[i] * (p.gradient.type == DType::f64
                                        ? static_cast<double*>(p.gradient.data)[i]
                                        : static_cast<float*>(p.gradient.data)[i]);
    }
    return sum;
  }
  const Device& device() const { return *device_; }

 private:
  Tensor direction(const Parameter& p, uint64_t seed) {
    Tensor d(*device_, {p.rows, p.columns}, DType::f64, MemoryUse::workspace);
    device_->kernels().fill_normal(
        d, 1, kernels::make_stream(seed, kernels::Purpose::sampling, 0, p.ordinal), {}, 0);
    return d;
  }
  void shift(Parameter& p, double step, uint64_t seed) {
    device_->kernels().accumulate(direction(p, seed), p.weight, step);
  }

  std::unique_ptr<Device> device_;
  World world_;
  LayerContext context_;
  ParameterSet set_;
  Chunk chunk_;
  std::deque<Tensor> memory_;
  std::vector<int32_t> ids_, targets_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const Recompute modes[] = {
      {}, {Recompute::Mode::selective, 0}, {Recompute::Mode::full, 0}, {Recompute::Mode::full, 1}};
  for (ModelSpec model : {tiny::gpt(), tiny::llama()}) {
    model.layers = 2;
    for (const AttentionKind kind : {AttentionKind::unfused, AttentionKind::flash})
      for (const Recompute& recompute : modes)
        all.push_back({fmt::format("{} {} {}", model.name, name_of(kind), to_string(recompute)),
                       model, kind, recompute, DType::f64});
  }
  return all;
}

TEST(Gradient, IsTheSlopeOfTheLoss) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    run_local(1, [&](Communicator& ranks) {
      Serial model(c, ranks);
      const double plain = model.loss(true);
      // Near the loss of a uniform guess: 23 counted tokens.
      EXPECT_NEAR(plain, 23 * std::log(100.0), 23);
      const double slope = 2 * model.slope();
      const double h = 1e-4;  // Richardson's extrapolation of two central differences
      const auto difference = [&](double step) {
        model.move(step);
        const double high = model.loss(false);
        model.move(-2 * step);
        const double low = model.loss(false);
        model.move(step);
        return (high - low) / (2 * step);
      };
      const double measured = (4 * difference(h / 2) - difference(h)) / 3;
      EXPECT_NEAR(slope / measured, 1, 1e-6);
      Case single = c;
      single.type = DType::f32;
      Serial rounded(single, ranks);
      rounded.loss(true);
      EXPECT_NEAR(2 * rounded.slope() / slope, 1, 1e-3);
    });
  }
}

TEST(Gradient, RecomputationGivesTheSameBits) {
  for (const ModelSpec& model : {tiny::gpt(), tiny::llama()})
    for (const AttentionKind kind : {AttentionKind::unfused, AttentionKind::flash}) {
      std::vector<double> slopes;
      for (const Recompute& recompute : {Recompute{}, Recompute{Recompute::Mode::selective, 0},
                                         Recompute{Recompute::Mode::full, 0}})
        run_local(1, [&](Communicator& ranks) {
          Serial serial({"", model, kind, recompute, DType::f32}, ranks);
          serial.loss(true);
          slopes.push_back(serial.slope());
        });
      EXPECT_EQ(slopes[0], slopes[1]);
      EXPECT_EQ(slopes[0], slopes[2]);
    }
}

TEST(Gradient, LeavesNoActivationsBehind) {
  for (const Case& c : cases())
    run_local(1, [&](Communicator& ranks) {
      Serial serial(c, ranks);
      serial.loss(true);
      EXPECT_EQ(serial.device().meter().in_use(MemoryUse::activation), 0);
      EXPECT_EQ(serial.device().meter().in_use(MemoryUse::recompute), 0);
    });
}

}  // namespace
}  // namespace engine
