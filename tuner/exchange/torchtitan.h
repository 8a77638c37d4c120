// What torchtitan's TOML files of releases up to 0.2.2 and its later command line share.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tuner/exchange/training_config.h"

namespace tuner {

// A model that torchtitan knows by name.
struct TitanModel {
  std::string_view preset;  // our name
  std::string_view name;    // "llama3"
  std::string_view flavor;  // "70B"
  std::string_view config;  // function of the registry, "llama3_70b"
};
// Null when torchtitan has none of this shape.
const TitanModel* find_titan_model(const engine::ModelSpec& model);
const TitanModel* find_titan_model(std::string_view name, std::string_view flavor);

// How torchtitan shards: all data ranks replicate, or all shard.
struct TitanSharding {
  int replicate = 1;
  int shard = 1;
  std::string reshard = "default";
};
TitanSharding titan_sharding(const engine::ParallelPlan& plan, Losses& losses);
// The plan without what torchtitan cannot run.
TrainingConfig titan_config(TrainingConfig config, Losses& losses);
// Names of the modules of each model chunk, by virtual stage.
std::vector<std::vector<std::string>> titan_modules(const engine::ParallelPlan& plan,
                                                    int64_t layers);

}  // namespace tuner
