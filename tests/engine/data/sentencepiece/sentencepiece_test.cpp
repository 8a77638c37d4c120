// Sentencepiece models as tokenizers, with models trained here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <fstream>

#include "engine/base/errors.h"
#include "engine/data/indexed_dataset.h"
#include "engine/data/tokenize.h"
#include "engine/data/tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

class SentencepieceTest : public testing::Test {
 protected:
  std::string train(const std::string& extra) {
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 400; ++i)
      text << "the ship number " << i << " sails over the " << (i % 3 == 0 ? "blue" : "grey")
           << " sea\n";
    text.close();
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--minloglevel=2 --vocab_size=300 --hard_vocab_limit=false --input=" +
        folder_ / "text.txt" + " --model_prefix=" + folder_ / "small" + " " + extra);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return folder_ / "small.model";
  }

  TemporaryFolder folder_;
};

TEST_F(SentencepieceTest, EncodesAsTheLibraryDoes) {
  const std::string model = train("--model_type=bpe --byte_fallback=true");
  const auto tokenizer = make_tokenizer(model);
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.Load(model).ok());
  EXPECT_EQ(tokenizer->vocab(), processor.GetPieceSize());
  EXPECT_EQ(tokenizer->end_of_document(), processor.eos_id());
  const std::string text = "the grey ship \xc3\xa9";
  std::vector<int32_t> tokens;
  tokenizer->encode(text, tokens);
  EXPECT_EQ(tokens, std::vector<int32_t>(processor.EncodeAsIds(text)));
  EXPECT_LT(tokens.size(), text.size());
  tokens.push_back(tokenizer->end_of_document());
  EXPECT_EQ(tokenizer->decode(tokens), text);
}

TEST_F(SentencepieceTest, TokenizesFiles) {
  TokenizeOptions options;
  options.tokenizer = train("--model_type=unigram");
  options.inputs = {folder_ / "text.txt"};
  options.output = folder_ / "out";
  const TokenizeProgress done = tokenize(options);
  const IndexedDataset data(options.output);
  std::vector<int32_t> tokens(static_cast<size_t>(data.tokens()));
  data.read(0, tokens);
  EXPECT_EQ(done.documents, 1);
  EXPECT_LT(data.tokens(), done.bytes_total);
  const auto tokenizer = make_tokenizer(options.tokenizer);
  EXPECT_EQ(tokens.back(), tokenizer->end_of_document());
  EXPECT_THAT(tokenizer->decode(tokens), testing::HasSubstr("the ship number 399 sails"));
}

TEST_F(SentencepieceTest, BadModelsAreRefused) {
  const std::string model = train("--model_type=bpe");
  const std::string whole = read_bytes(model);
  for (const size_t length : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    write_bytes(folder_ / "cut.model", whole.substr(0, length));
    EXPECT_THROW(make_tokenizer(folder_ / "cut.model"), InputError) << length;
  }
  EXPECT_THROW(make_tokenizer(train("--model_type=bpe --eos_id=-1")), InputError);
}

}  // namespace
}  // namespace engine
