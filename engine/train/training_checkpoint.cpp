// Checkpoints of a training, slice by slice.
#include "engine/train/training_checkpoint.h"

#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/nn/stored_slice.h"
#include "engine/tensor/host_view.h"

namespace engine {
namespace {

constexpr char kMaster[] = "master";

bool keeps_master(const Job& job) { return job.workload.precision == Precision::bf16; }

// The optimizer's tensors of one slice by their names in checkpoints.
std::vector<std::pair<std::string, View>> states_of(const Job& job, const OptimizerSlice& slice) {
  std::vector<std::pair<std::string, View>> states = {{"mean", slice.mean},
                                                      {"square", slice.square}};
  if (keeps_master(job)) states.emplace_back(kMaster, slice.master);
  return states;
}

CheckpointFormat format_of(const Job& job) {
  CheckpointFormat format;
  format.weights = keeps_master(job) ? StorageType::bf16 : StorageType::f32;
  format.states = {"mean", "square"};
  if (keeps_master(job)) format.states.emplace_back(kMaster);
  return format;
}

void load_weights(Trainer& trainer, const CheckpointReader& reader, bool from_master) {
  trainer.storage().visit_weights(true, [&](ParameterUnit& unit) {
    for (const Parameter* p : unit.parameters) {
      HostView weight(trainer.device(), p->weight);
      if (from_master)
        reader.read_state(kMaster, stored_slice(*p), {0, p->elements()}, weight.view());
      else
        reader.read_weight(stored_slice(*p), weight.view());
      weight.store();
    }
  });
  trainer.optimizer().take_weights();
}

}  // namespace

std::string save_checkpoint(Trainer& trainer, const std::string& root) {
  const Job& job = trainer.job();
  World& world = trainer.world();
  TrainingState state;
  state.step = trainer.next_step();
  state.tokens = state.step * job.plan.gbs * job.workload.seq;
  state.job = job;
  CheckpointWriter writer(root, state, format_of(job));
  if (world.rank() == 0) writer.create();
  world.all().barrier();

  const bool first_replica = world.gradient().rank() == 0;
  trainer.storage().visit_weights(false, [&](ParameterUnit& unit) {
    if (!first_replica) return;
    for (const Parameter* p : unit.parameters)
      if (p->owned)
        writer.write_weight(stored_slice(*p), HostView(trainer.device(), p->weight).fetch());
  });
  for (const OptimizerSlice& slice : trainer.optimizer().slices()) {
    if (!slice.parameter->owned || (job.plan.zero == 0 && !first_replica)) continue;
    for (const auto& [name, data] : states_of(job, slice))
      writer.write_state(name, stored_slice(*slice.parameter), {slice.first, slice.count},
                         HostView(trainer.device(), data).fetch());
  }
  writer.close();
  world.all().barrier();
  std::string folder;
  if (world.rank() == 0) folder = writer.commit();
  world.all().barrier();
  return folder;
}

void load_checkpoint(Trainer& trainer, const std::string& folder) {
  const Job& job = trainer.job();
  const CheckpointReader reader(folder, job.model);
  if (!reader.training()) return load_weights(trainer, reader, false);
  const bool has_master = keeps_master(reader.training()->job);
  load_weights(trainer, reader, has_master && !keeps_master(job));
  for (const OptimizerSlice& slice : trainer.optimizer().slices())
    for (const auto& [name, data] : states_of(job, slice))
      if (name != kMaster || has_master) {
        HostView host(trainer.device(), data);
        reader.read_state(name, stored_slice(*slice.parameter), {slice.first, slice.count},
                          host.view());
        host.store();
      }
  trainer.continue_at(reader.training()->step);
}

}  // namespace engine
