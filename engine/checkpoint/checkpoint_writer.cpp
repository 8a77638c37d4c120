// CheckpointWriter: where everything lies, and the folder that becomes visible at once.
#include "engine/checkpoint/checkpoint_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/checkpoint/hf_config_writer.h"
#include "engine/checkpoint/model_tensors.h"
#include "engine/plan/checkpoint_folder.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

// Runs a step on folders, with its failure as a storage error.
void change_folders(const std::string& path, const std::function<void(std::error_code&)>& step) {
  std::error_code error;
  step(error);
  if (error)
    throw Error(ExitCode::storage, fmt::format("{}: cannot be written: {}", path, error.message()));
}

// Puts the folder `draft` in the place of `target`, which exists. Where the file system can
// exchange names, `target` names a whole checkpoint at every moment.
void replace_folder(const std::string& draft, const std::string& target) {
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS)
    throw Error(ExitCode::storage,
                fmt::format("{}: cannot be replaced: {}", target, std::strerror(errno)));
  const std::string aside = target + ".replaced";
  change_folders(aside, [&](std::error_code& error) { fs::remove_all(aside, error); });
  change_folders(target, [&](std::error_code& error) { fs::rename(target, aside, error); });
  change_folders(target, [&](std::error_code& error) { fs::rename(draft, target, error); });
  change_folders(draft, [&](std::error_code& error) { fs::rename(aside, draft, error); });
}

}  // namespace

std::string state_tensor_name(const std::string& state, const std::string& weight) {
  return state + "." + weight;
}

CheckpointWriter::CheckpointWriter(const std::string& root, const TrainingState& state,
                                   CheckpointFormat format)
    : root_(root),
      final_(fmt::format("{}/{}{:08}", root, kStepPrefix, state.step)),
      draft_(fmt::format("{}/.{}{:08}.writing", root, kStepPrefix, state.step)),
      state_(state),
      format_(std::move(format)) {
  std::vector<TensorEntry> weights, states;
  const auto tensors = model_tensors(state_.job.model);
  for (const ModelTensor& tensor : tensors)
    weights.push_back({tensor.name, format_.weights, tensor.shape});
  for (const std::string& name : format_.states)
    for (const ModelTensor& tensor : tensors)
      states.push_back({state_tensor_name(name, tensor.name), format_.state, tensor.shape});
  plan_files(kWeightsStem, weights);
  plan_files(kStatesStem, states);
}

// Tensors in order, a file as full as may be; one file has no number and needs no index.
void CheckpointWriter::plan_files(const std::string& stem,
                                  const std::vector<TensorEntry>& tensors) {
  std::vector<std::vector<TensorEntry>> groups;
  int64_t filled = 0, total = 0;
  for (const TensorEntry& tensor : tensors) {
    const int64_t bytes = tensor.elements() * bytes_of(tensor.type);
    if (groups.empty() || filled + bytes > format_.largest_file_bytes) {
      groups.emplace_back();
      filled = 0;
    }
    groups.back().push_back(tensor);
    filled += bytes;
    total += bytes;
  }
  Json map = Json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string number =
        groups.size() == 1 ? "" : fmt::format("-{:05}-of-{:05}", i + 1, groups.size());
    File file{stem + number + ".safetensors", "", place_tensors(groups[i])};
    file.header = safetensors_header(groups[i], {{"format", "pt"}});
    const auto header_bytes = static_cast<int64_t>(file.header.size());
    file.bytes += header_bytes;
    for (const TensorEntry& tensor : groups[i]) {
      places_[tensor.name] = {files_.size(), header_bytes + tensor.begin, tensor};
      map[tensor.name] = file.name;
    }
    files_.push_back(std::move(file));
  }
  if (groups.size() > 1) {
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
    indexes_[stem + ".safetensors.index.json"] = index.dump(2) + "\n";
  }
}

void CheckpointWriter::write_text(const std::string& name, const std::string& text) const {
  FileWriter file(draft_ + "/" + name);
  file.append(text.data(), text.size());
  file.close();
}

void CheckpointWriter::create() {
  change_folders(draft_, [&](std::error_code& error) { fs::remove_all(draft_, error); });
  change_folders(draft_, [&](std::error_code& error) { fs::create_directories(draft_, error); });
  for (const File& planned : files_) {
    FileWriter file(draft_ + "/" + planned.name);
    file.reserve(planned.bytes);
    file.write_at(0, planned.header.data(), planned.header.size());
    file.close();
  }
  for (const auto& [name, text] : indexes_) write_text(name, text);
  if (const auto config = hf_config_of(state_.job.model))
    write_text("config.json", config->dump(2) + "\n");
  if (!format_.states.empty()) write_text(kTrainingStateFile, training_state_text(state_));
}

FileWriter& CheckpointWriter::open(size_t file) {
  const auto found = open_.find(file);
  if (found != open_.end()) return found->second;
  return open_
      .emplace(file, FileWriter(draft_ + "/" + files_[file].name, FileWriter::Mode::existing))
      .first->second;
}

void CheckpointWriter::write_weight(const TensorSlice& slice, kernels::ConstView data) {
  write(slice.name, slice, {0, slice.elements()}, data);
}

void CheckpointWriter::write_state(const std::string& state, const TensorSlice& slice,
                                   ElementRange range, kernels::ConstView data) {
  write(state_tensor_name(state, slice.name), slice, range, data);
}

void CheckpointWriter::write(const std::string& name, const TensorSlice& slice, ElementRange range,
                             kernels::ConstView data) {
  const auto found = places_.find(name);
  expect(found != places_.end() && found->second.tensor.shape == slice.shape,
         "a tensor of the model, in its shape: " + name);
  const Place& place = found->second;
  FileWriter& file = open(place.file);
  write_slice(slice, range, data, place.tensor.type,
              [&](int64_t offset, std::span<const std::byte> bytes) {
                file.write_at(place.offset + offset, bytes.data(), bytes.size());
              });
}

void CheckpointWriter::close() {
  for (auto& [number, file] : open_) file.close();
  open_.clear();
}

std::string CheckpointWriter::commit() {
  expect(open_.empty(), "a closed writer");
  sync_folder(draft_);
  std::error_code none;
  if (fs::exists(final_, none)) {
    replace_folder(draft_, final_);
    change_folders(draft_, [&](std::error_code& error) { fs::remove_all(draft_, error); });
    sync_folder(root_);
  } else {
    rename_file(draft_, final_);
  }
  return final_;
}

}  // namespace engine
