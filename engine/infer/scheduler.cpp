// Which sequences run in which pass.
#include "engine/infer/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/errors.h"

namespace engine {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), slots_(static_cast<size_t>(options.slots)) {
  for (int64_t page = options.pages; page-- > 0;) free_pages_.push_back(static_cast<int32_t>(page));
}

int64_t Scheduler::pages_of(const Request& request) const {
  const int64_t tokens = static_cast<int64_t>(request.prompt.size()) + request.most_tokens;
  return (tokens + options_.page_tokens - 1) / options_.page_tokens;
}

std::vector<std::string> Scheduler::problems(const Request& request) const {
  std::vector<std::string> problems;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) problems.emplace_back("the prompt is empty; give at least one token");
  if (!request.is_scored() && request.most_tokens < 1)
    problems.emplace_back("at least one token must be generated");
  if (prompt + request.most_tokens > options_.longest)
    problems.push_back(fmt::format(
        "a prompt of {} tokens and {} to generate are longer than the model's limit of {} tokens; "
        "shorten the prompt or generate at most {}",
        prompt, request.most_tokens, options_.longest,
        std::max<int64_t>(0, options_.longest - prompt)));
  else if (pages_of(request) > options_.pages)
    problems.push_back(fmt::format(
        "{} tokens need {} pages of KV cache and there are {}; give the cache at least {} tokens",
        prompt + request.most_tokens, pages_of(request), options_.pages,
        pages_of(request) * options_.page_tokens));
  const SamplingSpec& sampling = request.sampling;
  if (!(sampling.temperature >= 0) || sampling.top_k < 0 || !(sampling.top_p > 0) ||
      sampling.top_p > 1)
    problems.emplace_back("temperature and top-k must be 0 or more, and top-p in (0, 1]");
  return problems;
}

void Scheduler::add(Request request) {
  const auto found = problems(request);
  if (!found.empty()) throw InputError(found);
  expect(!request.is_scored() || request.targets.size() == request.prompt.size(),
         "one target a token");
  waiting_.push_back(std::move(request));
}

std::optional<Progress> Scheduler::cancel(int64_t id) {
  const Progress cancelled{id, {}, Finish::cancelled};
  const auto waiting = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Request& request) { return request.id == id; });
  if (waiting != waiting_.end()) {
    waiting_.erase(waiting);
    return cancelled;
  }
  for (Slot& slot : slots_)
    for (auto sequence = slot.sequences.begin(); sequence != slot.sequences.end(); ++sequence) {
      if (sequence->request.id != id) continue;
      sequence->cancelled = true;
      if (slot.on_its_way) return std::nullopt;
      end(slot, sequence);
      return cancelled;
    }
  return std::nullopt;
}

bool Scheduler::may_admit(const Slot& slot) const {
  if (waiting_.empty() || running_ >= options_.batch) return false;
  if (!options_.continuous && joining_ == 0) return false;
  const int64_t share = (options_.batch + options_.slots - 1) / options_.slots;
  return static_cast<int64_t>(slot.sequences.size()) < share &&
         pages_of(waiting_.front()) <= free_pages();
}

void Scheduler::admit(Slot& slot) {
  Sequence& sequence = slot.sequences.emplace_back();
  sequence.request = std::move(waiting_.front());
  waiting_.pop_front();
  for (int64_t i = pages_of(sequence.request); i-- > 0; free_pages_.pop_back())
    sequence.pages.push_back(free_pages_.back());
  ++running_;
  if (joining_ > 0) --joining_;
}

void Scheduler::end(Slot& slot, std::list<Sequence>::iterator sequence) {
  free_pages_.insert(free_pages_.end(), sequence->pages.rbegin(), sequence->pages.rend());
  slot.sequences.erase(sequence);
  --running_;
}

void Scheduler::append(const Sequence& sequence, StepBatch& batch) {
  const Request& request = sequence.request;
  Segment& segment = batch.segments.emplace_back();
  segment.request = request.id;
  segment.draw = static_cast<int32_t>(sequence.generated);
  segment.is_scored = request.is_scored();
  segment.sampling = request.sampling;
  segment.pages = sequence.pages;
  const size_t first = batch.tokens.size();
  if (sequence.generated == 0) {
    segment.tokens = static_cast<int32_t>(request.prompt.size());
    batch.tokens.insert(batch.tokens.end(), request.prompt.begin(), request.prompt.end());
  } else {
    segment.tokens = 1;
    segment.first_place =
        static_cast<int32_t>(static_cast<int64_t>(request.prompt.size()) + sequence.generated - 1);
    batch.tokens.push_back(sequence.last_token);
  }
  batch.targets.resize(batch.tokens.size(), -1);
  std::copy(request.targets.begin(), request.targets.end(),
            batch.targets.begin() + static_cast<std::ptrdiff_t>(first));
}

std::optional<StepBatch> Scheduler::start(int index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  if (slot.on_its_way) return std::nullopt;
  StepBatch batch;
  for (const Sequence& sequence : slot.sequences) append(sequence, batch);
  if (!options_.continuous && running_ == 0) {
    joining_ = options_.batch;
    joining_slots_ = options_.slots;
  }
  int64_t prompt_tokens = 0;
  while (may_admit(slot)) {
    const auto tokens = static_cast<int64_t>(waiting_.front().prompt.size());
    if (prompt_tokens > 0 && prompt_tokens + tokens > options_.prompt_tokens) break;
    prompt_tokens += tokens;
    admit(slot);
    append(slot.sequences.back(), batch);
  }
  // What did not fit does not join a static batch later.
  if (joining_ > 0 && --joining_slots_ == 0) joining_ = 0;
  if (batch.segments.empty()) return std::nullopt;
  slot.on_its_way = true;
  return batch;
}

std::vector<Progress> Scheduler::finish(int index, const std::vector<Choice>& choices) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.on_its_way = false;
  std::vector<Progress> all;
  size_t next = 0;
  for (auto it = slot.sequences.begin(); it != slot.sequences.end();) {
    const auto sequence = it++;
    const Request& request = sequence->request;
    const auto rows =
        request.is_scored()
            ? static_cast<size_t>(std::count_if(request.targets.begin(), request.targets.end(),
                                                [](int32_t target) { return target >= 0; }))
            : size_t{1};
    expect(next + rows <= choices.size(), "one choice a row");
    Progress progress{request.id,
                      {choices.begin() + static_cast<std::ptrdiff_t>(next),
                       choices.begin() + static_cast<std::ptrdiff_t>(next + rows)},
                      {}};
    next += rows;
    if (sequence->cancelled) {
      progress.choices.clear();
      progress.finish = Finish::cancelled;
    } else if (request.is_scored()) {
      progress.finish = Finish::scored;
    } else {
      sequence->last_token = progress.choices[0].token;
      if (sequence->last_token == request.end_token)
        progress.finish = Finish::end_token;
      else if (++sequence->generated == request.most_tokens)
        progress.finish = Finish::length;
    }
    if (progress.finish) end(slot, sequence);
    all.push_back(std::move(progress));
  }
  return all;
}

}  // namespace engine
