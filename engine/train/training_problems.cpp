// What this engine does not train, and why.
#include <fmt/format.h>

#include "engine/nn/model_problems.h"
#include "engine/train/trainer.h"

namespace engine {
namespace {

using Problems = std::vector<std::string>;

void batch_problems(const ParallelPlan& plan, const Workload& workload, Problems& problems) {
  const auto divides = [&](std::string_view what, int64_t size, std::string_view by, int64_t part) {
    if (size % part != 0)
      problems.push_back(fmt::format("{} {} must be a multiple of {} {}", what, size, by, part));
  };
  divides("gbs", plan.gbs, "mbs · dp", plan.mbs * plan.dp);
  if (plan.sp) divides("mbs · seq", plan.mbs * workload.seq, "tp", plan.tp);
}

void plan_problems(const ParallelPlan& plan, Problems& problems) {
  const auto refuse = [&](bool is, std::string_view sentence) {
    if (is) problems.emplace_back(sentence);
  };
  refuse(plan.cp > 1, "the engine does not split a sequence over ranks; use cp 1");
  refuse(plan.ep > 1, "the engine has no experts to divide; use ep 1");
  refuse(plan.vpp > 1 && plan.pp == 1, "chunks need a pipeline; use vpp 1 or pp 2 and more");
  refuse(plan.zero >= 2 && plan.pp > 1, "ZeRO 2 and 3 need pp 1; use ZeRO 1 with a pipeline");
  refuse(plan.zero < 0 || plan.zero > 3, "zero must be 0, 1, 2 or 3");
  if (plan.vpp > 1 && plan.pp > 1 && plan.micro_batches() < plan.pp)
    problems.push_back(fmt::format("vpp {} needs at least pp {} micro-batches a replica, not {}",
                                   plan.vpp, plan.pp, plan.micro_batches()));
}

}  // namespace

std::vector<std::string> training_problems(const ModelSpec& model, const ParallelPlan& plan,
                                           const Workload& workload) {
  Problems problems = model_problems(model);
  if (!problems.empty()) return problems;
  problems = division_problems(model, plan);
  batch_problems(plan, workload, problems);
  plan_problems(plan, problems);
  if (workload.precision != Precision::f32 && workload.precision != Precision::bf16)
    problems.push_back(
        fmt::format("the engine trains in f32 and bf16, not in {}", name_of(workload.precision)));
  if (model.position == PositionKind::learned && workload.seq > model.positions)
    problems.push_back(fmt::format("seq {} is longer than the model's {} positions", workload.seq,
                                   model.positions));
  if (workload.gbs > 0 && workload.gbs != plan.gbs)
    problems.push_back(
        fmt::format("gbs is {} in the plan and {} in the workload", plan.gbs, workload.gbs));
  return problems;
}

}  // namespace engine
