// SPDX-License-Identifier: Apache-2.0
//
// The access table in force: read from its file, and again when that changes.

#ifndef QGEMM_SERVER_ACCESS_ACCESS_CONTROL_H_
#define QGEMM_SERVER_ACCESS_ACCESS_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_watch.h"
#include "base/mutex.h"
#include "server/access/access_table.h"
#include "server/metrics/server_metrics.h"

namespace qgemm {

// Thread-safe.
class AccessControl {
 public:
  // Nobody is known before Start, or the first Reload that succeeds. `metrics`
  // must outlive this.
  AccessControl(std::string path, ServerMetrics* metrics);
  AccessControl(const AccessControl&) = delete;
  AccessControl& operator=(const AccessControl&) = delete;

  const std::string& path() const { return path_; }

  // Reloads, and once that succeeded again whenever the file changes. Once.
  absl::Status Start();

  // Reads the file and puts its table into force. A table that is not valid
  // changes nothing but the log and a metric. Errors: NOT_FOUND,
  // INVALID_ARGUMENT, PERMISSION_DENIED, and RESOURCE_EXHAUSTED for want of
  // descriptors or memory, name the file and what is wrong.
  absl::Status Reload();

  // The table in force; never null.
  std::shared_ptr<const AccessTable> table() const;

  // Grows whenever another table has come into force. What was found in a table
  // that was asked for after this is valid while this stays the same.
  uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);

  const std::string path_;
  ServerMetrics* const metrics_;
  std::atomic<uint64_t> generation_{1};
  Mutex reload_mutex_;
  std::string text_ ABSL_GUARDED_BY(reload_mutex_);  // of the table in force
  mutable Mutex mutex_;
  std::shared_ptr<const AccessTable> table_ ABSL_GUARDED_BY(mutex_);
  FileWatch watch_;  // last: its thread reloads
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_ACCESS_ACCESS_CONTROL_H_
