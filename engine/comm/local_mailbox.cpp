// Messages on their way from one thread rank to another.
#include "engine/comm/local_mailbox.h"

#include <fmt/format.h>

namespace engine {
namespace {

void check_equal(int64_t count, Element element, const Payload& into) {
  if (count == into.count && element == into.element) return;
  throw std::logic_error(fmt::format("a rank waits for a message of {} {} and is sent {} {}",
                                     into.count, name_of(into.element), count, name_of(element)));
}

}  // namespace

void LocalMailbox::send(ConstPayload data, const RankMemory& memory) {
  const std::scoped_lock lock(mutex_);
  if (waiting_) {
    check_equal(data.count, data.element, *waiting_);
    memory.copy(waiting_->data, data.data, data.bytes());
    waiting_.reset();
    return;
  }
  if (spare_.empty()) spare_.emplace_back();
  Message& message = spare_.front();
  message.bytes.resize(static_cast<size_t>(data.bytes()));
  memory.copy(message.bytes.data(), data.data, data.bytes());
  message.count = data.count;
  message.element = data.element;
  arrived_.splice(arrived_.end(), spare_, spare_.begin());
}

void LocalMailbox::receive(Payload data, const RankMemory& memory, LocalRun& run, int rank) {
  {
    const std::scoped_lock lock(mutex_);
    if (!arrived_.empty()) {
      const Message& message = arrived_.front();
      check_equal(message.count, message.element, data);
      memory.copy(data.data, message.bytes.data(), data.bytes());
      spare_.splice(spare_.end(), arrived_, arrived_.begin());
      return;
    }
    waiting_ = data;
  }
  try {
    run.sleep_until(rank, [&] {
      const std::scoped_lock lock(mutex_);
      return !waiting_;
    });
  } catch (...) {
    // A late sender must not write into memory that is about to go.
    const std::scoped_lock lock(mutex_);
    waiting_.reset();
    throw;
  }
}

}  // namespace engine
