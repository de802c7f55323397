// SPDX-License-Identifier: Apache-2.0
//
// A server's answer to what it is and what it takes.

#ifndef QGEMM_CLIENT_SERVER_DESCRIPTION_H_
#define QGEMM_CLIENT_SERVER_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace qgemm {

// What the server says of itself.
struct ServerDescription {
  std::string version;
  std::string backend;  // cpu, cuda or reference
  std::string device;
  std::string device_detail;  // instruction set, compute capability
  int64_t parallelism = 0;    // threads or multiprocessors
  int64_t max_message_bytes = 0;
  // Of one request of a stream: of its A, and of its C.
  int64_t max_stream_operand_bytes = 0;
  int64_t max_n = 0;
  int64_t max_k = 0;
  int64_t max_m = 0;
  int64_t weights_bytes = 0;         // resident and being uploaded
  int64_t weights_budget_bytes = 0;  // 0 = no budget
  std::vector<std::string> formats;
  absl::Duration uptime;
  // Processor time of the server's process, of all its threads.
  absl::Duration process_cpu;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_SERVER_DESCRIPTION_H_
