// autotune run tokenize: text as the token files that training reads.
#include "tuner/cli/commands.h"
#include "tuner/cli/worker_program.h"

namespace tuner {
namespace {

int run_tokenize(const Arguments& arguments) {
  std::vector<std::string> words = {"tokenize"};
  for (const std::string& input : arguments.texts("--input"))
    words.insert(words.end(), {"--input", input});
  for (const char* name : {"--output", "--tokenizer", "--format", "--key", "--separator"})
    if (const auto value = arguments.text(name)) words.insert(words.end(), {name, *value});
  for (const char* name : {"--no-end", "--skip-bad-lines", "--json"})
    if (arguments.flag(name)) words.emplace_back(name);
  become_worker(words);
}

}  // namespace

Command run_tokenize_command() {
  return {.words = "run tokenize",
          .summary = "Turn text into the token files that training reads",
          .description =
              "Writes Megatron's indexed files OUTPUT.bin and OUTPUT.idx. Memory use is "
              "constant; bad JSON lines are named by file and line.",
          .examples = {{"run tokenize --input corpus.txt --output data/corpus", "Bytes as tokens"},
                       {"run tokenize --input a.jsonl,b.jsonl --key content --output data/web "
                        "--tokenizer tokenizer.model",
                        "JSON lines, with a sentencepiece model"}},
          .options = {{.name = "--input",
                       .kind = ValueKind::texts,
                       .placeholder = "FILES",
                       .help = "Text files, or JSON lines (*.jsonl)",
                       .required = true},
                      {.name = "--output",
                       .kind = ValueKind::text,
                       .placeholder = "PREFIX",
                       .help = "Common path of the two files",
                       .required = true},
                      tokenizer_option(),
                      {.name = "--format",
                       .kind = ValueKind::text,
                       .help = "What the files hold",
                       .default_text = "by their names",
                       .choices = {"text", "jsonl"}},
                      {.name = "--key",
                       .kind = ValueKind::text,
                       .placeholder = "NAME",
                       .help = "Member of a JSON line with the text",
                       .default_text = "text"},
                      {.name = "--separator",
                       .kind = ValueKind::text,
                       .placeholder = "LINE",
                       .help = "A line of exactly this parts the documents of a text file"},
                      {.name = "--no-end",
                       .kind = ValueKind::flag,
                       .help = "Do not end documents with the end-of-document token"},
                      {.name = "--skip-bad-lines",
                       .kind = ValueKind::flag,
                       .help = "Leave out lines that are not as said, and count them"},
                      json_option()},
          .run = run_tokenize};
}

}  // namespace tuner
