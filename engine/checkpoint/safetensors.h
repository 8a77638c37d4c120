// Safetensors files: eight bytes with the header's length, a JSON header, the tensors' bytes.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.h"

namespace engine {

enum class StorageType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
};
std::string_view name_of(StorageType type);  // as in the header: "F32", "BF16", …
int64_t bytes_of(StorageType type);

struct TensorEntry {
  std::string name;
  StorageType type = StorageType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes behind the header
  int64_t end = 0;

  int64_t elements() const;
};

class SafetensorsFile {
 public:
  // Checks the whole header: throws InputError for a file that is truncated or too long, for ranges
  // that overlap, leave gaps or do not fit their shape, for names that stand twice.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const {
    return tensors_;
  }  // in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::byte* data(const TensorEntry& tensor) const {
    return file_.bytes().data() + data_offset_ + tensor.begin;
  }

 private:
  MappedFile file_;
  int64_t data_offset_ = 0;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Gives each tensor its place, one behind the other, and returns their total bytes.
int64_t place_tensors(std::span<TensorEntry> tensors);
// The first bytes of a file with these (placed) tensors; their data begins behind, on a multiple
// of 8.
std::string safetensors_header(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace engine
