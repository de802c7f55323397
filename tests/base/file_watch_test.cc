// SPDX-License-Identifier: Apache-2.0
//
// Changes of files, by every way in which certificates are renewed, and when a
// change is over.

#include "base/file_watch.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr absl::Duration kSettle = absl::Seconds(1);

absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

TEST(ChangeSettlerTest, TellsNothingWithoutAChange) {
  ChangeSettler settler("a", kSettle);
  EXPECT_FALSE(settler.Look("a", At(0)));
  EXPECT_FALSE(settler.Look("a", At(100)));
  EXPECT_FALSE(settler.is_waiting());
}

TEST(ChangeSettlerTest, TellsAChangeOnceWhenItIsOver) {
  ChangeSettler settler("a", kSettle);
  EXPECT_FALSE(settler.Look("b", At(0)));
  EXPECT_TRUE(settler.is_waiting());
  EXPECT_FALSE(settler.Look("c", At(0.9)));
  EXPECT_FALSE(settler.Look("c", At(1.8)));
  EXPECT_TRUE(settler.Look("c", At(1.9)));
  EXPECT_FALSE(settler.is_waiting());
  EXPECT_FALSE(settler.Look("c", At(10)));
}

TEST(ChangeSettlerTest, TellsNothingOfAChangeThatIsTakenBack) {
  ChangeSettler settler("a", kSettle);
  EXPECT_FALSE(settler.Look("b", At(0)));
  EXPECT_FALSE(settler.Look("a", At(0.5)));
  EXPECT_FALSE(settler.is_waiting());
  EXPECT_FALSE(settler.Look("a", At(5)));
}

TEST(ChangeSettlerTest, TellsAChangeThatDoesNotEnd) {
  ChangeSettler settler("a", kSettle);
  int told = 0;
  for (int i = 1; i <= 50; ++i) {
    if (settler.Look(std::to_string(i), At(i * 0.9))) ++told;
  }
  EXPECT_EQ(told, 2);
}

class FileWatchTest : public ::testing::Test {
 protected:
  ~FileWatchTest() override { watch_->Stop(); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

  // Only inotify can tell of a change, unless the interval is short.
  void Watch(const std::string& path,
             absl::Duration poll_interval = absl::Hours(24)) {
    FileWatchOptions options;
    options.settle = absl::Milliseconds(2);
    options.poll_interval = poll_interval;
    watch_ =
        std::make_unique<FileWatch>(std::vector<std::string>{path}, options);
  }

  // Asks so often to be told again.
  void Start(int repeats = 0) {
    watch_->Start([this, repeats]() mutable {
      if (repeats-- > 0) watch_->TellAgain();
      const MutexLock lock(&mutex_);
      ++changes_;
      changed_.SignalAll();
    });
  }

  // Waits for a change since the last one, for a minute.
  bool SawChange() {
    const MutexLock lock(&mutex_);
    while (changes_ == seen_) {
      if (!changed_.WaitFor(&mutex_, absl::Minutes(1))) return false;
    }
    seen_ = changes_;
    return true;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<FileWatch> watch_;
  Mutex mutex_;
  CondVar changed_;
  int changes_ = 0;
  int seen_ = 0;
};

TEST_F(FileWatchTest, SeesAFileRewrittenAndReplacedAndRemoved) {
  const std::string path = folder_.File("a.pem");
  Write(path, "one");
  Watch(path);
  Start();
  Write(path, "other");
  EXPECT_TRUE(SawChange());
  Write(folder_.File("new"), "third");
  std::filesystem::rename(folder_.File("new"), path);
  EXPECT_TRUE(SawChange());
  std::filesystem::remove(path);
  EXPECT_TRUE(SawChange());
}

TEST_F(FileWatchTest, SeesAChangeBetweenConstructionAndStart) {
  const std::string path = folder_.File("a.pem");
  Write(path, "one");
  Watch(path);
  Write(path, "other");
  Start();
  EXPECT_TRUE(SawChange());
}

TEST_F(FileWatchTest, SeesAFileThatAppearsWithItsFolder) {
  Watch(folder_.File("later/a.pem"));
  Start();
  std::filesystem::create_directory(folder_.File("later"));
  Write(folder_.File("later/a.pem"), "one");
  EXPECT_TRUE(SawChange());
}

// As Kubernetes does: a.pem -> ..data/a.pem, ..data -> ..1.
TEST_F(FileWatchTest, SeesALinkOnTheWaySwapped) {
  for (const std::string version : {"..1", "..2"}) {
    std::filesystem::create_directory(folder_.File(version));
    Write(folder_.File(version + "/a.pem"), version);
  }
  std::filesystem::create_symlink("..1", folder_.File("..data"));
  std::filesystem::create_symlink("..data/a.pem", folder_.File("a.pem"));
  Watch(folder_.File("a.pem"));
  Start();
  for (const std::string version : {"..2", "..1"}) {
    std::filesystem::create_symlink(version, folder_.File("..tmp"));
    std::filesystem::rename(folder_.File("..tmp"), folder_.File("..data"));
    EXPECT_TRUE(SawChange()) << version;
  }
}

// As certbot does: live/a.pem -> ../archive/a1.pem.
TEST_F(FileWatchTest, SeesTheFileThatALinkLeadsToRewritten) {
  std::filesystem::create_directory(folder_.File("live"));
  std::filesystem::create_directory(folder_.File("archive"));
  Write(folder_.File("archive/a1.pem"), "one");
  std::filesystem::create_symlink("../archive/a1.pem",
                                  folder_.File("live/a.pem"));
  Watch(folder_.File("live/a.pem"));
  Start();
  Write(folder_.File("archive/a1.pem"), "other");
  EXPECT_TRUE(SawChange());
}

TEST_F(FileWatchTest, SeesAFileOfAFolder) {
  std::filesystem::create_directory(folder_.File("crls"));
  Watch(folder_.File("crls"));
  Start();
  Write(folder_.File("crls/a.crl"), "one");
  EXPECT_TRUE(SawChange());
  Write(folder_.File("crls/a.crl"), "other");
  EXPECT_TRUE(SawChange());
}

// Inotify tells nothing of a file that is written by its name elsewhere.
TEST_F(FileWatchTest, SeesByPollingWhatInotifyDoesNotTell) {
  std::filesystem::create_directory(folder_.File("here"));
  std::filesystem::create_directory(folder_.File("elsewhere"));
  Write(folder_.File("elsewhere/a.pem"), "one");
  std::filesystem::create_hard_link(folder_.File("elsewhere/a.pem"),
                                    folder_.File("here/a.pem"));
  Watch(folder_.File("here/a.pem"), absl::Milliseconds(1));
  Start();
  Write(folder_.File("elsewhere/a.pem"), "other");
  EXPECT_TRUE(SawChange());
}

TEST_F(FileWatchTest, TellsAChangeAgainIfAsked) {
  const std::string path = folder_.File("a.pem");
  Watch(path, absl::Milliseconds(1));
  Start(/*repeats=*/1);
  Write(folder_.File("new"), "one");
  std::filesystem::rename(folder_.File("new"), path);  // one change
  EXPECT_TRUE(SawChange());
  EXPECT_TRUE(SawChange());
}

TEST_F(FileWatchTest, TellsNothingAfterItHasStopped) {
  const std::string path = folder_.File("a.pem");
  Watch(path);
  Start();
  Write(path, "one");
  EXPECT_TRUE(SawChange());
  watch_->Stop();
  const int before = changes_;
  Write(path, "other");
  watch_->Stop();
  EXPECT_EQ(changes_, before);
}

TEST(FileStateTest, DiffersForAnotherFileOfTheSameSize) {
  const TemporaryFolder folder;
  std::ofstream(folder.File("a")) << "one";
  std::ofstream(folder.File("b")) << "two";
  EXPECT_EQ(FileState(folder.File("a")), FileState(folder.File("a")));
  EXPECT_NE(FileState(folder.File("a")), FileState(folder.File("b")));
  EXPECT_NE(FileState(folder.File("a")), FileState(folder.File("c")));
}

TEST(FileStateTest, SurvivesLinksInACircle) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("b", folder.File("a"));
  std::filesystem::create_symlink("a", folder.File("b"));
  EXPECT_FALSE(FileState(folder.File("a")).empty());
  FileWatch watch({folder.File("a")});
  watch.Start([] {});
  watch.Stop();
}

}  // namespace
}  // namespace qgemm
