// The cases of the black-box tests, read from tables that are cheap to add to.
//
//   variable NAME=VALUE   in the environment of the cases below it in this file
//   == name of the case
//   needs PROGRAM         skipped, visibly, where this program is missing
//   seed MODEL GPU        a stored run to begin with; any number of them
//   answer JSON           that of the run seeded last; without JSON it was not finished
//   $ command             run by sh in an empty folder and home; `autotune` is on the path
//   exit N                of the last command; 0 when it is not said
//   stdout TEXT           standard output contains TEXT      (stderr likewise)
//   stdout! TEXT          … does not contain TEXT
//   stdout~ REGEX         … has a part that matches (ECMAScript)
//   stdout-empty          … is empty
//   json POINTER VALUE    standard output is JSON and has this value there
//
// Lines that begin with # are comments.
#pragma once
#include <string>
#include <vector>

namespace cli_test {

struct Check {
  enum class Kind { contains, lacks, matches, empty, json } kind;
  bool of_stderr = false;
  std::string text;     // or the JSON pointer
  std::string value;    // of a JSON check
  std::string written;  // the line, for messages
};

struct Seed {
  std::string model;
  std::string gpu;
  std::string answer =
      R"({"schema":"autotune.train/1"})";  // JSON; empty = the run was not finished
};

struct Case {
  std::string place;  // "runs.txt:12"
  std::string name;
  std::vector<std::string> variables;
  std::vector<std::string> needs;  // programs
  std::vector<Seed> seeds;
  std::string script;
  int exit = 0;
  std::vector<Check> checks;
};

// All cases of the *.txt files in a folder. Throws std::runtime_error naming file and line when a
// line is not understood or a case checks nothing.
std::vector<Case> read_cases(const std::string& folder);

}  // namespace cli_test
