// A worker of a test's own: a shell script that stands in for autotune-worker.
#pragma once
#include <filesystem>
#include <string>

#include "engine/plan/job.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_models.h"
#include "tuner/profile/launcher.h"

namespace tuner {

// The script finds its job in $1 and the folder of the trial in $folder.
inline Launcher fake_worker(const TemporaryFolder& folder, const std::string& body) {
  const std::string path = folder / "worker";
  write_bytes(path, "#!/bin/sh\nfolder=$(dirname \"$1\")\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return {LauncherKind::local, path};
}

// Shell text that writes a good outcome with these samples.
inline std::string good_outcome(const std::string& samples = "0.5, 0.6, 0.4") {
  return R"(cat > "$folder/outcome.json" <<'END'
{"status": "ok", "measured": true, "step_seconds": 0.5, "interval_seconds": [0.4, 0.6], "fits": true,
 "tokens_per_second_per_gpu": 100, "memory": {"peak_bytes": 1000}, "samples_seconds": [)" +
         samples + "]}\nEND\n";
}

inline engine::Job small_job(int ranks = 1) {
  engine::Job job;
  job.model = tiny::gpt();
  job.plan.dp = ranks;
  job.plan.gbs = 4;
  job.workload.seq = 16;
  job.workload.gbs = 4;
  job.workload.precision = engine::Precision::f32;
  job.steps = 3;
  job.warmup_steps = 1;
  return job;
}

}  // namespace tuner
