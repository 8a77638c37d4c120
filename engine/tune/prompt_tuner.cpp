// One rank's part of tuning virtual tokens.
#include "engine/tune/prompt_tuner.h"

#include <algorithm>
#include <cmath>

#include "engine/base/errors.h"
#include "engine/data/permutation.h"
#include "engine/train/optimizer.h"

namespace engine {
namespace {

// All weights are where they are used.
class WeightsInPlace final : public ParameterAccess {
 public:
  void begin_forward(int64_t) override {}
  void end_forward(int64_t) override {}
  void begin_backward(int64_t) override {}
  void end_backward(int64_t) override {}
};
WeightsInPlace in_place;

LayerOptions layer_options(const Job& job) {
  LayerOptions options;
  options.model = job.model;
  options.type = type_of(job.workload.precision);
  options.attention = job.workload.attention;
  options.sequences = job.plan.mbs;
  options.seq = job.workload.seq;
  options.seed = job.seed;
  return options;
}

const Job& checked(const Job& job, const std::vector<TuningExample>& examples) {
  std::vector<std::string> problems;
  if (!job.tuning) problems.emplace_back("the job tunes nothing");
  if (examples.empty()) problems.emplace_back("there are no examples to tune on");
  if (job.plan.gbs % (job.plan.mbs * job.plan.dp) != 0)
    problems.emplace_back("gbs must be a multiple of mbs · dp");
  if (!problems.empty()) throw InputError(problems);
  return job;
}

Tensor vector_of(Device& device, int64_t elements) {
  return {device, {1, elements}, DType::f32, MemoryUse::optimizer};
}

}  // namespace

PromptTuner::PromptTuner(Device& device, World& world, const Job& job,
                         std::vector<TuningExample> examples)
    : job_(checked(job, examples)),
      world_(world),
      examples_(std::move(examples)),
      model_(device, world, layer_options(job), job.plan) {
  if (!job.checkpoint_load.empty()) model_.load(job.checkpoint_load);
  LayerContext& context = model_.context();
  losses_ = Tensor(device, {1, 2}, DType::f64, MemoryUse::workspace);
  schedule_ =
      make_schedule({job.plan.pp, 1, job.plan.micro_batches()}, world.coordinate(Axis::pipeline));
  ids_.resize(static_cast<size_t>(context.tokens()));
  targets_.resize(ids_.size());
  if (!model_.is_first()) return;
  table_ = context.matrix(table_rows(), job.model.hidden, MemoryUse::parameter);
  gradient_ =
      Tensor(device, {table_rows(), job.model.hidden}, context.arithmetic(), MemoryUse::gradient);
  make_encoders();
  fill_table();
}

int64_t PromptTuner::table_rows() const {
  return static_cast<int64_t>(job_.tuning->tasks.size()) * job_.tuning->virtual_tokens;
}

// Rows of the model's embedding, of tokens that the examples hold.
std::vector<float> PromptTuner::drawn_embeddings(size_t task) {
  LayerContext& context = model_.context();
  const auto stream = kernels::make_stream(job_.seed, kernels::Purpose::initial_weights, 2, task);
  const kernels::RowStream numbers = kernels::row_stream(stream, 0);
  const int64_t rows = job_.tuning->virtual_tokens, hidden = job_.model.hidden;
  std::vector<int32_t> drawn;
  for (int64_t i = 0; i < rows; ++i) {
    const auto column = static_cast<uint32_t>(2 * i);
    const auto& tokens = examples_[numbers.bits(column) % examples_.size()].tokens;
    drawn.push_back(tokens[numbers.bits(column + 1) % tokens.size()]);
  }
  const Tensor ids(context.device(), {1, rows}, DType::i32, MemoryUse::workspace);
  context.device().copy_to_device(ids.data(), drawn.data(), ids.bytes());
  const Tensor picked = context.matrix(rows, hidden, MemoryUse::workspace);
  const Parameter& embedding = *model_.layers().embedding_table();
  context.kernels().embedding_forward(embedding.weight, embedding.global_row, ids, picked, false);
  world_.tensor().follow(context.device());
  world_.tensor().all_reduce(payload_of(picked));
  const Tensor exact(context.device(), {rows, hidden}, DType::f32, MemoryUse::workspace);
  context.kernels().copy(picked, exact);
  std::vector<float> host(static_cast<size_t>(rows * hidden));
  context.device().copy_to_host(host.data(), exact.data(), exact.bytes());
  return host;
}

void PromptTuner::make_encoders() {
  LayerContext& context = model_.context();
  for (size_t task = 0; task < job_.tuning->tasks.size(); ++task) {
    PromptEncoder& encoder = *encoders_.emplace_back(make_prompt_encoder(
        job_.tuning->source, drawn_embeddings(task), job_.model.hidden, job_.seed + task));
    const auto elements = static_cast<int64_t>(encoder.parameters().size());
    for (auto* list : {&masters_, &means_, &squares_}) {
      list->push_back(vector_of(context.device(), elements));
      context.kernels().fill(list->back(), 0);
    }
    context.device().copy_to_device(masters_.back().data(), encoder.parameters().data(),
                                    masters_.back().bytes());
  }
}

void PromptTuner::fill_table() {
  std::vector<float> all;
  for (const auto& encoder : encoders_) {
    const std::vector<float> rows = encoder->forward();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  Device& device = model_.context().device();
  const Tensor exact(device, table_.shape(), DType::f32, MemoryUse::workspace);
  device.copy_to_device(exact.data(), all.data(), exact.bytes());
  model_.context().kernels().copy(exact, table_);
}

// Every epoch visits each example once, in an order of its own.
const TuningExample& PromptTuner::example_at(int64_t place) const {
  const auto count = static_cast<int64_t>(examples_.size());
  const int64_t index = next_step_ * job_.plan.gbs + place;
  const Permutation order(count, job_.seed + static_cast<uint64_t>(index / count));
  return examples_[static_cast<size_t>(order(index % count))];
}

double PromptTuner::answer_tokens_of_step() const {
  int64_t tokens = 0;
  for (int64_t place = 0; place < job_.plan.gbs; ++place) tokens += example_at(place).answer_tokens;
  return static_cast<double>(tokens);
}

void PromptTuner::read_examples(int64_t micro_batch, std::vector<int32_t>& virtual_ids) {
  const int64_t seq = job_.workload.seq, rows = job_.tuning->virtual_tokens;
  const int64_t first =
      (micro_batch * job_.plan.dp + world_.coordinate(Axis::data)) * job_.plan.mbs;
  virtual_ids.assign(ids_.size(), -1);
  std::fill(ids_.begin(), ids_.end(), 0);
  std::fill(targets_.begin(), targets_.end(), -1);
  for (int64_t i = 0; i < job_.plan.mbs; ++i) {
    const TuningExample& example = example_at(first + i);
    const auto at = [&](int64_t place) { return static_cast<size_t>(i * seq + place); };
    for (int64_t row = 0; row < rows; ++row) {
      ids_[at(row)] = -1;
      virtual_ids[at(row)] = static_cast<int32_t>(example.task * rows + row);
    }
    const auto length = static_cast<int64_t>(example.tokens.size());
    for (int64_t t = 0; t + 1 < length; ++t)
      ids_[at(rows + t)] = example.tokens[static_cast<size_t>(t)];
    for (int64_t t = length - example.answer_tokens; t < length; ++t)
      targets_[at(rows + t - 1)] = example.tokens[static_cast<size_t>(t)];
  }
}

void PromptTuner::forward(int64_t micro_batch) {
  LayerContext& context = model_.context();
  const int stage = world_.coordinate(Axis::pipeline);
  const Chunk& layers = model_.layers();
  Pass& pass = *passes_.emplace_back(std::make_unique<Pass>());
  std::vector<int32_t> virtual_ids;
  read_examples(micro_batch, virtual_ids);
  Tensor input;
  if (model_.is_first()) {
    pass.virtual_ids =
        Tensor(context.device(), {1, context.tokens()}, DType::i32, MemoryUse::activation);
    context.device().copy_to_device(pass.virtual_ids.data(), virtual_ids.data(),
                                    pass.virtual_ids.bytes());
    pass.virtual_tokens = {table_, pass.virtual_ids, gradient_};
    pass.batch.virtual_tokens = &pass.virtual_tokens;
  } else {
    input = context.matrix(context.local_tokens(), job_.model.hidden, layers.input_use());
    world_.forward().follow(context.device());
    world_.forward().receive(payload_of(input), stage - 1);
  }
  const View losses = losses_;
  const Tensor output =
      layers.forward(context, in_place, std::move(input), ids_.data(), targets_.data(),
                     losses.columns(1, 1), pass.batch, pass.saved);
  if (model_.is_last()) {
    if (context.tp_rank() == 0)
      context.kernels().accumulate(losses.columns(1, 1), losses.columns(0, 1));
    return;
  }
  world_.forward().follow(context.device());
  world_.forward().send(payload_of(output), stage + 1);
}

void PromptTuner::backward(double factor) {
  LayerContext& context = model_.context();
  const int stage = world_.coordinate(Axis::pipeline);
  const std::unique_ptr<Pass> pass = std::move(passes_.front());
  passes_.pop_front();
  Tensor grad;
  if (!model_.is_last()) {
    grad = context.matrix(context.local_tokens(), job_.model.hidden, MemoryUse::workspace);
    world_.backward().follow(context.device());
    world_.backward().receive(payload_of(grad), stage + 1);
  }
  const Tensor grad_input = model_.layers().backward(context, in_place, std::move(grad), factor,
                                                     pass->batch, std::move(pass->saved));
  if (model_.is_first()) return;
  world_.backward().follow(context.device());
  world_.backward().send(payload_of(grad_input), stage - 1);
}

double PromptTuner::update(double rate) {
  LayerContext& context = model_.context();
  Device& device = context.device();
  world_.data().follow(device);
  world_.data().all_reduce(payload_of(gradient_));
  std::vector<float> table(static_cast<size_t>(gradient_.elements()));
  device.copy_to_host(table.data(), gradient_.data(), gradient_.bytes());
  const size_t share = table.size() / encoders_.size();
  std::vector<std::vector<float>> gradients;
  double squares = 0;
  for (size_t task = 0; task < encoders_.size(); ++task) {
    gradients.push_back(encoders_[task]->backward({table.data() + task * share, share}));
    for (const float x : gradients.back()) squares += double{x} * double{x};
  }
  const double norm = std::sqrt(squares), clip = job_.optimizer.clip_norm;
  kernels::AdamStep adam;
  adam.learning_rate = rate;
  adam.beta1 = job_.optimizer.beta1;
  adam.beta2 = job_.optimizer.beta2;
  adam.epsilon = job_.optimizer.epsilon;
  adam.step = next_step_ + 1;
  adam.gradient_scale = clip > 0 && norm > clip ? clip / norm : 1;
  for (size_t task = 0; task < encoders_.size(); ++task) {
    std::vector<float>& parameters = encoders_[task]->parameters();
    const Tensor gradient = vector_of(device, static_cast<int64_t>(parameters.size()));
    device.copy_to_device(gradient.data(), gradients[task].data(), gradient.bytes());
    const kernels::AdamPiece piece{
        gradient, masters_[task], means_[task], squares_[task], {}, job_.optimizer.weight_decay};
    context.kernels().adam({&piece, 1}, adam);
    device.copy_to_host(parameters.data(), masters_[task].data(), gradient.bytes());
  }
  fill_table();
  return norm;
}

double PromptTuner::total_loss(double tokens) {
  Device& device = model_.context().device();
  device.synchronize();
  double loss = 0;
  device.copy_to_host(&loss, losses_.data(), sizeof loss);
  world_.all().all_reduce({&loss, 1, Element::f64});
  return loss / tokens;
}

TuningStep PromptTuner::step() {
  LayerContext& context = model_.context();
  context.kernels().fill(losses_, 0);
  if (model_.is_first()) context.kernels().fill(gradient_, 0);
  const double tokens = answer_tokens_of_step();
  for (const PipelineStep& pass : schedule_) {
    if (pass.kind == PipelineStep::Kind::forward)
      forward(pass.micro_batch);
    else
      backward(1 / tokens);
  }
  TuningStep result;
  result.loss = total_loss(tokens);
  result.rate = learning_rate(job_.optimizer, next_step_, job_.steps);
  if (model_.is_first()) result.gradient_norm = update(result.rate);
  ++next_step_;
  return result;
}

SoftPrompt PromptTuner::prompt(size_t task) {
  expect(model_.is_first(), "virtual tokens are on the first stage");
  return {job_.tuning->tasks[task].name,
          job_.tuning->source == PromptSource::table ? "prompt" : "ptuning", job_.model.hidden,
          encoders_[task]->forward()};
}

}  // namespace engine
