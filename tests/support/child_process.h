// Runs a part of a test in a child process: to end it in the middle, or to limit the size of its
// files.
#pragma once
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>

// Exit status of the child, or -signal. The child writes no file larger than `file_limit` bytes; a
// larger one fails like a full disk, or with `killed` ends the process at that byte.
inline int run_in_child(const std::function<int()>& body, rlim_t file_limit = RLIM_INFINITY,
                        bool killed = false) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const rlimit limit{file_limit, RLIM_INFINITY};
    signal(SIGXFSZ, killed ? SIG_DFL : SIG_IGN);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (file_limit != RLIM_INFINITY) setrlimit(RLIMIT_FSIZE, &limit);
    int status = 99;
    try {
      status = body();
    } catch (...) {}
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
