// One MPI rank of the tests: `mpi_ranks MODE` runs the communicator suite, or fails in a given way.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "engine/base/errors.h"
#include "engine/comm/mpi/run_mpi.h"
#include "tests/support/communicator_conformance.h"

namespace {

using engine::Communicator;

void check_all(Communicator& world) {
  for (const conformance::Case& test : conformance::cases()) {
    try {
      test.check(world);
    } catch (const std::exception& error) {
      throw std::runtime_error(test.name + ": " + error.what());
    }
  }
  if (world.rank() == 0)
    std::printf("%zu cases hold on %d ranks\n", conformance::cases().size(), world.size());
}

// Rank 0 ends in its own way while the others wait.
template <class End>
void end_early(Communicator& world, End end) {
  world.barrier();
  if (world.rank() == 0) end();
  std::vector<float> data(100000);
  if (world.rank() == 1) world.receive(data, 0);
  world.all_reduce(data);
  std::printf("rank %d went on\n", world.rank());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  engine::MpiOptions options;
  if (mode == "timeout") options.timeout = std::chrono::milliseconds(300);
  engine::run_mpi(options, [&](Communicator& world) {
    if (mode == "suite") check_all(world);
    if (mode == "throw") end_early(world, [] { throw std::runtime_error("boom"); });
    if (mode == "error")
      end_early(world, [] { throw engine::Error(engine::ExitCode::storage, "disk full"); });
    if (mode == "kill") end_early(world, [] { std::raise(SIGKILL); });
    if (mode == "timeout")
      end_early(world, [] { std::this_thread::sleep_for(std::chrono::hours(1)); });
    if (mode == "undelivered" && world.rank() == 0) world.send(std::vector<float>(1 << 18), 1);
    if (mode == "undelivered" && world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world.receive(std::vector<float>(1 << 18), 0);
      std::puts("received");
    }
    if (mode == "mismatch" && world.rank() == 0) world.send(std::vector<float>(3), 1);
    if (mode == "mismatch" && world.rank() == 1) world.receive(std::vector<float>(4), 0);
  });
}
