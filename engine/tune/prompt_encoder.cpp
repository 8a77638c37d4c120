// Where a task's virtual tokens come from.
#include "engine/tune/prompt_encoder.h"

#include <algorithm>
#include <cmath>

#include "engine/base/errors.h"
#include "engine/tune/lstm.h"
#include "kernels/random.h"

namespace engine {
namespace {

class Table final : public PromptEncoder {
 public:
  Table(std::vector<float> initial, int64_t hidden)
      : PromptEncoder(static_cast<int64_t>(initial.size()) / hidden, hidden) {
    parameters_ = std::move(initial);
  }
  std::vector<float> forward() override { return parameters_; }
  std::vector<float> backward(std::span<const float> grad) override {
    return {grad.begin(), grad.end()};
  }
};

// Rows of embeddings, perhaps through an LSTM of both directions, then two layers; the result is
// added to the rows, so that a tuning begins near the model's own embeddings.
class Network final : public PromptEncoder {
 public:
  Network(std::vector<float> initial, int64_t hidden, bool with_lstm, uint64_t seed)
      : PromptEncoder(static_cast<int64_t>(initial.size()) / hidden, hidden) {
    parameters_ = std::move(initial);
    if (with_lstm)
      for (const bool backwards : {false, true})
        add(lstms_.emplace_back(hidden, hidden, backwards, next()).gates(), seed);
    up_ = {with_lstm ? 2 * hidden : hidden, hidden, next()};
    add(up_, seed);
    down_ = {hidden, hidden, next()};
    add(down_, seed);
  }

  std::vector<float> forward() override {
    const std::vector<float> rows = embeddings();
    read_ = rows;
    if (!lstms_.empty()) read_ = states_of(rows);
    between_.assign(size(), 0);
    up_.forward(parameters_.data(), read_.data(), tokens_, between_.data());
    for (float& x : between_) x = std::max(x, 0.0f);
    std::vector<float> out(size());
    down_.forward(parameters_.data(), between_.data(), tokens_, out.data());
    for (size_t i = 0; i < out.size(); ++i) out[i] += rows[i];
    return out;
  }

  std::vector<float> backward(std::span<const float> grad) override {
    std::vector<float> all(parameters_.size()), grad_between(size()), grad_read(read_.size());
    down_.backward(parameters_.data(), between_.data(), grad.data(), tokens_, all.data(),
                   grad_between.data());
    for (size_t i = 0; i < grad_between.size(); ++i)
      if (between_[i] <= 0) grad_between[i] = 0;
    up_.backward(parameters_.data(), read_.data(), grad_between.data(), tokens_, all.data(),
                 grad_read.data());
    std::vector<float> grad_rows(grad.begin(), grad.end());
    if (lstms_.empty())
      for (size_t i = 0; i < grad_rows.size(); ++i) grad_rows[i] += grad_read[i];
    else
      through_lstms(grad_read, all, grad_rows);
    for (size_t i = 0; i < grad_rows.size(); ++i) all[i] += grad_rows[i];
    return all;
  }

 private:
  size_t size() const { return static_cast<size_t>(tokens_ * hidden_); }
  int64_t next() const { return static_cast<int64_t>(parameters_.size()); }
  std::vector<float> embeddings() const {
    return {parameters_.begin(), parameters_.begin() + static_cast<std::ptrdiff_t>(size())};
  }

  // Weights normal with deviation 1 / √in, biases 0.
  void add(const Dense& layer, uint64_t seed) {
    const auto stream = kernels::make_stream(seed, kernels::Purpose::initial_weights, 1,
                                             static_cast<uint64_t>(layer.first));
    const float deviation = 1 / std::sqrt(static_cast<float>(layer.in));
    for (int64_t row = 0; row < layer.out; ++row) {
      const kernels::RowStream numbers = kernels::row_stream(stream, row);
      for (int64_t c = 0; c < layer.in; ++c)
        parameters_.push_back(deviation * numbers.normal(static_cast<uint32_t>(c)));
    }
    parameters_.resize(parameters_.size() + static_cast<size_t>(layer.out));
  }

  // The states of both directions side by side.
  std::vector<float> states_of(const std::vector<float>& rows) {
    std::vector<float> joined(2 * size());
    for (size_t d = 0; d < lstms_.size(); ++d) {
      const auto states = lstms_[d].forward(parameters_.data(), rows, tokens_);
      for (int64_t t = 0; t < tokens_; ++t)
        std::copy_n(states.begin() + t * hidden_, hidden_,
                    joined.begin() + (2 * t + static_cast<int64_t>(d)) * hidden_);
    }
    return joined;
  }
  void through_lstms(const std::vector<float>& grad_joined, std::vector<float>& all,
                     std::vector<float>& grad_rows) const {
    for (size_t d = 0; d < lstms_.size(); ++d) {
      std::vector<float> grad_states(size());
      for (int64_t t = 0; t < tokens_; ++t)
        std::copy_n(grad_joined.begin() + (2 * t + static_cast<int64_t>(d)) * hidden_, hidden_,
                    grad_states.begin() + t * hidden_);
      lstms_[d].backward(parameters_.data(), grad_states, all.data(), grad_rows);
    }
  }

  std::vector<Lstm> lstms_;
  Dense up_, down_;
  std::vector<float> read_, between_;  // of the last forward pass
};

}  // namespace

std::unique_ptr<PromptEncoder> make_prompt_encoder(PromptSource source, std::vector<float> initial,
                                                   int64_t hidden, uint64_t seed) {
  expect(hidden > 0 && !initial.empty(), "virtual tokens to begin with");
  if (source == PromptSource::table) return std::make_unique<Table>(std::move(initial), hidden);
  return std::make_unique<Network>(std::move(initial), hidden, source == PromptSource::lstm, seed);
}

}  // namespace engine
