// Messages on their way from one thread rank to another.
#pragma once
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/comm/local_run.h"
#include "engine/comm/rank_memory.h"

namespace engine {

class LocalMailbox {
 public:
  // Copies the data, straight to the receiver if it waits already.
  void send(ConstPayload data, const RankMemory& memory);
  // Sleeps as `rank` of `run` until a message is there. Throws std::logic_error if it has another
  // size or type.
  void receive(Payload data, const RankMemory& memory, LocalRun& run, int rank);

 private:
  struct Message {
    std::vector<std::byte> bytes;
    int64_t count;
    Element element;
  };
  std::mutex mutex_;
  std::list<Message> arrived_;
  // Emptied messages, kept because fresh memory costs more than the copy.
  std::list<Message> spare_;
  std::optional<Payload> waiting_;
};

}  // namespace engine
