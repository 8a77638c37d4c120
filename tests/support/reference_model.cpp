// The loss of a model, written out in double with plain loops.
#include "tests/support/reference_model.h"

#include <cmath>
#include <stdexcept>

namespace reference {
namespace {

using engine::ModelSpec;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

class Model {
 public:
  Model(const ModelSpec& spec, const Weights& weights) : spec_(spec), weights_(weights) {}

  Rows hidden(const std::vector<int32_t>& ids) const {
    const bool gpt = is_gpt();
    Rows x;
    for (size_t t = 0; t < ids.size(); ++t) {
      Row row = matrix_row(gpt ? "transformer.wte.weight" : "model.embed_tokens.weight", ids[t]);
      if (gpt) add(row, matrix_row("transformer.wpe.weight", static_cast<int64_t>(t)));
      x.push_back(row);
    }
    for (int64_t layer = 0; layer < spec_.layers; ++layer) {
      const std::string l = (gpt ? "transformer.h." : "model.layers.") + std::to_string(layer);
      const Rows attended = attention(norms(x, l + (gpt ? ".ln_1" : ".input_layernorm")),
                                      l + (gpt ? ".attn" : ".self_attn"));
      for (size_t t = 0; t < x.size(); ++t) add(x[t], attended[t]);
      const Rows normed = norms(x, l + (gpt ? ".ln_2" : ".post_attention_layernorm"));
      for (size_t t = 0; t < x.size(); ++t) add(x[t], mlp(normed[t], l + ".mlp"));
    }
    return norms(x, gpt ? "transformer.ln_f" : "model.norm");
  }

  Row logits(const Row& x) const {
    if (!spec_.tied_embeddings) return product("lm_head", x, spec_.vocab);
    Row y;
    const std::string name = is_gpt() ? "transformer.wte.weight" : "model.embed_tokens.weight";
    for (int64_t v = 0; v < spec_.vocab; ++v) y.push_back(dot(matrix_row(name, v), x));
    return y;
  }

 private:
  bool is_gpt() const { return spec_.position == engine::PositionKind::learned; }
  const std::vector<float>& weight(const std::string& name) const { return weights_.at(name); }
  static void add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  static double dot(const Row& x, const Row& y) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  }
  Row matrix_row(const std::string& name, int64_t row) const {
    const auto first = weight(name).begin() + row * spec_.hidden;
    return {first, first + spec_.hidden};
  }

  // W · x + b, where b may be missing.
  Row product(const std::string& name, const Row& x, int64_t rows) const {
    const auto& w = weight(name + ".weight");
    const auto bias = weights_.find(name + ".bias");
    Row y(static_cast<size_t>(rows));
    for (size_t r = 0; r < y.size(); ++r) {
      y[r] = bias == weights_.end() ? 0 : bias->second[r];
      for (size_t c = 0; c < x.size(); ++c) y[r] += w[r * x.size() + c] * x[c];
    }
    return y;
  }

  Rows norms(const Rows& x, const std::string& name) const {
    const bool centred = spec_.norm == engine::NormKind::layer_norm;
    const auto& gain = weight(name + ".weight");
    Rows y = x;
    for (Row& row : y) {
      const double n = static_cast<double>(row.size());
      double mean = 0, square = 0;
      for (const double v : row) mean += centred ? v / n : 0;
      for (const double v : row) square += (v - mean) * (v - mean) / n;
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) / std::sqrt(square + spec_.norm_epsilon) * gain[i] +
                 (centred ? weight(name + ".bias")[i] : 0);
    }
    return y;
  }

  // Turns the pairs (i, i + head_dim / 2) of each head by the angle of its place.
  void rotate(Row& x, size_t place) const {
    if (spec_.position != engine::PositionKind::rotary) return;
    const auto dim = static_cast<size_t>(spec_.head_dim);
    for (size_t head = 0; head < x.size(); head += dim)
      for (size_t i = 0; i < dim / 2; ++i) {
        const double angle =
            static_cast<double>(place) *
            std::pow(spec_.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const double a = x[head + i], b = x[head + i + dim / 2];
        x[head + i] = a * std::cos(angle) - b * std::sin(angle);
        x[head + i + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
  }

  Rows attention(const Rows& x, const std::string& name) const {
    const auto q_width = static_cast<size_t>(spec_.q_width());
    const auto kv_width = static_cast<size_t>(spec_.kv_width());
    Rows query, key, value;
    for (size_t t = 0; t < x.size(); ++t) {
      if (is_gpt()) {
        const Row all = product(name + ".c_attn", x[t], spec_.q_width() + 2 * spec_.kv_width());
        query.emplace_back(all.begin(), all.begin() + q_width);
        key.emplace_back(all.begin() + q_width, all.begin() + q_width + kv_width);
        value.emplace_back(all.begin() + q_width + kv_width, all.end());
      } else {
        query.push_back(product(name + ".q_proj", x[t], spec_.q_width()));
        key.push_back(product(name + ".k_proj", x[t], spec_.kv_width()));
        value.push_back(product(name + ".v_proj", x[t], spec_.kv_width()));
      }
      rotate(query[t], t);
      rotate(key[t], t);
    }
    Rows out;
    for (size_t t = 0; t < x.size(); ++t) {
      Row mixed(q_width, 0.0);
      for (int64_t head = 0; head < spec_.heads; ++head)
        mix_head(query[t], key, value, t, head, mixed);
      out.push_back(product(name + (is_gpt() ? ".c_proj" : ".o_proj"), mixed, spec_.hidden));
    }
    return out;
  }

  void mix_head(const Row& query, const Rows& key, const Rows& value, size_t t, int64_t head,
                Row& mixed) const {
    const auto dim = static_cast<size_t>(spec_.head_dim);
    const size_t q = static_cast<size_t>(head) * dim;
    const size_t kv = static_cast<size_t>(head / (spec_.heads / spec_.kv_heads)) * dim;
    Row shares;
    double total = 0;
    for (size_t s = 0; s <= t; ++s) {
      double score = 0;
      for (size_t i = 0; i < dim; ++i) score += query[q + i] * key[s][kv + i];
      shares.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
      total += shares.back();
    }
    for (size_t s = 0; s <= t; ++s)
      for (size_t i = 0; i < dim; ++i) mixed[q + i] += shares[s] / total * value[s][kv + i];
  }

  Row mlp(const Row& x, const std::string& name) const {
    if (spec_.gated_mlp) {
      Row gate = product(name + ".gate_proj", x, spec_.ffn_hidden);
      const Row up = product(name + ".up_proj", x, spec_.ffn_hidden);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      return product(name + ".down_proj", gate, spec_.hidden);
    }
    Row first = product(name + ".c_fc", x, spec_.ffn_hidden);
    for (double& v : first) v *= 0.5 * (1 + std::erf(v / std::sqrt(2.0)));
    return product(name + ".c_proj", first, spec_.hidden);
  }

  const ModelSpec& spec_;
  const Weights& weights_;
};

}  // namespace

double loss(const ModelSpec& spec, const Weights& weights, const std::vector<int32_t>& ids,
            const std::vector<int32_t>& targets) {
  const Model model(spec, weights);
  const Rows hidden = model.hidden(ids);
  double sum = 0;
  for (size_t t = 0; t < hidden.size(); ++t) {
    const Row logits = model.logits(hidden[t]);
    double total = 0;
    for (const double logit : logits) total += std::exp(logit);
    sum += std::log(total) - logits[static_cast<size_t>(targets[t])];
  }
  return sum;
}

}  // namespace reference
