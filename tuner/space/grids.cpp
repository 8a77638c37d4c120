// Reading of the grid files and the auto-configurator's own validity filter.
#include "tuner/space/grids.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::ModelSpec;
using engine::ObjectReader;
using engine::ParallelPlan;
using engine::Workload;

constexpr engine::IntegerRange kDegree{1, 1'000'000};
constexpr engine::NumberRange kParameters{1e6, 1e15};

struct Range {
  int64_t low = 1;
  int64_t high = 1;
  bool contains(int64_t value) const { return low <= value && value <= high; }
};

struct GridRow {
  double parameters_up_to = 0;
  std::vector<int64_t> tp;
  std::vector<int64_t> pp;        // where listed
  std::optional<Range> pp_range;  // else the divisors of the layers within
  std::vector<int64_t> mbs;
  Range mp;
  int64_t gbs = 0;
};

struct BaseRow {
  double parameters_up_to = 0;
  int64_t gbs = 0;
  int64_t tp = 1;
  int64_t pp = 1;
};

struct Habits {
  int zero = 0;
  engine::Recompute recompute;
  double sp_above_parameters = 0;
  int64_t one_layer_per_chunk_above_pp = 0;
};

template <typename Row>
struct Table {
  int64_t seq = 0;  // 0 = every length
  std::vector<Row> rows;
};

struct GridFile {
  std::string name;
  std::string origin;
  double memory_bytes = 0;
  Habits habits;
  std::vector<Table<GridRow>> grids;
  std::vector<Table<BaseRow>> bases;
};

Range read_range(ObjectReader object) {
  Range range;
  range.low = object.integer("from", kDegree);
  range.high = object.integer("to", {range.low, kDegree.high});
  object.finish();
  return range;
}

std::vector<int64_t> read_list(ObjectReader& object, const std::string& key) {
  std::vector<int64_t> values = object.integers(key, kDegree);
  if (values.empty()) object.problem(key, "must list at least one number");
  return values;
}

GridRow read_row(ObjectReader& object, GridRow row) {
  row.parameters_up_to = object.number("parameters_up_to", kParameters);
  row.tp = read_list(object, "tp");
  if (object.value("pp").is_object())
    row.pp_range = read_range(object.object("pp"));
  else
    row.pp = read_list(object, "pp");
  row.mbs = read_list(object, "mbs");
  row.mp = read_range(object.object("mp"));
  row.gbs = object.integer("gbs", kDegree, 0);
  object.finish();
  return row;
}

BaseRow read_row(ObjectReader& object, BaseRow row) {
  row.parameters_up_to = object.number("parameters_up_to", kParameters);
  row.gbs = object.integer("gbs", kDegree);
  row.tp = object.integer("tp", kDegree);
  row.pp = object.integer("pp", kDegree);
  object.finish();
  return row;
}

template <typename Row>
std::vector<Table<Row>> read_tables(ObjectReader& file, const std::string& key) {
  std::vector<Table<Row>> tables;
  for (ObjectReader& object : file.objects(key)) {
    Table<Row>& table = tables.emplace_back();
    table.seq = object.integer("seq", {1, 1 << 30}, 0);
    for (ObjectReader& row : object.objects("rows")) table.rows.push_back(read_row(row, Row{}));
    object.finish();
  }
  if (tables.empty()) file.problem(key, "must hold at least one table");
  return tables;
}

Habits read_habits(ObjectReader object) {
  Habits habits;
  habits.zero = static_cast<int>(object.integer("zero", {0, 3}));
  const std::vector<std::string> modes = {"none", "selective", "full"};
  habits.recompute.mode = static_cast<engine::Recompute::Mode>(object.choice("recompute", modes));
  habits.sp_above_parameters = object.number("sp_above_parameters", {0, 1e15});
  habits.one_layer_per_chunk_above_pp =
      object.integer("one_layer_per_chunk_above_pp", {0, kDegree.high});
  object.finish();
  return habits;
}

GridFile read_grid(const DataFile& data) {
  engine::Problems problems(data.origin);
  const engine::Json json = engine::parse_json(data.text, data.origin);
  ObjectReader file(json, "", problems);
  GridFile grid;
  grid.origin = data.origin;
  grid.name = file.text("name");
  file.text("title", "");
  file.text("source");
  grid.memory_bytes = file.number("memory_bytes", {1e9, 1e14});
  grid.habits = read_habits(file.object("habits"));
  grid.grids = read_tables<GridRow>(file, "grids");
  grid.bases = read_tables<BaseRow>(file, "bases");
  file.finish();
  problems.throw_if_any();
  return grid;
}

// The grid with the largest memory that a device has.
std::optional<GridFile> grid_for(double memory_bytes) {
  std::optional<GridFile> best;
  for (const std::string& name : data_file_names("grids")) {
    GridFile grid = read_grid(find_data_file("grids", name, "grid"));
    if (grid.memory_bytes > memory_bytes) continue;
    if (!best || best->memory_bytes < grid.memory_bytes) best = std::move(grid);
  }
  return best;
}

template <typename Row>
const Row* find_row(const std::vector<Table<Row>>& tables, int64_t seq, double parameters) {
  for (const Table<Row>& table : tables) {
    if (table.seq != 0 && table.seq != seq) continue;
    for (const Row& row : table.rows)
      if (parameters <= row.parameters_up_to) return &row;
  }
  return nullptr;
}

std::vector<int64_t> pipelines(const GridRow& row, int64_t layers) {
  if (!row.pp_range) return row.pp;
  std::vector<int64_t> divisors;
  for (int64_t pp = row.pp_range->low; pp <= std::min(row.pp_range->high, layers); ++pp)
    if (layers % pp == 0) divisors.push_back(pp);
  return divisors;
}

// One question of the tool: this model with this batch on so many devices.
struct Request {
  const ModelSpec& model;
  int64_t gbs;
  int64_t gpus;
  const Habits& habits;
};

std::optional<ParallelPlan> make_plan(const Request& request, int64_t tp, int64_t pp, int64_t mbs) {
  const ModelSpec& model = request.model;
  if (request.gpus % (tp * pp) != 0 || model.heads % tp != 0 || model.layers % pp != 0)
    return std::nullopt;
  const int64_t dp = request.gpus / (tp * pp);
  if (request.gbs < 1 || request.gbs % (mbs * dp) != 0) return std::nullopt;
  ParallelPlan plan;
  plan.tp = static_cast<int>(tp);
  plan.pp = static_cast<int>(pp);
  plan.dp = static_cast<int>(dp);
  plan.mbs = mbs;
  plan.gbs = request.gbs;
  plan.zero = request.habits.zero;
  plan.recompute = request.habits.recompute;
  const auto parameters = static_cast<double>(engine::parameter_count(model));
  plan.sp = tp > 1 && parameters > request.habits.sp_above_parameters;
  if (pp > request.habits.one_layer_per_chunk_above_pp)
    plan.vpp = static_cast<int>(model.layers / pp);
  return plan;
}

std::vector<ParallelPlan> plans_of(const GridRow& row, const Request& request) {
  std::vector<ParallelPlan> plans;
  for (const int64_t tp : row.tp)
    for (const int64_t pp : pipelines(row, request.model.layers)) {
      if (!row.mp.contains(tp * pp)) continue;
      for (const int64_t mbs : row.mbs)
        if (const auto plan = make_plan(request, tp, pp, mbs)) plans.push_back(*plan);
    }
  return plans;
}

}  // namespace

GridPlans grid_plans(const ModelSpec& model, const Workload& workload, int gpus,
                     double memory_bytes) {
  GridPlans result;
  const std::optional<GridFile> grid = grid_for(memory_bytes);
  if (!grid) return result;
  result.name = grid->name;
  result.origin = grid->origin;
  const auto parameters = static_cast<double>(engine::parameter_count(model));
  const Request request{model, workload.gbs, gpus, grid->habits};
  if (const GridRow* row = find_row(grid->grids, workload.seq, parameters)) {
    result.gbs = row->gbs;
    result.plans = plans_of(*row, request);
  }
  if (const BaseRow* row = find_row(grid->bases, workload.seq, parameters))
    if (const auto plan = make_plan(request, row->tp, row->pp, 1)) result.base.push_back(*plan);
  return result;
}

}  // namespace tuner
