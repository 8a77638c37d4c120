// CheckpointReader: a folder of safetensors files, ours or from elsewhere, read slice by slice.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/tensor_slice.h"
#include "engine/checkpoint/training_state.h"

namespace engine {

// The tensors of one safetensors file, or of the files that an index lists.
class TensorFiles {
 public:
  struct Place {
    const SafetensorsFile* file;
    const TensorEntry* tensor;
  };

  // STEM.safetensors in the folder, else what STEM.safetensors.index.json lists; nothing when there
  // is neither. Throws InputError for damaged files and indexes.
  TensorFiles(const std::string& folder, const std::string& stem);

  bool empty() const { return files_.empty(); }
  const Place* find(const std::string& name) const;
  const std::map<std::string, Place>& all() const { return places_; }

 private:
  void add_file(const std::string& path);
  void read_index(const std::string& folder, const std::string& index);
  std::deque<SafetensorsFile> files_;
  std::map<std::string, Place> places_;
};

// Files are mapped: a rank touches only the bytes of its slices, whatever plan the checkpoint was
// written under. Reading is thread-safe.
class CheckpointReader {
 public:
  // `folder` is a checkpoint, or holds step-N folders, of which the latest is taken. Throws
  // InputError with everything that keeps the model from being read: missing and unknown tensors,
  // other shapes, a config.json of another model.
  CheckpointReader(const std::string& folder, const ModelSpec& model);

  const std::string& folder() const { return folder_; }
  // How far the training had come, with the optimizer's state; nothing in a checkpoint of weights
  // alone.
  const std::optional<TrainingState>& training() const { return training_; }

  // A slice of a weight; out [rows, columns] of f32, bf16 or f64.
  void read_weight(const TensorSlice& slice, kernels::View out) const;
  // A range of a slice of an optimizer's state ("mean", …); out has range.count elements.
  void read_state(const std::string& state, const TensorSlice& slice, ElementRange range,
                  kernels::View out) const;

 private:
  void check_weights() const;
  const TensorFiles::Place* find_weight(const std::string& name) const;
  void read(const TensorFiles::Place* place, const TensorSlice& slice, ElementRange range,
            kernels::View out, const std::string& name) const;

  std::string folder_;
  ModelSpec model_;
  TensorFiles weights_;
  TensorFiles states_;
  std::optional<TrainingState> training_;
};

}  // namespace engine
