// ServeWork: the matrix products and the messages of one static batch on this project's engine.
#pragma once
#include "tuner/model/serve_plan.h"
#include "tuner/model/serve_scenario.h"
#include "tuner/model/step_work.h"

namespace tuner {

// Of the first tensor rank of a stage, for a dense model under a legal plan of the engine: prompts
// of a whole batch in one pass of every pipeline slot, then token by token to the end of it. The
// messages are the all-reduces and the gathered logits of the tensor axis, what stages send, and
// what tells ranks the tokens of a pass.
StepWork serve_work(const ServeScenario& scenario, const ServePlan& plan, int stage);

}  // namespace tuner
