// Safetensors files: strict reading of headers, and their writing.
#include "engine/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"

namespace engine {
namespace {

struct TypeRow {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeRow, 15> kTypes = {{{"F64", 8},
                                             {"F32", 4},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"F8_E4M3", 1},
                                             {"F8_E5M2", 1},
                                             {"I64", 8},
                                             {"I32", 4},
                                             {"I16", 2},
                                             {"I8", 1},
                                             {"U64", 8},
                                             {"U32", 4},
                                             {"U16", 2},
                                             {"U8", 1},
                                             {"BOOL", 1}}};

constexpr uint64_t kLargestHeader = 100'000'000;  // the limit of the format's own library
constexpr char kMetadata[] = "__metadata__";

const std::vector<std::string>& type_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const TypeRow& row : kTypes) names.emplace_back(row.name);
    return names;
  }();
  return kNames;
}

// Parses a header. A name that stands twice, at any depth, is refused: readers would disagree.
Json parse_header(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> keys;  // of the open objects
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 3) throw InputError(fmt::format("{}: its header is nested too deeply", path));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto name = parsed.get<std::string>();
      if (!keys.back().insert(name).second)
        throw InputError(fmt::format("{}: '{}' stands twice in its header", path, name));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: is no safetensors file: its header is not valid JSON", path));
  }
}

TensorEntry read_entry(const std::string& name, ObjectReader reader, int64_t data_bytes) {
  TensorEntry tensor;
  tensor.name = name;
  tensor.type = static_cast<StorageType>(reader.choice("dtype", type_names()));
  if (!reader.has("shape")) reader.problem("shape", "is missing");
  tensor.shape = reader.integers("shape", {0});
  const auto offsets = reader.integers("data_offsets", {0, data_bytes});
  reader.finish();
  if (offsets.size() != 2 || offsets[1] < offsets[0]) {
    reader.problem("data_offsets", fmt::format("must be a range within the {} bytes of data; the "
                                               "file is truncated or damaged",
                                               data_bytes));
    return tensor;
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  int64_t bytes = bytes_of(tensor.type);
  bool overflow = false;
  for (const int64_t size : tensor.shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  if (overflow || bytes != tensor.end - tensor.begin)
    reader.problem("shape", fmt::format("does not fit {} bytes of {}", tensor.end - tensor.begin,
                                        name_of(tensor.type)));
  return tensor;
}

void check_ranges(const std::vector<TensorEntry>& tensors, int64_t data_bytes, Problems& problems) {
  int64_t place = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != place)
      return problems.add(
          tensor.name,
          fmt::format("begins at byte {} of the data, where {} was due", tensor.begin, place));
    place = tensor.end;
  }
  if (place != data_bytes)
    problems.add("",
                 fmt::format("has {} bytes of data, of which its header knows {}; it is damaged",
                             data_bytes, place));
}

}  // namespace

std::string_view name_of(StorageType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t bytes_of(StorageType type) { return kTypes[static_cast<size_t>(type)].bytes; }

int64_t TensorEntry::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  uint64_t header_bytes = 0;
  if (file_.size() < 8) throw InputError(fmt::format("{}: is truncated: no header", path));
  std::memcpy(&header_bytes, file_.bytes().data(), 8);
  if (header_bytes > kLargestHeader)
    throw InputError(fmt::format("{}: is no safetensors file: its header would be of {} bytes",
                                 path, header_bytes));
  data_offset_ = 8 + static_cast<int64_t>(header_bytes);
  if (data_offset_ > file_.size())
    throw InputError(fmt::format("{}: is truncated within its header", path));
  const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()) + 8,
                              header_bytes);
  const Json header = parse_header(text, path);

  Problems problems(path);
  ObjectReader root(header, "", problems);
  const int64_t data_bytes = file_.size() - data_offset_;
  for (const std::string& name : root.keys()) {
    if (name != kMetadata) {
      tensors_.push_back(read_entry(name, root.object(name), data_bytes));
      continue;
    }
    ObjectReader metadata = root.object(name);
    for (const std::string& key : metadata.keys()) metadata_[key] = metadata.text(key);
  }
  problems.throw_if_any();
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_ranges(tensors_, data_bytes, problems);
  problems.throw_if_any();
}

int64_t place_tensors(std::span<TensorEntry> tensors) {
  int64_t place = 0;
  for (TensorEntry& tensor : tensors) {
    tensor.begin = place;
    place += tensor.elements() * bytes_of(tensor.type);
    tensor.end = place;
  }
  return place;
}

std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const TensorEntry& tensor : tensors)
    header[tensor.name] = {{"dtype", name_of(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t bytes = text.size();
  std::string length(8, '\0');
  std::memcpy(length.data(), &bytes, 8);
  return length + text;
}

}  // namespace engine
