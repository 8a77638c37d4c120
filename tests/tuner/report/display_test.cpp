// Display width, harmless text, wrapping, tables and bars.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tuner/report/table.h"

namespace tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Display, WidthCountsColumnsNotBytes) {
  const std::pair<const char*, int> cases[] = {
      {"", 0}, {"abc", 3}, {"→ ±12 %", 7}, {"模型", 4}, {"e\u0301", 1}, {"🚀", 2}, {"ﾊ", 1}};
  for (const auto& [text, width] : cases) EXPECT_EQ(display_width(text), width) << text;
}

TEST(Display, HarmlessShowsWhatWouldAct) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain – 模型", "plain – 模型"},
      {"a\nb\tc\rd", "a\\nb\\tc\\x0dd"},
      {"\x1b[2J", "\\x1b[2J"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"\xc2\x9b"
       "31m",
       "\\x9b31m"},  // C1 control sequence introducer
      {"abc\u202e"
       "fed",
       "abc\\u202efed"},  // right-to-left override
      {"zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"},
      {"\xff\xc0\xaf", "\\xff\\xc0\\xaf"},  // no UTF-8, overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},  // surrogate
      {"\xe6\xa8", "\\xe6\\xa8"},           // cut short
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(harmless(text), shown);
    EXPECT_EQ(harmless(harmless(text)), shown);
  }
}

TEST(Display, AsciiKeepsNothingElse) {
  EXPECT_EQ(to_ascii("4 → 2, ±3 %, 8 × A, µs, tp · pp"), "4 -> 2, +/-3 %, 8 x A, us, tp * pp");
  EXPECT_EQ(to_ascii("模型 ’"), "?? ?");
}

TEST(Display, CutMarksWhatIsMissing) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdefg", 6), "abcde…");
  EXPECT_EQ(cut_to_width("abcdefg", 6, true), "abcde.");
  EXPECT_EQ(cut_to_width("模型模型", 5), "模型…");
  EXPECT_LE(display_width(cut_to_width("模型模型", 4)), 4);
}

TEST(Display, WrapBreaksAtBlanksAndKeepsThem) {
  EXPECT_THAT(wrap("TP 8  PP 16  SP", 20), ElementsAre("TP 8  PP 16  SP"));
  EXPECT_THAT(wrap("one two three", 8), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap("abcdefghij k", 4), ElementsAre("abcd", "efgh", "ij k"));
  EXPECT_THAT(wrap("模型模型", 3), ElementsAre("模", "型", "模", "型"));
  EXPECT_THAT(wrap("", 10), IsEmpty());
  EXPECT_THAT(wrap("   ", 10), IsEmpty());
}

TEST(Display, WrapKeepsNumbersWithTheirUnits) {
  EXPECT_THAT(wrap("memory (75 %) and", 11), ElementsAre("memory", "(75 %) and"));
  EXPECT_THAT(wrap("of ~61.8 GiB", 8), ElementsAre("of ~61.8", "GiB"));  // wider than a line
  EXPECT_THAT(wrap("best, TP 8  PP 16", 14), ElementsAre("best, TP 8", "PP 16"));
  EXPECT_THAT(wrap("in ~61.8 GiB", 10), ElementsAre("in", "~61.8 GiB"));
}

TEST(Display, WrapNeverExceedsTheWidth) {
  const std::string text = "a1 b2 c3 " + std::string(50, 'x') + " 12 % 3 模型模型模型 " +
                           std::string(7, ' ') + "e\u0301e\u0301 end";
  for (int width = 2; width < 40; ++width)
    for (const std::string& line : wrap(text, width)) EXPECT_LE(display_width(line), width);
}

Table sample_table() {
  return {{{"name"}, {"step", true, 0}, {"memory", true, 2}, {"rule", false, 1}},
          {{{"best", "19.68 s", "59.5 GiB", "a rule with a long title"}, ""},
           {{"2", "120.18 s", "54.0 GiB", "short"}, "what differs from the best"}}};
}

TEST(Tables, AlignNumbersToTheRight) {
  EXPECT_THAT(table_lines(sample_table(), 80, false),
              ElementsAre("name      step    memory  rule",
                          "best   19.68 s  59.5 GiB  a rule with a long title",
                          "2     120.18 s  54.0 GiB  short", "    what differs from the best"));
}

TEST(Tables, DropColumnsByPriorityThenCutTextsNeverNumbers) {
  EXPECT_THAT(table_lines(sample_table(), 45, false)[1],
              "best   19.68 s  a rule with a long title");
  EXPECT_THAT(table_lines(sample_table(), 20, false)[1], "best   19.68 s");
  Table text{{{"count", true, 0}, {"rule", false, 0}}, {{{"123,456", "a long title"}, ""}}};
  EXPECT_THAT(table_lines(text, 15, false), ElementsAre("  count  rule", "123,456  a lon…"));
}

TEST(Tables, KeepWithinAnyWidth) {
  for (int width = 12; width < 60; ++width)
    for (const std::string& line : table_lines(sample_table(), width, false))
      EXPECT_LE(display_width(line), width) << line;
}

TEST(Bars, GrowWithTheFraction) {
  EXPECT_EQ(bar(1, 4, false), "████");
  EXPECT_EQ(bar(0.5, 4, false), "██");
  EXPECT_EQ(bar(0.53125, 4, false), "██▏");
  EXPECT_EQ(bar(0.0001, 4, false), "▏");
  EXPECT_EQ(bar(0, 4, false), "");
  EXPECT_EQ(bar(7, 4, true), "####");
  EXPECT_THAT(bar(0.3, 10, true), Not(HasSubstr("█")));
}

}  // namespace
}  // namespace tuner
