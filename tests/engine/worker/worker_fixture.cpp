// Runs jobs of tests.
#include "tests/engine/worker/worker_fixture.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/worker/worker.h"

namespace engine {

WorkerFixture::WorkerFixture() {
  folder_ = std::filesystem::temp_directory_path() /
            fmt::format("autotune_{}_{}", getpid(),
                        testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::create_directories(folder_);
  job_.workload.precision = Precision::f32;
  job_.warmup_steps = 1;
  job_.outcome_path = path("outcome.json");
  job_.events_path = path("events.jsonl");
}

WorkerFixture::~WorkerFixture() { std::filesystem::remove_all(folder_); }

ExitCode WorkerFixture::run(int threads) {
  write_job();
  std::ostringstream errors;
  const ExitCode code = run_worker({path("job.json"), threads, stop_, {}}, errors);
  errors_ = errors.str();
  return code;
}

int WorkerFixture::start(const std::string& before) const {
  write_job();
  const std::string command = fmt::format("{} {}/autotune-worker {} 2>{}", before,
                                          AUTOTUNE_BINARY_DIR, path("job.json"), path("stderr"));
  return WEXITSTATUS(std::system(command.c_str()));
}

Outcome WorkerFixture::outcome() const {
  return outcome_from_json(parse_json(read_text_file(job_.outcome_path), "outcome"), "outcome");
}

std::vector<Json> WorkerFixture::events(const std::string& name) const {
  std::vector<Json> found;
  std::ifstream file(job_.events_path);
  for (std::string line; std::getline(file, line);)
    if (Json event = Json::parse(line); name.empty() || event["event"] == name)
      found.push_back(std::move(event));
  return found;
}

bool WorkerFixture::has_mpirun() {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  // Of the ranks alone. Open MPI's plug-ins are unloaded before leaks are looked for, and take
  // locks in varying order.
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  setenv("TSAN_OPTIONS", "suppressions=" AUTOTUNE_SOURCE_DIR "/tests/support/libraries.tsan", 1);
  return std::system("command -v mpirun > /dev/null") == 0;
}

void WorkerFixture::write_job() const {
  std::ofstream(path("job.json")) << job_to_json(job_).dump();
}

}  // namespace engine
