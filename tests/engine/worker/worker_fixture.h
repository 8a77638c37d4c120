// A job in a folder of its own, run by the worker: in this process, or as a program.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/job.h"
#include "engine/plan/outcome.h"

namespace engine {

class WorkerFixture : public testing::Test {
 protected:
  WorkerFixture();
  ~WorkerFixture() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // In this process; what it says of errors is in `errors_`.
  ExitCode run(int threads = 0);
  // The program itself behind other words, such as mpirun's; returns its exit code.
  int start(const std::string& before) const;

  Outcome outcome() const;
  // Of one name, or all.
  std::vector<Json> events(const std::string& name = {}) const;

  static bool has_mpirun();

  std::filesystem::path folder_;
  Job job_;
  std::string errors_;
  const std::atomic<bool>* stop_ = nullptr;

 private:
  void write_job() const;
};

}  // namespace engine
