// --device: what trials and jobs run on.
#pragma once
#include <string>

#include "tuner/cli/command.h"
#include "tuner/profile/launcher.h"

namespace tuner {

Option device_option(std::string help, std::string default_text);
// The processor where it is not given.
TrialDevice trial_device_of(const Arguments& arguments);

}  // namespace tuner
