// Files of any size: read through memory maps, written so that every failure is noticed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace engine {

// A whole file as read-only memory. It must not shrink while it is mapped.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws InputError when the file is missing, a folder, or may not be read.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  void swap(MappedFile& other) noexcept;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes one file; every failure (a full disk, a missing folder) throws Error with
// ExitCode::storage. What was written is safe from a power cut once `close` has returned.
class FileWriter {
 public:
  enum class Mode { create, existing };  // create: emptied first
  explicit FileWriter(std::string path, Mode mode = Mode::create);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();  // without `close` the content is undefined

  // Appends; small pieces are gathered.
  void append(const void* data, size_t bytes);
  // Overwrites at a place, at once. Not to be mixed with appended bytes that are still gathered.
  void write_at(int64_t offset, const void* data, size_t bytes);
  // Makes the file that large and takes the disk space now, so that later writes cannot lack it.
  void reserve(int64_t bytes);
  void flush();  // hands gathered bytes to the system
  void close();  // and onto the disk

  const std::string& path() const { return path_; }
  int64_t appended() const { return written_ + static_cast<int64_t>(gathered_.size()); }

 private:
  [[noreturn]] void fail(const char* what, int error) const;
  std::string path_;
  int descriptor_ = -1;
  int64_t written_ = 0;
  std::string gathered_;
};

// Onto the disk: the folder's list of names, after files in it were made or renamed.
void sync_folder(const std::string& path);
// Gives `from` the name `to`, replacing a file of that name. Both lie in one folder. Storage
// errors.
void rename_file(const std::string& from, const std::string& to);
// The folder of a path; "." when it names none.
std::string folder_of(const std::string& path);

}  // namespace engine
