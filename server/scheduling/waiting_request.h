// SPDX-License-Identifier: Apache-2.0
//
// A request that waits, with its places in the structures that it waits in.

#ifndef QGEMM_SERVER_SCHEDULING_WAITING_REQUEST_H_
#define QGEMM_SERVER_SCHEDULING_WAITING_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/scheduling/gemm_request.h"
#include "server/scheduling/intrusive_list.h"
#include "server/scheduling/layer_place.h"

namespace qgemm {

class FairQueue;
struct ClientLane;

// Whose requests wait, and how much of them.
struct QueueClient {
  std::string id;
  int64_t requests = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
  // Where its last request to a layer went; null before the first.
  LayerPlace* place = nullptr;
};

struct WaitingRequest {
  std::unique_ptr<GemmRequest> request;
  QueueClient* client = nullptr;
  FairQueue* queue = nullptr;
  ClientLane* lane = nullptr;
  ListLinks<WaitingRequest> in_lane;
  ListLinks<WaitingRequest> by_age;
  int64_t heap_place = -1;  // in its queue's DeadlineHeap; -1: not there
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_WAITING_REQUEST_H_
