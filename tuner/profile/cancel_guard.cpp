// The shell behind a CancelGuard.
#include "tuner/profile/cancel_guard.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/errors.h"

namespace tuner {
namespace {

constexpr char kScript[] = "read word || { \"$@\"; sleep 5; \"$@\"; }";

}  // namespace

CancelGuard::CancelGuard(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw engine::Error(engine::ExitCode::environment,
                        std::string("no pipe can be made: ") + std::strerror(errno));
  std::vector<std::string> words = {"sh", "-c", kScript, "sh"};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int error = posix_spawn(&shell_, "/bin/sh", &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[0]);
  word_ = ends[1];
  if (error == 0) return;
  close(word_);
  throw engine::Error(engine::ExitCode::environment,
                      std::string("/bin/sh cannot be started: ") + std::strerror(error));
}

void CancelGuard::dismiss() {
  if (word_ < 0) return;
  [[maybe_unused]] const ssize_t told = write(word_, "done\n", 5);
  close(word_);
  word_ = -1;
  while (waitpid(shell_, nullptr, 0) < 0 && errno == EINTR) {}
}

}  // namespace tuner
