// Scripts and documents around what a format wrote.
#include "tuner/exchange/assemble.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tuner {
namespace {

bool has_comments(const std::string& name) { return !name.ends_with(".json"); }

std::string command_text(const Draft& draft) {
  std::string text;
  for (const std::string& line : draft.environment) text += line + "\n";
  return text + fmt::format("{} \\\n  \"$@\"\n", fmt::join(draft.command, " \\\n  "));
}

// `cat > NAME`: the tag is no line of the document.
std::string here_document(const TextFile& file) {
  std::string tag = "AUTOTUNE";
  while (file.text.find("\n" + tag + "\n") != std::string::npos) tag += "_";
  return fmt::format("cat > {} <<'{}'\n{}{}\n", bash_word(file.name), tag, file.text, tag);
}

std::string slurm_directives(const Placement& placement, std::string_view target) {
  return fmt::format(
      "#SBATCH --job-name=autotune-{}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n",
      target, placement.nodes, placement.gpus_per_node);
}

// Each node runs the command, with its own number.
std::string slurm_command(const Draft& draft) {
  return "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
         "export MASTER_ADDR MASTER_PORT=\"${MASTER_PORT:-29500}\"\n"
         "srun bash -c \"$(cat <<'NODE'\n"
         "export NODE_RANK=\"$SLURM_NODEID\"\n" +
         command_text(draft) + "NODE\n)\" autotune \"$@\"\n";
}

}  // namespace

Exported assemble(const Draft& draft, const std::vector<std::string>& header,
                  const Placement& placement, bool slurm, std::string_view target) {
  const std::string comment = comment_lines(header);
  std::string script = "#!/bin/bash\n";
  if (slurm) script += slurm_directives(placement, target);
  script += comment + "set -euo pipefail\n";
  const std::string command = slurm ? slurm_command(draft) : command_text(draft);

  Exported result;
  std::string everything = script;
  for (TextFile file : draft.documents) {
    if (has_comments(file.name)) file.text = comment + file.text;
    everything += here_document(file);
    result.files.push_back(std::move(file));
  }
  everything += command;
  result.files.push_back({slurm ? "job.sbatch" : "run.sh", script + command});
  if (!draft.document_is_answer || slurm) {
    result.text = std::move(everything);
    return result;
  }
  // The command stands in the comment of the document.
  const TextFile& document = draft.documents.front();
  if (!has_comments(document.name)) {
    result.text = document.text;
    return result;
  }
  std::string how = comment_lines({"run as " + document.name + ":"});
  std::string command_lines = command;
  for (size_t at = 0; at < command_lines.size();) {
    const size_t end = command_lines.find('\n', at);
    how += "#   " + command_lines.substr(at, end - at) + "\n";
    at = end + 1;
  }
  result.text = comment + how + document.text;
  return result;
}

}  // namespace tuner
