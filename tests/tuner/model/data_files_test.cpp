// Data files: what is built in, and the user's own that come first.
#include "tuner/model/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A config folder of its own for each test; what the machine's user has never matters.
class DataFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ =
        std::filesystem::path(::testing::TempDir()) / (std::string("data_files_") + info->name());
    std::filesystem::remove_all(root_);
    setenv("XDG_CONFIG_HOME", root_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    const auto path = root_ / "autotune" / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::filesystem::path root_;
};

TEST_F(DataFiles, EveryBuiltInFileIsTheFileOfTheSourceTree) {
  ASSERT_FALSE(embedded_files().empty());
  for (const EmbeddedFile& file : embedded_files()) {
    std::ifstream source(std::string(AUTOTUNE_SOURCE_DIR "/") + std::string(file.name));
    std::stringstream text;
    text << source.rdbuf();
    EXPECT_EQ(text.str(), file.text) << file.name;
  }
}

TEST_F(DataFiles, BuiltInFileSaysWhereItCameFrom) {
  const DataFile file = find_data_file("models", "llama", "model family");
  EXPECT_EQ(file.origin, "built-in models/llama.json");
  EXPECT_THAT(file.text, HasSubstr("llama"));
}

TEST_F(DataFiles, UsersFileComesFirstAndIsListed) {
  write("models/llama.json", "mine");
  write("models/zebra.json", "also mine");
  write("models/notes.txt", "not a data file");
  const DataFile file = find_data_file("models", "llama", "model family");
  EXPECT_EQ(file.text, "mine");
  EXPECT_EQ(file.origin, (root_ / "autotune/models/llama.json").string());
  const auto names = data_file_names("models");
  EXPECT_THAT(names, Contains("zebra"));
  EXPECT_THAT(names, Not(Contains("notes")));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::count(names.begin(), names.end(), "llama"), 1);
}

TEST_F(DataFiles, CaseOfTheNameDoesNotMatterButAnExactNameWins) {
  EXPECT_EQ(find_data_file("models", "LLaMA", "model family").origin, "built-in models/llama.json");
  write("models/LLAMA.json", "mine");
  EXPECT_EQ(find_data_file("models", "LLAMA", "model family").text, "mine");
  EXPECT_EQ(find_data_file("models", "llama", "model family").origin, "built-in models/llama.json");
}

TEST_F(DataFiles, FolderNamesAreWholeAndFlat) {
  EXPECT_TRUE(data_file_names("model").empty());
  EXPECT_TRUE(data_file_names("").empty());
  write("models/deep/inside.json", "x");
  EXPECT_THAT(data_file_names("models"), Not(Contains("inside")));
}

TEST_F(DataFiles, UnknownNameProposesTheNearest) {
  try {
    find_data_file("models", "lama", "model family");
    FAIL();
  } catch (const engine::InputError& error) {
    EXPECT_STREQ(error.what(), "unknown model family 'lama'; did you mean llama?");
  }
}

TEST_F(DataFiles, NamesNeverLeaveTheFolder) {
  write("models/mine.json", "x");
  write("secret.json", "x");
  EXPECT_THROW(find_data_file("models", "../secret", "model family"), engine::InputError);
  EXPECT_THROW(find_data_file("models", "", "model family"), engine::InputError);
}

TEST_F(DataFiles, UserFolderFollowsTheBaseDirectorySpecification) {
  EXPECT_EQ(user_data_folder(), (root_ / "autotune").string());
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(user_data_folder(), "/home/someone/.config/autotune");
  unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(user_data_folder(), "/home/someone/.config/autotune");
  unsetenv("HOME");
  EXPECT_EQ(user_data_folder(), "");
  EXPECT_THAT(data_file_names("models"), Contains("llama"));
}

}  // namespace
}  // namespace tuner
