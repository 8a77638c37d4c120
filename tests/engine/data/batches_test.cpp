// Batches: permutations, every window once an epoch, the same samples for everybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "engine/base/errors.h"
#include "engine/data/batches.h"
#include "engine/data/indexed_writer.h"
#include "engine/data/permutation.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

TEST(PermutationTest, IsABijectionOfEverySize) {
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 4096, 4097, 100'003})
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      const Permutation order(size, key);
      std::vector<bool> seen(static_cast<size_t>(size), false);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t image = order(i);
        ASSERT_TRUE(image >= 0 && image < size) << size;
        ASSERT_FALSE(seen[static_cast<size_t>(image)]) << size;
        seen[static_cast<size_t>(image)] = true;
      }
    }
}

TEST(PermutationTest, HugeDomainsTakeNoMemory) {
  const Permutation order(int64_t{1} << 62, 5);
  std::set<int64_t> images;
  for (int64_t i = 0; i < 1000; ++i) images.insert(order(i));
  EXPECT_EQ(images.size(), 1000u);
  EXPECT_THROW(order(int64_t{1} << 62), std::logic_error);
}

// Over many keys every position takes every value about equally often (chi-squared, 24 · 23
// independent cells at most: 5 standard deviations above its mean is 550 + 5 · 33).
TEST(PermutationTest, IsUniformOverKeys) {
  constexpr int64_t kSize = 24;
  constexpr int kKeys = 12'000;
  std::vector<int> counts(kSize * kSize, 0);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation order(kSize, key);
    for (int64_t i = 0; i < kSize; ++i) ++counts[static_cast<size_t>(i * kSize + order(i))];
  }
  constexpr double kExpected = double{kKeys} / kSize;
  double chi_squared = 0;
  for (const int count : counts)
    chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
  EXPECT_LT(chi_squared, 550 + 5 * 33);
  EXPECT_GT(chi_squared, 550 - 6 * 33);
}

TEST(PermutationTest, MixesNeighbours) {
  const Permutation order(10'000, 3);
  int near = 0;
  for (int64_t i = 0; i + 1 < 10'000; ++i) near += std::abs(order(i + 1) - order(i)) < 100;
  EXPECT_NEAR(near, 200, 60);
}

class BatchesTest : public testing::Test {
 protected:
  // A data set of the tokens 0, 1, 2, …, in sequences of seven.
  TextBatches counting(int64_t tokens, int64_t seq, uint64_t seed = 1, int64_t vocab = 60'000) {
    std::vector<int32_t> all(static_cast<size_t>(tokens));
    std::iota(all.begin(), all.end(), 0);
    IndexedWriter writer(folder_ / "text", TokenType::u16);
    for (size_t at = 0; at < all.size(); at += 7) {
      writer.add_sequence(std::span(all).subspan(at, std::min<size_t>(7, all.size() - at)));
      writer.end_document();
    }
    writer.commit();
    return TextBatches(IndexedDataset(folder_ / "text"), seq, vocab, seed);
  }
  static std::vector<int32_t> sample(const Batches& samples, int64_t index, int64_t seq) {
    std::vector<int32_t> tokens(static_cast<size_t>(seq + 1));
    samples.read(index, tokens);
    return tokens;
  }

  TemporaryFolder folder_;
};

TEST_F(BatchesTest, EveryWindowIsReadOnceAnEpoch) {
  constexpr int64_t kSeq = 16;
  for (const int64_t tokens : {17, 18, 33, 1000, 1600, 1601, 1616}) {
    const TextBatches samples = counting(tokens, kSeq);
    const int64_t windows = samples.samples_per_epoch();
    ASSERT_EQ(windows, (tokens - 1) / kSeq);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int32_t> inputs;
      for (int64_t i = 0; i < windows; ++i) {
        const auto read = sample(samples, epoch * windows + i, kSeq);
        for (int64_t t = 0; t <= kSeq; ++t) ASSERT_EQ(read[static_cast<size_t>(t)], read[0] + t);
        inputs.insert(read.begin(), read.end() - 1);
      }
      EXPECT_EQ(static_cast<int64_t>(inputs.size()), windows * kSeq);
      EXPECT_EQ(*inputs.rbegin() - *inputs.begin() + 1, windows * kSeq);
    }
  }
}

TEST_F(BatchesTest, OrderAndStartAreDrawnForTheEpochAndTheSeed) {
  constexpr int64_t kSeq = 10;
  const TextBatches samples = counting(1009, kSeq);
  const TextBatches again(IndexedDataset(folder_ / "text"), kSeq, 60'000, 1);
  const TextBatches other(IndexedDataset(folder_ / "text"), kSeq, 60'000, 2);
  std::set<int64_t> starts;
  int equal_epochs = 0, equal_seeds = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const auto first = sample(samples, i, kSeq);
    equal_epochs += first == sample(samples, 100 + i, kSeq);
    equal_seeds += first == sample(other, i, kSeq);
    EXPECT_EQ(first, sample(again, i, kSeq));
  }
  for (int64_t epoch = 0; epoch < 60; ++epoch)
    starts.insert(sample(samples, epoch * 100, kSeq)[0] % kSeq);
  EXPECT_LT(equal_epochs, 10);
  EXPECT_LT(equal_seeds, 10);
  EXPECT_EQ(starts.size(), 9u);  // 1008 - 100 · 10 = 8 spare tokens
}

TEST_F(BatchesTest, TooShortAndForeignData) {
  EXPECT_THROW(counting(16, 16), InputError);
  const TextBatches samples = counting(33, 16, 1, 20);
  try {
    sample(samples, 0, 16);
    sample(samples, 1, 16);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("vocabulary of 20"));
  }
}

TEST_F(BatchesTest, SyntheticTokensCoverTheVocabulary) {
  const auto samples = make_batches("", 999, 10, 7);
  std::vector<int> counts(10, 0);
  for (const int32_t token : sample(*samples, 5, 999)) ++counts.at(static_cast<size_t>(token));
  for (const int count : counts) EXPECT_NEAR(count, 100, 50);
  EXPECT_EQ(sample(*samples, 5, 999), sample(*make_batches("", 999, 10, 7), 5, 999));
  EXPECT_NE(sample(*samples, 5, 999), sample(*samples, 6, 999));
}

}  // namespace
}  // namespace engine
