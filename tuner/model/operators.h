// Time of single operators: matrix products, attention, memory-bound kernels, collectives.
#pragma once
#include <cstdint>

#include "tuner/model/scenario.h"

namespace tuner {

// (a⁴ + b⁴)^¼: near the larger of the two, and smooth where they meet.
double smooth_max(double a, double b);

// Time of the operators of one device under one scenario; seconds.
class Operators {
 public:
  explicit Operators(const Scenario& scenario);

  // [m, k] × [k, n]: a smooth maximum of arithmetic, with the waste of whole tiles and of the last
  // wave of tiles, and of memory traffic, plus a fixed start. `low_precision` = in the precision of
  // the workload; otherwise in its storage format (the head stays in bf16 under fp8).
  double gemm(double m, double n, double k, bool low_precision = true) const;

  // Moving bytes through memory.
  double memory(double bytes) const { return bytes / memory_rate_; }

  // The attention core of one micro-batch on one rank, forward: `queries` tokens of each of `mbs`
  // sequences against `seq` keys, `width` = heads · head_dim on the rank.
  double attention_forward(double mbs, double queries, double width) const;
  double attention_backward_factor() const;

  // One collective over `ranks` tensor ranks; `bytes` is the whole (unsharded) message.
  double tensor_all_reduce(int ranks, double bytes) const;
  double tensor_shard(int ranks, double bytes) const;  // all-gather or reduce-scatter

  // A message between pipeline stages `distance` ranks apart.
  double pipeline_message(double bytes, int distance) const;

  // One pass of a reduction or gather over `members` ranks, `spacing` ranks apart, of `bytes` on
  // every rank: first within a domain of fast links, then between domains, where every member uses
  // its share of the network; the two overlap.
  double data_pass(int members, int spacing, double bytes) const;

 private:
  // As data_pass, of tensor ranks, in units of 1 / bandwidth: seconds a byte.
  double tensor_pass(int ranks, const BusBandwidth& table) const;
  double tensor_start(int ranks) const;
  double port() const;  // bytes/s of the network a GPU

  const Scenario* scenario_;
  double peak_ = 0;          // of the workload's precision
  double storage_peak_ = 0;  // of its storage format
  double memory_rate_ = 0;
  double storage_ = 2;          // bytes an element outside the products
  double product_ = 2;          // bytes an element inside them
  double software_factor_ = 1;  // of matrix products, and of fused attention, by date
  double flash_factor_ = 1;
};

}  // namespace tuner
