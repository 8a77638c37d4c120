// Which format a file has, and the parts that all imports share.
#include "tuner/exchange/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "tuner/exchange/formats.h"
#include "tuner/exchange/syntax.h"
#include "tuner/model/presets.h"

namespace tuner {

using engine::InputError;
using nlohmann::json;

namespace {

constexpr int64_t kLargestFile = int64_t{4} << 20;
using Words = std::vector<std::string>;

// The number behind "--nnodes 4" or "--nnodes=4"; 0 where there is none.
int count_of(const Words& words, std::initializer_list<std::string_view> flags) {
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string_view flag = std::string_view(words[i]).substr(0, equals);
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) continue;
    const std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                              : i + 1 < words.size()      ? words[i + 1]
                                                          : "";
    int count = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    if (error == std::errc{} && end == value.data() + value.size() && count > 0 && count <= 1 << 20)
      return count;
  }
  return 0;
}

// The launcher's numbers of nodes and processes: torchrun, deepspeed, Slurm.
void read_launcher(const Words& words, const ShellScript& script, Imported& out) {
  int nodes = count_of(words, {"--nnodes", "--num_nodes", "--num-nodes"});
  int devices = count_of(words, {"--nproc_per_node", "--nproc-per-node", "--num_gpus"});
  for (const std::string& comment : script.comments) {
    if (!comment.starts_with("SBATCH ")) continue;
    const Words directive = {comment.substr(comment.find_first_not_of(' ', 6))};
    if (nodes == 0) nodes = count_of(directive, {"--nodes"});
    if (devices == 0) devices = count_of(directive, {"--gpus-per-node", "--ntasks-per-node"});
  }
  if (devices == 0) return;
  out.gpus_per_node = devices;
  if (nodes == 0) nodes = 1;
  if (int64_t{nodes} * devices <= 1 << 24) out.gpus = nodes * devices;
}

// The flags' values that the launcher understands are no settings of Megatron.
void drop_launcher_flags(std::vector<std::string>& ignored) {
  static constexpr std::string_view kFlags[] = {
      "--nnodes",      "--nproc_per_node", "--nproc-per-node", "--node_rank",   "--node-rank",
      "--master_addr", "--master-addr",    "--master_port",    "--master-port", "--num_nodes",
      "--num-nodes",   "--num_gpus",       "--config"};
  std::erase_if(ignored, [](const std::string& flag) {
    return std::find(std::begin(kFlags), std::end(kFlags), flag) != std::end(kFlags);
  });
}

// The command with the most settings; lines that begin with a flag are one list.
Words find_command(const ShellScript& script, const std::string& source) {
  std::vector<Words> candidates(1);
  for (const Words& command : script.commands) {
    if (command.front().starts_with("--"))
      candidates.front().insert(candidates.front().end(), command.begin(), command.end());
    else
      candidates.push_back(command);
  }
  const auto best = std::max_element(
      candidates.begin(), candidates.end(),
      [](const Words& a, const Words& b) { return megatron_flags_in(a) < megatron_flags_in(b); });
  if (megatron_flags_in(*best) == 0)
    throw InputError(fmt::format(
        "{}: no arguments of Megatron-LM are found in it; what can be read are Megatron-LM scripts "
        "and argument lists, DeepSpeed JSON, NeMo 1.x YAML and torchtitan TOML",
        source));
  return *best;
}

std::optional<std::string> value_of(const Words& words, std::string_view flag) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(std::string(flag) + "=")) return words[i].substr(flag.size() + 1);
  }
  return std::nullopt;
}

json deepspeed_json(const std::string& name, const ShellScript& script, const std::string& path) {
  if (const auto here = script.documents.find(name); here != script.documents.end())
    return engine::parse_json(here->second, path + ": " + name);
  const std::string file =
      std::filesystem::path(name).is_absolute() ? name : engine::folder_of(path) + "/" + name;
  return engine::parse_json(engine::read_text_file(file, kLargestFile), file);
}

Imported import_script(const std::string& text, const std::string& path) {
  Imported out;
  out.source = path;
  const ShellScript script = parse_shell(text, path);
  const Words words = find_command(script, path);
  read_launcher(words, script, out);
  auto config = value_of(words, "--deepspeed_config");
  if (!config) config = value_of(words, "--deepspeed-config");
  if (config)
    read_deepspeed(deepspeed_json(*config, script, path), words, out);
  else
    read_megatron_words(words, out);
  drop_launcher_flags(out.ignored);
  return out;
}

// A preset of the same shape has a name that people know.
void name_model(engine::ModelSpec& model) {
  const auto shape = [](engine::ModelSpec one) {
    one.name = one.origin = one.weight_format = one.kv_format = "";
    one.default_seq = one.default_gbs = 0;
    json members;
    to_json(members, one);
    return members;
  };
  const json wanted = shape(model);
  for (const std::string& name : model_names()) {
    engine::ModelSpec preset = find_model(name);
    if (preset.layers != model.layers || preset.hidden != model.hidden || shape(preset) != wanted)
      continue;
    model = std::move(preset);
    return;
  }
}

}  // namespace

void Imported::use_gpus(int count) {
  gpus = count;
  const int64_t model_parallel = int64_t{plan.tp} * plan.pp * plan.cp;
  plan.dp = static_cast<int>(std::max<int64_t>(1, count / model_parallel));
  if (!has_batch && accumulation > 0) plan.gbs = plan.mbs * plan.dp * accumulation;
}

Imported import_text(const std::string& text, const std::string& path) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool braces = first != std::string::npos && text[first] == '{';
  Imported out;
  out.source = path;
  if (path.ends_with(".toml")) {
    read_torchtitan(parse_toml(text, path), out);
  } else if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    read_nemo1(parse_yaml(text, path), out);
  } else if (path.ends_with(".json") || braces) {
    read_deepspeed(engine::parse_json(text, path), {}, out);
  } else {
    out = import_script(text, path);
  }
  if (out.model) name_model(*out.model);
  out.plan.dp = 0;
  if (out.gpus > 0) out.use_gpus(out.gpus);
  return out;
}

Imported import_file(const std::string& path) {
  return import_text(engine::read_text_file(path, kLargestFile), path);
}

}  // namespace tuner
