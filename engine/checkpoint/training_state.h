// TrainingState: how far a training has come, in a checkpoint's training_state.json.
#pragma once
#include <cstdint>
#include <string>

#include "engine/plan/job.h"

namespace engine {

constexpr char kTrainingStateFile[] = "training_state.json";

// Random numbers and data depend on the step and on the job's seed alone, so this is all that is
// needed beside the tensors.
struct TrainingState {
  int64_t step = 0;    // steps done
  int64_t tokens = 0;  // tokens seen
  Job job;             // as it ran: model, plan, workload, optimizer, seed
};

std::string training_state_text(const TrainingState& state);
// Throws InputError with every problem of the text, naming `source`.
TrainingState training_state_from(const std::string& text, const std::string& source);

}  // namespace engine
