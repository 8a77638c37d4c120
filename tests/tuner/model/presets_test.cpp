// Finding models: presets against published totals, sizes, derived shapes, paths.
#include "tuner/model/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/base/errors.h"
#include "engine/plan/model_spec.h"

namespace tuner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A config folder and a folder for files, of their own for each test.
class Models : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) / (std::string("models_") + info->name());
    std::filesystem::remove_all(root_);
    setenv("XDG_CONFIG_HOME", root_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string write(const std::string& file, const std::string& text) {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string error_of(const std::string& text) {
    try {
      find_model(text);
      return "no error";
    } catch (const engine::InputError& error) {
      return error.what();
    }
  }

  std::filesystem::path root_;
};

const char* const kConfig = R"({"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8,
  "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 32000,
  "max_position_embeddings": 4096})";

TEST_F(Models, EveryPresetIsSoundAndNamedInLowerCase) {
  const auto names = model_names();
  EXPECT_GT(names.size(), 100u);
  for (const std::string& name : names) {
    const engine::ModelSpec model = find_model(name);
    EXPECT_EQ(model.name, name);
    EXPECT_THAT(engine::shape_problems(model), IsEmpty()) << name;
    EXPECT_THAT(model.origin, HasSubstr("built-in models/")) << name;
    EXPECT_EQ(model.origin.find(';'), std::string::npos) << model.origin;  // nothing was assumed
    EXPECT_TRUE(std::none_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isupper(c);
    })) << name;
  }
}

// Totals of the published checkpoints.
TEST_F(Models, PresetsCountWhatTheCheckpointsHold) {
  const std::pair<const char*, int64_t> totals[] = {{"gpt2-medium", 354'823'168},
                                                    {"gpt2-large", 774'030'080},
                                                    {"pythia-70m", 70'426'624},
                                                    {"pythia-160m", 162'322'944},
                                                    {"pythia-410m", 405'334'016},
                                                    {"pythia-1b", 1'011'781'632},
                                                    {"pythia-1.4b", 1'414'647'808},
                                                    {"pythia-2.8b", 2'775'208'960},
                                                    {"pythia-12b", 11'846'072'320},
                                                    {"bloom-560m", 559'214'592},
                                                    {"bloom-1.1b", 1'065'314'304},
                                                    {"bloom-1.7b", 1'722'408'960},
                                                    {"bloom-3b", 3'002'557'440},
                                                    {"bloom-7.1b", 7'069'016'064},
                                                    {"bloom-176b", 176'247'271'424},
                                                    {"opt-125m", 125'239'296},
                                                    {"opt-1.3b", 1'315'758'080},
                                                    {"opt-13b", 12'853'473'280},
                                                    {"opt-30b", 29'974'540'288},
                                                    {"gpt-neox-20b", 20'554'567'680},
                                                    {"llama-7b", 6'738'415'616},
                                                    {"llama-13b", 13'015'864'320},
                                                    {"llama-33b", 32'528'943'616},
                                                    {"llama-65b", 65'285'660'672},
                                                    {"llama-2-70b", 68'976'648'192},
                                                    {"llama-3-8b", 8'030'261'248},
                                                    {"llama-3.1-70b", 70'553'706'496},
                                                    {"llama-3.1-405b", 405'853'388'800},
                                                    {"llama-3.2-1b", 1'235'814'400},
                                                    {"llama-3.2-3b", 3'212'749'824},
                                                    {"mistral-7b", 7'241'732'096},
                                                    {"mistral-7b-v0.3", 7'248'023'552},
                                                    {"mistral-nemo-12b", 12'247'782'400},
                                                    {"mistral-small-24b", 23'572'403'200},
                                                    {"mistral-large-123b", 122'610'069'504},
                                                    {"mixtral-8x22b", 140'620'634'112},
                                                    {"qwen2.5-1.5b", 1'543'714'304},
                                                    {"qwen2.5-3b", 3'085'938'688},
                                                    {"qwen2.5-7b", 7'615'616'512},
                                                    {"qwen2.5-14b", 14'770'033'664},
                                                    {"qwen2.5-32b", 32'763'876'352},
                                                    {"qwen2.5-72b", 72'706'203'648},
                                                    {"qwen3-1.7b", 1'720'574'976},
                                                    {"qwen3-4b", 4'022'468'096},
                                                    {"qwen3-14b", 14'768'307'200},
                                                    {"qwen3-32b", 32'762'123'264},
                                                    {"qwen3-235b-a22b", 235'093'634'560},
                                                    {"gemma-2b", 2'506'172'416},
                                                    {"gemma-2-2b", 2'614'341'888},
                                                    {"gemma-2-27b", 27'227'128'320},
                                                    {"gemma-3-1b", 999'885'952},
                                                    {"phi-1.5", 1'418'270'720},
                                                    {"phi-3-medium", 13'960'238'080},
                                                    {"phi-4", 14'659'507'200},
                                                    {"phi-4-mini", 3'836'021'760},
                                                    {"deepseek-v2", 235'741'434'880},
                                                    {"deepseek-v2-lite", 15'706'484'224},
                                                    {"deepseek-v3", 671'026'419'200},
                                                    {"gpt-oss-120b", 116'829'156'672},
                                                    {"gpt-j-6b", 6'050'882'784}};
  for (const auto& [name, total] : totals)
    EXPECT_EQ(engine::parameter_count(find_model(name)), total) << name;
}

// Active parameters of mixtures, as their authors round them.
TEST_F(Models, MixturesSayWhatATokenTouches) {
  const auto active = [](const char* name) {
    return static_cast<double>(engine::active_parameter_count(find_model(name))) / 1e9;
  };
  EXPECT_NEAR(active("mixtral-8x7b"), 12.9, 0.1);
  EXPECT_NEAR(active("deepseek-v3"), 37, 1);
  EXPECT_NEAR(active("qwen3-235b-a22b"), 22, 0.5);
  EXPECT_NEAR(active("kimi-k2"), 32, 1);
}

TEST_F(Models, ShapesOfThePapers) {
  struct Case {
    const char* name;
    int64_t layers, hidden, heads, vocab;
  };
  for (const Case& test : {Case{"gpt3-126m", 12, 768, 12, 50257},
                           {"gpt3-5b", 24, 4096, 32, 50257},
                           {"gpt3-20b", 44, 6144, 48, 50257},
                           {"gpt3-40b", 48, 8192, 64, 50257},
                           {"gpt3-175b", 96, 12288, 96, 50257},
                           {"megatron-22b", 48, 6144, 64, 51200},
                           {"megatron-175b", 96, 12288, 96, 51200},
                           {"megatron-530b", 105, 20480, 128, 51200},
                           {"megatron-1t", 128, 25600, 160, 51200}}) {
    const engine::ModelSpec model = find_model(test.name);
    EXPECT_EQ(model.layers, test.layers) << test.name;
    EXPECT_EQ(model.hidden, test.hidden) << test.name;
    EXPECT_EQ(model.heads, test.heads) << test.name;
    EXPECT_EQ(model.ffn_hidden, 4 * test.hidden) << test.name;
    EXPECT_EQ(model.vocab, test.vocab) << test.name;
    EXPECT_EQ(model.default_seq, 2048) << test.name;
    EXPECT_EQ(model.default_gbs, 1536) << test.name;
    EXPECT_TRUE(model.dropout) << test.name;
  }
}

// The number in a name is about the number of parameters.
TEST_F(Models, NamesTellTheSize) {
  for (const std::string& name : model_names()) {
    if (!name.starts_with("gpt3-") && !name.starts_with("megatron-") && !name.starts_with("opt-"))
      continue;
    const std::string size = name.substr(name.find('-') + 1);
    if (!std::isdigit(static_cast<unsigned char>(size[0]))) continue;
    const double unit = size.back() == 'm' ? 1e6 : size.back() == 'b' ? 1e9 : 1e12;
    const double said = std::stod(size) * unit;
    EXPECT_NEAR(static_cast<double>(engine::parameter_count(find_model(name))) / said, 1, 0.06)
        << name;
  }
}

TEST_F(Models, TinyModelIsForTwoCores) {
  const engine::ModelSpec model = find_model("gpt3-tiny");
  EXPECT_EQ(model.default_seq, 128);
  EXPECT_EQ(model.default_gbs, 32);
  EXPECT_GE(model.positions, model.default_seq);
  EXPECT_FALSE(model.dropout);
  EXPECT_LT(engine::parameter_count(model), 2'000'000);
}

TEST_F(Models, NamesIgnoreCaseAndBareSizesAreGpt3) {
  EXPECT_EQ(find_model("Llama-3.1-70B").name, "llama-3.1-70b");
  for (const char* size : {"175b", "175B", "0.175t", "175000m"})
    EXPECT_EQ(find_model(size).name, "gpt3-175b") << size;
  EXPECT_EQ(find_model("20b").name, "gpt3-20b");
  EXPECT_EQ(find_model("6.7b").name, "gpt3-6.7b");
  EXPECT_EQ(find_model("1t").name, "gpt3-1t");
  EXPECT_EQ(find_model("350m").name, "gpt3-350m");
}

TEST_F(Models, OtherSizesAreDerivedAndSaySo) {
  const engine::ModelSpec model = find_model("42b");
  EXPECT_EQ(model.name, "gpt-42b");
  EXPECT_THAT(model.origin, HasSubstr("derived for 42 B parameters"));
  EXPECT_EQ(model.default_seq, 2048);
  EXPECT_THAT(error_of("2048"), HasSubstr("sizes run from 1m to 10t"));
  EXPECT_THAT(error_of("11t"), HasSubstr("sizes run from 1m to 10t"));
  EXPECT_THAT(error_of("1.2.3b"), HasSubstr("is not understood"));
  EXPECT_THROW(derive_gpt(std::nan("")), engine::InputError);
}

// Counts over the whole range, evenly on a logarithmic scale.
TEST_F(Models, DerivedShapesHitTheCountAndDivide) {
  constexpr int kPoints = 280;
  double last = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const double wanted = std::min(10e12, 1e6 * std::pow(10, 7.0 * i / kPoints));
    const engine::ModelSpec model = derive_gpt(wanted);
    const auto count = static_cast<double>(engine::parameter_count(model));
    EXPECT_NEAR(count / wanted, 1, wanted < 10e6 ? 0.10 : 0.05) << wanted;
    EXPECT_GE(count, last) << wanted;
    last = count;

    EXPECT_THAT(engine::shape_problems(model), IsEmpty());
    EXPECT_EQ(model.hidden % 128, 0) << wanted;
    EXPECT_TRUE(model.head_dim == 64 || model.head_dim == 128);
    EXPECT_EQ(model.q_width(), model.hidden);
    EXPECT_EQ(model.heads, model.kv_heads);
    if (model.hidden >= 2048) {
      EXPECT_EQ(model.heads % (model.hidden < 4096 ? 4 : 8), 0) << wanted;
    }
    if (wanted >= 1e11) {
      EXPECT_TRUE(model.layers % 4 == 0 || model.layers % 6 == 0) << model.layers;
    }
    // No needles and no pancakes.
    const auto aspect = static_cast<double>(model.hidden) / static_cast<double>(model.layers);
    EXPECT_GT(aspect, wanted < 10e6 ? 5 : 10) << wanted;
    EXPECT_LT(aspect, 300) << wanted;
  }
}

TEST_F(Models, DerivedShapesOfKnownCountsAreTheKnownShapes) {
  const engine::ModelSpec model = derive_gpt(174.6e9);
  EXPECT_EQ(model.layers, 96);
  EXPECT_EQ(model.hidden, 12288);
  EXPECT_EQ(model.heads, 96);
}

TEST_F(Models, FilesAndFoldersAreRead) {
  const std::string config = write("My-Model/config.json", kConfig);
  const std::string folder = (root_ / "My-Model").string();
  for (const std::string& text : {config, folder, folder + "/"}) {
    const engine::ModelSpec model = find_model(text);
    EXPECT_EQ(model.name, "My-Model") << text;
    EXPECT_EQ(model.layers, 8);
    EXPECT_EQ(model.default_gbs, 0);
    EXPECT_THAT(model.origin, HasSubstr("config.json"));
  }
  EXPECT_EQ(find_model(write("other.json", kConfig)).name, "other");
}

TEST_F(Models, FilesOfOtherKindsSayWhatIsMissing) {
  write("adapter/adapter_config.json", R"({"peft_type": "LORA"})");
  write("gguf/model.gguf", "GGUF");
  write("empty/README.md", "");
  EXPECT_THAT(error_of((root_ / "adapter").string()), HasSubstr("it is an adapter (LoRA)"));
  EXPECT_THAT(error_of((root_ / "adapter/adapter_config.json").string()), HasSubstr("adapter"));
  EXPECT_THAT(error_of((root_ / "gguf").string()), HasSubstr("GGUF files but no config.json"));
  EXPECT_THAT(error_of((root_ / "gguf/model.gguf").string()), HasSubstr("is a GGUF file"));
  EXPECT_THAT(error_of((root_ / "empty").string()), HasSubstr("has no config.json"));
  EXPECT_THAT(error_of((root_ / "none/config.json").string()), HasSubstr("no such file"));
  EXPECT_THAT(error_of("none.json"), HasSubstr("none.json: no such file"));
  EXPECT_THAT(error_of(write("broken.json", "{")), HasSubstr("broken.json: not valid JSON"));
}

TEST_F(Models, UnknownNamesProposeTheNearest) {
  EXPECT_THAT(error_of("lama-3.1-70b"), HasSubstr("did you mean llama-3.1-70b"));
  EXPECT_THAT(error_of("zzzzzzzz"), HasSubstr("'autotune models' lists all names"));
  EXPECT_THAT(error_of(""), HasSubstr("unknown model ''"));
}

TEST_F(Models, UsersOwnModelsJoinTheList) {
  write(
      "autotune/models/ours.json",
      R"({"title": "Ours", "source": "notes", "common": )" + std::string(kConfig) +
          R"(, "default_gbs": 64, "models": {"Ours-A": {}, "ours-b": {"num_hidden_layers": 16}}})");
  EXPECT_THAT(model_names(), Contains("ours-a"));
  const engine::ModelSpec model = find_model("ours-b");
  EXPECT_EQ(model.layers, 16);
  EXPECT_EQ(model.hidden, 1024);
  EXPECT_EQ(model.default_gbs, 64);
  EXPECT_THAT(model.origin, HasSubstr("autotune/models/ours.json (ours-b)"));
}

TEST_F(Models, MistakesInTheUsersFileAreNamed) {
  write("autotune/models/ours.json",
        R"({"title": "Ours", "source": "notes", "modles": {}, "models": {"gpt2": {}, "x": 3}})");
  const std::string error = error_of("gpt2");
  EXPECT_THAT(error, HasSubstr("ours.json"));
  EXPECT_THAT(error, HasSubstr("unknown member 'modles'; did you mean models?"));
  EXPECT_THAT(error, HasSubstr("models.x: must be an object"));
  write("autotune/models/ours.json",
        R"({"title": "Ours", "source": "notes", "models": {"gpt2": {}}})");
  EXPECT_THAT(error_of("gpt2"), HasSubstr("gpt2: is also a model of built-in models/gpt2.json"));
}

}  // namespace
}  // namespace tuner
