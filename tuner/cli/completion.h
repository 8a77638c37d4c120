// Completion: the words that could come next on a command line, from the option tables.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tuner/cli/command.h"
#include "tuner/cli/words.h"

namespace tuner {

struct Candidate {
  std::string word;
  std::string help;
};

// What the last word (maybe empty) of the line may become; nothing where a file is expected or
// nothing is known.
std::vector<Candidate> complete(std::span<const Command> commands, const Words& words);

}  // namespace tuner
