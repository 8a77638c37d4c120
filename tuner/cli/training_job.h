// The options of a training on the engine, and the job that they make.
#pragma once
#include <vector>

#include "engine/plan/job.h"
#include "tuner/cli/command.h"

namespace tuner {

// Model, sequence, batch, precision, plan, steps, rate, checkpoints, validation, seed.
std::vector<Option> training_options();

// A job of what was given and defaults. Throws InputError with every rule that its plan breaks.
engine::Job new_training_job(const Arguments& arguments);
// A job that was begun, with what was given in place of what it had. The model stays. Throws as
// above.
engine::Job changed_training_job(const Arguments& arguments, engine::Job job);

}  // namespace tuner
