// CheckpointReader: checks a checkpoint against a model, then reads slices.
#include "engine/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/checkpoint/hf_config_writer.h"
#include "engine/checkpoint/model_tensors.h"
#include "engine/plan/checkpoint_folder.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostProblems = 10;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_floating_point(StorageType type) {
  return type == StorageType::f64 || type == StorageType::f32 || type == StorageType::f16 ||
         type == StorageType::bf16;
}

void throw_if_any(std::vector<std::string> problems) {
  if (problems.empty()) return;
  if (problems.size() > kMostProblems) {
    const size_t more = problems.size() - kMostProblems;
    problems.resize(kMostProblems);
    problems.push_back(fmt::format("… and {} more", more));
  }
  throw InputError(problems);
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& folder, const ModelSpec& model)
    : folder_(find_checkpoint(folder)),
      model_(model),
      weights_(folder_, kWeightsStem),
      states_(folder_, kStatesStem) {
  check_weights();
  const std::string state = folder_ + "/" + kTrainingStateFile;
  if (exists(state)) training_ = training_state_from(read_text_file(state), state);
}

void CheckpointReader::check_weights() const {
  std::vector<std::string> problems;
  if (const std::string path = folder_ + "/config.json"; exists(path)) {
    const Json config = parse_json(read_text_file(path), path);
    problems = config_contradictions(config, path, model_);
  }
  std::set<std::string> known;
  for (const ModelTensor& tensor : model_tensors(model_)) {
    known.insert(tensor.name);
    known.insert(bare_tensor_name(model_, tensor.name));
    const TensorFiles::Place* place = find_weight(tensor.name);
    if (!place) {
      problems.push_back(fmt::format("{}: has no {}", folder_, tensor.name));
      continue;
    }
    if (place->tensor->shape != tensor.shape)
      problems.push_back(fmt::format(
          "{}: {} is [{}] there and [{}] in the model", place->file->path(), tensor.name,
          fmt::join(place->tensor->shape, ", "), fmt::join(tensor.shape, ", ")));
    if (!is_floating_point(place->tensor->type))
      problems.push_back(
          fmt::format("{}: {} is of type {}; only F32, BF16, F16 and F64 can be read",
                      place->file->path(), tensor.name, name_of(place->tensor->type)));
  }
  for (const auto& [name, place] : weights_.all())
    if (known.count(name) == 0 && !is_ignored_tensor(model_, name))
      problems.push_back(
          fmt::format("{}: holds {}, which the model does not have", place.file->path(), name));
  throw_if_any(std::move(problems));
}

const TensorFiles::Place* CheckpointReader::find_weight(const std::string& name) const {
  const TensorFiles::Place* place = weights_.find(name);
  return place ? place : weights_.find(bare_tensor_name(model_, name));
}

void CheckpointReader::read_weight(const TensorSlice& slice, kernels::View out) const {
  read(find_weight(slice.name), slice, {0, slice.elements()}, out, slice.name);
}

void CheckpointReader::read_state(const std::string& state, const TensorSlice& slice,
                                  ElementRange range, kernels::View out) const {
  const std::string name = state_tensor_name(state, slice.name);
  read(states_.find(name), slice, range, out, name);
}

void CheckpointReader::read(const TensorFiles::Place* place, const TensorSlice& slice,
                            ElementRange range, kernels::View out, const std::string& name) const {
  if (!place) throw InputError(fmt::format("{}: has no {}", folder_, name));
  if (place->tensor->shape != slice.shape || !is_floating_point(place->tensor->type))
    throw InputError(
        fmt::format("{}: {} has another shape or type than the model's", folder_, name));
  read_slice(slice, range, place->file->data(*place->tensor), place->tensor->type, out);
}

}  // namespace engine
