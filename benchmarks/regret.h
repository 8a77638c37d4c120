// What benchmarks of regret share: small models, goals and the command line.
#pragma once
#include <fmt/format.h>

#include <array>
#include <iostream>
#include <string>

#include "engine/base/errors.h"
#include "tuner/model/presets.h"

namespace benchmarks {

// GPT's layers, and Llama's: gated, RMSNorm, fewer KV heads.
inline std::array<engine::ModelSpec, 2> small_models() {
  engine::ModelSpec llama = tuner::find_model("llama-3.2-1b");
  llama.name = "llama-tiny";
  llama.layers = 4;
  llama.hidden = 256;
  llama.heads = 8;
  llama.kv_heads = 4;
  llama.head_dim = 32;
  llama.ffn_hidden = 512;
  llama.vocab = 512;
  llama.positions = 128;
  return {tuner::find_model("gpt3-tiny"), llama};
}

inline void print_goal(const char* what, bool met) {
  fmt::print("{} {}\n", met ? "met    " : "NOT MET", what);
}

// NAME FOLDER [--plans] [PART OF A SPACE'S NAME], where FOLDER keeps the truth. `about` says what
// the benchmark measures. Returns the exit code.
inline int run_regret(int count, char** arguments, const std::string& about,
                      int (*run)(const std::string& folder, const std::string& only, bool plans)) {
  std::string folder, only;
  bool plans = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--plans")
      plans = true;
    else
      (folder.empty() ? folder : only) = word;
  }
  if (folder.empty()) {
    std::cerr
        << "usage: " << arguments[0] << " FOLDER [--plans] [PART OF A SPACE'S NAME]\n"
        << about
        << "FOLDER keeps the truth: an interrupted run goes on. `autotune calibrate` first; on "
           "a\nmachine with nothing else to do.\n";
    return 2;
  }
  try {
    return run(folder, only, plans);
  } catch (const engine::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}

}  // namespace benchmarks
