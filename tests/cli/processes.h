// SPDX-License-Identifier: Apache-2.0
//
// Runs qgemm's binaries as processes: a server for the life of an object, and
// commands to their end.

#ifndef QGEMM_TESTS_CLI_PROCESSES_H_
#define QGEMM_TESTS_CLI_PROCESSES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace qgemm {

struct CommandResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs `arguments`, the program's path first, until it ends.
CommandResult RunProgram(const std::vector<std::string>& arguments);

// A qgemm_server on a Unix socket in a folder of its own.
class ServerProcess {
 public:
  ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  // Ends it by SIGTERM.
  ~ServerProcess();

  // "unix:path".
  std::string target() const { return "unix:" + socket_; }

 private:
  std::string folder_;
  std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLI_PROCESSES_H_
