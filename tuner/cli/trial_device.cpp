// The option and its meaning.
#include "tuner/cli/trial_device.h"

namespace tuner {

Option device_option(std::string help, std::string default_text) {
  return {.name = "--device",
          .kind = ValueKind::text,
          .help = std::move(help),
          .default_text = std::move(default_text),
          .choices = {"cpu", "cuda"}};
}

TrialDevice trial_device_of(const Arguments& arguments) {
  return arguments.text("--device") == "cuda" ? TrialDevice::cuda : TrialDevice::cpu;
}

}  // namespace tuner
