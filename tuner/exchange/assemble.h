// From a draft to files: header, shell script, here-documents, Slurm.
#pragma once
#include <string>
#include <vector>

#include "tuner/exchange/export.h"

namespace tuner {

// `header`: lines of the comment that begins each file that can hold one.
Exported assemble(const Draft& draft, const std::vector<std::string>& header,
                  const Placement& placement, bool slurm, std::string_view target);

}  // namespace tuner
