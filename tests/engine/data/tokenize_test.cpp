// Tokenizing text and JSON lines; tokenizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>

#include "engine/base/errors.h"
#include "engine/data/indexed_dataset.h"
#include "engine/data/line_reader.h"
#include "engine/data/tokenize.h"
#include "engine/data/tokenizer.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TokenizeTest : public testing::Test {
 protected:
  TokenizeTest() { options_.output = folder_ / "out"; }

  void input(const std::string& name, const std::string& text) {
    write_bytes(folder_ / name, text);
    options_.inputs.push_back(folder_ / name);
  }
  // The documents as text, "|" for each end of document.
  std::vector<std::string> documents() {
    const IndexedDataset data(options_.output);
    std::vector<std::string> texts;
    int64_t place = 0;
    for (int64_t document = 0; document < data.documents(); ++document) {
      std::string text;
      for (int64_t s = data.first_sequence(document); s < data.first_sequence(document + 1); ++s) {
        std::vector<int32_t> tokens(static_cast<size_t>(data.sequence_length(s)));
        data.read(place, tokens);
        place += data.sequence_length(s);
        for (const int32_t token : tokens) text += token == 256 ? '|' : static_cast<char>(token);
      }
      texts.push_back(text);
    }
    return texts;
  }
  std::string error() {
    try {
      tokenize(options_);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  TokenizeOptions options_;
};

TEST_F(TokenizeTest, ATextFileIsADocument) {
  input("a.txt", "one\n\ntwo\r\n");
  input("b.txt", "\xEF\xBB\xBFthree");
  input("empty.txt", " \n");
  const TokenizeProgress done = tokenize(options_);
  EXPECT_THAT(documents(), ElementsAre("one\n\ntwo\r\n|", "three|"));
  EXPECT_EQ(done.documents, 2);
  EXPECT_EQ(done.empty_documents, 1);
  EXPECT_EQ(done.tokens, 17);
  EXPECT_EQ(done.bytes_read, done.bytes_total);
}

TEST_F(TokenizeTest, SeparatorsPartDocuments) {
  input("a.txt", "%\none\n% no\n%\ntwo\n%\r\n%\nlast");
  options_.separator = "%";
  options_.end_documents = false;
  EXPECT_EQ(tokenize(options_).empty_documents, 2);
  EXPECT_THAT(documents(), ElementsAre("one\n% no\n", "two\n", "last"));
}

TEST_F(TokenizeTest, JsonLines) {
  input("a.jsonl",
        "{\"text\": \"one \\u00e9\"}\n\n{\"id\": NaN, \"text\": \"two\"}\r\n{\"text\":\"\"}\n"
        "{\"text\":\"  \"}\n{\"text\": \"last\"}");
  const TokenizeProgress done = tokenize(options_);
  EXPECT_THAT(documents(), ElementsAre("one \xc3\xa9|", "two|", "last|"));
  EXPECT_EQ(done.empty_documents, 2);
}

TEST_F(TokenizeTest, TheKeyCanBeChosen) {
  input("a.txt", "{\"body\": \"x\", \"text\": 5}\n");
  options_.format = TextFormat::json_lines;
  EXPECT_THAT(error(), HasSubstr("a.txt:1: has no text under 'text'; keys with text are 'body'"));
  options_.key = "body";
  tokenize(options_);
  EXPECT_THAT(documents(), ElementsAre("x|"));
}

TEST_F(TokenizeTest, BadLinesAreReportedTogetherByNumber) {
  input("good.jsonl", "{\"text\": \"kept\"}\n");
  tokenize(options_);
  input("a.jsonl", "{\"text\": \"x\"}\n{\"text\": \n[1]\n\"text\"\n{\"text\": \"\xff\"}\n{}\n");
  const std::string text = error();
  for (const char* place :
       {"a.jsonl:2: ", "a.jsonl:3: ", "a.jsonl:4: ", "a.jsonl:5: ", "a.jsonl:6: "})
    EXPECT_THAT(text, HasSubstr(place));
  EXPECT_THAT(text, testing::Not(HasSubstr("a.jsonl:1: ")));
  EXPECT_THAT(documents(), ElementsAre("kept|"));  // as before
  options_.skip_bad_lines = true;
  EXPECT_EQ(tokenize(options_).bad_lines, 5);
  EXPECT_THAT(documents(), ElementsAre("kept|", "x|"));
}

TEST_F(TokenizeTest, ReadingStopsAfterManyBadLines) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "x\n";
  input("a.jsonl", lines);
  const std::string text = error();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_THAT(text, HasSubstr("there may be more"));
}

TEST_F(TokenizeTest, BadInputsAreAllNamed) {
  options_.inputs = {folder_ / "none.txt", folder_.path()};
  options_.output = folder_ / "nowhere/out";
  const std::string text = error();
  for (const char* word : {"none.txt", "nowhere", ": no such folder"})
    EXPECT_THAT(text, HasSubstr(word));
  options_.output = folder_ / "out";
  options_.inputs.clear();
  EXPECT_THAT(error(), HasSubstr("no input"));
  input("a.txt", "\n \n");
  EXPECT_THAT(error(), HasSubstr("no document"));
  input("a.txt.gz", "\x1f\x8b rest");
  EXPECT_THAT(error(), HasSubstr("compressed"));
}

// Longer than the pieces that are read, the blocks that are encoded, and a sequence.
TEST_F(TokenizeTest, LongDocumentsBecomeSeveralSequences) {
  std::string text;
  for (int i = 0; text.size() < (size_t{5} << 19); ++i)
    text += i % 1000 == 0 ? '\n' : static_cast<char>('a' + i % 26);
  input("a.txt", text);
  std::vector<TokenizeProgress> reports;
  tokenize(options_, [&](const TokenizeProgress& now) { reports.push_back(now); });
  EXPECT_EQ(IndexedDataset(options_.output).sequences(), 3);
  EXPECT_EQ(documents(), std::vector{text + "|"});
  ASSERT_GE(reports.size(), 3u);
  EXPECT_LT(reports.front().bytes_read, reports.back().bytes_read);
  EXPECT_EQ(reports.back().tokens, static_cast<int64_t>(text.size()) + 1);
}

TEST_F(TokenizeTest, AFullDiskLeavesTheOldFiles) {
  input("a.txt", "old");
  tokenize(options_);
  input("b.txt", std::string(100'000, 'x'));
  const int status = run_in_child(
      [&] {
        try {
          tokenize(options_);
        } catch (const Error& error) {
          return static_cast<int>(error.code());
        }
        return 0;
      },
      50'000);
  EXPECT_EQ(status, static_cast<int>(ExitCode::storage));
  EXPECT_THAT(documents(), ElementsAre("old|"));
}

TEST_F(TokenizeTest, Command) {
  input("a.jsonl", "{\"body\": \"x\"}\n{\"body\": \"\"}\nbad\n");
  std::ostringstream out, progress;
  const std::string file = options_.inputs[0];
  const auto run = [&](std::vector<std::string> arguments) {
    return tokenize_command(arguments, out, progress);
  };
  EXPECT_EQ(run({file, "--output=" + options_.output, "--key", "body", "--skip-bad-lines"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("2 tokens in 1 documents; 1 empty ones left out; 1 bad lines"));
  EXPECT_THAT(progress.str(), HasSubstr("100 %"));
  out.str("");
  run({"--input", file, "--output", options_.output, "--key=body", "--skip-bad-lines", "--no-end",
       "--json"});
  EXPECT_THAT(out.str(), HasSubstr("\"tokens\": 1\n"));
  EXPECT_THROW(run({"--inptu", file}), InputError);
  EXPECT_THROW(run({"--json=1", file}), InputError);
  EXPECT_THROW(run({file, "--output"}), InputError);
  EXPECT_THROW(run({file, "--output", "x", "--format", "xml"}), InputError);
}

TEST(LineReaderTest, LongLinesComeInPartsOfWholeCharacters) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", "ab\nxxxxxx\xc3\xa9yy\n\nend");
  LineReader reader(folder / "a", 7);
  std::vector<std::string> parts;
  std::vector<int64_t> numbers;
  for (std::string_view line; reader.next(line); numbers.push_back(reader.number()))
    parts.emplace_back(line);
  EXPECT_THAT(parts, ElementsAre("ab\n", "xxxxxx", "\xc3\xa9yy\n", "\n", "end"));
  EXPECT_THAT(numbers, ElementsAre(1, 2, 2, 3, 4));
  EXPECT_EQ(reader.bytes_read(), 18);
}

TEST(TokenizerTest, BytesKeepEverything) {
  const auto tokenizer = make_tokenizer("bytes");
  std::string text(256, '\0');
  std::iota(text.begin(), text.end(), static_cast<char>(0));
  std::vector<int32_t> tokens;
  tokenizer->encode(text, tokens);
  tokens.push_back(tokenizer->end_of_document());
  EXPECT_EQ(tokens[255], 255);
  EXPECT_EQ(tokens[256], 256);
  EXPECT_EQ(tokenizer->decode(tokens), text);
  EXPECT_EQ(tokenizer->vocab(), 257);
}

TEST(TokenizerTest, OtherKindsAreRefusedByName) {
  struct Case {
    std::string name, content, word;
  };
  const Case cases[] = {
      {"tokenizer.json", "{\"version\": \"1.0\"}", "tokenizer.json"},
      {"merges.txt", "#version: 0.2\nh e\n", "byte-pair merges"},
      {"vocab.json", "{\"!\": 0}", "byte-pair"},
      {"tokenizer.model", "IQ== 0\nIg== 1\n", "tiktoken"},
      {"cl100k_base.tiktoken", "IQ== 0\n", "tiktoken"},
      {"vocab.txt", "[PAD]\n[UNK]\n", "WordPiece"},
  };
  const TemporaryFolder folder;
  for (const Case& one : cases) {
    write_bytes(folder / one.name, one.content);
    try {
      make_tokenizer(folder / one.name);
      ADD_FAILURE() << one.name;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(one.word));
      EXPECT_THAT(error.what(), HasSubstr("use 'bytes' or a sentencepiece model"));
    }
  }
  EXPECT_THROW(make_tokenizer(folder / "none.model"), InputError);
  EXPECT_THROW(make_tokenizer(folder.path()), InputError);
}

}  // namespace
}  // namespace engine
