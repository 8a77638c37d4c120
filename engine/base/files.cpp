// Files of any size: memory maps for reading, checked writing.
#include "engine/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/base/errors.h"

namespace engine {
namespace {

constexpr size_t kGather = size_t{1} << 20;

[[noreturn]] void storage_error(const std::string& path, const char* what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw Error(ExitCode::storage,
              fmt::format("{}: cannot be {}: {}{}", path, what, std::strerror(error),
                          full ? "; free some space or choose another place" : ""));
}

// A descriptor that closes itself.
struct Descriptor {
  int number;
  explicit Descriptor(int number_) : number(number_) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0)
    throw InputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) throw InputError(fmt::format("{}: is not a plain file", path));
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.number, 0);
  if (data == MAP_FAILED)
    throw InputError(fmt::format("{}: cannot be mapped: {}", path, std::strerror(errno)));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

FileWriter::FileWriter(std::string path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CLOEXEC | (mode == Mode::create ? O_CREAT | O_TRUNC : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) fail("opened for writing", errno);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      gathered_(std::move(other.gathered_)) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::fail(const char* what, int error) const { storage_error(path_, what, error); }

void FileWriter::append(const void* data, size_t bytes) {
  gathered_.append(static_cast<const char*>(data), bytes);
  if (gathered_.size() >= kGather) flush();
}

void FileWriter::flush() {
  write_at(written_, gathered_.data(), gathered_.size());
  written_ += static_cast<int64_t>(gathered_.size());
  gathered_.clear();
}

void FileWriter::write_at(int64_t offset, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(descriptor_, from, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("written", done == 0 ? ENOSPC : errno);
    from += done;
    offset += done;
    bytes -= static_cast<size_t>(done);
  }
}

void FileWriter::reserve(int64_t bytes) {
  if (bytes == 0) return;
  if (const int error = ::posix_fallocate(descriptor_, 0, bytes)) fail("written", error);
}

void FileWriter::close() {
  flush();
  if (::fsync(descriptor_) != 0) fail("written", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("written", errno);
}

void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder and say EINVAL; there is nothing more to do there.
  if (folder.number < 0 || (::fsync(folder.number) != 0 && errno != EINVAL))
    storage_error(path, "written", errno);
}

void rename_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) storage_error(to, "written", errno);
  sync_folder(folder_of(to));
}

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace engine
