// Stands in for sentencepiece where its library is missing: says so.
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/data/tokenizer.h"

namespace engine {

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& path) {
  throw Error(ExitCode::environment,
              fmt::format("tokenizer {}: this program was built without sentencepiece; install "
                          "libsentencepiece-dev and build again, or use 'bytes'",
                          path));
}

}  // namespace engine
