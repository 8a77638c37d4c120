// Runs one job and writes its Outcome.
#include "engine/worker/worker.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "engine/base/json_reader.h"
#include "engine/comm/local_communicator.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/device/device.h"
#include "engine/worker/mpi_ranks.h"
#include "engine/worker/rank_run.h"

namespace engine {
namespace {

constexpr char kUsage[] = "usage: autotune-worker JOB.json [--threads N]";

int parse_threads(std::string_view text) {
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc{} || end != text.data() + text.size() || threads < 1 || threads > 4096)
    throw InputError(fmt::format("--threads '{}' must be a number from 1 to 4096", text));
  return threads;
}

// Cores for the arithmetic of one of `ranks` on this machine.
int math_threads(int ranks) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, ranks));
}

// An Outcome for what went wrong, and the exit code.
struct Failure {
  OutcomeStatus status = OutcomeStatus::crashed;
  ExitCode code = ExitCode::internal;
  std::string reason;
};

Failure failure_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const OutOfMemory& error) {
    return {OutcomeStatus::out_of_memory, error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {OutcomeStatus::out_of_memory, ExitCode::nothing_fits,
            "the machine has no more memory; use more ranks, a smaller micro-batch or more "
            "recomputation"};
  } catch (const BadNumbers& error) {
    return {OutcomeStatus::bad_numbers, error.code(), error.what()};
  } catch (const Interrupted& error) {
    return {OutcomeStatus::interrupted, error.code(), error.what()};
  } catch (const InputError& error) {
    return {OutcomeStatus::rejected, error.code(), error.what()};
  } catch (const Error& error) {
    const bool refused = error.code() == ExitCode::environment;
    return {refused ? OutcomeStatus::rejected : OutcomeStatus::crashed, error.code(), error.what()};
  } catch (const std::exception& error) {
    return {OutcomeStatus::crashed, ExitCode::internal, error.what()};
  }
}

class WorkerRun {
 public:
  WorkerRun(const WorkerOptions& options, Job job, std::ostream& errors)
      : options_(options), job_(std::move(job)), errors_(errors) {}

  ExitCode run() {
    try {
      if (job_.phantom_rank >= 0)
        run_phantom();
      else if (options_.threads == 0 && started_as_mpi_rank())
        run_processes();
      else
        run_threads();
      return ExitCode::found;
    } catch (...) {
      return fail(std::current_exception());
    }
  }

 private:
  void run_phantom() {
    const int world = job_.plan.world();
    if (job_.phantom_rank >= world)
      throw InputError(fmt::format("phantom_rank {} is not one of the plan's {} ranks",
                                   job_.phantom_rank, world));
    PhantomCommunicator ranks(static_cast<int>(job_.phantom_rank), world, job_.seed);
    EventLog events(job_.events_path);
    finish(run_rank(job_, ranks, {math_threads(1), options_.stop, &events}), events);
  }

  void run_threads() {
    const int world = job_.plan.world();
    if (options_.threads != 0 && options_.threads != world)
      throw InputError(
          fmt::format("--threads {} must be the plan's {} ranks", options_.threads, world));
    EventLog events(job_.events_path);
    run_local(world, [&](Communicator& ranks) { run_one(ranks, world, world, events); });
  }

  void run_processes() {
    run_mpi_ranks(errors_, [&](Communicator& ranks) {
      try {
        if (ranks.size() != job_.plan.world())
          throw InputError(fmt::format("started {} MPI ranks for a plan of {}", ranks.size(),
                                       job_.plan.world()));
        EventLog events(ranks.rank() == 0 ? job_.events_path : "");
        run_one(ranks, mpi_ranks_here(), 1, events);
      } catch (...) {
        // The exception ends every rank of the job: this is the last chance to say why.
        record(failure_of(std::current_exception()));
        throw;
      }
    });
  }

  void run_one(Communicator& ranks, int ranks_here, int ranks_in_process, EventLog& events) {
    const Outcome outcome =
        run_rank(job_, ranks, {math_threads(ranks_here), options_.stop, &events, ranks_in_process});
    if (ranks.rank() == 0) finish(outcome, events);
  }

  void finish(const Outcome& outcome, EventLog& events) {
    write_outcome(outcome, job_.outcome_path);
    events.write("end",
                 {{"status", name_of(outcome.status)}, {"step_seconds", outcome.step_seconds}});
  }

  void record(const Failure& failure) {
    Outcome outcome;
    outcome.measured = true;
    outcome.status = failure.status;
    outcome.reason = failure.reason;
    outcome.memory.capacity_bytes = job_.memory_limit_bytes;
    write_outcome(outcome, job_.outcome_path);
    EventLog(job_.events_path)
        .write("end", {{"status", name_of(outcome.status)}, {"reason", outcome.reason}});
  }

  ExitCode fail(const std::exception_ptr& cause) {
    const Failure failure = failure_of(cause);
    errors_ << "autotune-worker: " << failure.reason << '\n';
    try {
      record(failure);
    } catch (const Error& error) {
      errors_ << "autotune-worker: " << error.what() << '\n';
      return error.code();
    }
    return failure.code;
  }

  const WorkerOptions& options_;
  Job job_;
  std::ostream& errors_;
};

}  // namespace

WorkerOptions parse_worker_arguments(int count, const char* const* arguments) {
  WorkerOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--threads" && i + 1 < count)
      options.threads = parse_threads(arguments[++i]);
    else if (argument.starts_with("--threads="))
      options.threads = parse_threads(argument.substr(10));
    else if (!argument.starts_with("-") && options.job_path.empty())
      options.job_path = argument;
    else
      throw InputError(fmt::format("'{}' is not understood; {}", argument, kUsage));
  }
  if (options.job_path.empty()) throw InputError(fmt::format("no job given; {}", kUsage));
  return options;
}

ExitCode run_worker(const WorkerOptions& options, std::ostream& errors) {
  try {
    Job job = job_from_json(parse_json(read_text_file(options.job_path), options.job_path),
                            options.job_path);
    return WorkerRun(options, std::move(job), errors).run();
  } catch (const Error& error) {
    errors << "autotune-worker: " << error.what() << '\n';
    return error.code();
  }
}

}  // namespace engine
