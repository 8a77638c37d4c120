// The rules that Megatron-LM demands of its arguments, checked on the written line alone: shares no
// code with the program. The numbers are those of the list in the project's notes on formats.
#pragma once
#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace megatron_rules {

struct Line {
  std::map<std::string, std::string> values;  // a flag without a value has an empty one
  bool has(const std::string& flag) const { return values.count(flag) != 0; }
  long number(const std::string& flag, long fallback) const {
    const auto found = values.find(flag);
    return found == values.end() ? fallback : std::stol(found->second);
  }
  std::string text(const std::string& flag) const {
    const auto found = values.find(flag);
    return found == values.end() ? "" : found->second;
  }
};

// The words between the launcher and "$@".
inline Line line_of(const std::string& script) {
  Line line;
  std::istringstream words(script.substr(script.find("torchrun ")));
  std::string word, flag;
  while (words >> word && word != "\"$@\"") {
    if (word == "\\") continue;
    if (word.front() == '\'' && word.back() == '\'') word = word.substr(1, word.size() - 2);
    if (word.rfind("--", 0) == 0)
      line.values[flag = word];
    else if (!flag.empty())
      line.values[flag] += (line.values[flag].empty() ? "" : " ") + word;
  }
  return line;
}

// Letters of each chunk of a layout, as Megatron's own unrolling gives them.
inline std::vector<std::string> chunks_of(std::string layout) {
  for (const char* pattern : {R"(\(([^)]+)\)\*(\d+))", R"((.)\*(\d+))"}) {
    const std::regex regex(pattern);
    for (std::smatch match; std::regex_search(layout, match, regex);) {
      std::string unrolled;
      for (int i = 0; i < std::stoi(match[2]); ++i) unrolled += match[1];
      layout = match.prefix().str() + unrolled + match.suffix().str();
    }
  }
  std::vector<std::string> chunks;
  std::istringstream stream(layout);
  for (std::string chunk; std::getline(stream, chunk, '|');) chunks.push_back(chunk);
  return chunks;
}

// The numbers of the rules that the line breaks; `script` holds the environment, too.
inline std::set<int> broken_rules(const std::string& script) {
  const Line line = line_of(script);
  std::set<int> broken;
  const auto demand = [&](int rule, bool holds) {
    if (!holds) broken.insert(rule);
  };
  const auto n = [&](const char* flag, long fallback = 1) { return line.number(flag, fallback); };
  const long world = n("--nnodes") * n("--nproc-per-node");
  const long tp = n("--tensor-model-parallel-size"), pp = n("--pipeline-model-parallel-size");
  const long cp = n("--context-parallel-size"), ep = n("--expert-model-parallel-size");
  const long heads = n("--num-attention-heads"), groups = n("--num-query-groups", heads);
  const long layers = n("--num-layers"), seq = n("--seq-length");
  const long mbs = n("--micro-batch-size"), gbs = n("--global-batch-size");
  const bool sp = line.has("--sequence-parallel");
  demand(1, world % (tp * pp * cp) == 0);
  const long dp = world / (tp * pp * cp);
  demand(2, heads % tp == 0);
  demand(3, groups % tp == 0 || tp % groups == 0);
  demand(3, groups == heads || line.has("--group-query-attention"));
  demand(4, gbs % (mbs * dp) == 0);
  demand(5, cp == 1 || seq % (2 * cp) == 0);
  demand(5, !sp || seq % tp == 0);
  demand(5, !sp || cp == 1 || seq % (cp * std::lcm(2L, tp)) == 0);

  const long first = n("--decoder-first-pipeline-num-layers", 0);
  const long last = n("--decoder-last-pipeline-num-layers", 0);
  const std::string layout = line.text("--pipeline-model-parallel-layout");
  const long counted = layers + line.has("--account-for-embedding-in-pipeline-split") +
                       line.has("--account-for-loss-in-pipeline-split");
  long vpp = n("--num-virtual-stages-per-pipeline-rank");
  long longest = 0;
  if (!layout.empty()) {
    const auto chunks = chunks_of(layout);
    demand(6, chunks.size() % static_cast<size_t>(pp) == 0);
    vpp = static_cast<long>(chunks.size()) / pp;
    long placed = 0;
    for (const std::string& chunk : chunks) {
      const long here = std::count(chunk.begin(), chunk.end(), 't');
      placed += here;
      longest = std::max(longest, here);
      demand(6, chunk.find_first_not_of("EtL") == std::string::npos);
    }
    demand(6, placed == layers && chunks.front()[0] == 'E' && chunks.back().back() == 'L');
  } else if (first + last > 0) {
    const long inner = pp - (first > 0) - (last > 0), rest = layers - first - last;
    demand(6, inner == 0 ? rest == 0 : rest > 0 && rest % inner == 0);
    longest = std::max({first, last, inner == 0 ? 0 : rest / inner});
  } else {
    demand(6, counted % pp == 0);
    longest = counted / pp;
    if (line.has("--num-layers-per-virtual-pipeline-stage")) {
      demand(7, longest % n("--num-layers-per-virtual-pipeline-stage") == 0);
      vpp = longest / n("--num-layers-per-virtual-pipeline-stage");
    }
    demand(7, longest % vpp == 0);
    longest /= vpp;
  }
  demand(7, line.has("--num-layers-per-virtual-pipeline-stage") +
                    line.has("--num-virtual-stages-per-pipeline-rank") + !layout.empty() <=
                1);
  demand(7, vpp == 1 || pp > (line.has("--no-overlap-p2p-communication") ? 2 : 1));
  const long micro = gbs / (mbs * dp);
  const long group = n("--microbatch-group-size-per-virtual-pipeline-stage", pp);
  // A partial last group of fewer micro-batches than stages stalls the schedule.
  demand(8, vpp == 1 || (group >= pp && (micro % group == 0 || micro % group >= pp)));

  const std::string granularity = line.text("--recompute-granularity");
  const bool method = line.has("--recompute-method"), number = line.has("--recompute-num-layers");
  demand(9, granularity != "full" || (method && number && n("--recompute-num-layers") >= 1 &&
                                      n("--recompute-num-layers") <= longest));
  demand(9, granularity == "full" || (!method && !number));
  demand(10,
         !line.has("--distribute-saved-activations") || (tp > 1 && granularity == "full" && !sp));
  demand(11, !sp || tp > 1);
  demand(12, !line.has("--tp-comm-overlap") || sp);
  demand(13, !line.has("--num-experts") || tp == 1 || sp);
  demand(14, ep == 1 || (n("--num-experts") % ep == 0 && world % (ep * pp) == 0));
  demand(15, !line.has("--cpu-offloading") || (pp == 1 && granularity.empty()));
  // The padding of the vocabulary is Megatron's: nothing may switch it off, and the size is there.
  demand(16, n("--vocab-size", 0) > 0 && n("--make-vocab-size-divisible-by", 128) == 128);
  demand(17, n("--max-position-embeddings") >= seq);

  const bool fsdp = line.has("--use-megatron-fsdp");
  const bool one = script.find("export CUDA_DEVICE_MAX_CONNECTIONS=1\n") != std::string::npos;
  demand(18, !(fsdp && one));
  demand(18, !fsdp || line.text("--ckpt-format") == "fsdp_dtensor");
  demand(18, !line.has("--overlap-param-gather") ||
                 (line.has("--overlap-grad-reduce") && line.has("--use-distributed-optimizer")));
  return broken;
}

}  // namespace megatron_rules
