// CheckpointWriter: all ranks of a training write one checkpoint, each its own slices, at once.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/files.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/tensor_slice.h"
#include "engine/checkpoint/training_state.h"

namespace engine {

constexpr char kWeightsStem[] = "model";
constexpr char kStatesStem[] = "optimizer";

// The tensor of an optimizer's state that belongs to a weight.
std::string state_tensor_name(const std::string& state, const std::string& weight);

struct CheckpointFormat {
  StorageType weights = StorageType::f32;  // f32, bf16 or f64
  std::vector<std::string> states = {};    // of the optimizer: "master", "mean", "square"
  StorageType state = StorageType::f32;
  int64_t largest_file_bytes = 5'000'000'000;  // more tensors go into further files
};

// Writes ROOT/step-N: config.json, model.safetensors and, with states, optimizer.safetensors and
// training_state.json; large ones as several files with an index. Where every tensor lies follows
// from the model and the format alone, so ranks write without asking each other. Until `commit` all
// of it lies in ROOT/.step-N.writing; a checkpoint with its final name is always whole, and one
// that was there before stays until then. The folder must be one that all ranks see.
//
//   create() on one rank · barrier · write_… and close() on every rank · barrier · commit() on one
//
// Failures (a full disk) are Errors of storage.
class CheckpointWriter {
 public:
  // Throws InputError for a model that has no names in checkpoints. Touches no file.
  CheckpointWriter(const std::string& root, const TrainingState& state, CheckpointFormat format);

  // Makes the folder and every file in full size, taking the disk space.
  void create();
  // The slice's elements [rows, columns].
  void write_weight(const TensorSlice& slice, kernels::ConstView data);
  // The elements of the range.
  void write_state(const std::string& state, const TensorSlice& slice, ElementRange range,
                   kernels::ConstView data);
  void close();
  // The final name; returns the folder's path.
  std::string commit();

 private:
  // A file to write, with its header in front.
  struct File {
    std::string name;
    std::string header;
    int64_t bytes = 0;  // with the header
  };
  struct Place {
    size_t file;
    int64_t offset;  // of the first element, in the file
    TensorEntry tensor;
  };

  void plan_files(const std::string& stem, const std::vector<TensorEntry>& tensors);
  void write_text(const std::string& name, const std::string& text) const;
  void write(const std::string& name, const TensorSlice& slice, ElementRange range,
             kernels::ConstView data);
  FileWriter& open(size_t file);

  std::string root_;
  std::string final_;  // folders
  std::string draft_;
  TrainingState state_;
  CheckpointFormat format_;
  std::vector<File> files_;
  std::map<std::string, std::string> indexes_;  // name → text of index files
  std::map<std::string, Place> places_;
  std::map<size_t, FileWriter> open_;
};

}  // namespace engine
