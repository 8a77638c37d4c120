// Finds the checkpoint in a folder.
#include "engine/plan/checkpoint_folder.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "engine/base/errors.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_checkpoint(const std::string& folder) {
  return exists(folder + "/model.safetensors") || exists(folder + "/model.safetensors.index.json");
}

// N of a folder called step-N; -1 for another.
int64_t step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return -1;
  const char* first = name.data() + std::string_view(kStepPrefix).size();
  const char* last = name.data() + name.size();
  int64_t step = -1;
  const auto [end, error] = std::from_chars(first, last, step);
  return error == std::errc() && end == last ? step : -1;
}

std::string foreign_weights(const std::string& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                           "consolidated.00.pth", "flax_model.msgpack"})
    if (exists(folder + "/" + name))
      return fmt::format("; {} is of another kind, save the model as safetensors first", name);
  return "";
}

}  // namespace

std::string find_checkpoint(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw InputError(fmt::format("{}: no such folder; give the folder of a checkpoint", folder));
  if (is_checkpoint(folder)) return folder;
  int64_t latest = -1;
  std::string path;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const int64_t step = step_of(entry.path().filename().string());
    if (step <= latest || !is_checkpoint(entry.path().string())) continue;
    latest = step;
    path = entry.path().string();
  }
  if (latest < 0)
    throw InputError(fmt::format("{}: holds no checkpoint (model.safetensors, or {}N folders){}",
                                 folder, kStepPrefix, foreign_weights(folder)));
  return path;
}

}  // namespace engine
