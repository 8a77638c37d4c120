// The program: finds the command, runs it, and turns exceptions into messages and exit codes.
#pragma once
#include <span>

#include "tuner/cli/command.h"
#include "tuner/cli/parser.h"

namespace tuner {

// Runs the command that the words (without the program's name) ask for; returns the exit code.
// Nothing is thrown: every error is printed to standard error.
int run_program(std::span<const Command> commands, const Words& words);

}  // namespace tuner
