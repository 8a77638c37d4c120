// How the ranks of NCCL find each other.
#include "engine/comm/nccl/run_nccl.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/comm/nccl/nccl_ranks.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

void run_with(CudaDevice& device, int rank, int size, const ncclUniqueId& id,
              const NcclOptions& options, const std::function<void()>& connected,
              const std::function<void(Communicator&)>& body) {
  const auto world =
      make_nccl_communicator(std::make_shared<NcclRanks>(device, options), rank, size, id);
  connected();
  body(*world);
  device.synchronize();
}

ncclUniqueId new_id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id));
  return id;
}

void write_id(const ncclUniqueId& id, const std::string& path) {
  if (fs::exists(path))
    throw Error(ExitCode::environment,
                fmt::format("{} is left from another run; remove it or name another file", path));
  const std::string draft = path + ".writing";
  FileWriter file(draft);
  file.append(id.internal, sizeof id.internal);
  file.close();
  rename_file(draft, path);
}

ncclUniqueId read_id(const std::string& path, std::chrono::nanoseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  while (!fs::exists(path)) {
    if (std::chrono::steady_clock::now() - start > timeout)
      throw Error(ExitCode::environment,
                  fmt::format("rank 0 did not write {}; all ranks must see the same file", path));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::string text = read_text_file(path);
  ncclUniqueId id{};
  if (text.size() != sizeof id.internal)
    throw Error(ExitCode::environment, fmt::format("{} was not written by rank 0", path));
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

}  // namespace

std::string nccl_version() {
  int version = 0;
  check(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void run_nccl(CudaDevice& device, Communicator& others, const NcclOptions& options,
              const std::function<void(Communicator&)>& body) {
  ncclUniqueId id{};
  if (others.rank() == 0) id = new_id();
  others.broadcast({id.internal, sizeof id.internal, Element::u8}, 0);
  NcclOptions watchful = options;
  watchful.look = [&others] { others.check_ranks(); };
  run_with(
      device, others.rank(), others.size(), id, watchful, [] {}, body);
}

void run_nccl(CudaDevice& device, int rank, int size, const std::string& path,
              const NcclOptions& options, const std::function<void(Communicator&)>& body) {
  ncclUniqueId id{};
  if (rank == 0) {
    id = new_id();
    write_id(id, path);
  } else {
    id = read_id(path, options.timeout);
  }
  // Once all are connected nobody reads the file any more.
  const auto connected = [&] {
    std::error_code ignored;
    if (rank == 0) fs::remove(path, ignored);
  };
  run_with(device, rank, size, id, options, connected, body);
}

}  // namespace engine
