// TensorFiles: one safetensors file, or several with an index.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/checkpoint/checkpoint_reader.h"

namespace engine {

TensorFiles::TensorFiles(const std::string& folder, const std::string& stem) {
  const std::string single = folder + "/" + stem + ".safetensors";
  const std::string index = single + ".index.json";
  std::error_code error;
  if (std::filesystem::exists(single, error)) {
    add_file(single);
  } else if (std::filesystem::exists(index, error)) {
    read_index(folder, index);
  }
}

void TensorFiles::add_file(const std::string& path) {
  const SafetensorsFile& file = files_.emplace_back(path);
  for (const TensorEntry& tensor : file.tensors())
    if (!places_.emplace(tensor.name, Place{&file, &tensor}).second)
      throw InputError(fmt::format("{}: holds {}, which another file of the checkpoint holds too",
                                   path, tensor.name));
}

void TensorFiles::read_index(const std::string& folder, const std::string& index) {
  const Json json = parse_json(read_text_file(index), index);
  Problems problems(index);
  ObjectReader root(json, "", problems);
  if (!root.has("weight_map")) root.problem("weight_map", "is missing");
  ObjectReader map = root.object("weight_map");
  std::map<std::string, std::string> file_of;
  std::set<std::string> names;
  for (const std::string& tensor : map.keys()) {
    const std::string name = map.text(tensor);
    // A name that leads elsewhere could read any file of the machine.
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      map.problem(tensor, "must be the name of a file in the checkpoint's folder");
    file_of[tensor] = name;
    names.insert(name);
  }
  problems.throw_if_any();
  for (const std::string& name : names) add_file(folder + "/" + name);
  for (const auto& [tensor, name] : file_of) {
    const Place* place = find(tensor);
    if (!place || place->file->path() != folder + "/" + name)
      problems.add(tensor, fmt::format("is not in {}, where the index puts it", name));
  }
  problems.throw_if_any();
}

const TensorFiles::Place* TensorFiles::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &found->second;
}

}  // namespace engine
