// What this program is and how it was built.
#include <fmt/format.h>

#include "tuner/cli/help.h"
#include "tuner/store/store.h"

namespace tuner {

std::string_view version_number() { return AUTOTUNE_VERSION; }

std::string version_text() {
  const std::string_view commit = AUTOTUNE_COMMIT;
  return fmt::format(
      "autotune {}\ncommit    {}\nbuild     {}\ncompiler  {}\nSQLite    {}\nfmt       {}.{}.{}\n",
      AUTOTUNE_VERSION, commit.empty() ? "unknown" : commit, AUTOTUNE_BUILD_TYPE, AUTOTUNE_COMPILER,
      sqlite_version(), FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

}  // namespace tuner
