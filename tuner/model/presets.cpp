// Finding a model: presets from models/*.json, sizes, and the user's config.json.
#include "tuner/model/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "engine/plan/hf_config.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::InputError;
using engine::Json;
using engine::ModelSpec;

struct Preset {
  Json config;  // in the members of a Hugging Face config.json
  std::string origin;
  int64_t seq = 0;
  int64_t gbs = 0;
};
using Presets = std::map<std::string, Preset>;

constexpr engine::IntegerRange kDefaults{0, 1'000'000'000};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Adds the models of one family file: each is the file's common members with its own over them.
void add_family(const DataFile& file, Presets& presets) {
  const Json json = engine::parse_json(file.text, file.origin);
  engine::Problems problems(file.origin);
  engine::ObjectReader family(json, "", problems);
  family.text("title");
  family.text("source");
  family.object("common");
  const int64_t seq = family.integer("default_seq", kDefaults, 0);
  const int64_t gbs = family.integer("default_gbs", kDefaults, 0);
  engine::ObjectReader models = family.object("models");
  family.finish();
  for (const std::string& name : models.keys()) {
    engine::ObjectReader own = models.object(name);
    Preset preset{family.value("common"), file.origin};
    preset.seq = own.integer("default_seq", kDefaults, seq);
    preset.gbs = own.integer("default_gbs", kDefaults, gbs);
    if (!problems.empty()) continue;
    if (preset.config.is_null()) preset.config = Json::object();
    preset.config.update(models.value(name));
    if (!presets.emplace(lower(name), preset).second)
      problems.add(name, fmt::format("is also a model of {}; rename one of the two",
                                     presets.at(lower(name)).origin));
  }
  problems.throw_if_any();
}

Presets load_presets() {
  Presets presets;
  for (const std::string& name : data_file_names("models"))
    add_family(find_data_file("models", name, "model family"), presets);
  return presets;
}

std::vector<std::string> names_of(const Presets& presets) {
  std::vector<std::string> names;
  for (const auto& [name, preset] : presets) names.push_back(name);
  return names;
}

ModelSpec model_of(const std::string& name, const Preset& preset) {
  ModelSpec model =
      engine::model_spec_from_hf_config(preset.config, fmt::format("{} ({})", preset.origin, name));
  model.name = name;
  model.default_seq = preset.seq;
  model.default_gbs = preset.gbs;
  return model;
}

// "175b", "6.7B", "1t", "2048": a number and at most one letter.
bool is_count(std::string_view text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return false;
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  return end == text.size() ||
         (end + 1 == text.size() &&
          std::string_view("kKmMbBtT").find(text[end]) != std::string_view::npos);
}

// A size that GPT-3's family has is that model; for any other a shape is derived.
ModelSpec model_of_size(const std::string& text, const Presets& presets) {
  const double parameters = engine::parse_count(text, "model size");
  constexpr std::string_view kFamily = "gpt3-";
  for (const auto& [name, preset] : presets) {
    if (!name.starts_with(kFamily)) continue;
    const std::string size = name.substr(kFamily.size());
    if (is_count(size) && engine::parse_count(size, "model size") == parameters)
      return model_of(name, preset);
  }
  return derive_gpt(parameters);
}

bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json") ||
         text.ends_with(".gguf");
}

// The config.json of a model's folder; when it is missing, says what the folder holds instead.
std::filesystem::path config_in(const std::filesystem::path& folder) {
  const auto config = folder / "config.json";
  std::error_code error;
  if (std::filesystem::exists(config, error)) return config;
  if (std::filesystem::exists(folder / "adapter_config.json", error))
    throw InputError(
        fmt::format("{}: has an adapter_config.json but no config.json: it is an "
                    "adapter (LoRA); give the folder of its base model",
                    folder.string()));
  std::filesystem::directory_iterator file(folder, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error))
    if (file->path().extension() == ".gguf")
      throw InputError(
          fmt::format("{}: has GGUF files but no config.json; add the config.json of "
                      "the model they were made from",
                      folder.string()));
  throw InputError(fmt::format("{}: has no config.json", folder.string()));
}

ModelSpec model_of_path(const std::string& text) {
  std::filesystem::path path(text);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path = config_in(path);
  if (path.extension() == ".gguf")
    throw InputError(
        fmt::format("{}: is a GGUF file; give the config.json of the model it was "
                    "made from",
                    path.string()));
  constexpr int64_t kLargestConfig = int64_t{16} << 20;
  const std::string source = path.string();
  ModelSpec model = engine::model_spec_from_hf_config(
      engine::parse_json(engine::read_text_file(source, kLargestConfig), source), source);
  const auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  const bool usual = path.filename() == "config.json";
  model.name = (usual ? absolute.parent_path().filename() : path.stem()).string();
  return model;
}

}  // namespace

ModelSpec find_model(const std::string& text) {
  if (looks_like_path(text)) return model_of_path(text);
  const Presets presets = load_presets();
  if (const auto found = presets.find(lower(text)); found != presets.end())
    return model_of(found->first, found->second);
  if (is_count(text)) return model_of_size(text, presets);
  std::error_code error;
  if (!text.empty() && std::filesystem::exists(text, error)) return model_of_path(text);
  const std::string unknown =
      engine::unknown_name("model", text, names_of(presets),
                           "a size such as 42b or the path of a config.json would do too.");
  throw InputError(unknown + " 'autotune models' lists all names");
}

std::vector<std::string> model_names() { return names_of(load_presets()); }

}  // namespace tuner
