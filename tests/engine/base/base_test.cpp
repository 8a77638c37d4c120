// Strict JSON, did-you-mean, and quantities with units.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"

namespace engine {
namespace {

TEST(Units, CountsBytesAndDurations) {
  EXPECT_EQ(parse_count("175b", "n"), 175e9);
  EXPECT_EQ(parse_count("6.7B", "n"), 6.7e9);
  EXPECT_EQ(parse_count("2048", "n"), 2048);
  EXPECT_EQ(parse_bytes("80GiB", "m"), 80 * kGiB);
  EXPECT_EQ(parse_seconds("500ms", "t"), 0.5);
  EXPECT_EQ(parse_seconds("14d", "t"), 14 * 86400.0);
  for (const char* bad : {"", "b", "1x", "1e999", "nan", "inf", "1 b", "0x10"})
    EXPECT_THROW(parse_count(bad, "n"), InputError) << bad;
  EXPECT_THROW(parse_seconds("2", "latency"), InputError);
}

TEST(Units, Formatting) {
  EXPECT_EQ(format_grouped(1024), "1,024");
  EXPECT_EQ(format_grouped(-1234567), "-1,234,567");
  EXPECT_EQ(format_grouped(-123), "-123");
  EXPECT_EQ(format_count(174.6e9), "174.6 B");
  EXPECT_EQ(format_bytes(61.8 * kGiB), "61.8 GiB");
  EXPECT_EQ(format_seconds(24.1 * 86400), "24.1 days");
}

TEST(DidYouMean, FindsTheNearName) {
  EXPECT_THAT(did_you_mean("a100", {"a100-80gb", "h100-80gb"}), testing::ElementsAre("a100-80gb"));
  EXPECT_THAT(did_you_mean("recompte", {"recompute", "zero"}), testing::ElementsAre("recompute"));
  EXPECT_TRUE(did_you_mean("xyzzy", {"a100-80gb"}).empty());
  EXPECT_TRUE(did_you_mean(std::string(100000, 'x'), {"a100-80gb"}).empty());
}

TEST(Json, HostileTextsAreRefusedWithOneSentence) {
  for (const std::string& text :
       {std::string("{"), std::string("{\"a\":"), std::string(100000, '['), std::string("\xff\xfe"),
        std::string("{\"a\":1}x"), std::string()})
    EXPECT_THROW(parse_json(text, "f.json"), InputError);
}

TEST(Json, PythonsNonFiniteNumbersReadAsNull) {
  const Json json =
      parse_json(R"({"a": [0.0, Infinity, -Infinity], "b": NaN, "c": "NaN \" NaN"})", "f");
  EXPECT_TRUE(json["a"][1].is_null());
  EXPECT_TRUE(json["a"][2].is_null());
  EXPECT_TRUE(json["b"].is_null());
  EXPECT_EQ(json["c"], "NaN \" NaN");
}

TEST(Json, ReaderCollectsEveryProblem) {
  const Json json = parse_json(
      R"({"layers": -1, "hidden": "big", "heads": 1.5, "vocab": 1e30, "flag": 1, "huge": 18446744073709551615, "lyers": 3})",
      "f.json");
  Problems problems("f.json");
  ObjectReader reader(json, "", problems);
  reader.integer("layers", {1, 100});
  reader.integer("hidden", {1, 100});
  reader.integer("heads", {1, 100});
  reader.integer("vocab", {1});
  reader.integer("huge", {1});
  reader.flag("flag");
  reader.number("missing", {});
  reader.finish();
  try {
    problems.throw_if_any();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 8u) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean layers"));
  }
}

}  // namespace
}  // namespace engine
