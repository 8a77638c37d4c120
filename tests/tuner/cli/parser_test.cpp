// Parsing: values of every kind, all problems at once, and the verbs.
#include "tuner/cli/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int nothing(const Arguments&) { return 0; }

std::string wrong_mode(const std::string& text) {
  return text == "full" || text.starts_with("full:") ? "" : "is no mode; write full or full:N";
}

Command train() {
  return {
      .words = "train",
      .summary = "Train",
      .options =
          {{.name = "--model", .kind = ValueKind::text, .placeholder = "NAME", .required = true},
           {.name = "--gpus",
            .kind = ValueKind::integer,
            .placeholder = "N",
            .low = 1,
            .high = 1'000'000},
           {.name = "--tp",
            .kind = ValueKind::integers,
            .placeholder = "LIST",
            .low = 1,
            .high = 4096},
           {.name = "--tokens",
            .kind = ValueKind::count,
            .placeholder = "COUNT",
            .low = 1,
            .high = 1e15},
           {.name = "--gpu-mem",
            .kind = ValueKind::bytes,
            .placeholder = "SIZE",
            .low = 1,
            .high = 1e13},
           {.name = "--days",
            .kind = ValueKind::seconds,
            .placeholder = "TIME",
            .low = 0,
            .high = 1e9},
           {.name = "--ratio", .kind = ValueKind::number, .placeholder = "X", .low = 0, .high = 1},
           {.name = "--modes",
            .kind = ValueKind::texts,
            .placeholder = "LIST",
            .check = wrong_mode},
           {.name = "--stack",
            .kind = ValueKind::text,
            .placeholder = "NAME",
            .choices = {"core", "fsdp"}},
           {.name = "--sp", .kind = ValueKind::negatable},
           {.name = "--json"},
           {.name = "--yes", .letter = 'y'}},
      .run = nothing};
}

Arguments parsed(Words words) {
  words.insert(words.begin(), "--model=m");
  return parse_arguments(train(), words);
}

// The problems of a command line, a line each.
std::string problems_of(const Command& command, const Words& words) {
  try {
    parse_arguments(command, words);
  } catch (const engine::InputError& error) {
    return error.what();
  }
  return "no problem";
}

TEST(Parser, ReadsValuesOfEveryKind) {
  const Arguments arguments =
      parsed({"--gpus", "1024", "--tp=1,2,4..6", "--tokens", "300B", "--gpu-mem=80GiB", "--days",
              "14d", "--ratio", "0.5", "--modes", "full,full:3", "--no-sp", "--json", "-y"});
  EXPECT_EQ(arguments.text("--model"), "m");
  EXPECT_EQ(arguments.integer("--gpus"), 1024);
  EXPECT_THAT(arguments.integers("--tp"), ElementsAre(1, 2, 4, 5, 6));
  EXPECT_EQ(arguments.number("--tokens"), 300e9);
  EXPECT_EQ(arguments.number("--gpu-mem"), 80.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(arguments.number("--days"), 14.0 * 86400);
  EXPECT_EQ(arguments.number("--ratio"), 0.5);
  EXPECT_THAT(arguments.texts("--modes"), ElementsAre("full", "full:3"));
  EXPECT_EQ(arguments.toggle("--sp"), false);
  EXPECT_TRUE(arguments.flag("--json"));
  EXPECT_TRUE(arguments.flag("--yes"));
  EXPECT_FALSE(arguments.has("--stack"));
}

TEST(Parser, AbsentOptionsAreEmpty) {
  const Arguments arguments = parsed({});
  EXPECT_EQ(arguments.integer("--gpus"), std::nullopt);
  EXPECT_EQ(arguments.number("--tokens"), std::nullopt);
  EXPECT_EQ(arguments.toggle("--sp"), std::nullopt);
  EXPECT_TRUE(arguments.integers("--tp").empty());
  EXPECT_FALSE(arguments.flag("--json"));
  EXPECT_EQ(parsed({"--sp"}).toggle("--sp"), true);
}

TEST(Parser, LeavesTextsAsTheyAre) {
  for (const std::string text : {"[a,b]", "{}", "a=b", "\"q\"", "'x'", " ", "ü", "a b", "-1"}) {
    EXPECT_EQ(parse_arguments(train(), {"--model=" + text}).text("--model"), text);
    EXPECT_EQ(parse_arguments(train(), {"--model", text}).text("--model"), text);
  }
}

TEST(Parser, ListsMayBeGivenInPieces) {
  EXPECT_THAT(parsed({"--tp", "8", "--tp", "1,2"}).integers("--tp"), ElementsAre(8, 1, 2));
}

struct BadLine {
  Words words;
  std::string message;
};

TEST(Parser, NamesWhatIsWrongWithAValue) {
  const BadLine lines[] = {
      {{"--gpus", "0"}, "--gpus '0' is out of range; it must lie between 1 and 1,000,000"},
      {{"--gpus", "-5"}, "--gpus '-5' is out of range; it must lie between 1 and 1,000,000"},
      {{"--gpus=99999999999"},
       "--gpus '99999999999' is out of range; it must lie between 1 and 1,000,000"},
      {{"--gpus=99999999999999999999999"}, "is out of range; it must lie between 1 and 1,000,000"},
      {{"--gpus", "8x"}, "--gpus '8x' is not a whole number"},
      {{"--gpus", "1.5"}, "--gpus '1.5' is not a whole number"},
      {{"--gpus", "abc"}, "--gpus 'abc' is not a whole number"},
      {{"--gpus", ""}, "--gpus has an empty value"},
      {{"--gpus="}, "--gpus= lacks a value"},
      {{"--gpus"}, "--gpus lacks a value; write --gpus N"},
      {{"--gpus", "--json"}, "--gpus lacks a value; write --gpus N"},
      {{"--gpus", "8", "--gpus", "9"}, "--gpus is given 2 times; give it once"},
      {{"--tp", "1,,2"}, "--tp has an empty value"},
      {{"--tp", "1,0"}, "--tp '0' is out of range"},
      {{"--tp", "8..1"}, "--tp '8..1' is not a range; write it like 1..8"},
      {{"--tp", "1.."}, "--tp '' is not a whole number"},
      {{"--tp", "1..4097"}, "--tp '4097' is out of range; it must lie between 1 and 4,096"},
      {{"--tokens", "300X"},
       "--tokens '300X' is not understood: the units are k, K, m, M, b, B, t, T; "},
      {{"--tokens", "-1"}, "--tokens '-1' is out of range"},
      {{"--gpu-mem", "80gib"}, "--gpu-mem '80gib' is not understood: the units are B, KiB, "},
      {{"--days", "14"},
       "--days '14' is not understood: it needs a unit; the units are us, µs, ms, s, "},
      {{"--ratio", "nan"}, "--ratio 'nan' is not a number; it must lie between 0 and 1"},
      {{"--ratio", "1.01"}, "--ratio '1.01' is out of range"},
      {{"--modes", "full,half"}, "--modes 'half' is no mode; write full or full:N"},
      {{"--stack", "cores"}, "unknown --stack value 'cores'; did you mean core?"},
      {{"--stack", "zzzzzz"}, "unknown --stack value 'zzzzzz'; choose core, fsdp"},
      {{"--sp", "--no-sp"}, "--sp and --no-sp contradict each other; give one"},
      {{"--json=5"}, "--json takes no value, but got '5'"},
      {{"--color", "blue"}, "unknown --color value 'blue'; choose auto, always, never"},
      {{"--gpuz", "8"}, "unknown option '--gpuz'; did you mean --gpus?"},
      {{"--gpuz=8"}, "unknown option '--gpuz'; did you mean --gpus"},
      {{"-z"}, "unknown option '-z'"},
      {{"stray"}, "'stray' is one word too many; see `autotune help train`"},
      {{"--", "--json"}, "'--json' is one word too many"},
  };
  for (const BadLine& line : lines) {
    Words words = line.words;
    words.insert(words.begin(), {"--model", "m"});
    const std::string message = problems_of(train(), words);
    EXPECT_THAT(message, HasSubstr(line.message));
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one problem only: " << message;
  }
}

TEST(Parser, ReportsEveryProblemAtOnce) {
  const std::string problems =
      problems_of(train(), {"--gpus", "0", "--tp", "x", "--stak", "core", "stray"});
  EXPECT_THAT(problems, HasSubstr("--gpus '0'"));
  EXPECT_THAT(problems, HasSubstr("--tp 'x'"));
  EXPECT_THAT(problems, HasSubstr("'--stak'; did you mean --stack"));
  EXPECT_THAT(problems, HasSubstr("'stray'"));
  EXPECT_THAT(problems, HasSubstr("--model NAME is missing"));
  EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'), 4);
}

TEST(Parser, ReadsPositionals) {
  const Command command = {.words = "validate train",
                           .summary = "Validate",
                           .options = {{.name = "--json"}},
                           .positionals = {{.name = "FILE",
                                            .kind = ValueKind::text,
                                            .help = "a table",
                                            .required = true},
                                           {.name = "ID", .kind = ValueKind::integers, .low = 1}},
                           .run = nothing};
  const Arguments arguments = parse_arguments(command, {"a.csv", "--json", "3", "5..6", "--", "9"});
  EXPECT_EQ(arguments.text("FILE"), "a.csv");
  EXPECT_THAT(arguments.integers("ID"), ElementsAre(3, 5, 6, 9));
  EXPECT_EQ(parse_arguments(command, {"--", "--odd.csv"}).text("FILE"), "--odd.csv");
  EXPECT_EQ(problems_of(command, {}), "FILE is missing: a table");
  EXPECT_THAT(problems_of(command, {"a", "x"}), HasSubstr("ID 'x' is not a whole number"));
}

TEST(Parser, KeepsTheCommandLineFitForAShell) {
  EXPECT_EQ(parse_arguments(train(), {"--model", "my model's", "--tp=1,2"}).command_line(),
            R"(autotune train --model 'my model'\''s' --tp=1,2)");
}

TEST(Parser, WrongUseByACommandIsOurMistake) {
  const Arguments arguments = parsed({"--gpus", "8"});
  EXPECT_THROW(arguments.has("--absent"), std::logic_error);
  EXPECT_THROW(arguments.text("--gpus"), std::logic_error);
}

std::vector<Command> verbs() {
  std::vector<Command> commands;
  for (const char* words : {"train", "estimate train", "estimate infer", "runs", "runs show"})
    commands.push_back({.words = words, .summary = words, .run = nothing});
  commands.push_back({.words = "explain",
                      .summary = "",
                      .positionals = {{.name = "CODE", .kind = ValueKind::text}},
                      .run = nothing});
  return commands;
}

TEST(Verbs, TheLongestMatchWins) {
  const auto commands = verbs();
  struct Case {
    Words words;
    std::string command;
    Words rest;
  };
  const Case cases[] = {
      {{"train", "--gpus", "8"}, "train", {"--gpus", "8"}},
      {{"estimate", "train", "--x"}, "estimate train", {"--x"}},
      {{"runs"}, "runs", {}},
      {{"runs", "show", "3"}, "runs show", {"3"}},
      {{"runs", "--json"}, "runs", {"--json"}},
      {{"explain", "AT0112"}, "explain", {"AT0112"}},
      {{"--color", "never", "runs", "--json"}, "runs", {"--color", "never", "--json"}},
      {{"--help", "train"}, "train", {"--help"}}};
  for (const Case& one : cases) {
    const CommandMatch match = match_command(commands, one.words);
    ASSERT_NE(match.command, nullptr) << one.command;
    EXPECT_EQ(match.command->words, one.command);
    EXPECT_EQ(match.rest, one.rest);
  }
}

TEST(Verbs, AGroupAloneIsIncomplete) {
  const auto commands = verbs();
  const CommandMatch match = match_command(commands, {"estimate", "--json"});
  EXPECT_EQ(match.command, nullptr);
  EXPECT_EQ(match.verb, "estimate");
  EXPECT_EQ(match_command(commands, {}).command, nullptr);
}

TEST(Verbs, AnUnknownOneGetsASuggestion) {
  const auto commands = verbs();
  const BadLine lines[] = {
      {{"trian"}, "unknown command 'trian'; did you mean train?"},
      {{"qqqqqq"}, "unknown command 'qqqqqq'; see `autotune --help`"},
      {{"estimate", "trian"}, "unknown command 'estimate trian'; did you mean estimate train?"},
      {{"runs", "shwo", "3"}, "unknown command 'runs shwo'; did you mean runs show?"},
      {{"--gpus", "8", "train"}, "option '--gpus' stands before the command"},
  };
  for (const BadLine& line : lines) {
    try {
      match_command(commands, line.words);
      ADD_FAILURE() << line.message;
    } catch (const engine::InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(line.message));
    }
  }
}

TEST(Verbs, HelpIsAskedBeforeTheEndOfOptions) {
  EXPECT_EQ(requested_help({"--gpus", "8", "-h"}), HelpLevel::brief);
  EXPECT_EQ(requested_help({"--help"}), HelpLevel::full);
  EXPECT_EQ(requested_help({"--", "--help"}), HelpLevel::none);
}

}  // namespace
}  // namespace tuner
