// SPDX-License-Identifier: Apache-2.0
//
// Clients whose requests wait or have waited lately, and what each has waiting.

#ifndef QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_
#define QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/scheduling/gemm_request.h"
#include "server/scheduling/layer_sequence_predictor.h"

namespace qgemm {

// Totals of one client's waiting requests.
struct ClientState {
  std::string id;
  int64_t requests = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
  // Layer of its last request; null before the first.
  SequenceLayer* last_layer = nullptr;
};

// Not thread-safe. Keeps up to `max_idle` clients without requests, so that
// one that calls again costs no allocation.
class ClientTable {
 public:
  explicit ClientTable(size_t max_idle) : max_idle_(max_idle) {}

  // Null for an unknown client.
  const ClientState* Find(absl::string_view id) const;

  // Returns the client, made if it is unknown. It stays until it is idle.
  ClientState* Get(absl::string_view id);

  // Counts a request in and out; the client may go with the last one out.
  void Add(ClientState* client, const ScheduledRequest& scheduled);
  void Remove(ClientState* client, const ScheduledRequest& scheduled);

  // Forgets every client's last layer.
  void ForgetLayers();

 private:
  static void ForgetLayer(ClientState* client);
  void ForgetIdle();

  const size_t max_idle_;
  absl::flat_hash_map<std::string, std::unique_ptr<ClientState>> clients_;
  size_t idle_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_CLIENT_TABLE_H_
