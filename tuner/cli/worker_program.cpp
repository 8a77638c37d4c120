// Becomes the engine's program.
#include "tuner/cli/worker_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/errors.h"
#include "tuner/profile/launcher.h"

namespace tuner {

void become_worker(const std::vector<std::string>& words) {
  const std::string path = Launcher::find(LauncherKind::local).worker;
  std::vector<char*> arguments = {const_cast<char*>(path.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  throw engine::Error(engine::ExitCode::environment,
                      path + " cannot be started: " + std::strerror(errno));
}

}  // namespace tuner
