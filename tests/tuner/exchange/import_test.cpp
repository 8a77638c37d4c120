// Files as people have them: scripts with variables and arrays, other frameworks' files, mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "tuner/exchange/import.h"
#include "tuner/exchange/syntax.h"

namespace {

using engine::Recompute;
using testing::HasSubstr;
using tuner::import_text;
using tuner::Imported;
using tuner::parse_shell;

std::string problem_of(const std::string& text, const std::string& file) {
  try {
    import_text(text, file);
  } catch (const engine::InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(Shell, ReadsWordsAsAShellDoes) {
  const auto words = [](const char* text) { return parse_shell(text, "t").commands.at(0); };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words("a 'b c' \"d $x\" e\\ f\n"), (Words{"a", "b c", "d ${x}", "e f"}));
  EXPECT_EQ(words("X=3\nrun --n $X --m ${X} --k ${Y:-7} --z \"${X}\"\n"),
            (Words{"run", "--n", "3", "--m", "3", "--k", "7", "--z", "3"}));
  EXPECT_EQ(words("A=(--x 1\n  --y 2 # note\n)\nA+=(--z)\nrun ${A[@]} \"${A[@]}\"\n"),
            (Words{"run", "--x", "1", "--y", "2", "--z", "--x", "1", "--y", "2", "--z"}));
  EXPECT_EQ(words("O=\" --x 1 \\\n --y 2\"\nexport P=4\nrun $O --p $P \"$@\" > log 2>&1\n"),
            (Words{"run", "--x", "1", "--y", "2", "--p", "4"}));
  EXPECT_EQ(words("run --t $(date +%s) --u $((1 + 2))\n"),
            (Words{"run", "--t", "$(date +%s)", "--u", "$((1 + 2))"}));
  EXPECT_EQ(words("run $'a\\'b'\n"), (Words{"run", "a'b"}));
}

TEST(Shell, KeepsDocumentsAndReadsScriptsInThem) {
  const auto script = parse_shell(
      "cat > x.json <<'E'\n{\"a\": 1}\nE\nsrun bash -c \"$(cat <<'N'\n"
      "run --x 1\nN\n)\" name\n",
      "t");
  EXPECT_EQ(script.documents.at("x.json"), "{\"a\": 1}\n");
  ASSERT_GE(script.commands.size(), 2u);
  EXPECT_THAT(script.commands, testing::Contains(std::vector<std::string>{"run", "--x", "1"}));
}

TEST(Shell, RefusesWhatDoesNotEnd) {
  for (const char* text : {"a 'b", "a \"b", "A=(1 2", "a ${b", "a $(b", "cat <<E\nx\n", "a `b"})
    EXPECT_THROW(parse_shell(text, "t"), engine::InputError) << text;
}

// In the manner of Megatron-LM's own examples.
constexpr const char* kScript = R"(#!/bin/bash
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-16}
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
GPT_MODEL_ARGS=(
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96
    --seq-length 2048 --max-position-embeddings 2048
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 1536   # sequences
    --lr 6.0e-5 --fp16 --use-distributed-optimizer
    --recompute-granularity full --recompute-method block --recompute-num-layers 2
)
MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size 16
    --num-layers-per-virtual-pipeline-stage 3
    --sequence-parallel
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    ${MODEL_PARALLEL_ARGS[@]}
)";

TEST(Import, MegatronScript) {
  const Imported in = import_text(kScript, "train.sh");
  EXPECT_EQ(in.format, "megatron-lm");
  EXPECT_EQ(in.gpus, 128);
  const engine::ParallelPlan expected{.dp = 1,
                                      .tp = 8,
                                      .pp = 16,
                                      .vpp = 2,
                                      .sp = true,
                                      .zero = 1,
                                      .mbs = 1,
                                      .gbs = 1536,
                                      .recompute = {Recompute::Mode::full, 2}};
  EXPECT_EQ(in.plan, expected) << engine::describe(in.plan);
  EXPECT_EQ(in.precision, engine::Precision::fp16);
  ASSERT_TRUE(in.model);
  EXPECT_EQ(in.model->name, "gpt3-175b");  // the preset of this shape
  EXPECT_THAT(in.ignored, testing::ElementsAre("--lr"));
}

TEST(Import, PlainArgumentsOneALine) {
  const Imported in = import_text(
      "--num-layers 24\n--hidden-size 2048\n--num-attention-heads 16\n--seq-length=1024\n"
      "--max-position-embeddings 1024\n--micro-batch-size 4\n--global-batch-size 64\n--bf16\n"
      "--recompute-activations\n--pipeline-model-parallel-size 4\n"
      "--account-for-embedding-in-pipeline-split\n--num-layers 23\n",
      "args.txt");
  EXPECT_EQ(in.gpus, 0);
  EXPECT_EQ(in.plan.dp, 0);
  EXPECT_EQ(in.plan.recompute.mode, Recompute::Mode::selective);
  EXPECT_EQ(in.plan.layers_per_stage, (std::vector<int>{5, 6, 6, 6}));
  Imported placed = in;
  placed.use_gpus(16);
  EXPECT_EQ(placed.plan.dp, 4);
}

TEST(Import, MegatronDeepSpeedScript) {
  const Imported in = import_text(R"(
tp=4; pp=2
cat > ds.json <<EOT
{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
 "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}
EOT
options=" --tensor-model-parallel-size ${tp} \
  --pipeline-model-parallel-size ${pp} \
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --num-key-value-heads 8 \
  --ffn-hidden-size 11008 --seq-length 4096 --max-position-embeddings 4096 \
  --swiglu --normalization rmsnorm --use-rotary-position-embeddings \
  --untie-embeddings-and-output-weights --disable-bias-linear --attention-dropout 0 \
  --hidden-dropout 0 --checkpoint-activations --deepspeed --deepspeed_config ds.json"
deepspeed --num_nodes 4 --num_gpus 8 pretrain_gpt.py $options
)",
                                  "run.sh");
  EXPECT_EQ(in.format, "deepspeed");
  EXPECT_EQ(in.gpus, 32);
  const engine::ParallelPlan expected{.dp = 4,
                                      .tp = 4,
                                      .pp = 2,
                                      .zero = 1,
                                      .mbs = 2,
                                      .gbs = 64,
                                      .recompute = {Recompute::Mode::full, 0}};
  EXPECT_EQ(in.plan, expected) << engine::describe(in.plan);
  ASSERT_TRUE(in.model);
  EXPECT_EQ(in.model->kv_heads, 8);
  EXPECT_EQ(in.model->position, engine::PositionKind::rotary);
}

TEST(Import, DeepSpeedJsonAlone) {
  Imported in = import_text(R"({"train_micro_batch_size_per_gpu": 4,
      "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 3,
      "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}, "autotuning": {}})",
                            "ds.json");
  EXPECT_FALSE(in.model);
  in.use_gpus(16);
  EXPECT_EQ(in.plan.gbs, 4 * 8 * 16);
  EXPECT_EQ(in.plan.zero, 3);
  EXPECT_EQ(in.stack, "deepspeed-zero3");
  EXPECT_THAT(in.remarks, testing::Contains(HasSubstr("offloading")));
  EXPECT_THAT(in.ignored, testing::ElementsAre("autotuning"));
}

TEST(Import, NemoCountsChunksAndMegatronLayers) {
  const Imported in = import_text(R"(
trainer: {num_nodes: 16, devices: 8, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 256
  tensor_model_parallel_size: 8
  pipeline_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 4
  sequence_parallel: true
  encoder_seq_length: 2048
  max_position_embeddings: 2048
  num_layers: 48
  hidden_size: 6144
  num_attention_heads: 48
  ffn_hidden_size: 24576
  num_query_groups: null
  activations_checkpoint_granularity: selective
  activations_checkpoint_method: block
  activations_checkpoint_num_layers: 0
  optim: {name: distributed_fused_adam}
)",
                                  "gpt.yaml");
  EXPECT_EQ(in.plan.vpp, 4);
  EXPECT_EQ(in.plan.dp, 4);
  EXPECT_EQ(in.plan.zero, 1);
  EXPECT_EQ(in.plan.recompute.mode, Recompute::Mode::selective);
  EXPECT_EQ(in.model->heads, 48);
}

TEST(Import, TitanDefaultsTakeLayersOffTheEnds) {
  const Imported in = import_text(R"(
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 4
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
[activation_checkpoint]
mode = "full"
)",
                                  "llama3_70b.toml");
  EXPECT_EQ(in.gpus, 128);
  EXPECT_EQ(in.plan.layers_per_stage, (std::vector<int>{20, 21, 20, 19}));
  EXPECT_EQ(in.plan.mbs, 1);
  EXPECT_EQ(in.plan.gbs, 32);
  EXPECT_EQ(in.plan.zero, 2);  // in a pipeline the default keeps what was gathered
  EXPECT_TRUE(in.plan.sp);
}

TEST(Import, SaysWhatIsWrong) {
  EXPECT_THAT(problem_of("echo hello\n", "x.sh"), HasSubstr("no arguments of Megatron-LM"));
  EXPECT_THAT(problem_of("run --num-layers 12 --tensor-model-parallel-size $TP\n", "x.sh"),
              HasSubstr("--tensor-model-parallel-size is ${TP}, which the file does not set"));
  EXPECT_THAT(problem_of("run --num-layers twelve\n", "x.sh"),
              HasSubstr("--num-layers is 'twelve', but must be an integer"));
  EXPECT_THAT(problem_of("run --tensor-model-parallel-size 0\n", "x.sh"), HasSubstr("from 1 to"));
  EXPECT_THAT(problem_of("run --recompute-granularity full --micro-batch-size 1\n", "x.sh"),
              HasSubstr("recompute_method uniform or block"));
  EXPECT_THAT(problem_of("model: {a: 1}\n", "x.yaml"), HasSubstr("no NeMo 1.x configuration"));
  EXPECT_THAT(problem_of("a: [1, 2\n", "x.yaml"), HasSubstr("x.yaml:"));
  EXPECT_THAT(problem_of("a = \n", "x.toml"), HasSubstr("x.toml:1: this is no TOML"));
  EXPECT_THAT(problem_of("[x]\na = 1\n", "x.toml"), HasSubstr("no torchtitan configuration"));
  EXPECT_THAT(problem_of("{\"zero_optimization\": {\"stage\": 9}}", "x.json"), HasSubstr("stage"));
  EXPECT_THAT(
      problem_of("run --num-layers 12 --hidden-size 64 --num-attention-heads 4 "
                 "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4\n",
                 "x.sh"),
      HasSubstr("does not divide the layers of a stage"));
}

TEST(Import, DeepSpeedRefusesSizesThatContradict) {
  EXPECT_THAT(problem_of("cat > d.json <<E\n{\"train_batch_size\": 100, "
                         "\"train_micro_batch_size_per_gpu\": 2, "
                         "\"gradient_accumulation_steps\": 4}\nE\ndeepspeed --num_gpus 8 t.py "
                         "--micro-batch-size 2 --deepspeed_config d.json\n",
                         "x.sh"),
              HasSubstr("DeepSpeed refuses to start"));
}

TEST(Import, LayoutsOfMegatron) {
  const std::string head =
      "run --num-layers 10 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 "
      "--max-position-embeddings 64 "
      "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ";
  EXPECT_EQ(import_text(head + "'E(t|)*1,t*9,L'\n", "x.sh").plan.layers_per_stage,
            (std::vector<int>{1, 9}));
  const auto chunks = import_text(head + "'Ett|ttt|ttt|ttL'\n", "x.sh").plan;
  EXPECT_EQ(chunks.vpp, 2);
  EXPECT_EQ(chunks.layers_per_stage, (std::vector<int>{5, 5}));
  for (const char* bad : {"'Et*4|t*5L'", "'Et*9|mtL'", "'t*4|Et*6L'", "'E(t'", "'Et*99999999|L'",
                          "'Et|t*7|t|tL'", "'Et*5|x'"})
    EXPECT_NE(problem_of(head + bad + "\n", "x.sh"), "none") << bad;
}

// Files of any bytes end in a plan or a sentence.
TEST(Import, HostileFilesEndInASentence) {
  const std::string deep(100000, '['), indent(200000, ' ');
  for (const char* file : {"x.sh", "x.yaml", "x.toml", "x.json", "x"})
    for (const std::string& text :
         {std::string(), deep, std::string("\0\xff\x1b", 3), "a: " + indent + "b\n- c",
          std::string("a: &x [1]\nb: *x\n"), std::string("--num-layers"), std::string("A=(B=(C"),
          std::string("$("), std::string("{\"a\":"), std::string("x <<\n")})
      try {
        import_text(text, file);
      } catch (const engine::Error&) {}
}

}  // namespace
