// What exports say, what they cannot say, and that hostile names do no harm in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/errors.h"
#include "engine/plan/job.h"
#include "tests/support/temporary_folder.h"
#include "tests/tuner/exchange/exchange_cases.h"
#include "tuner/exchange/syntax.h"
#include "tuner/exchange/text.h"

namespace {

using engine::ParallelPlan;
using engine::Recompute;
using exchange_test::answer_for;
using exchange_test::exported;
using test_support::scenario_for;
using testing::HasSubstr;
using testing::Not;

const ParallelPlan kPlan{.dp = 32,
                         .tp = 4,
                         .pp = 8,
                         .vpp = 6,
                         .sp = true,
                         .zero = 1,
                         .mbs = 1,
                         .gbs = 1536,
                         .recompute = {Recompute::Mode::selective, 0}};

std::vector<std::string> targets(bool serving) {
  std::vector<std::string> names;
  for (const tuner::ExportTarget& target : tuner::export_targets())
    if ((target.serve != nullptr) == serving) names.emplace_back(target.name);
  return names;
}

std::string document_of(const tuner::Exported& out) { return out.files.front().text; }

TEST(Export, MegatronLmSaysThePublishedPlan) {
  const auto out = exported(scenario_for({}), kPlan, "megatron-lm");
  EXPECT_TRUE(out.losses.empty());
  for (const char* flag :
       {"torchrun --nproc-per-node 8 --nnodes 128", "--tensor-model-parallel-size 4 ",
        "--pipeline-model-parallel-size 8 ", "--num-virtual-stages-per-pipeline-rank 6 ",
        "--sequence-parallel ", "--recompute-granularity selective ",
        "--use-distributed-optimizer ", "--micro-batch-size 1 ", "--global-batch-size 1536 ",
        "--train-iters 95368 ", "--vocab-size 50257 ", "--bf16 ",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"})
    EXPECT_THAT(out.text, HasSubstr(flag));
  EXPECT_THAT(out.text, Not(HasSubstr("--untie-embeddings")));
}

TEST(Export, FsdpTakesTheOppositeEnvironment) {
  const ParallelPlan plan{.dp = 64, .tp = 1, .zero = 3, .gbs = 512};
  const auto out = exported(scenario_for({.model = "llama-3.1-8b",
                                          .gpu = "h100-80gb",
                                          .gpus = 64,
                                          .stack = "megatron-core",
                                          .gbs = 512,
                                          .seq = 8192}),
                            plan, "megatron-lm");
  EXPECT_THAT(out.text, HasSubstr("unset CUDA_DEVICE_MAX_CONNECTIONS"));
  EXPECT_THAT(out.text, HasSubstr("--data-parallel-sharding-strategy optim_grads_params "));
  EXPECT_THAT(out.text, HasSubstr("--group-query-attention"));
  EXPECT_THAT(out.text, HasSubstr("--swiglu"));
}

// Every target writes something for a common plan and for one that few can express.
TEST(Export, EveryTargetTakesEveryPlanAndNamesItsLosses) {
  const auto s = scenario_for({.gpus = 1024, .stack = "megatron-core"});
  ParallelPlan odd = kPlan;
  odd.recompute = {Recompute::Mode::full, 1};
  for (const std::string& target : targets(false))
    for (const ParallelPlan& plan : {kPlan, odd}) {
      const auto out = exported(s, plan, target);
      EXPECT_TRUE(out.runs()) << target;
      EXPECT_FALSE(out.files.empty()) << target;
      for (const tuner::Loss& loss : out.losses)
        EXPECT_TRUE(target == "job" ||
                    out.text.find("not expressible: " + loss.text) != std::string::npos)
            << target << loss.text;
    }
  const std::set<std::string> exact = {"megatron-lm", "megatron-bridge", "nemo1", "nemo2"};
  for (const std::string& target : targets(false))
    EXPECT_EQ(exported(s, odd, target).losses.empty() && target != "job", exact.count(target) == 1)
        << target;
}

TEST(Export, WhatCannotRunIsNoSuccess) {
  const auto s = scenario_for({.model = "llama-3.1-405b",
                               .gpu = "h100-80gb",
                               .gpus = 64,
                               .stack = "megatron-core",
                               .gbs = 64,
                               .seq = 8192});
  const ParallelPlan uneven{.dp = 2,
                            .tp = 8,
                            .pp = 4,
                            .sp = true,
                            .zero = 1,
                            .mbs = 1,
                            .gbs = 64,
                            .layers_per_stage = {31, 32, 32, 31}};
  EXPECT_TRUE(exported(s, uneven, "megatron-lm").runs());
  EXPECT_FALSE(exported(s, uneven, "nemo1").runs());
  EXPECT_THAT(exported(s, uneven, "nemo1").text, HasSubstr("does not run: "));
}

TEST(Export, DocumentsCanBeRead) {
  const auto s = scenario_for({.gpus = 1024, .stack = "megatron-core"});
  const auto yaml = [&](const char* target) {
    return tuner::parse_yaml(document_of(exported(s, kPlan, target)), target);
  };
  EXPECT_EQ(yaml("nemo1")["model"]["virtual_pipeline_model_parallel_size"], 6);
  EXPECT_EQ(yaml("accelerate")["megatron_lm_config"]["megatron_lm_pp_degree"], 8);
  EXPECT_EQ(yaml("nanotron")["parallelism"]["tp_mode"], "REDUCE_SCATTER");
  EXPECT_EQ(yaml("nanotron")["optimizer"]["optimizer_factory"]["adam_eps"], 1e-8);
  const auto toml = tuner::parse_toml(document_of(exported(s, kPlan, "torchtitan-toml")), "t");
  EXPECT_EQ(toml["parallelism"]["pipeline_parallel_layers_per_stage"], 2);
  EXPECT_EQ(toml["training"]["local_batch_size"], 48);
  const auto ds = nlohmann::json::parse(document_of(exported(s, kPlan, "deepspeed")));
  EXPECT_EQ(ds["train_batch_size"], 1536);
  EXPECT_EQ(ds["gradient_accumulation_steps"], 48);
  const auto job =
      engine::job_from_json(nlohmann::json::parse(document_of(exported(s, kPlan, "job"))), "job");
  EXPECT_EQ(job.plan, kPlan);
}

TEST(Export, TargetsThatDoSomethingElseAreRefused) {
  const auto s = scenario_for({});
  try {
    exported(s, kPlan, "vllm");
    FAIL();
  } catch (const engine::InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("megatron-lm, megatron-bridge"));
  }
  EXPECT_THROW(exported(s, kPlan, "megatron"), engine::InputError);
  auto nothing = answer_for(s, kPlan);
  nothing["best"] = nullptr;
  EXPECT_THROW(tuner::export_answer(nothing, {.target = "megatron-lm"}), engine::InputError);
  EXPECT_THROW(tuner::export_answer({{"schema", "autotune.size/1"}}, {.target = "megatron-lm"}),
               engine::InputError);
}

nlohmann::json serving_answer(const std::string& stack) {
  const auto s = scenario_for(
      {.model = "llama-3.1-70b", .gpu = "h100-80gb", .gpus = 8, .stack = "megatron-core"});
  nlohmann::json model;
  to_json(model, s.model);
  return {
      {"schema", "autotune.infer/1"},
      {"model", model},
      {"cluster", tuner::cluster_to_json(s.cluster)},
      {"stack", {{"name", stack}}},
      {"workload", {{"input", 512}, {"output", 128}}},
      {"best",
       {{"plan",
         {{"tp", 4}, {"pp", 1}, {"replicas", 2}, {"batch", 64}, {"weights", "fp8"}, {"kv", "fp8"}}},
        {"predicted",
         {{"latency_seconds", 2.0},
          {"memory",
           {{"weight_bytes", 20e9},
            {"activation_bytes", 2e9},
            {"runtime_bytes", 2e9},
            {"kv_bytes", 1e9},
            {"capacity_bytes", 80e9}}}}}}}};
}

// The share of memory is the target's default, or the run's own, in its own meaning; a plan that
// needs more gets it, and that is told.
TEST(Export, MemorySharesAreThoseOfTheTarget) {
  const auto exported_from = [](nlohmann::json answer, const char* target, double kv_bytes = 1e9) {
    answer["best"]["predicted"]["memory"]["kv_bytes"] = kv_bytes;
    return tuner::export_answer(answer, {.target = target});
  };
  const auto text = [&](const char* stack, const char* target, double kv_bytes = 1e9) {
    return exported_from(serving_answer(stack), target, kv_bytes).text;
  };
  for (const char* stack : {"tensorrt-llm", "vllm", "fastertransformer"}) {
    EXPECT_THAT(text(stack, "tensorrt-llm"), HasSubstr("free_gpu_memory_fraction: 0.9\n"));
    EXPECT_THAT(text(stack, "vllm"), HasSubstr("--gpu-memory-utilization 0.900 "));
    EXPECT_THAT(text(stack, "sglang"), HasSubstr("--mem-fraction-static 0.900 "));
  }
  // Weights 20, activations 2, libraries 2 and cache 52.5 of 80 GB.
  const char* told = "so that less stays free; --stack";
  EXPECT_THAT(text("tensorrt-llm", "vllm", 52.5e9),
              AllOf(HasSubstr("--gpu-memory-utilization 0.932 "), HasSubstr(told)));
  EXPECT_THAT(text("tensorrt-llm", "sglang", 52.5e9),
              AllOf(HasSubstr("--mem-fraction-static 0.932 "), HasSubstr(told)));
  EXPECT_THAT(text("vllm", "tensorrt-llm", 52.5e9),
              AllOf(HasSubstr("free_gpu_memory_fraction: 0.906\n"), HasSubstr(told)));
  nlohmann::json asked = serving_answer("vllm");
  asked["stack"]["memory_share"] = 0.95;
  EXPECT_THAT(exported_from(asked, "vllm").text, HasSubstr("--gpu-memory-utilization 0.950 "));
  EXPECT_THAT(exported_from(asked, "sglang").text, HasSubstr("--mem-fraction-static 0.900 "));
  const std::string vllm = text("vllm", "vllm");
  for (const char* flag :
       {"--tensor-parallel-size 4", "--data-parallel-size 2", "--max-num-seqs 64",
        "--max-model-len 640", "--quantization fp8", "--kv-cache-dtype fp8 "})
    EXPECT_THAT(vllm, HasSubstr(flag));
  EXPECT_THROW(tuner::export_answer(serving_answer("vllm"), {.target = "nemo2"}),
               engine::InputError);
}

// Data-parallel ranks of one vLLM server are no replicas of a mixture: they divide the experts.
TEST(Export, ReplicasOfAMixtureAreServersOfTheirOwnInVllm) {
  nlohmann::json answer = serving_answer("vllm"), model;
  to_json(model, tuner::find_model("mixtral-8x7b"));
  answer["model"] = model;
  answer["best"]["plan"]["ep"] = 4;
  const tuner::Exported vllm = tuner::export_answer(answer, {.target = "vllm"});
  EXPECT_THAT(vllm.text, testing::Not(HasSubstr("--data-parallel-size")));
  EXPECT_THAT(vllm.text, HasSubstr("--enable-expert-parallel"));
  ASSERT_EQ(vllm.losses.size(), 1u);
  EXPECT_THAT(vllm.losses[0].text, HasSubstr("start 2 of them, each on its own 4 GPUs"));
  EXPECT_TRUE(vllm.runs());
  const tuner::Exported sglang = tuner::export_answer(answer, {.target = "sglang"});
  EXPECT_THAT(sglang.text, HasSubstr("--data-parallel-size 2"));
}

// Names as somebody may put them into a config.json to do harm.
const char* const kHostile[] = {
    "x\"; touch pwned; \"",  "$(touch pwned)",     "`touch pwned`",    "a\ntouch pwned\n",
    "\x1b[31mred\x1b]0;x\a", "<script>x</script>", "'; touch pwned #", "\\\n'''\"\"\"",
    "AUTOTUNE\nAUTOTUNE\n",  "\xff\xfe",           "x: [y, {",         "\u202egnp"};

// The file's own reader takes it, and in Python the names stand in comments only.
void expect_readable(const tuner::TextFile& file, const std::string& target) {
  if (file.name.ends_with(".yaml")) {
    EXPECT_NO_THROW(tuner::parse_yaml(file.text, target)) << file.text;
  } else if (file.name.ends_with(".toml")) {
    EXPECT_NO_THROW(tuner::parse_toml(file.text, target)) << file.text;
  } else if (file.name.ends_with(".json")) {
    EXPECT_TRUE(nlohmann::json::accept(file.text)) << target;
  } else if (file.name.ends_with(".py")) {
    for (size_t at = 0; (at = file.text.find("touch", at)) != std::string::npos; ++at)
      EXPECT_EQ(file.text[file.text.rfind('\n', at) + 1], '#') << file.text;
  }
}

TEST(HostileNames, DoNoHarmInAnyTrainingTarget) {
  for (const char* name : kHostile)
    for (const std::string& target : targets(false))
      for (const bool slurm : {false, true}) {
        auto s = scenario_for({.gpus = 1024, .stack = "megatron-core"});
        s.model.name = name;
        s.cluster.device.title = name;
        auto answer = answer_for(s, kPlan);
        const auto out =
            tuner::export_answer(answer, {.target = target, .slurm = slurm, .provenance = {name}});
        EXPECT_EQ(out.text.find('\x1b'), std::string::npos) << target;
        EXPECT_EQ(out.text.find("\ntouch"), std::string::npos) << target;
        for (const tuner::TextFile& file : out.files) {
          expect_readable(file, target);
        }
      }
}

// A shell reads each script, with every command replaced by one that does nothing.
TEST(HostileNames, ShellsRunNothingOfThem) {
  const TemporaryFolder folder;
  const std::string script = folder / "run.sh";
  for (const char* name : kHostile)
    for (const char* target : {"megatron-lm", "deepspeed", "torchtitan", "nemo2"}) {
      auto s = scenario_for({.gpus = 1024, .stack = "megatron-core"});
      s.model.name = name;
      s.cluster.device.title = name;
      const auto out = tuner::export_answer(
          answer_for(s, kPlan), {.target = target, .slurm = true, .provenance = {name}});
      std::ofstream(script, std::ios::binary) << out.text;
      const std::string command = "cd '" + folder.path() +
                                  "' && torchrun() { :; }; srun() { bash -c \"torchrun() { :; }; "
                                  "$3\"; }; scontrol() { echo n1; }; export SLURM_JOB_NODELIST=n1 "
                                  "SLURM_NODEID=0; . ./run.sh >/dev/null 2>err";
      EXPECT_EQ(std::system(("bash -c '" +
                             [&] {
                               std::string quoted;
                               for (const char c : command)
                                 quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
                               return quoted;
                             }() +
                             "'")
                                .c_str()),
                0)
          << target << "\n"
          << out.text;
      EXPECT_FALSE(std::filesystem::exists(folder / "pwned")) << target << name;
    }
}

TEST(Text, QuotesForEveryReader) {
  EXPECT_EQ(tuner::one_line("a\nb\x1b\xff"), "a\\nb\\u001b\\xff");
  EXPECT_EQ(tuner::one_line("größer ×"), "größer ×");
  EXPECT_EQ(tuner::double_quoted("a\"\\\n\x7f"), "\"a\\\"\\\\\\n\\u007f\"");
  EXPECT_EQ(tuner::bash_word("plain-1.0"), "plain-1.0");
  EXPECT_EQ(tuner::bash_word("it's $(x)"), "'it'\\''s $(x)'");
  EXPECT_EQ(tuner::bash_word("a\nb'"), "$'a\\x0ab\\''");
  EXPECT_EQ(tuner::bash_word(""), "''");
}

TEST(Text, YamlKeepsTextsThatLookLikeSomethingElse) {
  tuner::OrderedJson document = {{"a", "yes"},  {"b", "1e5"}, {"c", 1e-5},
                                 {"d", "x: y"}, {"e", true},  {"f", {1, 2}},
                                 {"g", "null"}, {"h", "- x"}, {"i", {{"j", "\x1b"}}}};
  const std::string text = tuner::yaml_text(document);
  const nlohmann::json read = tuner::parse_yaml(text, "t");
  EXPECT_EQ(read, nlohmann::json::parse(document.dump())) << text;
  EXPECT_THAT(text, HasSubstr("c: 1.0e-05"));  // YAML 1.1 takes 1e-05 for a text
}

}  // namespace
