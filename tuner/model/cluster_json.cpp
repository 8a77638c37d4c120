// Reading and writing of machine descriptions.
#include "tuner/model/cluster_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tuner/model/rates.h"
#include "tuner/model/serve_rates.h"

namespace tuner {
namespace {

using engine::IntegerRange;
using engine::Json;
using engine::kPrecisionNames;
using engine::NumberRange;
using engine::ObjectReader;

// What no machine of this decade leaves; a number outside is a slip of unit (80 for 80 GB).
constexpr NumberRange kMemoryBytes{64e6, 1e14};
constexpr NumberRange kBytesPerSecond{1e7, 1e15};
constexpr NumberRange kFlops{1e8, 1e18};
constexpr IntegerRange kMultiprocessors{1, 100'000};
constexpr IntegerRange kGpusPerNode{1, 1024};
constexpr IntegerRange kDomainGpus{1, 4096};
constexpr int kMostRanks = 1 << 20;

const std::vector<std::string> kKinds = {"datasheet", "measured", "assumed"};
const std::vector<std::string> kArchitectures = {"volta",  "ampere",    "ada",
                                                 "hopper", "blackwell", "cpu"};

// Enters {value, kind, source}; a plain number stands for itself.
template <typename Read>
auto sourced(ObjectReader& object, const std::string& key, Read read) {
  if (!object.value(key).is_object()) return read(object, key);
  ObjectReader entry = object.object(key);
  const auto value = read(entry, "value");
  entry.choice("kind", kKinds);
  if (entry.text("source").empty()) entry.problem("source", "must say where the number is from");
  entry.finish();
  return value;
}

double sourced_number(ObjectReader& object, const std::string& key, NumberRange range) {
  return sourced(object, key, [&](ObjectReader& reader, const std::string& name) {
    return reader.number(name, range);
  });
}

int sourced_integer(ObjectReader& object, const std::string& key, IntegerRange range) {
  return static_cast<int>(sourced(object, key, [&](ObjectReader& reader, const std::string& name) {
    return reader.integer(name, range);
  }));
}

void read_peaks(ObjectReader& file, DeviceSpec& device) {
  ObjectReader peaks = file.object("peak_flops");
  bool any = false;
  for (size_t i = 0; i < kPrecisionNames.size(); ++i) {
    const std::string name(kPrecisionNames[i]);
    if (!peaks.has(name)) {
      peaks.value(name);  // known to finish(), although absent
      continue;
    }
    device.peak_flops[i] = sourced_number(peaks, name, kFlops);
    any = true;
  }
  peaks.finish();
  if (!any) file.problem("peak_flops", "must give the dense FLOP/s of at least one precision");
}

BusBandwidth read_bus(ObjectReader& object, const std::string& key, int domain_gpus) {
  BusBandwidth bus;
  ObjectReader table = object.object(key);
  for (const std::string& ranks : table.keys()) {
    int count = 0;
    const auto [end, error] = std::from_chars(ranks.data(), ranks.data() + ranks.size(), count);
    if (error != std::errc{} || end != ranks.data() + ranks.size() || count < 2 ||
        count > kMostRanks)
      table.problem(ranks, "is no number of ranks; write a whole number of at least 2, as \"8\"");
    else
      bus.by_ranks[count] = sourced_number(table, ranks, kBytesPerSecond);
  }
  if (bus.by_ranks.empty() && domain_gpus > 1)
    object.problem(key, "must give the bus bandwidth for at least one number of ranks");
  return bus;
}

Json bus_to_json(const BusBandwidth& bus) {
  Json table = Json::object();
  for (const auto& [ranks, rate] : bus.by_ranks) table[std::to_string(ranks)] = rate;
  return table;
}

}  // namespace

std::map<std::string, double> read_rates(ObjectReader rates, const std::vector<std::string>& known,
                                         const char* of) {
  std::map<std::string, double> values;
  for (const std::string& name : rates.keys()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      rates.problem(name, fmt::format("is no constant {}", of));
    values[name] = sourced_number(rates, name, {});
  }
  return values;
}

DeviceSpec read_device(ObjectReader& file) {
  DeviceSpec device;
  device.name = file.text("name");
  device.title = file.text("title", device.name);
  device.architecture =
      kArchitectures[static_cast<size_t>(file.choice("architecture", kArchitectures))];
  device.memory_bytes = sourced_number(file, "memory_bytes", kMemoryBytes);
  device.memory_bytes_per_second = sourced_number(file, "memory_bytes_per_second", kBytesPerSecond);
  device.multiprocessors = sourced_integer(file, "multiprocessors", kMultiprocessors);
  read_peaks(file, device);
  if (file.has("runtime_bytes")) device.runtime_bytes = sourced_number(file, "runtime_bytes", {});
  device.rates =
      read_rates(file.object("rates"), RatesTable::constant_names(), "of the cost model");
  device.serve_rates = read_rates(file.object("serve_rates"), ServeRatesTable::constant_names(),
                                  "of the serving model");
  device.fingerprint = file.text("fingerprint", "");
  return device;
}

Interconnect read_interconnect(ObjectReader object) {
  Interconnect links;
  links.link = object.text("link");
  links.network = object.text("network", "");
  links.gpus_per_node = static_cast<int>(object.integer("gpus_per_node", kGpusPerNode));
  links.domain_gpus =
      static_cast<int>(object.integer("domain_gpus", kDomainGpus, links.gpus_per_node));
  links.all_reduce = read_bus(object, "all_reduce_bytes_per_second", links.domain_gpus);
  links.shard = read_bus(object, "shard_bytes_per_second", links.domain_gpus);
  if (links.domain_gpus > 1 || object.has("p2p_bytes_per_second"))
    links.p2p_bytes_per_second = sourced_number(object, "p2p_bytes_per_second", kBytesPerSecond);
  links.nic_bytes_per_second = sourced_number(object, "nic_bytes_per_second", {0, 1e15});
  if (links.nic_bytes_per_second > 0 && links.nic_bytes_per_second < kBytesPerSecond.low)
    object.problem("nic_bytes_per_second",
                   "must be 0 (no network) or all NICs of a node in bytes/s, at least 1e7");
  object.finish();
  return links;
}

Json device_to_json(const DeviceSpec& device) {
  Json peaks = Json::object();
  for (size_t i = 0; i < kPrecisionNames.size(); ++i)
    if (device.peak_flops[i] > 0) peaks[std::string(kPrecisionNames[i])] = device.peak_flops[i];
  Json json = {{"name", device.name},
               {"title", device.title},
               {"architecture", device.architecture},
               {"memory_bytes", device.memory_bytes},
               {"memory_bytes_per_second", device.memory_bytes_per_second},
               {"multiprocessors", device.multiprocessors},
               {"peak_flops", peaks}};
  if (device.runtime_bytes >= 0) json["runtime_bytes"] = device.runtime_bytes;
  if (!device.rates.empty()) json["rates"] = device.rates;
  if (!device.serve_rates.empty()) json["serve_rates"] = device.serve_rates;
  if (!device.fingerprint.empty()) json["fingerprint"] = device.fingerprint;
  return json;
}

Json interconnect_to_json(const Interconnect& links) {
  Json json = {{"link", links.link},
               {"network", links.network},
               {"gpus_per_node", links.gpus_per_node},
               {"domain_gpus", links.domain_gpus},
               {"all_reduce_bytes_per_second", bus_to_json(links.all_reduce)},
               {"shard_bytes_per_second", bus_to_json(links.shard)},
               {"nic_bytes_per_second", links.nic_bytes_per_second}};
  if (links.p2p_bytes_per_second > 0) json["p2p_bytes_per_second"] = links.p2p_bytes_per_second;
  return json;
}

}  // namespace tuner
