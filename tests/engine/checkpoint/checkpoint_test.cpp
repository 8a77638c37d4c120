// Checkpoints: written under one plan and read under another, from elsewhere, cut off, on a full
// disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/checkpoint/model_tensors.h"
#include "engine/plan/checkpoint_folder.h"
#include "tests/engine/checkpoint/test_models.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

namespace fs = std::filesystem;
using kernels::DType;
using kernels::View;
using testing::HasSubstr;

const std::vector<std::string> kStates = {"master", "mean", "square"};

// How the ranks of a run share every tensor: `tp` slices by rows or by columns, each of which `dp`
// ranks share out as ranges.
struct Sharing {
  int tp = 1;
  int dp = 1;
  bool by_columns = false;
};

TensorSlice slice_of(const ModelSpec& model, const ModelTensor& tensor, const Sharing& sharing,
                     int tp_rank) {
  TensorSlice slice{tensor.name, tensor.shape};
  const bool matrix = tensor.shape.size() == 2;
  const bool embedding =
      tensor.name.find("wte") != std::string::npos || tensor.name.find("wpe") != std::string::npos;
  slice.transposed = matrix && named_like_gpt2(model) && !embedding;
  slice.columns = tensor.shape[matrix && !slice.transposed ? 1 : 0];
  slice.rows = matrix ? tensor.shape[slice.transposed ? 1 : 0] : 1;
  int64_t& size = sharing.by_columns || !matrix ? slice.columns : slice.rows;
  int64_t& first = sharing.by_columns || !matrix ? slice.first_column : slice.first_row;
  const bool padded = &size == &slice.rows && size == model.vocab;
  size = padded ? padded_vocab(model.vocab, 8, sharing.tp) / sharing.tp : size / sharing.tp;
  first = tp_rank * size;
  return slice;
}

// Every element of a checkpoint has a value of its own, which f32 holds exactly.
float value_at(const std::string& name, const TensorSlice& slice, int64_t element) {
  const int64_t row = slice.first_row + element / slice.columns;
  const int64_t column = slice.first_column + element % slice.columns;
  const auto tensor = static_cast<int64_t>(std::hash<std::string>()(name) % 61);
  return static_cast<float>(tensor * 100'000 + row * 300 + column);
}

bool is_padding(const TensorSlice& slice, int64_t element) {
  const int64_t row = slice.first_row + element / slice.columns;
  return slice.shape.size() == 2 && row >= slice.shape[slice.transposed ? 1 : 0];
}

std::vector<ElementRange> ranges_of(const TensorSlice& slice, int dp) {
  std::vector<ElementRange> ranges;
  const int64_t share = (slice.elements() + dp - 1) / dp;
  for (int64_t first = 0; first < slice.elements(); first += share)
    ranges.push_back({first, std::min(share, slice.elements() - first)});
  return ranges;
}

std::vector<float> values(const std::string& name, const TensorSlice& slice, ElementRange range) {
  std::vector<float> data(static_cast<size_t>(range.count));
  for (int64_t i = 0; i < range.count; ++i)
    data[static_cast<size_t>(i)] = value_at(name, slice, range.first + i);
  return data;
}

TrainingState state_of(const ModelSpec& model, int64_t step) {
  TrainingState state;
  state.step = step;
  state.tokens = step * 1000;
  state.job.model = model;
  state.job.plan.tp = 2;
  state.job.workload.gbs = 4;
  state.job.seed = 17;
  return state;
}

// All the ranks of a run, each with a writer of its own.
void write_all(const std::string& root, const TrainingState& state, const CheckpointFormat& format,
               const Sharing& sharing, float change = 0) {
  const ModelSpec& model = state.job.model;
  CheckpointWriter first(root, state, format);
  first.create();
  for (int tp_rank = 0; tp_rank < sharing.tp; ++tp_rank) {
    CheckpointWriter writer(root, state, format);
    for (const ModelTensor& tensor : model_tensors(model)) {
      const TensorSlice slice = slice_of(model, tensor, sharing, tp_rank);
      auto whole = values(tensor.name, slice, {0, slice.elements()});
      for (float& value : whole) value += change;
      writer.write_weight(slice, View(whole.data(), DType::f32, slice.rows, slice.columns));
      for (const std::string& name : format.states)
        for (const ElementRange range : ranges_of(slice, sharing.dp)) {
          auto part = values(name + tensor.name, slice, range);
          writer.write_state(name, slice, range, View(part.data(), DType::f32, 1, range.count));
        }
    }
    writer.close();
  }
  EXPECT_TRUE(fs::exists(first.commit()));
}

void expect_values(const CheckpointReader& reader, const ModelSpec& model, const Sharing& sharing,
                   const std::vector<std::string>& states, float change = 0) {
  for (int tp_rank = 0; tp_rank < sharing.tp; ++tp_rank)
    for (const ModelTensor& tensor : model_tensors(model)) {
      const TensorSlice slice = slice_of(model, tensor, sharing, tp_rank);
      std::vector<float> out(static_cast<size_t>(slice.elements()), -1);
      reader.read_weight(slice, View(out.data(), DType::f32, slice.rows, slice.columns));
      for (int64_t i = 0; i < slice.elements(); ++i)
        ASSERT_EQ(out[static_cast<size_t>(i)],
                  is_padding(slice, i) ? 0 : value_at(tensor.name, slice, i) + change)
            << tensor.name;
      for (const std::string& name : states)
        for (const ElementRange range : ranges_of(slice, sharing.dp)) {
          std::vector<float> part(static_cast<size_t>(range.count), -1);
          reader.read_state(name, slice, range, View(part.data(), DType::f32, 1, range.count));
          for (int64_t i = 0; i < range.count; ++i)
            ASSERT_EQ(part[static_cast<size_t>(i)],
                      is_padding(slice, range.first + i)
                          ? 0
                          : value_at(name + tensor.name, slice, range.first + i))
                << name << "." << tensor.name;
        }
    }
}

class CheckpointTest : public testing::Test {
 protected:
  std::string error_of(const std::string& folder, const ModelSpec& model) {
    try {
      const CheckpointReader reader(folder, model);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  size_t entries() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(root_)) count += entry.exists();
    return count;
  }

  TemporaryFolder folder_;
  std::string root_ = folder_ / "run";
};

TEST_F(CheckpointTest, IsReadUnderEveryOtherPlan) {
  const Sharing plans[] = {{1, 1, false}, {2, 3, false}, {2, 1, true}, {4, 7, true}, {8, 2, false}};
  for (ModelSpec model : {tiny_gpt2(), tiny_llama()})
    for (const Sharing& plan : {plans[1], plans[3]}) {
      write_all(root_, state_of(model, 20), {.states = kStates}, plan);
      const CheckpointReader reader(root_, model);
      for (const Sharing& other : plans) expect_values(reader, model, other, kStates);
      ASSERT_TRUE(reader.training().has_value());
      EXPECT_EQ(reader.training()->step, 20);
      EXPECT_EQ(reader.training()->tokens, 20'000);
      EXPECT_EQ(reader.training()->job.seed, 17u);
      EXPECT_EQ(reader.training()->job.plan.tp, 2);
      EXPECT_EQ(reader.training()->job.model.name, model.name);
      EXPECT_EQ(entries(), 1u);
    }
}

TEST_F(CheckpointTest, TheBytesDoNotDependOnThePlan) {
  write_all(folder_ / "a", state_of(tiny_gpt2(), 1), {.states = kStates}, {2, 3, false});
  write_all(folder_ / "b", state_of(tiny_gpt2(), 1), {.states = kStates}, {4, 1, true});
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json"})
    EXPECT_EQ(read_bytes(folder_ / "a/step-00000001/" + name),
              read_bytes(folder_ / "b/step-00000001/" + name));
}

TEST_F(CheckpointTest, LargeOnesBecomeSeveralFilesWithAnIndex) {
  const ModelSpec model = tiny_llama();
  write_all(root_, state_of(model, 3), {.states = kStates, .largest_file_bytes = 6000},
            {2, 2, false});
  const std::string folder = root_ + "/step-00000003";
  EXPECT_FALSE(fs::exists(folder + "/model.safetensors"));
  const Json index = parse_json(read_bytes(folder + "/model.safetensors.index.json"), "");
  EXPECT_EQ(index["metadata"]["total_size"], parameter_count(model) * 4);
  EXPECT_EQ(index["weight_map"].size(), model_tensors(model).size());
  EXPECT_THAT(index["weight_map"]["lm_head.weight"],
              testing::MatchesRegex("model-0000[0-9]-of-0000[0-9].safetensors"));
  expect_values(CheckpointReader(root_, model), model, {4, 3, true}, kStates);

  // Damaged indexes.
  const std::string path = folder + "/model.safetensors.index.json";
  const auto with = [&](const Json& patch) {
    Json damaged = index;
    damaged.merge_patch(patch);
    write_bytes(path, damaged.dump());
    return error_of(root_, model);
  };
  EXPECT_THAT(with({{"weight_map", {{"lm_head.weight", "../../x.safetensors"}}}}),
              HasSubstr("must be the name of a file"));
  EXPECT_THAT(with({{"weight_map", {{"lm_head.weight", "model-00001-of-00001.safetensors"}}}}),
              HasSubstr("cannot be read"));
  EXPECT_THAT(with({{"weight_map",
                     {{"lm_head.weight", index["weight_map"]["model.embed_tokens.weight"]}}}}),
              HasSubstr("is not in"));
  EXPECT_THAT(with({{"weight_map", nullptr}}), HasSubstr("weight_map"));
}

TEST_F(CheckpointTest, WeightsAloneInBf16) {
  const ModelSpec model = tiny_gpt2();
  write_all(root_, state_of(model, 1), {.weights = StorageType::bf16}, {1, 1, false});
  const CheckpointReader reader(root_, model);
  EXPECT_FALSE(reader.training().has_value());
  EXPECT_FALSE(fs::exists(root_ + "/step-00000001/optimizer.safetensors"));
  const TensorSlice slice = slice_of(model, {"transformer.ln_f.weight", {16}}, {}, 0);
  std::vector<float> out(16);
  reader.read_weight(slice, View(out.data(), DType::f32, 1, 16));
  for (int64_t i = 0; i < 16; ++i)
    EXPECT_EQ(out[static_cast<size_t>(i)],
              static_cast<float>(kernels::bfloat16(value_at(slice.name, slice, i))));
  EXPECT_THROW(reader.read_state("mean", slice, {0, 16}, View(out.data(), DType::f32, 1, 16)),
               InputError);
}

TEST_F(CheckpointTest, TheLatestStepIsFound) {
  const ModelSpec model = tiny_gpt2();
  EXPECT_THAT(error_of(root_, model), HasSubstr("no such folder"));
  fs::create_directory(root_);
  EXPECT_THAT(error_of(root_, model), HasSubstr("holds no checkpoint"));
  write_bytes(root_ + "/pytorch_model.bin", "x");
  EXPECT_THAT(error_of(root_, model), HasSubstr("pytorch_model.bin is of another kind"));
  for (const int64_t step : {100, 9})
    write_all(root_, state_of(model, step), {.states = kStates}, {1, 1, false});
  fs::create_directory(root_ + "/step-00000200");
  fs::create_directory(root_ + "/step-x");
  EXPECT_EQ(find_checkpoint(root_), root_ + "/step-00000100");
  EXPECT_EQ(find_checkpoint(root_ + "/step-00000009"), root_ + "/step-00000009");
  EXPECT_EQ(CheckpointReader(root_, model).training()->step, 100);
}

TEST_F(CheckpointTest, OtherModelsAreRefusedWithEveryProblem) {
  write_all(root_, state_of(tiny_llama(), 1), {}, {1, 1, false});
  ModelSpec model = tiny_llama();
  model.vocab = 60;
  model.norm_epsilon = 1e-5;
  const std::string error = error_of(root_, model);
  for (const char* word :
       {"vocab is 50 there and 60", "norm_epsilon", "[50, 16] there and [60, 16]"})
    EXPECT_THAT(error, HasSubstr(word));
  model = tiny_llama();
  model.layers = 1;
  EXPECT_THAT(error_of(root_, model),
              HasSubstr("layers.1.mlp.down_proj.weight, which the model does"));
  model.layers = 3;
  EXPECT_THAT(error_of(root_, model), HasSubstr("has no model.layers.2."));
  EXPECT_THAT(error_of(root_, tiny_gpt2()), HasSubstr("… and "));
}

// As published checkpoints of gpt2: bare names, half precision, stored masks.
TEST_F(CheckpointTest, ReadsCheckpointsOfTheBareDecoder) {
  ModelSpec model = tiny_gpt2();
  std::vector<TensorEntry> entries;
  for (const ModelTensor& tensor : model_tensors(model))
    entries.push_back({bare_tensor_name(model, tensor.name), StorageType::f16, tensor.shape});
  entries.push_back({"h.0.attn.bias", StorageType::boolean, {1, 1, 4, 4}});
  const auto bytes = static_cast<size_t>(place_tensors(entries));
  std::string data;
  while (data.size() < bytes)
    data += std::string("\x00\x3c\x00\xc0", 4);  // 1, -2 in half precision
  data.resize(bytes);
  fs::create_directory(root_);
  write_bytes(root_ + "/model.safetensors", safetensors_header(entries, {}) + data);
  const CheckpointReader reader(root_, model);
  std::vector<float> out(16);
  reader.read_weight(slice_of(model, {"transformer.ln_f.weight", {16}}, {}, 0),
                     View(out.data(), DType::f32, 1, 16));
  EXPECT_THAT(out, testing::Each(testing::AnyOf(1.0f, -2.0f)));
  EXPECT_EQ(out[0] + out[1], -1.0f);

  entries.front().type = StorageType::i16;
  write_bytes(root_ + "/model.safetensors", safetensors_header(entries, {}) + data);
  EXPECT_THAT(error_of(root_, model), HasSubstr("is of type I16"));
}

TEST_F(CheckpointTest, DamagedFilesAreRefused) {
  const ModelSpec model = tiny_gpt2();
  write_all(root_, state_of(model, 1), {.states = kStates}, {1, 1, false});
  const std::string folder = root_ + "/step-00000001/";
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "training_state.json", "config.json"}) {
    const std::string whole = read_bytes(folder + name);
    for (const size_t length : {size_t{0}, size_t{7}, whole.size() / 3, whole.size() - 2}) {
      write_bytes(folder + name, whole.substr(0, length));
      EXPECT_NE(error_of(root_, model), "") << name << " cut to " << length;
    }
    write_bytes(folder + name, whole);
  }
  EXPECT_EQ(error_of(root_, model), "");
}

// The process ends between any two steps, or at many bytes of its files: what was there stays.
TEST_F(CheckpointTest, ACutWriteKeepsTheOldOne) {
  const ModelSpec model = tiny_gpt2();
  const CheckpointFormat format{.states = kStates};
  write_all(root_, state_of(model, 5), format, {1, 1, false});
  const auto expect_old = [&](const std::string& where) {
    const CheckpointReader reader(root_, model);
    EXPECT_EQ(reader.folder(), root_ + "/step-00000005") << where;
    expect_values(reader, model, {2, 1, false}, kStates);
  };
  const int64_t bytes =
      static_cast<int64_t>(fs::file_size(root_ + "/step-00000005/optimizer.safetensors"));
  for (const int64_t step : {int64_t{5}, int64_t{6}})  // in place of the old one, and beside it
    for (const int64_t limit : {int64_t{0}, int64_t{1}, bytes / 4, bytes - 1})
      for (const bool killed : {false, true}) {
        const int status = run_in_child(
            [&] {
              try {
                write_all(root_, state_of(model, step), format, {2, 2, false}, 1);
              } catch (const Error& error) {
                return static_cast<int>(error.code());
              }
              return 0;
            },
            static_cast<rlim_t>(limit), killed);
        EXPECT_EQ(status, killed ? -SIGXFSZ : static_cast<int>(ExitCode::storage)) << limit;
        expect_old("file limit " + std::to_string(limit));
      }
  for (int stop = 0; stop < 4; ++stop) {
    EXPECT_EQ(run_in_child([&] {
                CheckpointWriter writer(root_, state_of(model, 6), format);
                if (stop == 0) return 1;
                writer.create();
                if (stop == 1) return 1;
                const TensorSlice slice = slice_of(model, model_tensors(model)[0], {}, 0);
                auto data = values("", slice, {0, slice.elements()});
                writer.write_weight(slice,
                                    View(data.data(), DType::f32, slice.rows, slice.columns));
                if (stop == 2) return 1;
                writer.close();
                return 1;
              }),
              1);
    expect_old("stop " + std::to_string(stop));
  }
  write_all(root_, state_of(model, 5), format, {2, 2, false}, 1);
  expect_values(CheckpointReader(root_, model), model, {1, 1, false}, kStates, 1);
  write_all(root_, state_of(model, 6), format, {2, 2, false}, 2);
  expect_values(CheckpointReader(root_, model), model, {1, 1, false}, kStates, 2);
  EXPECT_EQ(entries(), 2u);  // no leftovers
}

TEST_F(CheckpointTest, MisusesAreOurMistakes) {
  const ModelSpec model = tiny_gpt2();
  CheckpointWriter writer(root_, state_of(model, 1), {});
  writer.create();
  std::vector<float> data(16);
  const View view(data.data(), DType::f32, 1, 16);
  EXPECT_THROW(writer.write_weight({"transformer.ln_g.weight", {16}, false, 0, 0, 1, 16}, view),
               std::logic_error);
  EXPECT_THROW(writer.write_weight({"transformer.ln_f.weight", {17}, false, 0, 0, 1, 16}, view),
               std::logic_error);
  const TensorSlice good{"transformer.ln_f.weight", {16}, false, 0, 0, 1, 16};
  EXPECT_THROW(writer.write_state("mean", good, {0, 16}, view), std::logic_error);
  writer.write_weight(good, view);
  EXPECT_THROW(writer.commit(), std::logic_error);
}

}  // namespace
}  // namespace engine
