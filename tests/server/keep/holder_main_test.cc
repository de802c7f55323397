// SPDX-License-Identifier: Apache-2.0
//
// The program qgemm_holder, as its users start it.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "server/keep/holder.h"
#include "tests/support/temporary_folder.h"

namespace qgemm {
namespace {

constexpr char kProgram[] = "server/keep/qgemm_holder";

// The program with a low soft limit of open files, which listens.
class HolderProgram {
 public:
  explicit HolderProgram(const std::string& socket) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    const FileDescriptor to_read(ends[0]);
    FileDescriptor to_write(ends[1]);
    const std::string listen = absl::StrCat("--listen=", socket);
    pid_ = fork();
    CHECK(pid_ >= 0);
    if (pid_ == 0) Become(listen, to_write.get());
    to_write = FileDescriptor();  // its end is the end of the text
    AwaitListening(to_read.get());
  }
  ~HolderProgram() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  rlimit DescriptorLimit() const {
    rlimit limit = {};
    CHECK_EQ(prlimit(pid_, RLIMIT_NOFILE, nullptr, &limit), 0);
    return limit;
  }

 private:
  [[noreturn]] static void Become(const std::string& listen, int errors) {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 64);
    setrlimit(RLIMIT_NOFILE, &limit);
    dup2(errors, STDERR_FILENO);
    execl(kProgram, kProgram, listen.c_str(), nullptr);
    _exit(1);
  }

  static void AwaitListening(int errors) {
    std::string text;
    char byte = 0;
    while (!absl::StrContains(text, "holding at")) {
      CHECK_EQ(read(errors, &byte, 1), 1) << text;
      text.push_back(byte);
    }
  }

  pid_t pid_ = 0;
};

TEST(HolderProgram, MayOpenAllThatItMayHold) {
  const TemporaryFolder folder;
  const HolderProgram program(absl::StrCat(folder.path(), "/holder"));
  const rlimit limit = program.DescriptorLimit();
  EXPECT_GT(limit.rlim_cur,
            std::min<rlim_t>(limit.rlim_max - 1, kMaxHeldDescriptors));
}

}  // namespace
}  // namespace qgemm
