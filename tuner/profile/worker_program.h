// The worker programs: where they are, and what they tell about the devices of this machine.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tuner {

// Where trials run.
enum class TrialDevice : uint8_t { cpu, cuda };

bool is_program(const std::string& path);     // a file that may be executed
bool is_in_path(const std::string& program);  // of the folders in PATH

// The worker for the device: beside this program, or for either device the one that AUTOTUNE_WORKER
// names. May not exist.
std::string worker_path(TrialDevice device);
// The same; throws Error (environment) where it cannot be run, for cuda with the words "built
// without CUDA".
std::string find_worker(TrialDevice device);

// What `WORKER describe` writes. Throws Error (environment) when it cannot be started, fails or
// takes longer than a minute.
nlohmann::json ask_worker(const std::string& path);

}  // namespace tuner
