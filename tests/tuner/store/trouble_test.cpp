// Trouble with the file of runs: one clear sentence, the exit code for storage, nothing lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/base/errors.h"
#include "tuner/store/schema.h"
#include "tuner/store/store.h"

namespace tuner {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class StoreTrouble : public testing::Test {
 protected:
  StoreTrouble() {
    std::string pattern = testing::TempDir() + "/troubleXXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/runs.db";
  }
  ~StoreTrouble() override { fs::remove_all(folder_); }

  // The message of the storage error that `action` must end in.
  static std::string trouble(const std::function<void()>& action) {
    try {
      action();
    } catch (const engine::Error& error) {
      EXPECT_EQ(error.code(), engine::ExitCode::storage);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one sentence";
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }
  std::string open_trouble() {
    return trouble([this] { Store(path_, Access::write, std::chrono::milliseconds(50)); });
  }

  std::string folder_;
  std::string path_;
};

RunRecord run_with_answer(size_t bytes) {
  RunRecord run;
  run.kind = "train";
  run.answer = "\"" + std::string(bytes, 'x') + "\"";
  return run;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(StoreTrouble, PathIsAFolder) {
  fs::create_directory(path_);
  EXPECT_THAT(open_trouble(), HasSubstr("is a folder; give a file with --db"));
}

TEST_F(StoreTrouble, FolderCannotBeMade) {
  std::ofstream(folder_ + "/file") << "text";
  path_ = folder_ + "/file/below/runs.db";
  EXPECT_THAT(open_trouble(), HasSubstr("cannot be made"));
}

TEST_F(StoreTrouble, SchemaIsNewer) {
  Store(path_).add_run(run_with_answer(10));
  Database(path_, std::chrono::seconds(1)).execute("PRAGMA user_version = 99");
  EXPECT_THAT(open_trouble(), HasSubstr("written by a newer autotune (its format is 99, ours 1)"));
  Database(path_, std::chrono::seconds(1)).execute("PRAGMA user_version = 1");
  EXPECT_EQ(Store(path_).runs().size(), 1u);
}

TEST_F(StoreTrouble, FileBelongsToAnotherProgram) {
  Database(path_, std::chrono::seconds(1)).execute("CREATE TABLE songs (name TEXT)");
  const std::string before = file_text(path_);
  EXPECT_THAT(open_trouble(), HasSubstr("belongs to another program"));
  EXPECT_EQ(file_text(path_), before);
}

TEST_F(StoreTrouble, FileIsNoDatabase) {
  const std::string garbage = std::string(5000, '\x7f') + "no database";
  std::ofstream(path_, std::ios::binary) << garbage;
  EXPECT_THAT(open_trouble(), HasSubstr("is damaged or is no database"));
  EXPECT_EQ(file_text(path_), garbage);
}

TEST_F(StoreTrouble, FileIsTruncated) {
  {
    Store store(path_);
    for (int i = 0; i < 50; ++i) store.add_run(run_with_answer(2000));
  }
  fs::resize_file(path_, fs::file_size(path_) / 2);
  EXPECT_THAT(trouble([this] {
                Store store(path_);
                store.runs();
                store.add_run(run_with_answer(2000));
              }),
              HasSubstr("is damaged"));
}

TEST_F(StoreTrouble, PagesAreOverwritten) {
  {
    Store store(path_);
    for (int i = 0; i < 50; ++i) store.add_run(run_with_answer(2000));
  }
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(4096);
  file << std::string(8 * 4096, '\x5a');
  file.close();
  EXPECT_THAT(trouble([this] { Store(path_).runs(); }), HasSubstr("is damaged"));
}

TEST_F(StoreTrouble, LockedByAnother) {
  Store store(path_, Access::write, std::chrono::milliseconds(50));
  Database other(path_, std::chrono::seconds(1));
  {
    const Transaction transaction(other);
    EXPECT_THAT(trouble([&] { store.add_run(run_with_answer(10)); }),
                HasSubstr("locked by another process; try again"));
    EXPECT_TRUE(store.runs().empty()) << "readers go on";
  }
  store.add_run(run_with_answer(10));
  EXPECT_EQ(store.runs().size(), 1u);
}

TEST_F(StoreTrouble, LockedWhileItIsMade) {
  Database other(path_, std::chrono::seconds(1));
  const Transaction transaction(other);
  EXPECT_THAT(open_trouble(), HasSubstr("locked by another process"));
}

// Runs `body` in a child process as an ordinary user, whom file permissions bind.
int as_ordinary_user(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(98);
    int result = 97;
    try {
      result = body();
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(StoreTrouble, FileIsReadOnly) {
  Store(path_).add_run(run_with_answer(10));
  chmod(path_.c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  const int result = as_ordinary_user([this] {
    const std::string message = trouble([this] { Store(path_).add_run(run_with_answer(10)); });
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("is read-only"), HasSubstr("cannot be opened")));
    return HasFailure() ? 1 : 0;
  });
  chmod(folder_.c_str(), 0755);
  chmod(path_.c_str(), 0644);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(Store(path_).runs().size(), 1u);
}

TEST_F(StoreTrouble, FolderIsReadOnly) {
  chmod(folder_.c_str(), 0555);
  const int result = as_ordinary_user([this] {
    EXPECT_THAT(open_trouble(), HasSubstr("cannot be opened: check that its folder exists"));
    return HasFailure() ? 1 : 0;
  });
  chmod(folder_.c_str(), 0755);
  EXPECT_EQ(result, 0);
}

// Adds runs until one fails; returns how many were acknowledged, or -1 when the failure is not the
// one that is expected.
int fill(const std::string& path) {
  Store store(path);
  for (int added = 0; added < 200; ++added) {
    try {
      store.add_run(run_with_answer(50'000));
    } catch (const engine::Error& error) {
      const bool clear = error.code() == engine::ExitCode::storage &&
                         std::string(error.what()).find("the disk is full") != std::string::npos;
      if (!clear) fprintf(stderr, "unexpected: %s\n", error.what());
      return clear ? added : -1;
    }
  }
  return -1;
}

TEST_F(StoreTrouble, FileSizeLimitIsReached) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {400'000, 400'000};
    std::signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(250);
    const int added = fill(path_);
    _exit(added < 0 ? 251 : added);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  const int added = WEXITSTATUS(status);
  ASSERT_LT(added, 250);
  ASSERT_GT(added, 0);
  EXPECT_EQ(Store(path_).runs().size(), static_cast<size_t>(added));
}

TEST_F(StoreTrouble, DiskIsFull) {
  const std::string disk = folder_ + "/disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "needs the right to mount a small disk";
  const int added = fill(disk + "/runs.db");
  EXPECT_GT(added, 0);
  EXPECT_EQ(Store(disk + "/runs.db", Access::read).runs().size(), static_cast<size_t>(added));
  umount(disk.c_str());
}

}  // namespace
}  // namespace tuner
