// SPDX-License-Identifier: Apache-2.0
//
// The clients whose requests wait, or waited of late.

#ifndef QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_
#define QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/scheduling/waiting_request.h"

namespace qgemm {

// Not thread-safe. Keeps up to `max_idle` clients without requests, so that
// one that calls again costs no allocation.
class ClientTable {
 public:
  explicit ClientTable(size_t max_idle) : max_idle_(max_idle) {}

  // Null for a client that is not known.
  const QueueClient* Find(absl::string_view id) const;

  // The client of that id, made if there is none. It stays until it is idle.
  QueueClient* Get(absl::string_view id);

  // Counts a request in and out; the client may go with the last one out.
  void Add(QueueClient* client, const GemmRequest& request);
  void Remove(QueueClient* client, const GemmRequest& request);

  // Where clients' last requests went is forgotten.
  void ForgetPlaces();

 private:
  static void ForgetPlace(QueueClient* client);
  void ForgetIdle();

  const size_t max_idle_;
  absl::flat_hash_map<std::string, std::unique_ptr<QueueClient>> clients_;
  size_t idle_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_
