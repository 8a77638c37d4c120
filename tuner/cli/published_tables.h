// The tables of published runs that validate reads: a file of the user, or the program's own.
#pragma once
#include <string>

#include "tuner/cli/command.h"
#include "tuner/validate/csv.h"

namespace tuner {

// FILE, or the built-in table of this name. Throws InputError.
CsvTable published_table(const Arguments& arguments, const std::string& built_in);

bool contains_ignoring_case(const std::string& text, const std::string& part);

}  // namespace tuner
