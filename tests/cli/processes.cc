// SPDX-License-Identifier: Apache-2.0

#include "tests/cli/processes.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace qgemm {
namespace {

// Starts a program with its output in files, or ours if a name is empty.
pid_t Start(const std::vector<std::string>& arguments, const std::string& out,
            const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t pid = fork();
  CHECK_GE(pid, 0);
  if (pid > 0) return pid;
  if (!out.empty() && freopen(out.c_str(), "w", stdout) == nullptr) _exit(126);
  if (!err.empty() && freopen(err.c_str(), "w", stderr) == nullptr) _exit(126);
  execv(argv[0], argv.data());
  _exit(127);
}

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string NewFolder() {
  // Short: a socket's path has at most 107 bytes.
  char name[] = "/tmp/qgemm_test_XXXXXX";
  CHECK(mkdtemp(name) != nullptr);
  return name;
}

}  // namespace

CommandResult RunProgram(const std::vector<std::string>& arguments) {
  const std::string folder = NewFolder();
  const std::string out = folder + "/out";
  const std::string err = folder + "/err";
  int status = 0;
  const pid_t pid = Start(arguments, out, err);
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = ReadAll(out);
  result.err = ReadAll(err);
  unlink(out.c_str());
  unlink(err.c_str());
  rmdir(folder.c_str());
  return result;
}

ServerProcess::ServerProcess() : folder_(NewFolder()), socket_(folder_ + "/s") {
  pid_ = Start({"server/qgemm_server", "--listen=" + target()}, "", "");
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  unlink(socket_.c_str());
  rmdir(folder_.c_str());
}

}  // namespace qgemm
