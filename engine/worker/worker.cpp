// Runs one job and writes its Outcome.
#include "engine/worker/worker.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "engine/base/json_reader.h"
#include "engine/worker/backend.h"
#include "engine/worker/mpi_ranks.h"
#include "engine/worker/rank_run.h"

namespace engine {
namespace {

std::string usage() {
  return fmt::format(
      "usage: {} JOB.json [--threads N | --rank R --rendezvous FILE [--rank-here L]]",
      worker_name());
}

int parse_number(std::string_view name, std::string_view text, int lowest, int highest) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < lowest ||
      number > highest)
    throw InputError(
        fmt::format("{} '{}' must be a number from {} to {}", name, text, lowest, highest));
  return number;
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
      if (job_.is_phantom())
        run_phantom();
      else if (options_.file_rank.rank >= 0)
        run_file();
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
    EventLog events(job_.events_path);
    run_phantom_rank(static_cast<int>(job_.phantom_rank), world, job_.seed,
                     [&](Device& device, Communicator& ranks) {
                       finish(run_rank(job_, device, ranks, {options_.stop, &events}), events);
                     });
  }

  void run_threads() {
    const int world = job_.plan.world();
    if (options_.threads != 0 && options_.threads != world)
      throw InputError(
          fmt::format("--threads {} must be the plan's {} ranks", options_.threads, world));
    EventLog events(job_.events_path);
    run_thread_ranks(
        world, [&](Device& device, Communicator& ranks) { run_one(device, ranks, world, events); });
  }

  void run_processes() {
    run_mpi_ranks(errors_, [&](Communicator& ranks) {
      try {
        if (ranks.size() != job_.plan.world())
          throw InputError(fmt::format("started {} MPI ranks for a plan of {}", ranks.size(),
                                       job_.plan.world()));
        // Every replica that serves tells of its own requests.
        EventLog events(ranks.rank() == 0 || job_.serving ? job_.events_path : "");
        run_process_rank(
            ranks, mpi_rank_here(), mpi_ranks_here(),
            [&](Device& device, Communicator& all) { run_one(device, all, 1, events); });
      } catch (...) {
        // The exception ends every rank of the job: this is the last chance to say why.
        record(failure_of(std::current_exception()));
        throw;
      }
    });
  }

  void run_file() {
    FileRank place = options_.file_rank;
    place.ranks = job_.plan.world();
    if (place.rank >= place.ranks)
      throw InputError(
          fmt::format("--rank {} is not one of the plan's {} ranks", place.rank, place.ranks));
    EventLog events(place.rank == 0 ? job_.events_path : "");
    run_file_rank(place,
                  [&](Device& device, Communicator& ranks) { run_one(device, ranks, 1, events); });
  }

  void run_one(Device& device, Communicator& ranks, int ranks_in_process, EventLog& events) {
    const Outcome outcome =
        run_rank(job_, device, ranks, {options_.stop, &events, ranks_in_process});
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
    errors_ << worker_name() << ": " << failure.reason << '\n';
    try {
      record(failure);
    } catch (const Error& error) {
      errors_ << worker_name() << ": " << error.what() << '\n';
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
  constexpr int kMostThreads = 4096, kMostRanks = 1 << 20;
  WorkerOptions options;
  std::vector<std::string> words;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    words.push_back(word.substr(0, equals));
    if (equals != std::string::npos) words.push_back(word.substr(equals + 1));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_value = i + 1 < words.size();
    if (word == "--threads" && has_value)
      options.threads = parse_number(word, words[++i], 1, kMostThreads);
    else if (word == "--rank" && has_value)
      options.file_rank.rank = parse_number(word, words[++i], 0, kMostRanks);
    else if (word == "--rank-here" && has_value)
      options.file_rank.rank_here = parse_number(word, words[++i], 0, kMostRanks);
    else if (word == "--rendezvous" && has_value)
      options.file_rank.path = words[++i];
    else if (!word.starts_with("-") && options.job_path.empty())
      options.job_path = word;
    else
      throw InputError(fmt::format("'{}' is not understood; {}", word, usage()));
  }
  if (options.job_path.empty()) throw InputError(fmt::format("no job given; {}", usage()));
  if ((options.file_rank.rank >= 0) != !options.file_rank.path.empty())
    throw InputError(fmt::format("--rank and --rendezvous go together; {}", usage()));
  return options;
}

int math_threads(int ranks) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, ranks));
}

ExitCode run_worker(const WorkerOptions& options, std::ostream& errors) {
  try {
    Job job = job_from_json(parse_json(read_text_file(options.job_path), options.job_path),
                            options.job_path);
    return WorkerRun(options, std::move(job), errors).run();
  } catch (const Error& error) {
    errors << worker_name() << ": " << error.what() << '\n';
    return error.code();
  }
}

ExitCode describe_worker(std::ostream& out) {
  const Json facts = {
      {"worker", worker_name()}, {"mpi", built_with_mpi()}, {"backend", describe_backend()}};
  out << facts.dump() << std::endl;
  return ExitCode::found;
}

}  // namespace engine
