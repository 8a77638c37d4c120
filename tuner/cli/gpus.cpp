// autotune gpus: the GPUs and systems that are known by name, and the numbers of one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/model/cluster_spec.h"

namespace tuner {
namespace {

std::string tera(double flops) { return flops > 0 ? fmt::format("{:.5g}", flops / 1e12) : "-"; }

std::string list_gpus(bool json) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : cluster_names()) {
    const ClusterSpec cluster = find_cluster(name, 1);
    const DeviceSpec& device = cluster.device;
    if (json) {
      list.push_back({{"name", name}, {"cluster", cluster_to_json(cluster)}});
    } else {
      rows.push_back({name, fmt::format("{:.1f}", device.memory_bytes / engine::kGiB),
                      fmt::format("{:.0f}", device.memory_bytes_per_second / 1e9),
                      tera(device.peak(engine::Precision::fp16)),
                      tera(device.peak(engine::Precision::bf16)),
                      tera(device.peak(engine::Precision::fp8)),
                      std::to_string(cluster.gpus_per_node()), cluster.interconnect.link});
    }
  }
  if (json)
    return json_text(nlohmann::ordered_json{{"schema", "autotune.gpus/1"}, {"gpus", list}}) + "\n";
  return format_table({"NAME", "GiB", "GB/s", "FP16", "BF16", "FP8", "PER NODE", "LINK"}, rows,
                      output_width()) +
         "FP16, BF16, FP8: dense TFLOP/s of the datasheet.\n";
}

std::string rates(const BusBandwidth& bandwidth) {
  std::string text;
  for (const auto& [ranks, bytes_per_second] : bandwidth.by_ranks)
    text +=
        fmt::format("{}{:.0f} with {}", text.empty() ? "" : ", ", bytes_per_second / 1e9, ranks);
  return text + " GPUs (bus bandwidth, GB/s)";
}

std::string show_gpu(const std::string& name, bool json) {
  const ClusterSpec cluster = find_cluster(name, 1);
  if (json)
    return json_text(nlohmann::ordered_json{{"schema", "autotune.gpu/1"},
                                            {"name", name},
                                            {"cluster", cluster_to_json(cluster)}}) +
           "\n";
  const DeviceSpec& device = cluster.device;
  const Interconnect& links = cluster.interconnect;
  std::string shown =
      fmt::format("{}: {} in {} (from {})\n", name, device.title,
                  cluster.system.empty() ? "any machine" : cluster.system, cluster.origin);
  const auto line = [&shown](std::string_view label, const std::string& value) {
    shown += fmt::format("  {:<13} {}\n", label, value);
  };
  line("memory", fmt::format("{}, {:.0f} GB/s", engine::format_bytes(device.memory_bytes),
                             device.memory_bytes_per_second / 1e9));
  for (size_t i = 0; i < engine::kPrecisionNames.size(); ++i)
    if (device.peak_flops[i] > 0)
      line(engine::kPrecisionNames[i], tera(device.peak_flops[i]) + " TFLOP/s, dense, datasheet");
  line("node", fmt::format("{} GPUs, {} reach each other over {}", links.gpus_per_node,
                           links.domain_gpus, links.link));
  if (!links.all_reduce.by_ranks.empty()) line("all-reduce", rates(links.all_reduce));
  if (links.nic_bytes_per_second > 0)
    line("network", fmt::format("{}; {:.0f} GB/s a node and direction", links.network,
                                links.nic_bytes_per_second / 1e9));
  return shown;
}

int run_gpus(const Arguments& arguments) {
  const auto name = arguments.text("NAME");
  const bool json = arguments.flag("--json");
  print_result(name ? show_gpu(*name, json) : list_gpus(json));
  return 0;
}

}  // namespace

Command gpus_command() {
  return {.words = "gpus",
          .summary = "List the known GPUs and systems, or show one",
          .description = "NAME is a GPU or system of the list, or the path of a file of your own.",
          .examples = {{"gpus", "All GPUs and systems"},
                       {"gpus a100-80gb", "The numbers of one"},
                       {"gpus h100-80gb --json", "The same as JSON"}},
          .options = {json_option()},
          .positionals = {{.name = "NAME",
                           .kind = ValueKind::text,
                           .help = "A GPU, a system or a file",
                           .suggest = cluster_names}},
          .run = run_gpus};
}

}  // namespace tuner
