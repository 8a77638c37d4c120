// SlurmCluster: a real Slurm of several nodes on this host, in a private folder.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tuner/profile/process.h"

namespace test_support {

// One controller and a daemon a node, each with a port of its own, without accounts and without a
// file in /etc. While it stands, SLURM_CONF names its configuration.
class SlurmCluster {
 public:
  // Empty where one can be had here; else what is missing.
  static std::string missing();

  SlurmCluster(int nodes, int cores_per_node);
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  ~SlurmCluster();  // cancels all jobs

  // Runs a command of Slurm; returns what it said, errors included.
  std::string run(const std::vector<std::string>& words) const;
  // Waits up to 20 seconds until `squeue` shows a job in this state; returns its ID, or nothing.
  std::string wait_for_job(const std::string& state) const;
  // How many jobs wait or run.
  int jobs() const;
  void set_node(const std::string& node, const std::string& state) const;

 private:
  void end_steps() const;
  void write_configuration(int nodes, int cores_per_node) const;
  std::string logs() const;
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<tuner::Process>> daemons_;
};

}  // namespace test_support
