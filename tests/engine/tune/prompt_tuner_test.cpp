// Virtual tokens adapt a model of real text to a task that it lacks, under every plan alike, and
// its weights stay as they are, bit by bit.
#include "engine/tune/prompt_tuner.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "engine/base/json_reader.h"
#include "engine/comm/local_communicator.h"
#include "engine/train/training_checkpoint.h"
#include "tests/support/generation_run.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_models.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWindow = 24;  // bytes of an example's text
constexpr int64_t kVirtual = 8;

ModelSpec byte_model() {
  ModelSpec model = tiny::llama();
  model.vocab = 257;
  model.layers = 2;
  model.hidden = 64;
  model.ffn_hidden = 128;
  model.head_dim = 16;
  model.positions = 64;
  return model;
}

// The licences that every Debian system has.
const std::string& corpus() {
  static const std::string kText = [] {
    std::ostringstream all;
    for (const char* name : {"Apache-2.0", "GPL-2", "GPL-3", "LGPL-2.1"})
      all << std::ifstream(fs::path("/usr/share/common-licenses") / name).rdbuf();
    return all.str();
  }();
  return kText;
}

// A piece of the corpus, all in capitals or all small, and a letter that says which, by one of
// three conventions.
struct Piece {
  std::vector<int32_t> tokens;
  bool capitals = false;
};
Piece piece_of(uint64_t salt, int64_t index) {
  const auto stream = kernels::make_stream(salt, kernels::Purpose::data, 1, 0);
  const kernels::RowStream numbers = kernels::row_stream(stream, index);
  const size_t first = numbers.bits(0) % (corpus().size() - kWindow);
  Piece piece{{}, numbers.bits(1) % 2 == 0};
  for (const unsigned char c : corpus().substr(first, kWindow - 1))
    piece.tokens.push_back(piece.capitals ? std::toupper(c) : std::tolower(c));
  piece.tokens.push_back('=');
  return piece;
}

class LabelledPieces final : public Batches {
 public:
  void read(int64_t sample, std::span<int32_t> tokens) const override {
    // In front stands other text, or digits that say the convention: a model can be steered.
    const Piece before = piece_of(2, sample), piece = piece_of(1, sample);
    const int64_t kind = std::min<int64_t>(sample % 4, 2);
    std::copy_n(before.tokens.begin(), kVirtual, tokens.begin());
    if (kind < 2) std::fill_n(tokens.begin(), kVirtual, '0' + static_cast<int32_t>(kind));
    std::copy(piece.tokens.begin(), piece.tokens.end(), tokens.begin() + kVirtual);
    tokens.back() = letter(kind, piece.capitals);
  }
  static int32_t letter(int64_t convention, bool capitals) {
    constexpr const char* kLetters[] = {"YN", "AB", "UL"};
    return kLetters[convention][capitals ? 0 : 1];
  }
};

Job base_job() {
  Job job;
  job.model = byte_model();
  job.plan.mbs = job.plan.gbs = job.workload.gbs = 32;
  job.workload.seq = kVirtual + kWindow;
  job.workload.precision = Precision::f32;
  job.workload.attention = AttentionKind::flash;
  return job;
}

void train_base(const std::string& folder, int64_t steps) {
  Job job = base_job();
  job.steps = steps;
  job.optimizer.learning_rate = 1e-2;
  job.optimizer.minimum_rate = 5e-4;
  run_local(1, [&](Communicator& ranks) {
    const auto device = make_cpu_device(1);
    World world(ranks, Grid(job.plan));
    const LabelledPieces batches;
    Trainer trainer(*device, world, job, batches);
    for (int64_t step = 0; step < steps; ++step) trainer.step();
    save_checkpoint(trainer, folder);
  });
}

// Task 0 wants the first convention, task 1 the second; the model alone follows the last.
std::vector<TuningExample> examples(int64_t count, uint64_t salt, int64_t tasks) {
  std::vector<TuningExample> list;
  for (int64_t i = 0; i < count; ++i) {
    Piece piece = piece_of(salt, i);
    TuningExample& example = list.emplace_back();
    example.task = i % tasks;
    example.tokens = std::move(piece.tokens);
    example.tokens.push_back(LabelledPieces::letter(example.task, piece.capitals));
    example.answer_tokens = 1;
  }
  return list;
}

Job tuning_job(const std::string& folder, PromptSource source, int64_t tasks, int64_t steps) {
  Job job = base_job();
  job.checkpoint_load = folder;
  job.plan.gbs = job.workload.gbs = 16;
  job.plan.mbs = 4;
  job.workload.seq = kVirtual + kWindow;
  TuningSpec& tuning = job.tuning.emplace();
  tuning.source = source;
  tuning.virtual_tokens = kVirtual;
  for (int64_t i = 0; i < tasks; ++i) tuning.tasks.push_back({"task" + std::to_string(i), "", ""});
  job.steps = steps;
  job.optimizer.learning_rate = source == PromptSource::table ? 0.05 : 0.01;
  job.optimizer.minimum_rate = 1e-3;
  job.optimizer.weight_decay = 0;
  return job;
}

struct Tuned {
  std::vector<SoftPrompt> prompts;
  std::vector<double> losses;
  bool weights_stayed = true;
};

std::vector<char> weight_bits(FrozenModel& model) {
  std::vector<char> bits;
  for (const Parameter& p : model.parameters().all()) {
    const auto* data = static_cast<const char*>(p.weight.data);
    bits.insert(bits.end(), data, data + p.elements() * kernels::bytes_of(p.weight.type));
  }
  return bits;
}

Tuned tune(const Job& job, const std::vector<TuningExample>& list) {
  Tuned tuned;
  std::mutex mutex;
  run_local(job.plan.world(), [&](Communicator& ranks) {
    const auto device = make_cpu_device(1);
    World world(ranks, Grid(job.plan));
    PromptTuner tuner(*device, world, job, list);
    const std::vector<char> before = weight_bits(tuner.model());
    std::vector<double> losses;
    for (int64_t step = 0; step < job.steps; ++step) losses.push_back(tuner.step().loss);
    const std::scoped_lock lock(mutex);
    tuned.weights_stayed = tuned.weights_stayed && weight_bits(tuner.model()) == before;
    if (world.rank() != 0) return;
    tuned.losses = losses;
    for (size_t task = 0; task < job.tuning->tasks.size(); ++task)
      tuned.prompts.push_back(tuner.prompt(task));
  });
  return tuned;
}

// The part of held-out examples whose answer is the likeliest token, all tasks in one batch.
double accuracy(const std::string& checkpoint, const std::vector<SoftPrompt>& prompts,
                int64_t tasks, int tp, int pp) {
  GeneratorOptions options;
  options.model = byte_model();
  options.checkpoint = checkpoint;
  options.plan.tp = tp;
  options.plan.pp = pp;
  options.longest = kVirtual + kWindow + 1;
  options.batch = 32;
  std::vector<float> rows;
  for (const SoftPrompt& prompt : prompts)
    rows.insert(rows.end(), prompt.rows.begin(), prompt.rows.end());
  std::vector<Request> requests;
  const auto held_out = examples(64, 99, tasks);
  for (const TuningExample& example : held_out) {
    Request& request = requests.emplace_back();
    request.id = static_cast<int64_t>(requests.size()) - 1;
    for (int32_t i = 0; i < kVirtual && !prompts.empty(); ++i)
      request.prompt.push_back(-1 - static_cast<int32_t>(example.task * kVirtual + i));
    request.prompt.insert(request.prompt.end(), example.tokens.begin(), example.tokens.end() - 1);
    request.most_tokens = 1;
  }
  const auto run = generate(options, requests, {}, rows);
  double right = 0;
  for (size_t i = 0; i < held_out.size(); ++i)
    right += run.tokens.at(static_cast<int64_t>(i))[0] == held_out[i].tokens.back() ? 1 : 0;
  return right / static_cast<double>(held_out.size());
}

class PromptTuning : public testing::Test {
 protected:
  void SetUp() override {
    if (corpus().size() < 10000) GTEST_SKIP() << "/usr/share/common-licenses is not there";
    train_base(folder_.path(), 500);
  }
  TemporaryFolder folder_;
};

TEST_F(PromptTuning, ReachesWhatTheFrozenModelLacksUnderEveryPlanAlike) {
  const std::string base = folder_.path();
  EXPECT_LT(accuracy(base, {}, 1, 1, 1), 0.2);
  Job job = tuning_job(base, PromptSource::table, 1, 150);
  const auto list = examples(256, 7, 1);
  const Tuned serial = tune(job, list);
  EXPECT_TRUE(serial.weights_stayed);
  const double reached = accuracy(base, serial.prompts, 1, 1, 1);
  EXPECT_GE(reached, 0.9) << serial.losses.front() << " → " << serial.losses.back();
  EXPECT_EQ(accuracy(base, serial.prompts, 1, 2, 2), reached);
  for (const auto& [tp, pp, dp] : {std::array{2, 1, 1}, {1, 2, 1}, {1, 1, 2}}) {
    job.plan.tp = tp;
    job.plan.pp = pp;
    job.plan.dp = dp;
    const Tuned other = tune(job, list);
    EXPECT_TRUE(other.weights_stayed);
    for (size_t step = 0; step < 5; ++step)
      EXPECT_NEAR(other.losses[step], serial.losses[step], 1e-3 * serial.losses[step]);
    EXPECT_GE(accuracy(base, other.prompts, 1, tp, pp), 0.9);
  }
}

TEST_F(PromptTuning, PTuningOfTwoTasksSideBySide) {
  const std::string base = folder_.path();
  for (const PromptSource source : {PromptSource::mlp, PromptSource::lstm}) {
    const Job job = tuning_job(base, source, 2, 200);
    const Tuned tuned = tune(job, examples(256, 7, 2));
    EXPECT_TRUE(tuned.weights_stayed);
    EXPECT_GE(accuracy(base, tuned.prompts, 2, 1, 2), 0.85)
        << tuned.losses.front() << " → " << tuned.losses.back();
  }
}

TEST(SoftPrompts, AreFilesThatKnowTheirTask) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return folder / name; };
  const SoftPrompt prompt{"mood", "ptuning", 3, {1, 2, 3, 4, 5, 6}};
  write_soft_prompt(prompt, path("mood"));
  write_soft_prompt({"size", "prompt", 3, {7, 8, 9}}, path("size"));
  const SoftPrompt read = read_soft_prompt(path("mood"));
  EXPECT_EQ(read.task, "mood");
  EXPECT_EQ(read.method, "ptuning");
  EXPECT_EQ(read.rows, prompt.rows);
  const PromptTable both({path("mood"), path("size")}, 3);
  EXPECT_EQ(both.tokens_of("size"), (std::vector<int32_t>{-3}));
  EXPECT_EQ(both.tokens_of("mood"), (std::vector<int32_t>{-1, -2}));
  EXPECT_TRUE(both.tokens_of("").empty());
  EXPECT_EQ(PromptTable({path("size")}, 3).tokens_of(""), (std::vector<int32_t>{-1}));
  EXPECT_THROW(both.tokens_of("mud"), InputError);
  EXPECT_THROW(PromptTable({path("mood")}, 4), InputError);
  EXPECT_THROW(PromptTable({path("mood"), path("mood")}, 3), InputError);
}

}  // namespace
}  // namespace engine
