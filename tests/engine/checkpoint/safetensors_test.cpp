// Safetensors files: round trips and hostile headers.
#include "engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/base/errors.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

using testing::HasSubstr;

std::string with_header(const std::string& json, const std::string& data) {
  const uint64_t bytes = json.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &bytes, 8);
  return text + json + data;
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string error_of(const std::string& bytes) {
    write_bytes(path_, bytes);
    try {
      const SafetensorsFile file(path_);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_));
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "t.safetensors";
};

TEST_F(SafetensorsTest, RoundTrip) {
  std::vector<TensorEntry> tensors = {{"a.weight", StorageType::f32, {2, 3}},
                                      {"nothing", StorageType::i64, {0, 5}},
                                      {"scalar", StorageType::f64, {}},
                                      {"é\"", StorageType::bf16, {3}}};
  const int64_t bytes = place_tensors(tensors);
  EXPECT_EQ(bytes, 24 + 0 + 8 + 6);
  std::string data(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i);
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(error_of(header + data), "");
  const SafetensorsFile file(path_);
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const TensorEntry& tensor : file.tensors()) {
    const auto written = std::find_if(tensors.begin(), tensors.end(),
                                      [&](const auto& one) { return one.name == tensor.name; });
    ASSERT_NE(written, tensors.end()) << tensor.name;
    EXPECT_EQ(tensor.type, written->type);
    EXPECT_EQ(tensor.shape, written->shape);
    EXPECT_EQ(tensor.begin, written->begin);
    if (tensor.end > tensor.begin) {
      EXPECT_EQ(static_cast<char>(*file.data(tensor)), data[static_cast<size_t>(tensor.begin)]);
    }
  }
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  std::vector<TensorEntry> tensors = {{"a", StorageType::f32, {2, 3}},
                                      {"b", StorageType::bf16, {1}}};
  const auto bytes = static_cast<size_t>(place_tensors(tensors));
  const std::string whole = safetensors_header(tensors, {}) + std::string(bytes, 'x');
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(error_of(whole.substr(0, length)), "") << length;
  EXPECT_THAT(error_of(whole + "x"), HasSubstr("knows 26"));
  EXPECT_EQ(error_of(whole), "");
}

TEST_F(SafetensorsTest, HostileHeadersAreRefusedByName) {
  struct Case {
    std::string json, data, word;
  };
  const std::string four(4, '\0'), eight(8, '\0');
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const Case cases[] = {
      {"", "", "not valid JSON"},
      {"[1]", "", "must be an object"},
      {"{\"a\":", "", "not valid JSON"},
      {"{} x", "", "not valid JSON"},
      {"{\"\xff\":1}", "", "not valid JSON"},
      {"{" + a + "," + a + "}", four, "'a' stands twice"},
      {R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})", four,
       "'dtype' stands twice"},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", four, "dtype: must be one of"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", four, "dtype: is missing"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", four, "shape: is missing"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", four, "data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", four, "x"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four, "shape"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", four, "shape"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four, "does not fit"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,4]}})", four,
       "does not fit"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four, "range"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", four, "data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", four, "truncated"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", four,
       "data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight, "begins at byte 4"},
      {"{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", eight,
       "begins at byte 0"},
      {"{" + a + R"(,"b":{"dtype":"F16","shape":[3],"data_offsets":[2,8]}})", eight,
       "begins at byte 2"},
      {"{" + a + "}", eight, "has 8 bytes of data"},
      {"{" + a + R"(,"__metadata__":{"n":1}})", four, "__metadata__.n"},
      {R"({"a":)" + std::string(50'000, '[') + std::string(50'000, ']') + "}", "", "nested"},
  };
  for (const Case& one : cases)
    EXPECT_THAT(error_of(with_header(one.json, one.data)), HasSubstr(one.word))
        << one.json.substr(0, 90);
  std::string huge = with_header("{}", "");
  huge.replace(0, 8, std::string(8, '\x7f'));
  EXPECT_THAT(error_of(huge), HasSubstr("header would be of"));
}

TEST_F(SafetensorsTest, AllProblemsAtOnce) {
  const std::string error = error_of(with_header(
      R"({"a":{"dtype":"X","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[9],"data_offsets":[4,8]}})",
      std::string(8, '\0')));
  EXPECT_THAT(error, HasSubstr("a.dtype"));
  EXPECT_THAT(error, HasSubstr("b.shape"));
}

}  // namespace
}  // namespace engine
