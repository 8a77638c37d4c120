// Parsing: from the words of the command line to the checked arguments of a command.
#pragma once
#include "tuner/cli/command.h"
#include "tuner/cli/settings.h"
#include "tuner/cli/words.h"

namespace tuner {

// Checks the words behind the verb against the command's table; options that they lack take the
// values of `settings`, those in force for the command. Throws InputError with every problem.
Arguments parse_arguments(const Command& command, const Words& words,
                          const std::vector<Setting>& settings = {});

}  // namespace tuner
