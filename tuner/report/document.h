// Document: a report as data, before it is laid out for a terminal, as Markdown or as a web page.
// Its texts are raw: names in them may be hostile, and every renderer makes them harmless in its
// own way.
#pragma once
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "tuner/report/chart.h"
#include "tuner/report/table.h"

namespace tuner {

enum class Tone { plain, strong, good, bad, faint };

struct Sentence {
  std::string text;
  Tone tone = Tone::plain;
};

struct Bullet {
  std::string text;
};

// Shares of a whole, largest share first or in the order of the report; percent sum to 100.
struct Bars {
  struct Part {
    std::string name;
    double percent = 0;  // a multiple of 0.1
    std::string amount;
    std::string other = {};  // the same part of something to compare with
  };
  std::vector<Part> parts;
  std::string other_title = {};  // "baseline"; empty = nothing to compare with
};

// A command to type. The words are quoted for a shell.
struct CommandLine {
  std::vector<std::string> words;
  std::string purpose;
};

using Block = std::variant<Sentence, Bullet, Table, Bars, CommandLine, Chart, Timeline>;

struct Section {
  std::string label;
  std::vector<Block> blocks;
};

// A number that the answer comes down to.
struct Figure {
  std::string name, value;
  std::string detail = {};
};

struct Document {
  std::string verb;                // "autotune train"
  std::vector<std::string> asked;  // what was asked, a line each
  std::vector<Section> sections;   // the answer itself first
  size_t lead = 1;                 // how many of them
  // What a page shows in large type; the sections say it, too.
  std::vector<Figure> figures = {};

  // Appends a section; one without blocks is left out.
  void add(Section section) {
    if (!section.blocks.empty()) sections.push_back(std::move(section));
  }
};

struct TrainAnswer;
struct EstimateAnswer;
struct SizeAnswer;
struct SweepAnswer;
struct CompareAnswer;
struct InferAnswer;
struct ServeEstimateAnswer;
Document document_of(const TrainAnswer& answer);
Document document_of(const EstimateAnswer& answer);
Document document_of(const SizeAnswer& answer);
Document document_of(const SweepAnswer& answer);
Document document_of(const CompareAnswer& answer);
Document document_of(const InferAnswer& answer);
Document document_of(const ServeEstimateAnswer& answer);

}  // namespace tuner
