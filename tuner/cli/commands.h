// The commands, one file each.
#pragma once
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

std::vector<Command> runs_commands();
Command models_command();
Command gpus_command();
Command explain_command();

}  // namespace tuner
