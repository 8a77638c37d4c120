// The list of commands.
#include "tuner/cli/commands.h"

namespace tuner {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> kCommands = [] {
    std::vector<Command> commands = {
        train_command(),           //
        infer_command(),           //
        size_command(),            //
        estimate_train_command(),  //
        estimate_infer_command(),  //
        check_train_command(),     //
        check_infer_command(),     //
        report_command(),          //
        export_command(),          //
        import_command(),          //
        compare_command(),         //
        validate_train_command(),  //
        validate_infer_command(),  //
        calibrate_command(),       //
        run_tokenize_command(),    //
        run_train_command(),       //
        run_generate_command(),    //
        run_tune_command(),        //
        run_evaluate_command(),    //
        models_command(),          //
        gpus_command(),            //
        explain_command(),         //
        doctor_command(),          //
        config_command(),          //
        completion_command(),      //
        man_command(),
    };
    for (Command& command : runs_commands()) commands.push_back(std::move(command));
    return commands;
  }();
  return kCommands;
}

}  // namespace tuner
