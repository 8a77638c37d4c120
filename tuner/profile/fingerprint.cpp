// Reads what a measured time depends on from the system.
#include "tuner/profile/fingerprint.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/files.h"

namespace tuner {
namespace {

uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 14695981039346656037U;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211U;
  return hash;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("CPU part"))
      if (const size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown CPU";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

std::string hash_text(std::string_view text) { return fmt::format("{:016x}", fnv1a(text)); }

Host this_host() {
  Host host;
  host.cpu = cpu_name();
  host.cores = usable_cores();
  host.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  utsname names{};
  if (uname(&names) == 0) host.system = fmt::format("{} {}", names.sysname, names.release);
  return host;
}

double available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (double kibibytes = 0; file >> name >> kibibytes; file.ignore(64, '\n'))
    if (name == "MemAvailable:") return kibibytes * 1024;
  return this_host().memory_bytes / 2;
}

Fingerprint take_fingerprint(const Host& host, const std::string& worker,
                             const std::string& launcher) {
  const engine::MappedFile program(worker);
  const auto bytes = program.bytes();
  nlohmann::json json = {
      {"cpu", host.cpu},
      {"cores", host.cores},
      {"memory_bytes", host.memory_bytes},
      {"system", host.system},
      {"worker_hash", hash_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()})},
      {"launcher", launcher}};
  for (const char* name : {"OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
                           "GOMP_CPU_AFFINITY", "ONEDNN_MAX_CPU_ISA"})
    if (const char* value = std::getenv(name)) json["variables"][name] = value;
  Fingerprint fingerprint;
  fingerprint.text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  fingerprint.hash = hash_text(fingerprint.text);
  return fingerprint;
}

}  // namespace tuner
