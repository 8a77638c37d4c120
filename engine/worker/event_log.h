// EventLog: what happens during a run, as lines of JSON that are there at once.
#pragma once
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace engine {

class EventLog {
 public:
  EventLog() = default;
  // Appends to the file; an empty path writes nothing. Throws Error (storage).
  explicit EventLog(const std::string& path);
  ~EventLog();
  EventLog(EventLog&& other) noexcept : file_(other.file_) { other.file_ = nullptr; }
  EventLog& operator=(EventLog&&) = delete;

  // One line {"event": name, …fields}.
  void write(const std::string& name, const nlohmann::json& fields);

 private:
  std::FILE* file_ = nullptr;
};

}  // namespace engine
