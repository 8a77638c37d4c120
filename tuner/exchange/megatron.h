// Megatron-Core's settings of a training config, and the way back; shared by Megatron-LM,
// Megatron-Bridge, NeMo and Megatron-DeepSpeed.
#pragma once
#include "tuner/exchange/import.h"
#include "tuner/exchange/megatron_fields.h"
#include "tuner/exchange/training_config.h"

namespace tuner {

// Only what differs from Megatron-Core's defaults, and what has to be said in any case. What
// Megatron-Core cannot express goes to `losses`.
Settings megatron_settings(const TrainingConfig& config, Losses& losses);

// Fills all of `imported` that the settings say; with gpus set before. Throws engine::InputError
// with every problem, naming imported.source.
void read_megatron_settings(const Settings& settings, Imported& imported);

// The layers of each model chunk as --pipeline-model-parallel-layout: "Et*3|t*4|t*4|t*3L".
std::string pipeline_layout(const engine::ParallelPlan& plan, int64_t layers);
// Sets vpp and layers_per_stage from a layout. Throws engine::InputError for layouts that no plan
// describes.
void read_pipeline_layout(const std::string& layout, int64_t layers, engine::ParallelPlan& plan,
                          const std::string& source);
// Layers of each chunk, by virtual stage, as a plan: sets vpp and layers_per_stage.
void use_chunk_layers(const std::vector<int>& chunks, int64_t layers, engine::ParallelPlan& plan,
                      const std::string& source);

}  // namespace tuner
