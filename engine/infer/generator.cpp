// One rank's part of generating text.
#include "engine/infer/generator.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/infer/sampler.h"

namespace engine {
namespace {

// Logits of this many tokens are in memory at a time.
constexpr int64_t kRowsAtOnce = 256;

LayerOptions layer_options(const GeneratorOptions& options) {
  LayerOptions layers;
  layers.model = options.model;
  layers.type = type_of(options.precision);
  layers.attention = AttentionKind::flash;
  layers.seq = options.longest;
  layers.seed = options.seed;
  return layers;
}

// As words, so that what is made up of them are tokens, too.
Payload payload_of(std::vector<Choice>& choices) {
  static_assert(sizeof(Choice) == 2 * sizeof(int32_t));
  return {choices.data(), static_cast<int64_t>(2 * choices.size()), Element::i32};
}

int64_t pages_for(int64_t tokens, int64_t page_tokens) {
  return (tokens + page_tokens - 1) / page_tokens;
}

SchedulerOptions scheduler_options(const GeneratorOptions& options) {
  SchedulerOptions result;
  result.batch = options.batch;
  result.slots = options.plan.pp;
  result.continuous = options.continuous;
  result.longest = options.longest;
  result.page_tokens = options.page_tokens;
  result.pages = options.kv_tokens > 0
                     ? options.kv_tokens / options.page_tokens
                     : options.batch * pages_for(options.longest, options.page_tokens);
  result.prompt_tokens = options.prompt_tokens;
  return result;
}

}  // namespace

Generator::Generator(Device& device, World& world, const GeneratorOptions& options)
    : world_(world),
      model_(device, world, layer_options(options), options.plan),
      leads_(options.alone ||
             (world.coordinate(Axis::tensor) == 0 && world.coordinate(Axis::pipeline) == 0)),
      stage_(world.coordinate(Axis::pipeline)),
      stages_(options.plan.pp),
      scheduler_(scheduler_options(options)),
      cache_(model_.context(), model_.layer_range(), scheduler_options(options).pages,
             options.page_tokens) {
  if (!options.checkpoint.empty()) model_.load(options.checkpoint);
}

void Generator::set_virtual_tokens(const std::vector<float>& rows) {
  if (!model_.is_first() || rows.empty()) return;
  LayerContext& context = model_.context();
  const int64_t hidden = context.model().hidden;
  const auto count = static_cast<int64_t>(rows.size()) / hidden;
  Tensor exact(context.device(), {count, hidden}, DType::f32, MemoryUse::workspace);
  context.device().copy_to_device(exact.data(), rows.data(), exact.bytes());
  virtual_table_ = context.matrix(count, hidden, MemoryUse::parameter);
  context.kernels().copy(exact, virtual_table_);
}

std::optional<std::vector<Choice>> Generator::run_stage(const StepBatch& batch) {
  LayerContext& context = model_.context();
  Device& device = context.device();
  const auto tokens = static_cast<int64_t>(batch.tokens.size());
  std::vector<int32_t> places;
  for (const Segment& segment : batch.segments)
    for (int32_t i = 0; i < segment.tokens; ++i) places.push_back(segment.first_place + i);
  context.place_tokens(places);
  cache_.begin_pass(context, batch);

  Tensor input, ids, virtual_ids;
  VirtualTokens extra;
  MicroBatch micro_batch;
  micro_batch.cache = &cache_;
  if (model_.is_first()) {
    ids = Tensor(device, {1, tokens}, DType::i32, MemoryUse::workspace);
    device.copy_to_device(ids.data(), batch.tokens.data(), ids.bytes());
    if (!virtual_table_.empty()) {
      std::vector<int32_t> rows;
      for (const int32_t token : batch.tokens) rows.push_back(-1 - token);
      virtual_ids = Tensor(device, {1, tokens}, DType::i32, MemoryUse::workspace);
      device.copy_to_device(virtual_ids.data(), rows.data(), virtual_ids.bytes());
      extra = {virtual_table_, virtual_ids, {}};
      micro_batch.virtual_tokens = &extra;
    }
  } else {
    input = context.matrix(tokens, context.model().hidden, MemoryUse::activation);
    world_.forward().follow(device);
    world_.forward().receive(payload_of(input), stage_ - 1);
  }
  const Tensor output = model_.layers().infer(context, std::move(input), ids, micro_batch);
  if (model_.is_last()) return choose(batch, output);
  world_.forward().follow(device);
  world_.forward().send(payload_of(output), stage_ + 1);
  return std::nullopt;
}

std::vector<Choice> Generator::choose(const StepBatch& batch, const Tensor& output) {
  LayerContext& context = model_.context();
  const std::vector<int32_t> rows = batch.rows();
  const std::vector<RowRule> rules = row_rules(batch);
  std::vector<Choice> choices;
  for (size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    const size_t count = std::min(rows.size() - first, static_cast<size_t>(kRowsAtOnce));
    const auto picked_rows = static_cast<int64_t>(count);
    const Tensor ids(context.device(), {1, picked_rows}, DType::i32, MemoryUse::workspace);
    context.device().copy_to_device(ids.data(), rows.data() + first, ids.bytes());
    const Tensor picked = context.matrix(picked_rows, output.dim(1), MemoryUse::workspace);
    context.kernels().embedding_forward(output, 0, ids, picked, false);
    const Tensor logits = model_.layers().head().logits(context, picked);
    const auto part = choose_tokens(context, logits, {rules.data() + first, count});
    choices.insert(choices.end(), part.begin(), part.end());
  }
  return choices;
}

// To the ranks of this stage, and from each of them to the next stage.
void Generator::share(const std::vector<int32_t>& words) {
  int32_t count = static_cast<int32_t>(words.size());
  std::vector<int32_t> copy = words;
  if (leads_ && stage_ == 0) {
    world_.tensor().broadcast({&count, 1, Element::i32}, 0);
    world_.tensor().broadcast(copy, 0);
  }
  if (stage_ + 1 == stages_) return;
  world_.forward().send({&count, 1, Element::i32}, stage_ + 1);
  world_.forward().send(copy, stage_ + 1);
}

std::vector<int32_t> Generator::receive_words() {
  int32_t count = 0;
  std::vector<int32_t> words;
  if (stage_ == 0) {
    world_.tensor().broadcast({&count, 1, Element::i32}, 0);
    words.resize(static_cast<size_t>(count));
    world_.tensor().broadcast(words, 0);
  } else {
    world_.forward().receive({&count, 1, Element::i32}, stage_ - 1);
    words.resize(static_cast<size_t>(count));
    world_.forward().receive(words, stage_ - 1);
  }
  return words;
}

// From the last stage to the leader.
void Generator::send_choices(std::vector<Choice>& choices) {
  if (stages_ > 1 && model_.is_last() && world_.coordinate(Axis::tensor) == 0 && !choices.empty())
    world_.backward().send(payload_of(choices), 0);
}

std::vector<Choice> Generator::receive_choices(size_t count) {
  std::vector<Choice> choices(count);
  world_.backward().receive(payload_of(choices), stages_ - 1);
  return choices;
}

std::vector<Progress> Generator::step() {
  expect(leads_, "the leader steps");
  for (int i = 0; i < stages_ && static_cast<int>(on_their_way_.size()) < stages_; ++i) {
    const int slot = next_slot_;
    const auto batch = scheduler_.start(slot);
    next_slot_ = (slot + 1) % stages_;
    if (!batch) continue;
    share(pack(*batch));
    auto choices = run_stage(*batch).value_or(std::vector<Choice>());
    send_choices(choices);
    on_their_way_.push({slot, std::move(choices), batch->rows().size()});
  }
  if (on_their_way_.empty()) return {};
  OnItsWay oldest = std::move(on_their_way_.front());
  on_their_way_.pop();
  if (!model_.is_last() && oldest.rows > 0) oldest.choices = receive_choices(oldest.rows);
  // The slot that is free now is the next one to start.
  next_slot_ = oldest.slot;
  return scheduler_.finish(oldest.slot, oldest.choices);
}

void Generator::close() {
  expect(leads_ && on_their_way_.empty(), "the leader closes when all is done");
  share({});
}

void Generator::follow() {
  expect(!leads_, "the leader does not follow");
  while (true) {
    const std::vector<int32_t> words = receive_words();
    share(words);
    if (words.empty()) return;
    auto choices = run_stage(unpack(words)).value_or(std::vector<Choice>());
    send_choices(choices);
  }
}

}  // namespace engine
