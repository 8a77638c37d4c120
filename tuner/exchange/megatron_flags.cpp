// Writing and reading of Megatron's command line.
#include "tuner/exchange/megatron_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using Kind = MegatronField::Kind;

std::string value_text(const Settings& value) {
  return bash_word(value.is_string() ? value.get<std::string>() : value.dump());
}

// A flag whose setting has another form or that implies several.
struct Special {
  std::string_view flag;
  std::string_view name;
  const char* value;  // null: true
};
constexpr Special kSpecial[] = {
    {"--recompute-activations", "recompute_granularity", "selective"},
    {"--use-rotary-position-embeddings", "position_embedding_type", "rope"},
    {"--use-flash-attn", "attention_backend", "flash"},
    {"--use-flash-attn-v1", "attention_backend", "flash"},
    {"--use-flash-attn-v2", "attention_backend", "flash"},
    {"--use-flash-attn-triton", "attention_backend", "flash"},
    {"--use-flash-attn-builder", "attention_backend", "flash"},
};

bool is_flag(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") && word[2] != '-';
}

class FlagReader {
 public:
  FlagReader(const std::vector<std::string>& words, const std::string& source,
             std::vector<std::string>& ignored)
      : words_(words), source_(source), ignored_(ignored) {}

  Settings run() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (is_flag(word)) read(word);
    }
    if (!problems_.empty()) throw engine::InputError(problems_);
    return std::move(settings_);
  }

 private:
  void read(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (equals != std::string::npos) inline_value_ = word.substr(equals + 1);
    for (const Special& special : kSpecial)
      if (special.flag == flag) {
        settings_[std::string(special.name)] = special.value;
        return;
      }
    if (flag == "--checkpoint-activations") {  // every layer, as before 2022
      settings_["recompute_granularity"] = "full";
      settings_["recompute_method"] = "uniform";
      settings_["recompute_num_layers"] = 1;
    } else if (const MegatronField* field = find_megatron_flag(flag)) {
      set(*field, flag);
    } else {
      ignored_.push_back(flag);
    }
    inline_value_.clear();
  }

  void set(const MegatronField& field, const std::string& flag) {
    if (field.kind == Kind::on || field.kind == Kind::off) {
      settings_[field.name] = field.kind == Kind::on;
      return;
    }
    std::vector<std::string> values;
    if (!inline_value_.empty()) values.push_back(inline_value_);
    while (inline_value_.empty() && at_ < words_.size() && !is_flag(words_[at_]) &&
           (values.empty() || field.kind == Kind::texts))
      values.push_back(words_[at_++]);
    if (values.empty()) return problem(flag, "has no value");
    if (field.kind == Kind::texts) {
      settings_[field.name] = values;
      return;
    }
    const std::string& text = values.front();
    if (text.find('$') != std::string::npos)
      return problem(flag, fmt::format("is {}, which the file does not set; write the value there",
                                       one_line(text)));
    if (field.kind == Kind::text)
      settings_[field.name] = text;
    else if (field.kind == Kind::integer)
      number<int64_t>(field, flag, text, "an integer");
    else
      number<double>(field, flag, text, "a number");
  }

  template <class Number>
  void number(const MegatronField& field, const std::string& flag, const std::string& text,
              const char* what) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || rest != end)
      return problem(flag, fmt::format("is '{}', but must be {}", one_line(text), what));
    settings_[field.name] = value;
  }

  void problem(const std::string& flag, const std::string& what) {
    problems_.push_back(fmt::format("{}: {} {}", source_, flag, what));
  }

  const std::vector<std::string>& words_;
  const std::string& source_;
  std::vector<std::string>& ignored_;
  size_t at_ = 0;
  std::string inline_value_;
  Settings settings_ = Settings::object();
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> megatron_flags(const Settings& settings) {
  std::vector<std::string> flags;
  for (const auto& [name, value] : settings.items()) {
    const MegatronField* field = find_megatron_field(name);
    engine::expect(field != nullptr && *field->flag != '\0', "a setting with a flag");
    std::string text = field->flag;
    switch (field->kind) {
      case Kind::on:
      case Kind::off:
        if (value.get<bool>() != (field->kind == Kind::on)) continue;
        break;
      case Kind::texts:
        for (const Settings& item : value) text += " " + value_text(item);
        break;
      default:
        text += " " + value_text(value);
    }
    flags.push_back(std::move(text));
  }
  return flags;
}

Settings settings_of_flags(const std::vector<std::string>& words, const std::string& source,
                           std::vector<std::string>& ignored) {
  return FlagReader(words, source, ignored).run();
}

}  // namespace tuner
