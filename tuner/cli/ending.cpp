// How a command that may measure ended.
#include "tuner/cli/ending.h"

#include <csignal>

#include "tuner/cli/output.h"

namespace tuner {

using engine::ExitCode;

Ending stopped_ending(int signal) {
  return {signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated, "interrupted"};
}

void tell_ending(const Ending& ending, bool budget_ended) {
  if (ending.status == "interrupted")
    print_message(
        "interrupted; what was measured is stored: the same command goes on from there\n");
  else if (ending.code == ExitCode::partial)
    print_message("some trials failed; `autotune runs show` tells why\n");
  else if (budget_ended)
    print_message("the measuring budget ended; a longer --measure-budget goes on from there\n");
}

}  // namespace tuner
