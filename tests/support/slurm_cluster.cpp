// Configures, starts and stops a Slurm on one host.
#include "tests/support/slurm_cluster.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace test_support {

namespace fs = std::filesystem;

namespace {

const char* const kPrograms[] = {"slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel"};

std::string path_of(const std::string& program) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"})
    if (access((folder + program).c_str(), X_OK) == 0) return folder + program;
  return {};
}

// Ports that nobody used a moment ago; all are held until the last one is known.
std::vector<int> free_ports(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no free port");
    sockets.push_back(socket);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) close(socket);
  return ports;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return std::string(name).substr(0, std::string(name).find('.'));
}

template <class Done>
bool wait_until(Done done, double seconds = 20) {
  const auto start = std::chrono::steady_clock::now();
  while (!done()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(seconds))
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace

std::string SlurmCluster::missing() {
  for (const char* program : kPrograms)
    if (path_of(program).empty()) return std::string(program) + " is not installed";
  return geteuid() == 0 ? "" : "its daemons need root";
}

SlurmCluster::SlurmCluster(int nodes, int cores_per_node) {
  write_configuration(nodes, cores_per_node);
  const std::string configuration = folder_ / "slurm.conf";
  setenv("SLURM_CONF", configuration.c_str(), 1);
  const auto start = [&](const std::string& name, std::vector<std::string> words) {
    daemons_.push_back(std::make_unique<tuner::Process>(words, folder_ / (name + ".out"),
                                                        folder_ / (name + ".err")));
  };
  start("controller", {path_of("slurmctld"), "-D", "-c", "-f", configuration});
  for (int i = 1; i <= nodes; ++i) {
    const std::string node = "n" + std::to_string(i);
    start(node, {path_of("slurmd"), "-D", "-N", node, "-f", configuration});
  }
  const auto idle = [&] { return run({"sinfo", "-h", "-t", "idle", "-o", "%D"}); };
  if (!wait_until([&] { return idle() == std::to_string(nodes) + "\n"; }))
    throw std::runtime_error("the nodes of Slurm do not come up:\n" + run({"sinfo"}) + logs());
}

SlurmCluster::~SlurmCluster() {
  run({"scancel", "--full", "--state=PENDING"});
  run({"scancel", "--full", "--state=RUNNING"});
  wait_until([&] { return jobs() == 0; }, 10);
  daemons_.clear();
  end_steps();
  unsetenv("SLURM_CONF");
}

// A step of a node that was lost outlives the daemons; all of ours know our configuration.
void SlurmCluster::end_steps() const {
  const std::string mark = std::string("SLURM_CONF=") + (folder_ / "slurm.conf");
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0 || process == getpid()) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    if (environment.find(mark) != std::string::npos) kill(process, SIGKILL);
  }
}

void SlurmCluster::write_configuration(int nodes, int cores_per_node) const {
  const std::vector<int> ports = free_ports(nodes + 1);
  const std::string host = host_name(), user = getpwuid(geteuid())->pw_name;
  std::string text = fmt::format(R"(ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
TmpFS={folder}/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
KillWait=2
SlurmdTimeout=30
)",
                                 fmt::arg("host", host), fmt::arg("user", user),
                                 fmt::arg("port", ports[0]), fmt::arg("folder", folder_.path()));
  for (const char* part : {"state", "spool", "tmp"}) fs::create_directory(folder_ / part);
  for (int i = 1; i <= nodes; ++i) {
    text += fmt::format(
        "NodeName=n{} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs={} "
        "Boards=1 SocketsPerBoard=1 CoresPerSocket={} ThreadsPerCore=1\n",
        i, host, ports[static_cast<size_t>(i)], cores_per_node, cores_per_node);
    for (const char* part : {"spool", "tmp"})
      fs::create_directory(fmt::format("{}/{}/n{}", folder_.path(), part, i));
  }
  text += fmt::format("PartitionName=main Nodes=n[1-{}] Default=YES State=UP\n", nodes);
  text += fmt::format("PartitionName=stopped Nodes=n[1-{}] State=DOWN\n", nodes);
  write_bytes(folder_ / "slurm.conf", text);
}

std::string SlurmCluster::run(const std::vector<std::string>& words) const {
  const std::string out = folder_ / "command.out", err = folder_ / "command.err";
  tuner::Process process(words, out, err);
  wait_until([&] { return process.has_ended(); }, 30);
  return read_bytes(out) + read_bytes(err);
}

std::string SlurmCluster::wait_for_job(const std::string& state) const {
  std::string id;
  wait_until([&] {
    id = run({"squeue", "-h", "-t", state, "-o", "%i"});
    return !id.empty();
  });
  return id.substr(0, id.find('\n'));
}

int SlurmCluster::jobs() const {
  const std::string lines = run({"squeue", "-h", "-o", "%i"});
  return static_cast<int>(std::count(lines.begin(), lines.end(), '\n'));
}

void SlurmCluster::set_node(const std::string& node, const std::string& state) const {
  run({"scontrol", "update", "nodename=" + node, "state=" + state, "reason=test"});
}

std::string SlurmCluster::logs() const {
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    if (entry.path().extension() == ".err") text += read_bytes(entry.path());
  return text;
}

}  // namespace test_support
