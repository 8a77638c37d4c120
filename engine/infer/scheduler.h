// Scheduler: which sequences run in which pass, and which pages of the KV cache are theirs.
#pragma once
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/infer/step_batch.h"

namespace engine {

struct Request {
  int64_t id = 0;               // distinct among those that are not finished
  std::vector<int32_t> prompt;  // as StepBatch::tokens
  // With targets (one a token of the prompt) they are scored and nothing is generated.
  std::vector<int32_t> targets;
  int64_t most_tokens = 0;  // to generate
  int32_t end_token = -1;   // ends the generation when chosen
  SamplingSpec sampling;

  bool is_scored() const { return !targets.empty(); }
};

enum class Finish : uint8_t { length, end_token, scored, cancelled };
constexpr std::string_view name_of(Finish finish) {
  constexpr std::string_view kNames[] = {"length", "end", "scored", "cancelled"};
  return kNames[static_cast<size_t>(finish)];
}

// What a pass brought a request.
struct Progress {
  int64_t request = 0;
  std::vector<Choice> choices;  // one generated token, or one choice a target
  std::optional<Finish> finish;
};

struct SchedulerOptions {
  int64_t batch = 1;       // sequences in flight, at most
  int slots = 1;           // batches on their way at once: the pipeline's stages
  bool continuous = true;  // sequences join and leave; else a batch begins and ends together
  int64_t longest = 0;     // tokens of a sequence that the model has places for
  int64_t page_tokens = 16;
  int64_t pages = 0;  // of the KV cache
  // Prompt tokens of a pass, at most, if it has more than one prompt.
  int64_t prompt_tokens = 8192;
};

// A request gets all pages it may need when it is admitted, in the order of arrival, so none is
// ever put back.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // Why a request can never run, one sentence each.
  std::vector<std::string> problems(const Request& request) const;
  // Throws InputError with its problems.
  void add(Request request);
  // What runs ends without its next token. Nothing happens when it is finished. The progress says
  // so at once, or comes with finish() of a pass on its way.
  std::optional<Progress> cancel(int64_t request);

  // The next batch of a slot; nothing when it has nothing to do, or one on its way.
  std::optional<StepBatch> start(int slot);
  // The results of the slot's batch, one choice a row.
  std::vector<Progress> finish(int slot, const std::vector<Choice>& choices);

  bool is_idle() const { return waiting_.empty() && running_ == 0; }
  int64_t running() const { return running_; }
  int64_t free_pages() const { return static_cast<int64_t>(free_pages_.size()); }

 private:
  struct Sequence {
    Request request;
    std::vector<int32_t> pages;
    int64_t generated = 0;
    int32_t last_token = 0;
    bool cancelled = false;
  };
  struct Slot {
    std::list<Sequence> sequences;
    bool on_its_way = false;
  };
  int64_t pages_of(const Request& request) const;
  bool may_admit(const Slot& slot) const;
  void admit(Slot& slot);
  void end(Slot& slot, std::list<Sequence>::iterator sequence);
  static void append(const Sequence& sequence, StepBatch& batch);

  SchedulerOptions options_;
  std::deque<Request> waiting_;
  std::vector<Slot> slots_;
  std::vector<int32_t> free_pages_;  // the next one last
  int64_t running_ = 0;
  // Sequences that may still join the static batch, and slots that have not been asked.
  int64_t joining_ = 0;
  int joining_slots_ = 0;
};

}  // namespace engine
