// Text through a sentencepiece model end to end: tokenized, trained on, generated, put together.
#include <gmock/gmock.h>
#include <sentencepiece_trainer.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/data/tokenize.h"
#include "engine/data/tokenizer.h"
#include "tests/engine/worker/worker_fixture.h"
#include "tests/support/tiny_models.h"

namespace engine {
namespace {

class SentencepieceGeneration : public WorkerFixture {
 protected:
  // A model that has learned one sentence by heart.
  void train() {
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 400; ++i) text << "the grey ship sails över the blue sea\n";
    text.close();
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--minloglevel=2 --vocab_size=300 --hard_vocab_limit=false --byte_fallback=true "
        "--model_type=bpe --input=" +
        path("text.txt") + " --model_prefix=" + path("small"));
    ASSERT_TRUE(status.ok()) << status.ToString();
    TokenizeOptions options;
    options.tokenizer = path("small.model");
    options.inputs = {path("text.txt")};
    options.output = path("data");
    tokenize(options);
    job_.model = tiny::llama();
    job_.model.positions = 64;
    job_.model.vocab = make_tokenizer(path("small.model"))->vocab();
    job_.plan.gbs = job_.workload.gbs = 4;
    job_.plan.mbs = 4;
    job_.workload.seq = 32;
    job_.steps = 40;
    job_.optimizer.learning_rate = job_.optimizer.minimum_rate = 0.01;
    job_.data_prefix = path("data");
    job_.checkpoint_save = path("checkpoints");
    ASSERT_EQ(run(), ExitCode::found) << errors_;
  }

  // What the events tell, put together.
  std::string generated() {
    std::filesystem::remove(job_.events_path);
    EXPECT_EQ(run(), ExitCode::found) << errors_;
    std::string text;
    for (const Json& event : events("token")) text += event["text"].get<std::string>();
    return text;
  }
};

TEST_F(SentencepieceGeneration, ContinuesWhatItHasLearned) {
  train();
  job_.checkpoint_load = job_.checkpoint_save;
  job_.checkpoint_save.clear();
  job_.data_prefix.clear();
  job_.steps = 1;
  job_.warmup_steps = 0;
  job_.plan = {};
  job_.workload.gbs = 1;
  ServingSpec& serving = job_.serving.emplace();
  serving.arrival = Arrival::saturated;
  serving.tokenizer = path("small.model");
  serving.requests_path = path("requests.jsonl");
  std::ofstream(serving.requests_path) << "{\"prompt\": \"the grey ship\", \"max_tokens\": 12}\n";
  const std::string serial = generated();
  EXPECT_THAT(serial, testing::HasSubstr("sails över the blue sea"));
  EXPECT_EQ(events("finished").at(0)["finish"], "length");
  job_.plan.tp = job_.plan.pp = 2;
  EXPECT_EQ(generated(), serial);
}

}  // namespace
}  // namespace engine
