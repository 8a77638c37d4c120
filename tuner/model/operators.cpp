// Time of single operators.
#include "tuner/model/operators.h"

#include <algorithm>
#include <cmath>

#include "engine/plan/grid.h"

namespace tuner {
namespace {

using engine::Precision;

struct Tile {
  double rows, columns, rate;  // rate: of this tile over the best
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.92},
                           {64, 128, 0.8},  {128, 64, 0.8},  {64, 64, 0.65}};

// The area a device computes for an [m, n] result: whole tiles, and a share of the idle places of
// the last wave; by the best tile shape, scaled by its rate.
double computed_area(double m, double n, double wave_share, double places) {
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double waves = std::ceil(tiles / places) * places;
    const double area =
        ((1 - wave_share) * tiles + wave_share * waves) * tile.rows * tile.columns / tile.rate;
    if (best == 0 || area < best) best = area;
  }
  return best;
}

// Date of the newest software with published runs: what is not dated counts as this, and later
// releases are not credited with gains nobody has seen.
constexpr double kNewestYear = 2026.5;

double bytes_of(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return 4;
    case Precision::fp8:
    case Precision::mxfp8:
      return 1;
    case Precision::nvfp4:
      return 0.5;
    default:
      return 2;
  }
}

}  // namespace

double smooth_max(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

Operators::Operators(const Scenario& scenario) : scenario_(&scenario) {
  const DeviceSpec& device = scenario.cluster.device;
  const Precision precision = scenario.workload.precision;
  peak_ = device.peak(precision);
  const bool low = precision >= Precision::fp8;
  storage_peak_ = low ? device.peak(Precision::bf16) : peak_;
  memory_rate_ = device.memory_bytes_per_second;
  if (device.is_cpu()) {
    // Rates of a CPU are those of one core, and a rank computes on all that the others leave it.
    const int ranks_here =
        std::min(scenario.cluster.gpus, std::max(1, scenario.cluster.gpus_per_node()));
    const int cores = std::max(1, device.multiprocessors / ranks_here);
    peak_ *= cores;
    storage_peak_ *= cores;
    memory_rate_ *= cores;
  }
  storage_ = engine::storage_bytes(precision);
  product_ = bytes_of(precision);
  const double year =
      std::min(scenario.software_year > 0 ? scenario.software_year : kNewestYear, kNewestYear);
  const Rates& rates = scenario.rates;
  const double age = std::max(0.0, year - rates.software_launch_year);
  const double immature = std::exp(-age / rates.software_maturing_years);
  software_factor_ = std::exp(rates.software_immaturity * immature);
  flash_factor_ = std::exp(rates.flash_immaturity * immature);
}

double Operators::gemm(double m, double n, double k, bool low_precision) const {
  const Rates& rates = scenario_->rates;
  const double input_bytes = low_precision ? product_ : storage_;
  const double peak = low_precision ? peak_ : storage_peak_;
  const double area =
      scenario_->cluster.device.is_cpu()
          ? m * n
          : computed_area(m, n, rates.gemm_wave_share, scenario_->cluster.device.multiprocessors);
  const double arithmetic = 2 * area * (k + rates.gemm_k_offset) / (peak * rates.gemm_efficiency);
  const double traffic = (input_bytes * (m * k + n * k) + storage_ * m * n) /
                         (memory_rate_ * rates.gemm_bandwidth_share);
  const double factor = rates.gemm_training_factor * rates.gemm_stack_factor * software_factor_ *
                        (low_precision ? rates.gemm_precision_factor : 1);
  return (smooth_max(arithmetic, traffic) + rates.gemm_start_seconds) * factor;
}

double Operators::attention_forward(double mbs, double queries, double width) const {
  const Rates& rates = scenario_->rates;
  const engine::Workload& work = scenario_->workload;
  const double seq = static_cast<double>(work.seq);
  const double square_flops = 4 * mbs * queries * seq * width;
  if (work.attention == engine::AttentionKind::flash)
    return 0.5 * square_flops * flash_factor_ /
           (rates.flash_efficiency * rates.flash_stack_factor * storage_peak_);
  const double misaligned = scenario_->model.head_dim % 8 != 0 ? rates.misaligned_factor : 1;
  const double heads = width / static_cast<double>(scenario_->model.head_dim);
  const double scores = mbs * heads * queries * seq;
  return square_flops / (rates.score_efficiency * storage_peak_) * misaligned +
         memory(rates.score_bytes * storage_ / 2 * scores);
}

double Operators::attention_backward_factor() const {
  return scenario_->workload.attention == engine::AttentionKind::flash
             ? scenario_->rates.flash_backward_factor
             : 2;
}

double Operators::port() const {
  const Interconnect& link = scenario_->cluster.interconnect;
  return link.nic_bytes_per_second / link.gpus_per_node;
}

double Operators::tensor_pass(int ranks, const BusBandwidth& table) const {
  const Rates& rates = scenario_->rates;
  const int together = std::min(ranks, scenario_->cluster.interconnect.domain_gpus);
  const double inside =
      together > 1 ? (together - 1.0) / together / (table.at(together) * rates.tensor_bus_factor)
                   : 0;
  const double domains = std::ceil(static_cast<double>(ranks) / together);
  const double between =
      (domains - 1) / domains / (together * port() * rates.tensor_network_efficiency);
  return domains > 1 ? std::max(inside, between) : inside;
}

double Operators::tensor_start(int ranks) const {
  // Threads of one host meet at once, others in rounds.
  if (scenario_->cluster.device.is_cpu()) return scenario_->rates.tensor_start_seconds;
  const double between = ranks > scenario_->cluster.interconnect.domain_gpus
                             ? scenario_->rates.tensor_network_start_seconds
                             : 0;
  return scenario_->rates.tensor_start_seconds * std::log2(ranks) / 3 + between;
}

double Operators::tensor_all_reduce(int ranks, double bytes) const {
  if (ranks == 1) return 0;
  return 2 * bytes * tensor_pass(ranks, scenario_->cluster.interconnect.all_reduce) +
         tensor_start(ranks);
}

double Operators::tensor_shard(int ranks, double bytes) const {
  if (ranks == 1) return 0;
  return bytes * tensor_pass(ranks, scenario_->cluster.interconnect.shard) +
         tensor_start(ranks) * scenario_->rates.tensor_start_sharded_factor / 2;
}

double Operators::pipeline_message(double bytes, int distance) const {
  const Interconnect& link = scenario_->cluster.interconnect;
  const Rates& rates = scenario_->rates;
  const bool inside = distance < link.domain_gpus;
  const double rate = inside ? link.p2p_bytes_per_second : port() * rates.pipeline_network_factor;
  return bytes / rate + rates.pipeline_message_seconds;
}

double Operators::data_pass(int members, int spacing, double bytes) const {
  const Interconnect& link = scenario_->cluster.interconnect;
  const int together = std::clamp(link.domain_gpus / spacing, 1, members);
  const double inside =
      together > 1 ? (together - 1.0) / together * bytes / link.shard.at(together) : 0;
  const double domains = std::ceil(static_cast<double>(members) / together);
  if (domains <= 1) return inside;
  const double network = together * port() * scenario_->rates.data_network_efficiency;
  return std::max(inside, (domains - 1) / domains * bytes / network);
}

}  // namespace tuner
