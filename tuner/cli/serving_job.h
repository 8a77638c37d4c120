// The options of the verbs that run a checkpoint on the engine, and the job that they make.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "tuner/cli/command.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/profile/launcher.h"

namespace tuner {

// --checkpoint --tp --pp --replicas --batch --precision --max-seq --tokenizer --prompt-file --seed
// --device
std::vector<Option> checkpoint_options();

// A job that serves the checkpoint; `serving` is to be completed. Throws InputError.
engine::Job checkpoint_job(const Arguments& arguments);

// A folder below the system's temporary one, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();  // throws Error (storage)
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs the job on thread ranks of the device until it ends or a signal stops it, and hands on its
// events. Throws Error with what went wrong in the worker, and its exit code.
engine::Outcome run_job(const engine::Job& job, TrialDevice device, const std::string& folder,
                        const StopSignals& signals,
                        const std::function<void(const nlohmann::json&)>& on_event);

}  // namespace tuner
