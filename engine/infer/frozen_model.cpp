// One rank's layers, with weights that are only read.
#include "engine/infer/frozen_model.h"

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/nn/model_problems.h"
#include "engine/nn/stored_slice.h"
#include "engine/tensor/host_view.h"

namespace engine {
namespace {

LayerOptions checked(LayerOptions options, const ParallelPlan& plan) {
  const Precision precision = options.type == DType::bf16 ? Precision::bf16 : Precision::f32;
  const auto problems = serving_problems(options.model, plan, precision, options.seq);
  if (!problems.empty()) throw InputError(problems);
  options.model.dropout = false;
  return options;
}

}  // namespace

DType type_of(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : DType::f32;
}

std::vector<std::string> serving_problems(const ModelSpec& model, const ParallelPlan& plan,
                                          Precision precision, int64_t longest) {
  std::vector<std::string> problems = model_problems(model);
  if (!problems.empty()) return problems;
  problems = division_problems(model, plan);
  const auto refuse = [&](bool is, std::string sentence) {
    if (is) problems.push_back(std::move(sentence));
  };
  refuse(plan.cp > 1 || plan.ep > 1 || plan.vpp > 1 || plan.sp || plan.zero > 0,
         "serving divides a model by tp and pp only; use cp 1, ep 1, vpp 1, zero 0 and no sp");
  refuse(precision != Precision::f32 && precision != Precision::bf16,
         fmt::format("the engine serves in f32 and bf16, not in {}", name_of(precision)));
  refuse(model.position == PositionKind::learned && longest > model.positions,
         fmt::format("sequences of {} tokens are longer than the model's {} positions", longest,
                     model.positions));
  return problems;
}

FrozenModel::FrozenModel(Device& device, World& world, LayerOptions options,
                         const ParallelPlan& plan)
    : context_(device, world, checked(std::move(options), plan)) {
  if (!device.multiplies(context_.type()))
    throw Error(ExitCode::environment, "this processor does not multiply bf16; use f32");
  const Partition partition(plan, context_.model().layers);
  const int stage = world.coordinate(Axis::pipeline);
  layer_range_ = partition.chunk(stage, 0);
  chunk_ = std::make_unique<Chunk>(
      context_, set_,
      ChunkShape{layer_range_, Partition::has_embedding(stage, 0), partition.has_head(stage, 0)},
      Recompute{});
  weights_ = Tensor(device, {1, set_.elements()}, context_.type(), MemoryUse::parameter);
  int64_t next = 0;
  for (Parameter& p : set_.all()) {
    const View place = weights_.view().columns(next, p.elements());
    p.weight = {place.data, place.type, p.rows, p.columns};
    next += p.elements();
    initialise(context_, p);
  }
}

void FrozenModel::load(const std::string& checkpoint) {
  const CheckpointReader reader(checkpoint, context_.model());
  for (const Parameter& p : set_.all()) {
    HostView weight(context_.device(), p.weight);
    reader.read_weight(stored_slice(p), weight.view());
    weight.store();
  }
}

}  // namespace engine
