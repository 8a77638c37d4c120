// Starting, waiting for and ending process groups.
#include "tuner/profile/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace tuner {
namespace {

constexpr double kLastSeconds = 1;  // for launchers to end what they started

// In the child, before the program starts: only what is safe between fork and exec.
[[noreturn]] void become(char* const* words, const char* output, const char* errors, pid_t parent,
                         int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int ignored : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGUSR1}) signal(ignored, SIG_DFL);
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (getppid() == parent && in >= 0 && out >= 0 && err >= 0 && dup2(in, 0) >= 0 &&
      dup2(out, 1) >= 0 && dup2(err, 2) >= 0)
    execvp(words[0], words);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& words, const std::string& output,
                 const std::string& errors) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  const pid_t parent = getpid();
  if (pipe2(report, O_CLOEXEC) == 0) {
    child_ = fork();
    if (child_ == 0) become(arguments.data(), output.c_str(), errors.c_str(), parent, report[1]);
    const int fork_error = errno;
    close(report[1]);
    int error = 0;
    if (child_ < 0) {
      error = fork_error;
    } else {
      setpgid(child_, child_);
      ssize_t got = 0;
      do got = read(report[0], &error, sizeof error);
      while (got < 0 && errno == EINTR);
      if (got <= 0) error = 0;  // closed by the new program
    }
    close(report[0]);
    if (error == 0) return;
    start_error_ = std::strerror(error);
    if (child_ > 0) waitpid(child_, &status_, 0);
  } else {
    start_error_ = std::strerror(errno);
  }
  ended_ = true;
  child_ = -1;
}

Process::~Process() {
  if (!ended_) end(0);
  signal_group(SIGKILL);
}

void Process::signal_group(int signal) const {
  if (child_ > 0) kill(-child_, signal);
}

bool Process::has_ended() {
  if (!ended_ && waitpid(child_, &status_, WNOHANG) == child_) {
    ended_ = true;
    signal_group(SIGKILL);  // what it may have left behind
  }
  return ended_;
}

bool Process::ends_within(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto last = Clock::now() + std::chrono::duration<double>(seconds);
  while (!has_ended() && Clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return ended_;
}

void Process::end(double grace_seconds) {
  // mpirun and srun hand this signal on and wait; at SIGTERM mpirun kills its ranks a second later.
  signal_group(SIGUSR1);
  if (ends_within(grace_seconds)) return;
  signal_group(SIGTERM);
  if (ends_within(kLastSeconds)) return;
  signal_group(SIGKILL);
  while (waitpid(child_, &status_, 0) < 0 && errno == EINTR) {}
  ended_ = true;
}

int Process::exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
int Process::signal() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }

}  // namespace tuner
