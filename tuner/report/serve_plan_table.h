// Plans of serving with their figures, one a row.
#pragma once
#include <string>
#include <vector>

#include "tuner/report/document.h"
#include "tuner/report/serve_answer.h"

namespace tuner {

// The figures of a plan: as measured where it was, else as predicted, with a mark.
struct ShownFigures {
  std::string latency, ttft, tpot, throughput, per_gpu;
};
ShownFigures shown_figures(const ServeRecord& record);

class ServePlanTable {
 public:
  void add(std::string name, const ServeRecord& record, std::string note);
  // Without the column of expert parallelism where no plan has it.
  Table table() &&;

 private:
  std::vector<Table::Row> rows_;
  bool shares_experts_ = false;
};

}  // namespace tuner
