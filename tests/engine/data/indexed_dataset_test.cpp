// Indexed data sets: round trips, hostile files, and writing that fails or is cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "engine/base/errors.h"
#include "engine/data/indexed_dataset.h"
#include "engine/data/indexed_writer.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

using Documents = std::vector<std::vector<std::vector<int32_t>>>;

void write(const std::string& prefix, TokenType type, const Documents& documents) {
  IndexedWriter writer(prefix, type);
  for (const auto& document : documents) {
    for (const auto& sequence : document) writer.add_sequence(sequence);
    writer.end_document();
  }
  writer.commit();
}

const Documents kDocuments = {{{1, 2, 3}}, {{4}, {}, {5, 6}}, {{7, 100}}};

class IndexedDatasetTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string prefix_ = folder_ / "text";
};

TEST_F(IndexedDatasetTest, RoundTripsEveryType) {
  for (const TokenType type : {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::u16,
                               TokenType::i32, TokenType::i64}) {
    write(prefix_, type, kDocuments);
    const IndexedDataset data(prefix_ + ".bin");
    EXPECT_EQ(data.type(), type);
    EXPECT_EQ(data.documents(), 3);
    EXPECT_EQ(data.sequences(), 5);
    ASSERT_EQ(data.tokens(), 8);
    EXPECT_EQ(data.sequence_length(3), 2);
    EXPECT_EQ(data.first_sequence(1), 1);
    EXPECT_EQ(data.first_sequence(3), 5);
    std::vector<int32_t> tokens(8);
    data.read(0, tokens);
    EXPECT_THAT(tokens, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 100));
    std::vector<int32_t> some(3);
    data.read(4, some);
    EXPECT_THAT(some, testing::ElementsAre(5, 6, 7));
  }
}

// Byte for byte what numpy writes with Megatron's layout for the documents [1, 2], [300].
TEST_F(IndexedDatasetTest, WritesTheKnownLayout) {
  write(prefix_, TokenType::u16, {{{1, 2}}, {{300}}});
  const std::string expected(
      "MMIDIDX\0\0"
      "\1\0\0\0\0\0\0\0"
      "\10"
      "\2\0\0\0\0\0\0\0"
      "\3\0\0\0\0\0\0\0"
      "\2\0\0\0"
      "\1\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\4\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0"
      "\2\0\0\0\0\0\0\0",
      34 + 8 + 16 + 24);
  EXPECT_EQ(read_bytes(prefix_ + ".idx"), expected);
  EXPECT_EQ(read_bytes(prefix_ + ".bin"), std::string("\1\0\2\0\54\1", 6));
}

TEST_F(IndexedDatasetTest, ReadsUnsignedTokensAsSuch) {
  write(prefix_, TokenType::u16, {{{65535}}});
  std::vector<int32_t> token(1);
  IndexedDataset(prefix_).read(0, token);
  EXPECT_EQ(token[0], 65535);
}

TEST_F(IndexedDatasetTest, EveryTruncationIsRefused) {
  write(prefix_, TokenType::u16, kDocuments);
  for (const char* ending : {".idx", ".bin"}) {
    const std::string whole = read_bytes(prefix_ + ending);
    for (size_t length = 0; length < whole.size(); ++length) {
      write_bytes(prefix_ + ending, whole.substr(0, length));
      EXPECT_THROW(IndexedDataset{prefix_}, InputError) << ending << " cut to " << length;
    }
    write_bytes(prefix_ + ending, whole + "x");
    EXPECT_THROW(IndexedDataset{prefix_}, InputError) << ending << " longer by one byte";
    write_bytes(prefix_ + ending, whole);
    EXPECT_NO_THROW(IndexedDataset{prefix_});
  }
}

// Damage at a byte of the index, and a word that the message must have. The index of kDocuments:
// sequence lengths at 34, byte offsets at 54, first sequences of documents at 94.
TEST_F(IndexedDatasetTest, DamagedIndexesAreRefusedByName) {
  struct Case {
    size_t offset;
    std::string bytes;
    std::string word;
  };
  const std::string huge(8, '\x7f');
  const std::string all_ones(8, '\xff');
  const Case cases[] = {
      {0, "X", "MMIDIDX"},
      {0, "TNTIDX", "TNTIDX"},
      {9, "\2", "version 2"},
      {17, "\6", "floating-point"},
      {17, "\7", "floating-point"},
      {17, "\11", "token type 9"},
      {17, std::string(1, '\0'), "token type 0"},
      {18, huge, "truncated"},
      {18, all_ones, "truncated"},
      {26, huge, "truncated"},
      {26, all_ones, "truncated"},
      {18, "\4", "longer"},
      {17, "\4", "sequence 1 lies"},
      {34, "\xff\xff\xff\xff", "length -1"},
      {34, "\2", "sequence 1 lies"},
      {34, "\xff\xff\xff\x7f", "truncated"},
      {54, "\2", "sequence 0 lies"},
      {54, all_ones, "sequence 0 lies"},
      {62, huge, "sequence 1 lies"},
      {94, "\1", "document 0"},
      {102, "\7", "document 1"},
      {110, all_ones, "document 2"},
      {118, "\4", "sequence 4 of 5"},
  };
  write(prefix_, TokenType::u16, kDocuments);
  const std::string whole = read_bytes(prefix_ + ".idx");
  for (const Case& one : cases) {
    std::string damaged = whole;
    damaged.replace(one.offset, one.bytes.size(), one.bytes);
    write_bytes(prefix_ + ".idx", damaged);
    try {
      const IndexedDataset data(prefix_);
      ADD_FAILURE() << "byte " << one.offset << " was not noticed";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(one.word)) << "byte " << one.offset;
      EXPECT_THAT(error.what(), testing::HasSubstr(prefix_));
    }
  }
}

TEST_F(IndexedDatasetTest, ForeignAndMissingFiles) {
  EXPECT_THROW(IndexedDataset{prefix_}, InputError);
  write(prefix_, TokenType::u16, kDocuments);
  write_bytes(prefix_ + ".idx", read_bytes(prefix_ + ".idx") + std::string(5, '\0'));
  try {
    const IndexedDataset data(prefix_);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("multimodal"));
  }
  std::filesystem::remove(prefix_ + ".bin");
  std::filesystem::create_directory(prefix_ + ".bin");
  EXPECT_THROW(IndexedDataset{prefix_}, InputError);
}

TEST_F(IndexedDatasetTest, IdsBeyond32BitsAreRefusedWhenRead) {
  write(prefix_, TokenType::i64, {{{1, 2}}});
  write_bytes(prefix_ + ".bin", std::string("\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 16));
  const IndexedDataset data(prefix_);
  std::vector<int32_t> tokens(1);
  data.read(0, tokens);
  EXPECT_THROW(data.read(1, tokens), InputError);
}

TEST_F(IndexedDatasetTest, WhatIsNotCommittedLeavesNothing) {
  write(prefix_, TokenType::u16, kDocuments);
  {
    IndexedWriter writer(prefix_, TokenType::u16);
    writer.add_sequence(std::vector<int32_t>{1});
  }
  EXPECT_EQ(IndexedDataset(prefix_).tokens(), 8);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    files += entry.exists();
  EXPECT_EQ(files, 2u);
}

// A full disk, and a process killed, at many bytes of the output.
TEST_F(IndexedDatasetTest, FailedWritingKeepsTheOldFiles) {
  write(prefix_, TokenType::u16, kDocuments);
  const auto overwrite = [&] {
    try {
      write(prefix_, TokenType::i32, Documents(50, {{1, 2, 3, 4, 5}}));
    } catch (const Error& error) {
      return static_cast<int>(error.code());
    }
    return 0;
  };
  constexpr rlim_t kIndexBytes = 34 + 50 * 12 + 51 * 8;
  for (const rlim_t limit :
       {rlim_t{0}, rlim_t{1}, rlim_t{34}, rlim_t{300}, rlim_t{999}, kIndexBytes - 1})
    for (const bool killed : {false, true}) {
      const int status = run_in_child(overwrite, limit, killed);
      EXPECT_EQ(status, killed ? -SIGXFSZ : static_cast<int>(ExitCode::storage)) << limit;
      EXPECT_EQ(IndexedDataset(prefix_).tokens(), 8) << limit;
    }
  EXPECT_EQ(run_in_child(overwrite, kIndexBytes), 0);
  EXPECT_EQ(IndexedDataset(prefix_).tokens(), 250);
}

TEST_F(IndexedDatasetTest, AFolderThatIsNotThereIsAStorageError) {
  try {
    IndexedWriter writer(folder_ / "none/text", TokenType::u16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::storage);
  }
}

}  // namespace
}  // namespace engine
