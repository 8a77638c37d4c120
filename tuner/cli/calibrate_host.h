// Calibration of this machine by short trainings on it.
#pragma once
#include "tuner/cli/command.h"

namespace tuner {

// Measures (or recalls) the trainings, fits the rates, shows the errors and writes the profile that
// `--device` takes from then on. Returns the exit code.
int calibrate_host(const Arguments& arguments);

}  // namespace tuner
