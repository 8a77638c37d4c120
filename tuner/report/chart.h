// Chart and Timeline: pictures as data, which every renderer draws as well as it can.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/outcome.h"

namespace tuner {

// What an axis counts, which decides its units.
enum class Quantity : uint8_t { number, seconds, bytes };
// "1.5 GiB", "20.3 s", "1,536"
std::string quantity_text(Quantity quantity, double value);

struct Chart {
  enum class Kind : uint8_t { bars, plane };  // stacked bars by category; points in a plane

  struct Axis {
    std::string title;
    Quantity quantity = Quantity::number;
    bool logarithmic = false;
    bool from_zero = false;
  };
  struct Point {
    double x = 0, y = 0;  // of bars x is the place of the category
    std::string label = {};
    // 90 % intervals, where known.
    engine::Interval x_interval = {}, y_interval = {};
    int64_t stands_for = 1;  // plans
  };
  enum class Mark : uint8_t { faint, point, strong, line };
  struct Series {
    std::string name;
    Mark mark = Mark::point;
    std::vector<Point> points = {};
  };
  // A line across the whole plane at a value of x or y.
  struct Limit {
    std::string name;
    double value = 0;
    bool of_x = false;
  };

  Kind kind = Kind::plane;
  std::string title;
  Axis x, y;
  std::vector<std::string> categories = {};  // of bars
  std::vector<Series> series = {};
  std::vector<Limit> limits = {};
  bool diagonal = false;  // a line where x equals y
  bool wide = false;      // worth the whole width of a page
  bool in_text = false;   // terminals plot it; of the others they show the numbers
  std::string note = {};
};

// What the lanes of a machine do over time.
struct Timeline {
  struct Pass {
    int lane = 0;
    int kind = 0;               // place in `kinds`
    bool odd = false;           // drawn in the darker shade, to tell neighbours apart
    double start = 0, end = 0;  // seconds
    std::string text = {};      // within the pass, where there is room
  };
  std::string title;
  struct Lane {
    std::string name, detail;
  };
  std::vector<Lane> lanes;
  std::vector<std::string> kinds;
  std::vector<Pass> passes;
  std::string note = {};
};

// The plot in characters, of `width` columns and `height` lines above the axis; no series but those
// of points.
std::vector<std::string> plot_lines(const Chart& chart, int width, int height, bool ascii);

}  // namespace tuner
