// Fingerprint: what a measured time depends on apart from the job: hardware, system, worker.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tuner {

// FNV-1a, 64 bits, as 16 hexadecimal digits.
std::string hash_text(std::string_view text);

// What this machine is.
struct Host {
  std::string cpu;  // as the system names it
  int cores = 1;    // that this process may use
  double memory_bytes = 0;
  std::string system;  // name and release of the kernel
};
Host this_host();
// What programs can take of it now without pushing others out.
double available_memory_bytes();

struct Fingerprint {
  std::string hash;
  std::string text;  // JSON
};
// `worker` is the path of the worker's executable: its content counts, so that a rebuilt one is
// another environment. Variables that steer threads count, too.
Fingerprint take_fingerprint(const Host& host, const std::string& worker,
                             const std::string& launcher);

}  // namespace tuner
