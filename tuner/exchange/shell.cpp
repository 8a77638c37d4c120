// The words of shell scripts: quotes, variables, arrays, here-documents. Runs nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "engine/base/errors.h"
#include "tuner/exchange/syntax.h"

namespace tuner {
namespace {

using Words = std::vector<std::string>;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The word being read: its text so far, and the whole words that an expansion split off.
struct Piece {
  std::string text;
  bool begun = false;  // also when it is empty: ''
  bool quoted = false;
};

class ShellReader {
 public:
  ShellReader(std::string_view text, const std::string& source, ShellScript& script)
      : text_(text), source_(source), script_(script) {}

  void run() {
    while (at_ < text_.size()) step();
    end_command();
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<long>(begun_), '\n') + 1;
    throw engine::InputError(fmt::format("{}:{}: {}", source_, line, what));
  }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void step() {
    const char c = text_[at_];
    if (c == '\\' && peek(1) == '\n') {
      at_ += 2;
    } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
      end_word();
      end_command();
      ++at_;
      if (c == '\n') read_here_documents();
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
      ++at_;
    } else if (c == '#' && !word_.begun) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      script_.comments.emplace_back(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end;
    } else if (c == '<' || c == '>') {
      redirection();
    } else if (c == '(' && word_.begun && word_.text.ends_with('=') && !word_.quoted) {
      array();
    } else if (c == '(' || c == ')') {
      end_word();
      end_command();
      ++at_;
    } else {
      part_of_word(false);
    }
  }

  void end_word() {
    if (!word_.begun) return;
    std::string text = std::move(word_.text);
    word_ = {};
    if (wanted_ == Wanted::file) {
      file_ = text;
      wanted_ = Wanted::nothing;
      return;
    }
    if (wanted_ == Wanted::ignored) {
      wanted_ = Wanted::nothing;
      return;
    }
    const size_t equals = text.find('=');
    const bool leading = command_.empty() || command_.front() == "export" ||
                         command_.front() == "local" || command_.front() == "declare";
    if (leading && equals != std::string::npos && equals > 0 && !text.starts_with('-') &&
        std::all_of(text.begin(), text.begin() + static_cast<long>(equals),
                    [](char c) { return is_name(c) || c == '+'; })) {
      const bool append = text[equals - 1] == '+';
      std::vector<std::string>& value = variables_[text.substr(0, equals - (append ? 1 : 0))];
      const std::string given = text.substr(equals + 1);
      if (append && !value.empty())
        value.back() += given;
      else
        value = {given};
      return;
    }
    command_.push_back(std::move(text));
  }

  void end_command() {
    end_word();
    if (!command_.empty() && command_.front() != "export") {
      if (!file_.empty() && !here_.empty()) here_.back().file = file_;
      script_.commands.push_back(std::move(command_));
    }
    command_.clear();
    file_.clear();
  }

  void redirection() {
    // A descriptor before the sign belongs to it: 2>&1.
    if (word_.begun && !word_.quoted && word_.text.size() == 1 &&
        std::isdigit(static_cast<unsigned char>(word_.text.front())) != 0)
      word_ = {};
    end_word();
    if (text_.substr(at_).starts_with("<<") && peek(2) != '<') {
      at_ += 2;
      if (peek() == '-') ++at_;
      while (peek() == ' ') ++at_;
      std::string tag;
      while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != ' ' && text_[at_] != ')') {
        if (text_[at_] != '\'' && text_[at_] != '"' && text_[at_] != '\\') tag += text_[at_];
        ++at_;
      }
      here_.push_back({tag, file_});
      return;
    }
    const bool writes = peek() == '>';
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') ++at_;
    wanted_ = writes ? Wanted::file : Wanted::ignored;
  }

  // The bodies of here-documents begin after the line that announces them. What goes to a file is a
  // document; what goes to a command (srun, bash) is script.
  void read_here_documents() {
    std::vector<Here> announced;
    announced.swap(here_);
    for (const Here& here : announced) {
      begun_ = at_;
      std::string body;
      for (bool ended = false; !ended;) {
        if (at_ >= text_.size()) fail("this here-document does not end");
        const size_t end = std::min(text_.find('\n', at_), text_.size());
        const std::string line(text_.substr(at_, end - at_));
        at_ = std::min(end + 1, text_.size());
        ended = line.substr(std::min(line.find_first_not_of('\t'), line.size())) == here.tag;
        if (!ended) body += line + "\n";
      }
      if (here.file.empty()) {
        ShellReader inner(body, source_, script_);
        inner.variables_ = variables_;
        inner.run();
      } else {
        script_.documents[here.file] = body;
      }
    }
  }

  // NAME=( words ) and NAME+=( words ).
  void array() {
    begun_ = at_;
    std::string name = word_.text.substr(0, word_.text.size() - 1);
    const bool append = name.ends_with('+');
    if (append) name.pop_back();
    word_ = {};
    Words outer;
    outer.swap(command_);
    command_.emplace_back("(");  // so that NAME=value inside is a word
    ++at_;
    while (true) {
      if (at_ >= text_.size()) fail("this array does not end with )");
      const char c = text_[at_];
      if (c == ')') break;
      if (c == '\n') {
        end_word();
        ++at_;
      } else {
        step();
      }
    }
    end_word();
    ++at_;
    std::vector<std::string>& value = variables_[name];
    if (!append) value.clear();
    value.insert(value.end(), command_.begin() + 1, command_.end());
    command_.swap(outer);
  }

  void part_of_word(bool in_quotes) {
    const char c = text_[at_];
    if (c == '$') return dollar(in_quotes);
    word_.begun = true;
    if (c == '`') {
      skip_to('`');
    } else if (c == '\\') {
      word_.text += peek(1);
      at_ += 2;
    } else if (!in_quotes && c == '\'') {
      single_quotes(false);
    } else if (!in_quotes && c == '"') {
      double_quotes();
    } else {
      word_.text += c;
      ++at_;
    }
  }

  void single_quotes(bool escapes) {
    begun_ = at_++;
    word_.quoted = true;
    while (peek() != '\'') {
      if (at_ >= text_.size()) fail("this quote does not end");
      if (escapes && peek() == '\\')
        escaped();
      else
        word_.text += text_[at_++];
    }
    ++at_;
  }

  // One escape of $'…': \n, \t, \xHH; before any other character the backslash goes.
  void escaped() {
    const char c = peek(1);
    at_ += 2;
    if (c != 'x') {
      word_.text += c == 'n' ? '\n' : c == 't' ? '\t' : c;
      return;
    }
    int value = 0;
    for (int digits = 0; digits < 2 && std::isxdigit(static_cast<unsigned char>(peek())) != 0;
         ++digits, ++at_)
      value = 16 * value + (std::isdigit(static_cast<unsigned char>(peek())) != 0
                                ? peek() - '0'
                                : (peek() | 0x20) - 'a' + 10);
    word_.text += static_cast<char>(value);
  }

  void double_quotes() {
    begun_ = at_++;
    const size_t start = begun_;
    word_.quoted = true;
    while (peek() != '"') {
      if (at_ >= text_.size()) {
        begun_ = start;
        fail("this quote does not end");
      }
      if (peek() == '\\' && peek(1) == '\n')
        at_ += 2;
      else
        part_of_word(true);
    }
    // "$@" of a script without arguments is no word at all.
    if (text_.substr(start + 1, at_ - start - 1) == "$@" && word_.text.empty()) word_ = {};
    ++at_;
  }

  // Copies up to and with `end` as it is written: only a shell knows what it means.
  void skip_to(char end) {
    begun_ = at_;
    do {
      word_.text += text_[at_++];
    } while (at_ < text_.size() && text_[at_] != end);
    if (at_ >= text_.size()) fail("this quote does not end");
    word_.text += text_[at_++];
  }

  void dollar(bool in_quotes) {
    const char next = peek(1);
    if (next == '\'' && !in_quotes) {
      ++at_;
      word_.begun = true;
      single_quotes(true);
    } else if (next == '(') {
      word_.begun = true;
      balanced('(', ')');
    } else if (next == '{') {
      const size_t end = text_.find('}', at_);
      begun_ = at_;
      if (end == std::string_view::npos) fail("this ${ does not end");
      expand(text_.substr(at_ + 2, end - at_ - 2), in_quotes);
      at_ = end + 1;
    } else if (is_name(next) || next == '@' || next == '*') {
      size_t end = at_ + 2;
      while (is_name(next) && end < text_.size() && is_name(text_[end])) ++end;
      const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end;
      expand(name, in_quotes);
    } else {
      word_.begun = true;
      word_.text += '$';
      ++at_;
    }
  }

  void balanced(char open, char close) {
    begun_ = at_;
    // A here-document inside, as in run=$(cat <<'TAG', is read for its script.
    if (text_.substr(at_).starts_with("$(cat <<")) {
      at_ += std::string_view("$(cat ").size();
      redirection();
      at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
      read_here_documents();
      at_ = std::min(text_.find(')', at_), text_.size() - 1) + 1;
      return;
    }
    int depth = 0;
    do {
      if (at_ >= text_.size()) fail("this $( does not end");
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close) --depth;
      word_.text += text_[at_++];
    } while (depth > 0 || text_[at_ - 1] != close);
  }

  // NAME, NAME[@], NAME:-default, NAME-default.
  void expand(std::string_view expression, bool in_quotes) {
    if (expression == "@" || expression == "*") return;  // the script's own arguments
    size_t end = 0;
    while (end < expression.size() && is_name(expression[end])) ++end;
    const std::string name(expression.substr(0, end));
    std::string_view rest = expression.substr(end);
    const bool whole = rest.starts_with("[@]") || rest.starts_with("[*]");
    if (whole) rest.remove_prefix(3);
    const auto found = variables_.find(name);
    if (found != variables_.end()) return put(found->second, in_quotes && !whole);
    const bool has_default = rest.starts_with(":-") || rest.starts_with("-");
    if (!has_default) {
      word_.begun = true;
      word_.text += fmt::format("${{{}}}", expression);
      return;
    }
    rest.remove_prefix(rest.front() == ':' ? 2 : 1);
    std::string text(rest);
    text.erase(
        std::remove_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\''; }),
        text.end());
    put({text}, in_quotes);
  }

  // One word where it stands in quotes, else what a shell splits at blanks.
  void put(const Words& values, bool as_one) {
    bool first = true;
    for (const std::string& value : values) {
      if (as_one) {
        word_.begun = true;
        word_.text += value;
        continue;
      }
      if (!first) end_word();
      first = false;
      for (const char c : value) {
        if (std::isspace(static_cast<unsigned char>(c)) != 0) {
          end_word();
        } else {
          word_.begun = true;
          word_.text += c;
        }
      }
    }
  }

  struct Here {
    std::string tag;
    std::string file;
  };
  enum class Wanted { nothing, file, ignored };

  std::string_view text_;
  const std::string& source_;
  ShellScript& script_;
  std::map<std::string, Words> variables_;
  size_t at_ = 0;
  size_t begun_ = 0;  // where the construct began that may not end
  Piece word_;
  Words command_;
  std::string file_;
  Wanted wanted_ = Wanted::nothing;
  std::vector<Here> here_;
};

}  // namespace

ShellScript parse_shell(std::string_view text, const std::string& source) {
  ShellScript script;
  ShellReader(text, source, script).run();
  return script;
}

}  // namespace tuner
