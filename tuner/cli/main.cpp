// autotune: runs the command that is asked for.
#include "tuner/cli/program.h"

int main(int count, char** words) {
  return tuner::run_program(tuner::all_commands(),
                            tuner::Words(words + (count > 0 ? 1 : 0), words + count));
}
