// autotune calibrate without --from: measures this machine and writes its profile.
#pragma once
#include <optional>
#include <string>

#include "tuner/cli/command.h"
#include "tuner/profile/fingerprint.h"

namespace tuner {

// Mean relative errors of batches that the fit has not seen.
struct ServingErrors {
  double ttft = 0, tpot = 0;
};

struct HostCalibration {
  std::string account;                   // of the fit, for people
  double step_error = 0;                 // mean, of training steps that the fit has not seen
  std::optional<ServingErrors> serving;  // of CPUs
  std::string path;                      // of the profile
};

// Trains and serves small models, each trial stored in `database`, and writes the profile to
// `path`. Throws Error when a trial fails or a signal asks to stop; what was measured is kept.
HostCalibration calibrate_host(const std::string& database, const std::string& path,
                               const Host& host);

// Where the profile is looked for.
std::string host_profile_path();

// The command.
int calibrate_host(const Arguments& arguments);

}  // namespace tuner
