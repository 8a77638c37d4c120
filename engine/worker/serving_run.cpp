// What one rank of a serving job does.
#include "engine/worker/serving_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/base/json_reader.h"
#include "engine/infer/generator.h"
#include "engine/infer/text_requests.h"
#include "engine/infer/text_stream.h"
#include "engine/worker/rank_memory.h"
#include "engine/worker/request_source.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

GeneratorOptions generator_options(const Job& job) {
  const ServingSpec& spec = *job.serving;
  GeneratorOptions options;
  options.model = job.model;
  options.plan = job.plan;
  options.precision = job.workload.precision;
  options.alone = job.is_phantom();
  if (!options.alone) options.checkpoint = job.checkpoint_load;
  options.seed = job.seed;
  options.longest = job.workload.seq;
  options.batch = spec.batch;
  options.continuous = spec.arrival != Arrival::static_batch;
  options.page_tokens = spec.page_tokens;
  options.kv_tokens = spec.kv_tokens;
  // A static batch is one pass, however long its prompts are.
  if (!options.continuous) options.prompt_tokens = int64_t{1} << 40;
  return options;
}

class ServingRun {
 public:
  ServingRun(const Job& job, Device& device, Communicator& ranks, const RankOptions& options)
      : job_(job),
        spec_(*job.serving),
        options_(options),
        device_(&device),
        world_(ranks, Grid(job.plan)) {
    if (job.is_phantom() && !spec_.is_trial())
      throw InputError(
          "a phantom rank has no text to generate; leave out phantom_rank or the requests");
    if (job.memory_limit_bytes > 0)
      device_->set_capacity(static_cast<int64_t>(job.memory_limit_bytes));
    if (!spec_.is_trial()) {
      tokenizer_ = make_tokenizer(spec_.tokenizer);
      prompts_ = PromptTable(spec_.prompt_files, job.model.hidden);
    }
  }

  Outcome run() {
    Generator generator(*device_, world_, generator_options(job_));
    generator.set_virtual_tokens(prompts_.rows());
    if (generator.leads()) {
      tell("start", {{"model", job_.model.name},
                     {"plan", describe(job_.plan)},
                     {"phantom_rank", job_.phantom_rank},
                     {"device", device_->description()}});
      lead(generator);
      generator.close();
    } else {
      generator.follow();
    }
    return report(generator.leads());
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  int replica() const { return world_.coordinate(Axis::data); }
  bool stops() const { return options_.stop != nullptr && *options_.stop; }
  void tell(const std::string& name, const Json& fields) {
    if (options_.events != nullptr) options_.events->write(name, fields);
  }

  RequestSource make_source() {
    if (spec_.is_trial()) return RequestSource(job_, replica(), job_.steps);
    const TextLimits limits{job_.model.vocab, job_.workload.seq, job_.seed};
    std::vector<Request> all;
    if (spec_.evaluation == Evaluation::none) {
      all = read_requests(spec_, limits, *tokenizer_, prompts_);
    } else {
      evaluation_ = read_evaluation(spec_, limits, *tokenizer_, prompts_);
      all = evaluation_.requests;
    }
    std::vector<Request> own;
    for (size_t i = 0; i < all.size(); ++i) {
      // All choices of an example go to one replica.
      const int64_t number =
          evaluation_.items.empty() ? static_cast<int64_t>(i) : evaluation_.items[i].example;
      if (number % job_.plan.dp == replica()) own.push_back(std::move(all[i]));
    }
    return RequestSource(std::move(own));
  }

  void check(const Scheduler& scheduler, const std::vector<Request>& requests) const {
    std::vector<std::string> problems;
    for (const Request& request : requests)
      for (const std::string& problem : scheduler.problems(request))
        if (problems.size() < 5)
          problems.push_back(spec_.is_trial() ? problem
                                              : fmt::format("request {}: {}", request.id, problem));
    if (!problems.empty()) throw InputError(problems);
  }

  void lead(Generator& generator) {
    Scheduler& scheduler = generator.scheduler();
    RequestSource source = make_source();
    world_.data().barrier();
    start_ = Clock::now();
    while (true) {
      const bool may_begin = source.waits_for_groups() && scheduler.is_idle();
      // Replicas begin a batch, or stop, together.
      if (may_begin && !source.is_exhausted()) {
        stopping_ = agree_to_stop();
        // What is counted is that of one batch, whatever their number.
        device_->meter().restart_flops();
        world_.meter().reset();
      } else if (!source.waits_for_groups()) {
        stopping_ = stops();
      }
      if (stopping_) {
        cancel_all(scheduler);
      } else {
        auto requests = source.arrived(now(), may_begin);
        check(scheduler, requests);
        for (Request& request : requests) add(scheduler, std::move(request));
      }
      const std::vector<Progress> all = generator.step();
      for (const Progress& progress : all) take(source, progress);
      tell_steps(source);
      if (!all.empty()) continue;
      if (stopping_ || source.is_exhausted()) break;
      const double next = source.next_arrival();
      // In short sleeps: a signal shall be noticed.
      if (next > now())
        std::this_thread::sleep_for(std::chrono::duration<double>(std::min(next - now(), 0.05)));
    }
    seconds_ = now();
    times_ = source.times();
    steps_done_ = static_cast<int64_t>(times_.size()) / std::max<int64_t>(1, source.group());
    group_ = source.group();
  }

  bool agree_to_stop() {
    std::vector<int32_t> asked = {stops() ? 1 : 0};
    world_.data().all_reduce(asked, Reduction::max);
    return asked[0] != 0;
  }

  void add(Scheduler& scheduler, Request request) {
    if (tokenizer_ && !request.is_scored())
      streams_.emplace(request.id, Stream{TextStream(*tokenizer_), request.prompt.size()});
    running_.push_back(request.id);
    scheduler.add(std::move(request));
  }

  void cancel_all(Scheduler& scheduler) {
    for (const int64_t id : std::exchange(running_, {}))
      if (const auto progress = scheduler.cancel(id)) tell_text(*progress);
  }

  void take(RequestSource& source, const Progress& progress) {
    source.progressed(progress, now());
    if (progress.finish == Finish::scored) scores_[progress.request] = progress.choices;
    tell_text(progress);
    if (progress.finish)
      running_.erase(std::find(running_.begin(), running_.end(), progress.request), running_.end());
  }

  void tell_text(const Progress& progress) {
    const auto found = streams_.find(progress.request);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    std::string text;
    for (const Choice& choice : progress.choices) {
      text += stream.text.add(choice.token);
      ++stream.tokens;
    }
    if (progress.finish) text += stream.text.finish();
    if (!text.empty()) tell("token", {{"request", progress.request}, {"text", text}});
    if (!progress.finish) return;
    tell("finished", {{"request", progress.request},
                      {"finish", name_of(*progress.finish)},
                      {"prompt_tokens", stream.prompt_tokens},
                      {"tokens", stream.tokens},
                      {"seconds", now()}});
    streams_.erase(found);
  }

  // Each whole group of requests is a step; its sample the latency of its slowest request in a
  // static batch, else the mean.
  double sample_of(const std::vector<RequestTimes>& times, int64_t group, int64_t step) const {
    double slowest = 0, sum = 0;
    for (int64_t i = step * group; i < (step + 1) * group; ++i) {
      slowest = std::max(slowest, times[static_cast<size_t>(i)].latency_seconds);
      sum += times[static_cast<size_t>(i)].latency_seconds;
    }
    return spec_.arrival == Arrival::static_batch ? slowest : sum / static_cast<double>(group);
  }

  void tell_steps(const RequestSource& source) {
    if (!spec_.is_trial() || (replica() != 0 && !job_.is_phantom())) return;
    for (; (told_steps_ + 1) * source.group() <= static_cast<int64_t>(source.times().size());
         ++told_steps_)
      tell("step", {{"step", told_steps_},
                    {"seconds", sample_of(source.times(), source.group(), told_steps_)}});
  }

  // Of all replicas, on rank 0, one behind the other; equal numbers of requests in trials.
  std::vector<std::vector<RequestTimes>> gather_times() {
    constexpr int64_t kValues = 3;
    static_assert(sizeof(RequestTimes) == kValues * sizeof(double));
    Communicator& replicas = world_.data();
    std::vector<int32_t> counts(static_cast<size_t>(replicas.size()));
    const std::vector<int32_t> own = {static_cast<int32_t>(times_.size())};
    replicas.all_gather(own, counts);
    const size_t most = static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
    times_.resize(most);
    std::vector<RequestTimes> whole(most * counts.size());
    const auto values = static_cast<int64_t>(most) * kValues;
    replicas.all_gather({times_.data(), values, Element::f64},
                        {whole.data(), values * replicas.size(), Element::f64});
    std::vector<std::vector<RequestTimes>> lists;
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto first = whole.begin() + static_cast<std::ptrdiff_t>(i * most);
      lists.emplace_back(first, first + counts[i]);
    }
    return lists;
  }

  // The complete Outcome on rank 0, or on the one that is no phantom.
  Outcome report(bool leads) {
    Outcome outcome;
    outcome.measured = true;
    outcome.fits = true;
    outcome.matmul_flops_per_rank = device_->meter().matmul_flops();
    outcome.traffic = world_.meter().traffic();
    outcome.memory = gather_memory(world_, *device_, options_.ranks_in_process, job_.is_phantom());
    ServingOutcome& serving = outcome.serving.emplace();
    if (leads) {
      add_times(outcome, serving);
      add_scores(serving);
    }
    if (stopping_) throw Interrupted();
    if (world_.rank() != 0 && !job_.is_phantom()) return {};
    return outcome;
  }

  void add_times(Outcome& outcome, ServingOutcome& serving) {
    const auto lists = gather_times();
    std::vector<double> latency, ttft, tpot;
    double tokens = 0;
    const int64_t dropped = spec_.is_trial() ? job_.warmup_steps * group_ : 0;
    for (const auto& list : lists)
      for (size_t i = static_cast<size_t>(dropped); i < list.size(); ++i) {
        latency.push_back(list[i].latency_seconds);
        ttft.push_back(list[i].ttft_seconds);
        if (list[i].tokens > 1) tpot.push_back(list[i].tpot_seconds());
        tokens += list[i].tokens;
      }
    serving.requests = static_cast<int64_t>(latency.size());
    for (int64_t step = job_.warmup_steps; spec_.is_trial() && step < steps_done_; ++step) {
      double sample = 0;  // static replicas wait for the slowest
      for (const auto& list : lists) {
        const double one = sample_of(list, group_, step);
        if (spec_.arrival == Arrival::static_batch)
          sample = std::max(sample, one);
        else
          sample += one / static_cast<double>(lists.size());
      }
      outcome.samples_seconds.push_back(sample);
    }
    outcome.step_seconds =
        spread_of(outcome.samples_seconds.empty() ? std::vector{seconds_} : outcome.samples_seconds)
            .p50;
    outcome.interval_seconds = {outcome.step_seconds, outcome.step_seconds};
    serving.latency_seconds = spread_of(std::move(latency));
    serving.ttft_seconds = spread_of(std::move(ttft));
    serving.tpot_seconds = spread_of(std::move(tpot));
    // Of a static batch: what its typical step yields; else of the whole time, warm-up included.
    const double all = static_cast<double>(spec_.batch * job_.plan.dp * spec_.output);
    serving.tokens_per_second = spec_.is_trial() && spec_.arrival == Arrival::static_batch
                                    ? all / outcome.step_seconds
                                    : total_tokens(lists) / seconds_;
    outcome.tokens_per_second_per_gpu = serving.tokens_per_second / job_.plan.world();
  }

  static double total_tokens(const std::vector<std::vector<RequestTimes>>& lists) {
    double tokens = 0;
    for (const auto& list : lists)
      for (const RequestTimes& times : list) tokens += times.tokens;
    return tokens;
  }

  void add_scores(ServingOutcome& serving) {
    if (spec_.evaluation == Evaluation::none) return;
    const EvaluationSums own = sum_up(evaluation_, scores_);
    std::vector<double> sums = {own.loss, own.tokens, own.right, own.examples};
    world_.data().all_reduce(sums);
    serving.scored_tokens = std::llround(sums[1]);
    serving.perplexity = std::exp(sums[0] / std::max(1.0, sums[1]));
    serving.examples = std::llround(sums[3]);
    serving.accuracy = sums[3] > 0 ? sums[2] / sums[3] : 0;
  }

  struct Stream {
    TextStream text;
    size_t prompt_tokens = 0;
    int64_t tokens = 0;
  };
  const Job& job_;
  const ServingSpec& spec_;
  const RankOptions& options_;
  Device* device_;
  World world_;
  std::unique_ptr<Tokenizer> tokenizer_;
  PromptTable prompts_;
  EvaluationSet evaluation_;
  Clock::time_point start_ = Clock::now();
  double seconds_ = 0;
  bool stopping_ = false;
  std::map<int64_t, Stream> streams_;
  std::vector<int64_t> running_;
  std::map<int64_t, std::vector<Choice>> scores_;
  std::vector<RequestTimes> times_;
  int64_t told_steps_ = 0, steps_done_ = 0, group_ = 1;
};

}  // namespace

Outcome run_serving_rank(const Job& job, Device& device, Communicator& ranks,
                         const RankOptions& options) {
  return ServingRun(job, device, ranks, options).run();
}

}  // namespace engine
