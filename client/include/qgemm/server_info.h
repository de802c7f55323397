// SPDX-License-Identifier: Apache-2.0
//
// A server's description of itself: device, limits, memory, age; and a client's
// connections to it.

#ifndef QGEMM_CLIENT_INCLUDE_QGEMM_SERVER_INFO_H_
#define QGEMM_CLIENT_INCLUDE_QGEMM_SERVER_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace qgemm {

struct ServerInfo {
  std::string version;
  std::string backend;  // cpu, cuda or reference
  std::string device;
  std::string device_detail;  // instruction set, compute capability
  int64_t parallelism = 0;    // threads or SMs
  int64_t max_message_bytes = 0;
  // Limit for the bytes of A, and for those of C, of one request of a stream.
  int64_t max_stream_operand_bytes = 0;
  int64_t max_n = 0;
  int64_t max_k = 0;
  int64_t max_m = 0;
  int64_t weights_bytes = 0;         // resident and being uploaded
  int64_t weights_budget_bytes = 0;  // 0 = no budget
  std::vector<std::string> formats;
  // The latest revision of programs that it takes; 0: its backend runs none.
  int64_t program_revision = 0;
  int64_t programs = 0;  // that it holds
  absl::Duration uptime;
  // Processor time of the server's process, over all its threads.
  absl::Duration process_cpu;
};

// The connections of a client to one of its servers.
struct ServerConnection {
  std::string address;  // as in the target; of dns:/// the one looked up
  int connected = 0;    // of ClientOptions::channels
  // Rows of this client's calls in flight; 0 if it has one server.
  int64_t rows_in_flight = 0;
  // Calls that wait go by a lane now (ClientOptions::lane).
  bool has_lane = false;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_INCLUDE_QGEMM_SERVER_INFO_H_
