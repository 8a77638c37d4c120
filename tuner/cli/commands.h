// The commands, one file each.
#pragma once
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

Command train_command();
Command size_command();
Command estimate_train_command();
Command check_train_command();
Command infer_command();
Command estimate_infer_command();
Command check_infer_command();
Command report_command();
Command export_command();
Command import_command();
Command compare_command();
Command validate_train_command();
Command validate_infer_command();
Command calibrate_command();
Command run_tokenize_command();
Command run_train_command();
Command run_generate_command();
Command run_tune_command();
Command run_evaluate_command();
std::vector<Command> runs_commands();
Command models_command();
Command gpus_command();
Command explain_command();
Command doctor_command();
Command config_command();
Command completion_command();
Command man_command();

}  // namespace tuner
