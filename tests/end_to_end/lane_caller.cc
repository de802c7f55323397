// SPDX-License-Identifier: Apache-2.0
//
// Calls over lanes without an end, to be killed: lane_caller PATH, of a server
// that has the weights "layer" of 64 by 64.

#include <iostream>
#include <memory>

#include "tests/lane/raw_lane.h"

int main(int argc, char** argv) {
  using qgemm::RawLane;
  namespace lane = qgemm::lane;
  if (argc != 2) return 2;
  std::cout << "calling" << std::endl;
  while (true) {
    RawLane raw(argv[1]);
    if (!raw.Hello(65536, 8).ok()) continue;
    lane::RequestEntry entry;
    entry.handle = raw.Open(lane::HandleKind::kWeights, "layer").message.handle;
    entry.m = 4;
    entry.a_bytes = entry.m * 64 * 2;
    entry.c_bytes = entry.m * 64 * 2;
    entry.a_type = 2;
    for (int i = 0; i < 20; ++i) {
      ++entry.cookie;
      for (entry.slot = 0; entry.slot < 8; ++entry.slot) {
        entry.c_offset = 32768 + entry.slot * 1024;
        raw.Publish(entry);
      }
      for (entry.slot = 0; entry.slot < 8; ++entry.slot) {
        if (!raw.WaitForSlot(entry.slot, entry.cookie)) return 1;
      }
    }
  }
}
