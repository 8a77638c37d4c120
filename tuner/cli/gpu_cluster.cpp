// This machine's GPUs as a cluster.
#include "tuner/cli/gpu_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/errors.h"
#include "tuner/model/data_files.h"

namespace tuner {

using engine::Error;
using engine::ExitCode;
using nlohmann::json;

namespace {

// "NVIDIA A100-SXM4-80GB" → {a100, sxm4, 80gb}.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      if (!word.empty() && word != "nvidia" && word != "tesla" && word != "geforce")
        words.insert(word);
      word.clear();
    }
  }
  return words;
}

bool names_a_model(const std::string& word) {
  return word.size() >= 2 && std::isalpha(static_cast<unsigned char>(word[0])) != 0 &&
         std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

// The word that names the model: "h100", "l40s"; of "RTX 4090" the number.
std::string model_of(const std::set<std::string>& words) {
  for (const std::string& word : words)
    if (names_a_model(word) || word.starts_with("gb200") || word.starts_with("gb300")) return word;
  for (const std::string& word : words)
    if (word.size() == 4 && std::all_of(word.begin(), word.end(), ::isdigit)) return word;
  return {};
}

std::vector<json> list_usable(const json& worker) {
  std::vector<json> usable;
  const json backend = worker.value("backend", json::object());
  for (const json& gpu : backend.value("gpus", json::array()))
    if (gpu.value("usable", false)) usable.push_back(gpu);
  return usable;
}

bool is_calibrated() {
  const auto names = data_file_names("profiles/gpus");
  return std::find(names.begin(), names.end(), kGpuProfile) != names.end();
}

}  // namespace

std::string profile_of_gpu(const std::string& name, double memory_bytes) {
  const std::set<std::string> words = words_of(name);
  const std::string model = model_of(words);
  std::string best;
  double lowest = INFINITY;
  for (const std::string& profile : data_file_names("profiles/gpus")) {
    if (profile == kGpuProfile || profile == kHostProfile) continue;
    const DeviceSpec device = find_cluster(profile, 1).device;
    const std::set<std::string> theirs = words_of(device.title);
    if (model.empty() || theirs.count(model) == 0) continue;
    double distance = std::abs(std::log(device.memory_bytes / memory_bytes));
    for (const char* kind : {"pcie", "nvl"})
      if (words.count(kind) != theirs.count(kind)) distance += 1;
    if (distance < lowest) {
      lowest = distance;
      best = profile;
    }
  }
  return best;
}

int usable_gpus(const json& worker) { return static_cast<int>(list_usable(worker).size()); }

ClusterSpec built_in_gpu_cluster(const json& worker, int ranks) {
  const std::vector<json> gpus = list_usable(worker);
  if (gpus.empty())
    throw Error(ExitCode::environment,
                "there is no usable GPU on this machine; `autotune doctor` tells what is missing; "
                "use --device cpu, or leave --device out to predict only");
  if (ranks > static_cast<int>(gpus.size()))
    throw Error(ExitCode::environment,
                fmt::format("--gpus {} is more than the {} of this machine; ask for at most as "
                            "many, or name a cluster by --gpu and leave out --device",
                            ranks, gpus.size()));
  const std::string name = gpus[0].value("name", "");
  const double memory = gpus[0].value("memory_bytes", 0.0);
  const std::string profile = profile_of_gpu(name, memory);
  if (profile.empty())
    throw Error(ExitCode::environment,
                fmt::format("no profile is of '{}'; write one (profiles/README.md) into your data "
                            "folder, or name the nearest by --gpu",
                            name));
  ClusterSpec cluster = find_cluster(profile, ranks);
  cluster.device.memory_bytes = memory;
  return cluster;
}

HostCluster gpu_cluster(const json& worker, int ranks, const std::string& environment) {
  HostCluster result;
  result.cluster = built_in_gpu_cluster(worker, ranks);
  if (!is_calibrated()) {
    result.remark = fmt::format(
        "this machine is not calibrated: predictions are those of {}; `autotune calibrate --device "
        "cuda` measures it",
        result.cluster.device.name);
    return result;
  }
  result.cluster = find_cluster(kGpuProfile, ranks);
  if (!environment.empty() && result.cluster.device.fingerprint != environment)
    result.remark =
        "the profile of this machine's GPUs is stale: hardware, system or worker have changed "
        "since; `autotune calibrate --device cuda` measures them again";
  return result;
}

}  // namespace tuner
