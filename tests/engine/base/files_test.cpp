// Files: what was written is read, and every failure is noticed.
#include "engine/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

using testing::HasSubstr;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The message of the storage error that the body ends in.
template <class Body>
std::string storage_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
    return error.what();
  }
  return "no error";
}

TEST(Files, AppendedAndOverwrittenBytesAreRead) {
  const TemporaryFolder folder;
  const std::string long_text(3'000'001, 'x');
  FileWriter file(folder / "a");
  file.append("head", 4);
  file.append(long_text.data(), long_text.size());
  file.append("tail", 4);
  EXPECT_EQ(file.appended(), 3'000'009);
  file.flush();
  file.write_at(1, "EA", 2);
  file.close();
  EXPECT_EQ(text_of(MappedFile(folder / "a")), "hEAd" + long_text + "tail");

  FileWriter again(folder / "a", FileWriter::Mode::existing);
  again.write_at(0, "H", 1);
  again.close();
  rename_file(folder / "a", folder / "b");
  MappedFile moved;
  moved = MappedFile(folder / "b");
  EXPECT_EQ(text_of(moved).substr(0, 4), "HEAd");
  EXPECT_EQ(moved.size(), 3'000'009);
}

TEST(Files, ReservedSpaceReadsAsZero) {
  const TemporaryFolder folder;
  FileWriter file(folder / "a");
  file.reserve(10);
  file.write_at(4, "x", 1);
  file.close();
  EXPECT_EQ(text_of(MappedFile(folder / "a")), std::string("\0\0\0\0x\0\0\0\0\0", 10));
}

TEST(Files, WhatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "none", folder.path(), std::string("/dev/null")}) try {
      const MappedFile file(path);
      ADD_FAILURE() << path;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  write_bytes(folder / "empty", "");
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0);
}

TEST(Files, FailuresOfWritingAreStorageErrors) {
  const TemporaryFolder folder;
  EXPECT_THAT(storage_error([&] { FileWriter(folder / "no/a"); }), HasSubstr("no/a"));
  EXPECT_THAT(storage_error([&] { FileWriter(folder / "a", FileWriter::Mode::existing); }),
              HasSubstr("No such file"));
  EXPECT_THAT(storage_error([] {
                FileWriter file("/dev/full");
                file.append("x", 1);
                file.close();
              }),
              HasSubstr("/dev/full: cannot be written: No space left on device; free some space"));
  EXPECT_THAT(storage_error([&] { rename_file(folder / "none", folder / "b"); }), HasSubstr("/b"));
  EXPECT_THAT(storage_error([&] { sync_folder(folder / "none"); }), HasSubstr("none"));
  const int status = run_in_child(
      [&] {
        const std::string message = storage_error([&] { FileWriter(folder / "r").reserve(1000); });
        return message.find("free some space") == std::string::npos ? 1 : 0;
      },
      999);
  EXPECT_EQ(status, 0);
}

TEST(Files, FolderOfAPath) {
  EXPECT_EQ(folder_of("a/b/c"), "a/b");
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_EQ(folder_of("/a"), "/");
}

}  // namespace
}  // namespace engine
