// Ending: how a command that may measure ended, for the status of its run and its exit code.
#pragma once
#include <string>

#include "engine/base/errors.h"

namespace tuner {

struct Ending {
  engine::ExitCode code = engine::ExitCode::found;
  std::string status = "found";
};

// Of a signal that stopped it.
Ending stopped_ending(int signal);

// On standard error: that more is to be measured, and how to go on.
void tell_ending(const Ending& ending, bool budget_ended);

}  // namespace tuner
