// IndexedWriter: the lists of the index are gathered in files, never in memory.
#include "engine/data/indexed_writer.h"

#include <cstdio>
#include <cstring>
#include <limits>

#include "engine/base/errors.h"

namespace engine {
namespace {

template <class T>
void store(std::span<const int32_t> tokens, std::vector<std::byte>& bytes) {
  bytes.resize(tokens.size() * sizeof(T));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const T token = static_cast<T>(tokens[i]);
    expect(static_cast<int64_t>(token) == tokens[i], "a token that its type holds");
    std::memcpy(bytes.data() + i * sizeof(T), &token, sizeof(T));
  }
}

}  // namespace

IndexedWriter::IndexedWriter(std::string prefix, TokenType type)
    : prefix_(std::move(prefix)),
      type_(type),
      bin_(temporary(".bin")),
      idx_(temporary(".idx")),
      document_list_(temporary(".documents")) {
  char header[kIndexHeaderBytes] = {};
  std::memcpy(header, kIndexMagic, sizeof kIndexMagic);
  std::memcpy(header + 9, &kIndexVersion, sizeof kIndexVersion);
  header[17] = static_cast<char>(type_);
  idx_.append(header, sizeof header);
  const int64_t first = 0;
  document_list_.append(&first, sizeof first);
}

IndexedWriter::~IndexedWriter() {
  for (const char* ending : {".bin", ".idx", ".documents"}) std::remove(temporary(ending).c_str());
}

void IndexedWriter::add_sequence(std::span<const int32_t> tokens) {
  expect(tokens.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
         "a sequence of at most 2^31 - 1 tokens");
  switch (type_) {
    case TokenType::u8:
      store<uint8_t>(tokens, stored_);
      break;
    case TokenType::i8:
      store<int8_t>(tokens, stored_);
      break;
    case TokenType::i16:
      store<int16_t>(tokens, stored_);
      break;
    case TokenType::u16:
      store<uint16_t>(tokens, stored_);
      break;
    case TokenType::i32:
      store<int32_t>(tokens, stored_);
      break;
    case TokenType::i64:
      store<int64_t>(tokens, stored_);
      break;
  }
  bin_.append(stored_.data(), stored_.size());
  const auto length = static_cast<int32_t>(tokens.size());
  idx_.append(&length, sizeof length);
  tokens_ += length;
  ++sequences_;
}

void IndexedWriter::end_document() {
  document_list_.append(&sequences_, sizeof sequences_);
  ++documents_;
}

void IndexedWriter::append_pointers() {
  idx_.flush();
  const MappedFile lengths(idx_.path());
  int64_t pointer = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    idx_.append(&pointer, sizeof pointer);
    int32_t length = 0;
    std::memcpy(&length, lengths.bytes().data() + kIndexHeaderBytes + i * 4, sizeof length);
    pointer += length * bytes_of(type_);
  }
}

void IndexedWriter::append_documents() {
  document_list_.flush();
  const MappedFile list(document_list_.path());
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; at < list.bytes().size(); at += kPiece) {
    const auto piece = list.bytes().subspan(at, std::min(kPiece, list.bytes().size() - at));
    idx_.append(piece.data(), piece.size());
  }
}

void IndexedWriter::commit() {
  append_pointers();
  append_documents();
  idx_.flush();
  const int64_t counts[2] = {sequences_, documents_ + 1};
  idx_.write_at(18, counts, sizeof counts);
  bin_.close();
  idx_.close();
  // Without its index the old .bin is no data set, so a cut between the steps leaves none or one.
  std::remove((prefix_ + ".idx").c_str());
  rename_file(temporary(".bin"), prefix_ + ".bin");
  rename_file(temporary(".idx"), prefix_ + ".idx");
}

}  // namespace engine
