// SPDX-License-Identifier: Apache-2.0
//
// Entry point of qgemm_holder: holds a server's memory while the server is away
// (docs/storage.md#memory-that-outlives-the-server).

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "flags/command_line.h"
#include "server/keep/holder.h"

namespace qgemm {
namespace {

// Beside those that it holds: its socket, its connection, the standard streams
// and those of a packet.
constexpr rlim_t kOtherDescriptors = 256;

// Raises the soft limit of open files as far as the hard one allows, so that
// as many as a Holder may hold fit: the usual soft limit is 1024.
void FitDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed =
      std::min<rlim_t>(limit.rlim_max, kMaxHeldDescriptors + kOtherDescriptors);
  if (needed <= limit.rlim_cur) return;
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  std::cerr << "qgemm_holder: the limit of open files stays below " << needed
            << std::endl;
}

int Run(int argc, char** argv) {
  std::string listen;
  absl::Duration hold = absl::Seconds(60);
  const std::unique_ptr<CLI::App> app = flags::MakeApp(
      "Holds the memory of a qgemm_server that ended, for the next one.",
      "qgemm_holder");
  flags::AddOption(app.get(), "listen", &listen,
                   "Absolute path of the socket to listen at, for servers of "
                   "the same user with --keep_memory of that path.");
  flags::AddDuration(app.get(), "hold", &hold,
                     "Time after a server's end for which its memory is held "
                     "for the next one.");
  const std::optional<int> wrong = flags::Parse(app.get(), argc, argv);
  if (wrong.has_value()) return *wrong;
  signal(SIGPIPE, SIG_IGN);
  FitDescriptorLimit();
  const SteadyClock clock;
  absl::StatusOr<Holder> holder = Holder::Listen(listen, hold, &clock);
  if (!holder.ok()) {
    std::cerr << "qgemm_holder: " << holder.status().message() << std::endl;
    return 1;
  }
  std::cerr << "holding at " << listen << std::endl;
  while (true) holder->ServeOnce(absl::InfiniteDuration());
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) { return qgemm::Run(argc, argv); }
