// Parameter: a trained tensor, and which slice of it this rank holds.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/tensor/tensor.h"

namespace engine {

// How the ranks of the tensor axis share a parameter.
enum class Sharing : uint8_t {
  split,       // every rank has a slice of its own
  replicated,  // all have the whole; with sequence parallelism their gradients are partial sums
  kv_group,    // with tp > kv_heads: the ranks of one KV head have the same slice, and partial sums
};

enum class Initial : uint8_t { normal, zeros, ones };

// Matrices are [out, in], embeddings [vocabulary or positions, hidden], vectors [1, n].
struct Parameter {
  // In a checkpoint: Hugging Face's name and the whole tensor's shape there. Several parameters may
  // be parts of one tensor (GPT-2 stores query, key and value together).
  std::string name;
  std::vector<int64_t> checkpoint_shape;
  bool transposed = false;  // the checkpoint holds [in, out]
  // This rank's slice begins here in the checkpoint's tensor, counted as [out, in] (that is, before
  // it is transposed). Rows behind the end of that tensor are padding: zero, and not stored.
  int64_t first_row = 0;
  int64_t first_column = 0;

  int64_t rows = 0;  // of this rank's slice
  int64_t columns = 0;
  Sharing sharing = Sharing::split;
  // One rank of those that hold a slice owns it: it counts it in the norm and writes it.
  bool owned = true;
  bool decays = true;      // under weight decay; norms and biases do not
  bool tied_copy = false;  // the head's copy of the embedding on the last of several stages
  Initial initial = Initial::normal;
  double deviation = 0;
  // The place among all parameters of the model, equal under every plan; slices share it.
  int64_t ordinal = 0;
  // The same slice in the tensor this parameter is when the model is not divided: the row and
  // column that the random numbers of its initial values count from.
  int64_t global_row = 0;
  int64_t global_column = 0;

  int64_t unit = 0;    // index of its ParameterUnit
  int64_t offset = 0;  // elements in front of it in the unit

  View weight;    // T[rows, columns]
  View gradient;  // A[rows, columns], added to; empty = frozen

  bool is_frozen() const { return gradient.empty(); }
  int64_t elements() const { return rows * columns; }
};

// The last rows of a slice that pad the vocabulary and stay zero.
int64_t padding_rows(const Parameter& parameter);

// Parameters that are reduced, sharded and gathered together: one layer, or one end of the model.
struct ParameterUnit {
  std::vector<Parameter*> parameters;  // without gaps, in the order of their offsets
  int64_t elements = 0;
};

// All parameters of one rank.
class ParameterSet {
 public:
  // Starts a unit; the parameters added next belong to it.
  int64_t begin_unit();
  // The address stays.
  Parameter& add(Parameter parameter);

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  std::vector<ParameterUnit>& units() { return units_; }
  const std::vector<ParameterUnit>& units() const { return units_; }
  int64_t elements() const;

 private:
  std::deque<Parameter> parameters_;
  std::vector<ParameterUnit> units_;
};

}  // namespace engine
