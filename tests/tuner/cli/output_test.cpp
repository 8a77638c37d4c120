// Tables, wrapping and the choice of colour.
#include "tuner/cli/output.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tuner {
namespace {

TEST(Table, AlignsNumbersRightAndCutsTheLastColumn) {
  EXPECT_EQ(format_table({"ID", "NAME", "TEXT"},
                         {{"1", "größer", "short"}, {"100", "b", "far too long for this"}}, 24),
            " ID  NAME    TEXT\n"
            "  1  größer  short\n"
            "100  b       far too lo…\n");
}

TEST(Table, OfNoRowsIsItsHeader) { EXPECT_EQ(format_table({"A", "B"}, {}, 80), "A  B\n"); }

TEST(Wrapping, BreaksAtBlanksAndKeepsParagraphs) {
  EXPECT_EQ(wrapped_text("one two three four\n\nfive", 2, 12),
            "  one two\n  three four\n\n  five\n");
  EXPECT_EQ(wrapped_text("unbreakable-word", 2, 8), "  unbreakable-word\n");
  EXPECT_EQ(wrapped_text("", 2, 8), "");
}

class Color : public testing::Test {
 protected:
  Color() {
    for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE"}) unsetenv(name);
    setenv("TERM", "xterm", 1);
  }
};

TEST_F(Color, FollowsTheFlagThenTheEnvironment) {
  const auto automatic = [] { return use_color(ColorChoice::when_terminal, Stream::result); };
  setenv("CLICOLOR_FORCE", "1", 1);
  EXPECT_TRUE(automatic());
  EXPECT_FALSE(use_color(ColorChoice::never, Stream::result));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(automatic());
  EXPECT_TRUE(use_color(ColorChoice::always, Stream::result));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(automatic());
  setenv("CLICOLOR_FORCE", "0", 1);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(automatic());
}

TEST(StyleTest, MarksOnlyWithColor) {
  EXPECT_EQ(Style(true).strong("x"), "\x1b[1mx\x1b[0m");
  EXPECT_EQ(Style(false).bad("x"), "x");
}

TEST(Width, IsWithinBounds) {
  setenv("COLUMNS", "250", 1);
  EXPECT_EQ(output_width(), 100);
  setenv("COLUMNS", "80", 1);
  EXPECT_EQ(output_width(), 80);
  setenv("COLUMNS", "-3", 1);
  EXPECT_EQ(output_width(), 40);
}

}  // namespace
}  // namespace tuner
