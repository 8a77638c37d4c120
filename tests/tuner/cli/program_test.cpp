// The program turns every kind of exception into a message and the right exit code.
#include "tuner/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "engine/base/errors.h"
#include "tuner/cli/help.h"

namespace tuner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

int answer(const Arguments& arguments) {
  print_result("answer " + arguments.text("--model").value_or("none") + "\n");
  return static_cast<int>(engine::ExitCode::nothing_fits);
}
int throw_input(const Arguments&) {
  throw engine::InputError(std::vector<std::string>{"first problem", "second problem"});
}
int throw_storage(const Arguments&) {
  throw engine::Error(engine::ExitCode::storage, "the database is locked");
}
int throw_ours(const Arguments&) {
  engine::expect(1 > 2, "one above two");
  return 0;
}
int throw_memory(const Arguments&) { throw std::bad_alloc(); }

std::vector<Command> commands() {
  std::vector<Command> list;
  const auto add = [&list](const char* words, int (*run)(const Arguments&)) {
    list.push_back({.words = words,
                    .summary = "Do it",
                    .options = {{.name = "--model",
                                 .kind = ValueKind::text,
                                 .placeholder = "NAME",
                                 .help = "A model",
                                 .default_text = "the best"},
                                {.name = "--sp", .kind = ValueKind::negatable, .help = "Split"}},
                    .run = run});
  };
  add("estimate train", answer);
  add("bad input", throw_input);
  add("bad storage", throw_storage);
  add("bad ours", throw_ours);
  add("bad memory", throw_memory);
  return list;
}

struct Ended {
  int status;
  std::string out;
  std::string err;
};

Ended run(const Words& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_program(commands(), words);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(Program, ReturnsTheCommandsOwnExitCode) {
  const Ended result = run({"estimate", "train", "--model", "m"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.out, "answer m\n");
  EXPECT_EQ(result.err, "");
}

TEST(Program, PrintsEveryProblemOfBadInput) {
  const Ended result = run({"bad", "input"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "error: first problem\nerror: second problem\n");
}

TEST(Program, KnowsTheExitCodeOfAnError) {
  const Ended result = run({"bad", "storage"});
  EXPECT_EQ(result.status, 6);
  EXPECT_EQ(result.err, "error: the database is locked\n");
}

TEST(Program, TakesTheBlameForItsOwnMistakes) {
  const Ended result = run({"bad", "ours"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("our fault"), HasSubstr("one above two"),
                                HasSubstr("program_test.cpp"), HasSubstr("report it")));
}

TEST(Program, SaysWhenMemoryIsShort) {
  const Ended result = run({"bad", "memory"});
  EXPECT_EQ(result.status, 7);
  EXPECT_THAT(result.err, HasSubstr("too little free memory"));
}

TEST(Program, AGroupAloneListsItsCommands) {
  const Ended result = run({"bad"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("bad ours"), HasSubstr("'bad' needs one more word")));
  const Ended help = run({"bad", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("bad ours"), testing::Not(HasSubstr("estimate"))));
}

TEST(Program, HelpShowsNegationDefaultsAndPlaceholders) {
  const Ended result = run({"help", "estimate", "train"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out,
              AllOf(StartsWith("Usage: autotune estimate train"), HasSubstr("--[no-]sp"),
                    HasSubstr("--model NAME"), HasSubstr("[the best]")));
}

}  // namespace
}  // namespace tuner
