// One rank's part of training a model under a plan.
#include "engine/train/trainer.h"

#include <cmath>

#include "engine/base/errors.h"

namespace engine {
namespace {

const Job& checked(const Job& job) {
  const auto problems = training_problems(job.model, job.plan, job.workload);
  if (!problems.empty()) throw InputError(problems);
  return job;
}

LayerOptions layer_options(const Job& job) {
  LayerOptions options;
  options.model = job.model;
  options.type = job.workload.precision == Precision::bf16 ? DType::bf16 : DType::f32;
  options.attention = job.workload.attention;
  options.sequences = job.plan.mbs;
  options.seq = job.workload.seq;
  options.sequence_parallel = job.plan.sp && job.plan.tp > 1;
  options.seed = job.seed;
  return options;
}

}  // namespace

Trainer::Trainer(Device& device, World& world, const Job& job, const Batches& batches)
    : job_(checked(job)),
      world_(world),
      batches_(batches),
      source_(&batches),
      context_(device, world, layer_options(job)) {
  const Partition partition(job.plan, job.model.layers);
  const int stage = world.coordinate(Axis::pipeline);
  const Parameter* tied_table = nullptr;
  for (int chunk = 0; chunk < job.plan.vpp; ++chunk) {
    const ChunkShape shape{partition.chunk(stage, chunk), Partition::has_embedding(stage, chunk),
                           partition.has_head(stage, chunk)};
    chunks_.emplace_back(context_, set_, shape, job.plan.recompute);
    if (chunks_.back().tied_table() != nullptr) tied_table = chunks_.back().tied_table();
  }
  storage_ = std::make_unique<ShardedParameters>(context_, set_, job.plan.zero, tied_table);
  storage_->visit_weights(true, [&](ParameterUnit& unit) {
    for (const Parameter* p : unit.parameters) initialise(context_, *p);
  });
  optimizer_ = std::make_unique<Optimizer>(context_, *storage_, job.optimizer);
  optimizer_->take_weights();
  schedule_ = make_schedule({job.plan.pp, job.plan.vpp, job.plan.micro_batches()}, stage);
  saved_.resize(chunks_.size());
  sums_ = Tensor(device, {1, ordinal_count(job.model) + 2}, DType::f64, MemoryUse::workspace);
  ids_.resize(static_cast<size_t>(context_.tokens()));
  targets_.resize(ids_.size());
  sequence_.resize(static_cast<size_t>(job.workload.seq) + 1);
}

StepResult Trainer::step() {
  context_.kernels().fill(sums_, 0);
  storage_->clear_gradients();
  first_sample_ = next_step_ * job_.plan.gbs;
  for (const PipelineStep& pass : schedule_) {
    if (pass.kind == PipelineStep::Kind::forward)
      forward(pass.chunk, pass.micro_batch);
    else
      backward(pass.chunk, pass.micro_batch);
  }
  storage_->reduce_gradients();
  return finish();
}

double Trainer::evaluate(const Batches& batches, int64_t count) {
  const View loss = sums_.view().columns(ordinal_count(job_.model), 1);
  context_.kernels().fill(loss, 0);
  context_.set_dropout(false);
  source_ = &batches;
  for (int64_t batch = 0; batch < count; ++batch) {
    first_sample_ = batch * job_.plan.gbs;
    for (const PipelineStep& pass : schedule_) {
      if (pass.kind != PipelineStep::Kind::forward) continue;
      forward(pass.chunk, pass.micro_batch);
      saved_[static_cast<size_t>(pass.chunk)].clear();
    }
  }
  source_ = &batches_;
  context_.set_dropout(true);
  world_.all().follow(context_.device());
  world_.all().all_reduce(payload_of(loss));
  double sum = 0;
  context_.device().copy_to_host(&sum, loss.data, sizeof sum);
  return sum / static_cast<double>(count * job_.plan.gbs * job_.workload.seq);
}

MicroBatch Trainer::micro_batch_of(int64_t index) const {
  const int64_t place = index * job_.plan.dp + world_.coordinate(Axis::data);
  return {next_step_, place * job_.plan.mbs};
}

void Trainer::read_tokens(int64_t micro_batch) {
  const int64_t seq = job_.workload.seq;
  const int64_t first = first_sample_ + micro_batch_of(micro_batch).first_sequence;
  for (int64_t i = 0; i < job_.plan.mbs; ++i) {
    source_->read(first + i, sequence_);
    std::copy(sequence_.begin(), sequence_.end() - 1, ids_.begin() + i * seq);
    std::copy(sequence_.begin() + 1, sequence_.end(), targets_.begin() + i * seq);
  }
}

Tensor Trainer::receive(Communicator& ranks, int from, MemoryUse use) {
  Tensor tensor = context_.matrix(context_.local_tokens(), job_.model.hidden, use);
  ranks.follow(context_.device());  // earlier kernels may still use this memory
  ranks.receive(payload_of(tensor), (from + ranks.size()) % ranks.size());
  return tensor;
}

void Trainer::send(Communicator& ranks, const Tensor& tensor, int to) {
  ranks.follow(context_.device());
  ranks.send(payload_of(tensor), (to + ranks.size()) % ranks.size());
}

void Trainer::forward(int chunk, int64_t micro_batch) {
  const Chunk& layers = chunks_[static_cast<size_t>(chunk)];
  const int stage = world_.coordinate(Axis::pipeline);
  Tensor input;
  if (!layers.has_embedding()) input = receive(world_.forward(), stage - 1, layers.input_use());
  if (layers.has_embedding() || layers.has_head()) read_tokens(micro_batch);
  const int64_t loss = ordinal_count(job_.model);
  const View sums = sums_;
  Chunk::Saved& saved = saved_[static_cast<size_t>(chunk)].emplace_back();
  const Tensor output =
      layers.forward(context_, *storage_, std::move(input), ids_.data(), targets_.data(),
                     sums.columns(loss + 1, 1), micro_batch_of(micro_batch), saved);
  if (layers.has_head()) {
    // All tensor ranks have the same loss; one counts.
    if (context_.tp_rank() == 0)
      context_.kernels().accumulate(sums.columns(loss + 1, 1), sums.columns(loss, 1));
  } else {
    send(world_.forward(), output, stage + 1);
  }
}

void Trainer::backward(int chunk, int64_t micro_batch) {
  const Chunk& layers = chunks_[static_cast<size_t>(chunk)];
  const int stage = world_.coordinate(Axis::pipeline);
  Tensor grad;
  if (!layers.has_head()) grad = receive(world_.backward(), stage + 1, MemoryUse::workspace);
  std::deque<Chunk::Saved>& waiting = saved_[static_cast<size_t>(chunk)];
  Chunk::Saved saved = std::move(waiting.front());
  waiting.pop_front();
  storage_->set_last_micro_batch(micro_batch + 1 == job_.plan.micro_batches());
  const double factor = 1 / static_cast<double>(job_.plan.gbs * job_.workload.seq);
  const Tensor grad_input = layers.backward(context_, *storage_, std::move(grad), factor,
                                            micro_batch_of(micro_batch), std::move(saved));
  if (!layers.has_embedding()) send(world_.backward(), grad_input, stage - 1);
}

StepResult Trainer::finish() {
  const int64_t squares = ordinal_count(job_.model);
  const View sums = sums_.view().columns(0, squares + 1);
  optimizer_->sum_squares(sums.columns(0, squares));
  world_.all().follow(context_.device());
  world_.all().all_reduce(payload_of(sums));
  std::vector<double> host(static_cast<size_t>(squares) + 1);
  context_.device().copy_to_host(host.data(), sums.data, squares * 8 + 8);

  StepResult result;
  result.loss = host.back() / static_cast<double>(job_.plan.gbs * job_.workload.seq);
  double norm = 0;
  for (int64_t i = 0; i < squares; ++i) norm += host[static_cast<size_t>(i)];
  result.gradient_norm = std::sqrt(norm);
  result.rate = learning_rate(job_.optimizer, next_step_, job_.steps);
  const double clip = job_.optimizer.clip_norm;
  const bool clips = !job_.is_phantom() && clip > 0 && result.gradient_norm > clip;
  optimizer_->update(result.rate, clips ? clip / result.gradient_norm : 1, next_step_);
  storage_->share_weights();
  ++next_step_;
  return result;
}

}  // namespace engine
