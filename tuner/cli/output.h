// Writing to the terminal: results on standard output, everything else on standard error.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

enum class ColorChoice : uint8_t { when_terminal, always, never };

enum class Stream : uint8_t { result, message };  // standard output, standard error

// Colour on this stream: --color first, then NO_COLOR, CLICOLOR_FORCE, TERM=dumb, then whether the
// stream is a terminal.
bool use_color(ColorChoice choice, Stream stream);

// Marks text up for a terminal; returns it unchanged without colour.
class Style {
 public:
  explicit Style(bool color) : color_(color) {}
  std::string strong(std::string_view text) const { return wrap("1", text); }
  std::string faint(std::string_view text) const { return wrap("2", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("1;31", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool color_;
};

// Columns of the terminal, from COLUMNS or the terminal itself, at most 100; 100 without one.
int output_width();

// Aligned columns, two spaces apart, a header first; the last column is cut at `width`. Columns
// whose cells are all numbers stand to the right.
std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows, int width);

// Breaks text at blanks into lines of at most `width`, each indented; empty lines stay.
std::string wrapped_text(std::string_view text, size_t indent, size_t width);

// A JSON document as text; names of files may hold bytes that are no UTF-8, which are replaced.
template <class Json>
std::string json_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Writes the result. Trouble is kept and reported by finish_results().
void print_result(std::string_view text);
// Writes a message for the user to standard error.
void print_message(std::string_view text);
// Flushes the results. Throws engine::Error (storage) when any could not be written; a reader that
// went away (`| head`) is no error.
void finish_results();

// Asks a question on standard error. False without a terminal on standard input.
bool can_ask();
bool ask_yes(std::string_view question);

// Makes sure that descriptors 0 to 2 exist, so that no file of ours is ever taken for a standard
// stream, and that a vanished reader or a file size limit is an error code instead of a signal.
void guard_standard_streams();

}  // namespace tuner
