// What happens during a run, as lines of JSON.
#include "engine/worker/event_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace engine {

EventLog::EventLog(const std::string& path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr)
    throw Error(ExitCode::storage, fmt::format("cannot write {}: {}; choose another events_path",
                                               path, std::strerror(errno)));
}

EventLog::~EventLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void EventLog::write(const std::string& name, const nlohmann::json& fields) {
  if (file_ == nullptr) return;
  nlohmann::json line = {{"event", name}};
  line.update(fields);
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

}  // namespace engine
