// autotune: registers the commands and runs the one that is asked for.
#include "tuner/cli/commands.h"
#include "tuner/cli/program.h"

int main(int count, char** words) {
  std::vector<tuner::Command> commands = {
      tuner::train_command(),           //
      tuner::infer_command(),           //
      tuner::size_command(),            //
      tuner::estimate_train_command(),  //
      tuner::estimate_infer_command(),  //
      tuner::check_train_command(),     //
      tuner::check_infer_command(),     //
      tuner::report_command(),          //
      tuner::export_command(),          //
      tuner::import_command(),          //
      tuner::validate_train_command(),  //
      tuner::validate_infer_command(),  //
      tuner::calibrate_command(),       //
      tuner::run_tokenize_command(),    //
      tuner::models_command(),          //
      tuner::gpus_command(),            //
      tuner::explain_command(),
  };
  for (tuner::Command& command : tuner::runs_commands()) commands.push_back(std::move(command));
  return tuner::run_program(commands, tuner::Words(words + (count > 0 ? 1 : 0), words + count));
}
