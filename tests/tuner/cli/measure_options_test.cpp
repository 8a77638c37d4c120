// What the options of measuring mean for the search, alike for training and serving.
#include "tuner/cli/measure_options.h"

#include <gtest/gtest.h>

#include "tuner/cli/commands.h"
#include "tuner/cli/parser.h"

namespace tuner {
namespace {

TEST(MeasureOptions, SlurmRunsJobsSideBySide) {
  const Words words = {"--model", "gpt3-tiny", "--gpus", "2", "--device", "cpu"};
  for (const Command& command : {train_command(), infer_command()}) {
    const auto at_once = [&](const Words& more) {
      Words all = words;
      all.insert(all.end(), more.begin(), more.end());
      const StopSignals signals;
      ProgressLine line;
      const MeasureRequest request = measure_request_of(parse_arguments(command, all));
      return measure_options_of(request, signals, line).at_once;
    };
    EXPECT_EQ(at_once({"--launcher", "slurm", "--slurm-jobs", "7"}), 7) << command.words;
    EXPECT_EQ(at_once({"--launcher", "slurm"}), 4) << command.words;
    EXPECT_EQ(at_once({}), 1) << command.words;
  }
}

}  // namespace
}  // namespace tuner
