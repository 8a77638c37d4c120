// autotune doctor: what of this machine the program can use, and what to do about the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/output.h"
#include "tuner/profile/fingerprint.h"
#include "tuner/profile/worker_program.h"
#include "tuner/store/store.h"

namespace tuner {

using engine::ExitCode;
using engine::Json;

namespace {

enum class State : uint8_t { ok, absent, broken };  // absent: other things work without it
constexpr const char* kStates[] = {"ok", "absent", "broken"};

struct Finding {
  std::string name;
  State state = State::ok;
  std::string found;
  std::string advice;  // what to do; empty when nothing is
};

using Findings = std::vector<Finding>;

void look_at_machine(Findings& findings) {
  const Host host = this_host();
  findings.push_back({"processor", State::ok,
                      fmt::format("{}, {} cores, {}", host.cpu, host.cores,
                                  engine::format_bytes(host.memory_bytes)),
                      ""});
}

void look_at_database(Findings& findings, const Arguments& arguments) {
  const std::string path = store_path(arguments);
  try {
    const Store store(path);
    std::error_code error;
    const auto space = std::filesystem::space(std::filesystem::path(path).parent_path(), error);
    const double free_bytes = error ? 0 : static_cast<double>(space.available);
    constexpr double kLittle = 256.0 * (1 << 20);
    findings.push_back(
        {"database", State::ok,
         fmt::format("{}, {} free on its disk", path, engine::format_bytes(free_bytes)),
         free_bytes < kLittle ? "make room on the disk, or name another by --db" : ""});
  } catch (const engine::Error& error) {
    findings.push_back({"database", State::broken, error.what(), "name another file by --db"});
  }
}

// The worker's own description; null when it is not there or does not work.
Json look_at_worker(Findings& findings, TrialDevice device) {
  const bool cuda = device == TrialDevice::cuda;
  const std::string name = cuda ? "worker for GPUs" : "worker for the CPU";
  const std::string path = worker_path(device);
  if (!is_program(path)) {
    findings.push_back(
        {name, cuda ? State::absent : State::broken, fmt::format("no '{}'", path),
         cuda ? "built without CUDA; build autotune where the CUDA toolkit is installed to run "
                "trials on GPUs"
              : "install autotune-worker beside autotune, or name it in AUTOTUNE_WORKER"});
    return nullptr;
  }
  try {
    Json facts = ask_worker(path);
    const bool mpi = facts.value("mpi", false);
    findings.push_back({name, State::ok, fmt::format("{}{}", path, mpi ? ", with MPI" : ""), ""});
    return facts;
  } catch (const engine::Error& error) {
    findings.push_back({name, State::broken, error.what(),
                        cuda ? "install the CUDA runtime and cuBLAS that it was built with"
                             : "build or install it again"});
    return nullptr;
  }
}

void look_at_driver(Findings& findings, const Json& backend) {
  const std::string driver = backend.value("driver_version", "");
  const std::string runtime = backend.value("runtime_version", "");
  const auto major = [](const std::string& version) { return std::atoi(version.c_str()); };
  if (driver.empty())
    findings.push_back({"NVIDIA driver", State::absent, "none",
                        "install the driver to run trials on GPUs; predictions need none"});
  else if (major(driver) < major(runtime))
    findings.push_back({"NVIDIA driver", State::broken,
                        fmt::format("for CUDA {}, the worker needs {}", driver, runtime),
                        "install a newer driver"});
  else
    findings.push_back({"NVIDIA driver", State::ok,
                        fmt::format("for CUDA {}, the worker uses {}", driver, runtime), ""});
}

void look_at_gpu(Findings& findings, const Json& gpu, size_t index) {
  const double memory = gpu.value("memory_bytes", 0.0), free = gpu.value("free_bytes", 0.0);
  Finding finding{fmt::format("GPU {}", index), State::ok,
                  fmt::format("{}, compute capability {}, {} free of {}", gpu.value("name", ""),
                              gpu.value("capability", ""), engine::format_bytes(free),
                              engine::format_bytes(memory)),
                  ""};
  constexpr double kBusy = 0.9;  // a driver alone takes a few percent
  if (!gpu.value("usable", false)) {
    finding.state = State::broken;
    finding.advice = "the worker needs compute capability 8.0 or later";
  } else if (free < kBusy * memory) {
    finding.advice = "end what else uses it (nvidia-smi tells) before measuring";
  }
  findings.push_back(std::move(finding));
}

// Which pairs of GPUs do not reach each other's memory.
void look_at_peers(Findings& findings, const Json& gpus) {
  if (gpus.size() < 2) return;
  std::vector<std::string> apart;
  for (size_t a = 0; a < gpus.size(); ++a)
    for (size_t b = a + 1; b < gpus.size(); ++b) {
      const Json& peers = gpus[a]["peers"];
      if (std::find(peers.begin(), peers.end(), Json(b)) == peers.end())
        apart.push_back(fmt::format("{}-{}", a, b));
    }
  if (apart.empty())
    findings.push_back({"peer access", State::ok, "between all GPUs", ""});
  else
    findings.push_back(
        {"peer access", State::absent, fmt::format("not between {}", fmt::join(apart, ", ")),
         "expect slow messages: NCCL goes through the host; check NVLink and IOMMU"});
}

void look_at_gpus(Findings& findings, const Json& facts) {
  if (facts.is_null()) return;
  const Json backend = facts.value("backend", Json::object());
  look_at_driver(findings, backend);
  const Json gpus = backend.value("gpus", Json::array());
  if (gpus.empty())
    findings.push_back({"GPUs", State::absent, "none",
                        "check nvidia-smi and CUDA_VISIBLE_DEVICES; predictions need none"});
  for (size_t i = 0; i < gpus.size(); ++i) look_at_gpu(findings, gpus[i], i);
  look_at_peers(findings, gpus);
  const Json nccl = backend.value("nccl_version", Json());
  findings.push_back(nccl.is_string()
                         ? Finding{"NCCL", State::ok, nccl.get<std::string>(), ""}
                         : Finding{"NCCL", State::absent, "the worker was built without",
                                   "install NCCL 2.18 or later and build again to train on several "
                                   "GPUs"});
}

void look_at_program(Findings& findings, const std::string& name, const std::string& program,
                     const std::string& advice) {
  if (is_in_path(program))
    findings.push_back({name, State::ok, program + " is in PATH", ""});
  else
    findings.push_back({name, State::absent, "no " + program + " in PATH", advice});
}

void look_at_profile(Findings& findings) {
  const HostCluster cluster = host_cluster(this_host(), 1, "");
  if (cluster.remark.empty())
    findings.push_back({"profile of this machine", State::ok, "calibrated", ""});
  else
    findings.push_back({"profile of this machine", State::absent, "not calibrated",
                        "`autotune calibrate` measures it"});
}

std::string to_text(const Findings& findings) {
  std::string text;
  for (const Finding& one : findings) {
    text +=
        fmt::format("{:<7} {:<24} {}\n", kStates[static_cast<int>(one.state)], one.name, one.found);
    if (!one.advice.empty()) text += fmt::format("{:>33}{}\n", "→ ", one.advice);
  }
  return text;
}

Json to_json(const Findings& findings, bool works) {
  Json checks = Json::array();
  for (const Finding& one : findings)
    checks.push_back({{"name", one.name},
                      {"state", kStates[static_cast<int>(one.state)]},
                      {"found", one.found},
                      {"advice", one.advice.empty() ? Json() : Json(one.advice)}});
  return {{"schema", "autotune.doctor/1"}, {"works", works}, {"checks", std::move(checks)}};
}

int run_doctor(const Arguments& arguments) {
  Findings findings;
  look_at_machine(findings);
  look_at_database(findings, arguments);
  look_at_worker(findings, TrialDevice::cpu);
  look_at_gpus(findings, look_at_worker(findings, TrialDevice::cuda));
  look_at_program(findings, "MPI", "mpirun", "install Open MPI for --launcher mpirun");
  look_at_program(findings, "Slurm", "sbatch", "only on clusters that have it");
  look_at_profile(findings);
  const bool works = std::none_of(findings.begin(), findings.end(),
                                  [](const Finding& one) { return one.state == State::broken; });
  if (arguments.flag("--json"))
    print_result(to_json(findings, works).dump(2) + "\n");
  else
    print_result(to_text(findings));
  return static_cast<int>(works ? ExitCode::found : ExitCode::environment);
}

}  // namespace

Command doctor_command() {
  return {
      .words = "doctor",
      .summary = "Check what of this machine trials can use",
      .description =
          "Looks at the processor, the database, the workers, the NVIDIA driver, every GPU with "
          "its free memory, peer access, NCCL, MPI, Slurm and the profile of this machine. What "
          "is absent is only missed by what needs it; what is broken gives exit code 7. Each "
          "comes with what to do.",
      .examples = {{"doctor", "Check this machine"}, {"doctor --json", "The same for a script"}},
      .options = {json_option(), database_option()},
      .run = run_doctor};
}

}  // namespace tuner
