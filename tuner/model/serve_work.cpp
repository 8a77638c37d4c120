// Matrix products and messages of one static batch.
#include "tuner/model/serve_work.h"

#include <algorithm>

#include "engine/plan/model_spec.h"

namespace tuner {
namespace {

constexpr int64_t kRowsAtOnce = 256;  // whose logits are gathered by one message
constexpr int64_t kLogitBytes = 4;
// What tells the ranks of a pass (engine/infer/step_batch.cpp), in words of 4 bytes: the numbers of
// sequences, tokens and targets; of a sequence its number, place and sampling, beside its pages.
constexpr int64_t kWordBytes = 4, kPassWords = 3, kSequenceWords = 15;
constexpr int64_t kChoiceBytes = 8;

class Counter {
 public:
  Counter(const ServeScenario& scenario, const ServePlan& plan, int stage)
      : s_(scenario),
        plan_(plan),
        first_(stage == 0),
        last_(stage == plan.pp - 1),
        layers_(stage_layers(scenario.model.layers, plan.pp)[static_cast<size_t>(stage)]),
        vocab_(engine::padded_vocab(scenario.model.vocab, scenario.stack.vocab_multiple, plan.tp)),
        element_(static_cast<int64_t>(bytes_of(plan.weights))) {}

  StepWork count() {
    const ServeWorkload& work = s_.workload;
    const int64_t share = (plan_.batch + plan_.pp - 1) / plan_.pp;  // of a slot
    for (int64_t left = plan_.batch; left > 0; left -= share) {
      const int64_t sequences = std::min(share, left);
      add_passes(1, sequences, sequences * work.input);
      add_passes(work.output - 1, sequences, sequences);
    }
    tell(1, 0);  // that this was all
    return {flops_, counts_.list()};
  }

 private:
  // To the ranks of the first stage, and from each of them along the pipeline; the length ahead.
  void tell(int64_t times, int64_t words) {
    for (const int64_t count : {int64_t{1}, words}) {
      if (first_ && plan_.tp > 1) counts_.add("tp", "broadcast", times, count * kWordBytes);
      if (!last_) counts_.add("pp", "send", times, count * kWordBytes);
    }
  }

  // `times` passes that each give every sequence one token.
  void add_passes(int64_t times, int64_t sequences, int64_t tokens) {
    const engine::ModelSpec& model = s_.model;
    const int64_t hidden_bytes = tokens * model.hidden * element_;
    const auto pages =
        (s_.workload.input + s_.workload.output + s_.stack.page_tokens - 1) / s_.stack.page_tokens;
    tell(times, kPassWords + sequences * (kSequenceWords + pages) + 2 * tokens);
    int64_t products = layers_ * tokens * product_columns(model, plan_.tp);
    if (last_) products += sequences * (vocab_ / plan_.tp);
    flops_ += 2 * static_cast<double>(times) * static_cast<double>(products * model.hidden);
    if (plan_.tp > 1) {
      counts_.add("tp", "all_reduce", times * (2 * layers_ + (first_ ? 1 : 0)), hidden_bytes);
      for (int64_t left = last_ ? sequences : 0; left > 0; left -= kRowsAtOnce)
        counts_.add("tp", "all_gather", times, std::min(left, kRowsAtOnce) * vocab_ * kLogitBytes);
    }
    if (!last_) counts_.add("pp", "send", times, hidden_bytes);
    if (last_ && !first_) counts_.add("pp", "send", times, sequences * kChoiceBytes);
  }

  const ServeScenario& s_;
  const ServePlan& plan_;
  bool first_, last_;
  int64_t layers_, vocab_, element_;
  double flops_ = 0;
  TrafficCounts counts_;
};

}  // namespace

StepWork serve_work(const ServeScenario& scenario, const ServePlan& plan, int stage) {
  return Counter(scenario, plan, stage).count();
}

}  // namespace tuner
