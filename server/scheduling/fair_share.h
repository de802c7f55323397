// SPDX-License-Identifier: Apache-2.0
//
// Service that each has had of the device: start-time fair queuing (Goyal, Vin,
// Cheng, "Start-time Fair Queuing", 1996), in rows of launches, with a lead
// within which other rules may choose. Values only; identities and clients, and
// the heaps that order them, are in client_table.h.

#ifndef QGEMM_SERVER_SCHEDULING_FAIR_SHARE_H_
#define QGEMM_SERVER_SCHEDULING_FAIR_SHARE_H_

#include <algorithm>
#include <cstdint>

namespace qgemm {

// Orders what has been served, the least first.
struct LessServed {
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    return a.served_rows < b.served_rows;
  }
};

struct FairShareOptions {
  // A member may be served while it leads the least served one that waits by
  // less.
  int64_t lead_rows = 16;
  // Riding along in others' launches never puts a member further ahead: it
  // costs them little.
  int64_t rider_lead_rows = 128;
};

// Virtual time of a group of members that share a device. A member's
// served_rows is comparable within its group alone. Not thread-safe.
class FairShare {
 public:
  explicit FairShare(const FairShareOptions& options) : options_(options) {}

  // The service that counts for a member that begins to wait: it keeps up to
  // one lead of what it left unused, so that it goes before all whom only
  // their own requests kept waiting.
  int64_t Enter(int64_t served_rows) const {
    return std::max(served_rows, time_rows_ - options_.lead_rows);
  }

  // Must be called at each decision with the least service of those that wait.
  void Advance(int64_t least_served_rows) {
    time_rows_ = std::max(time_rows_, least_served_rows);
  }

  bool MayLaunch(int64_t served_rows, int64_t least_served_rows) const {
    return served_rows - least_served_rows < options_.lead_rows;
  }

  // Service of a member after `rows` more that rode along.
  int64_t ChargedRider(int64_t served_rows, int64_t rows) const {
    const int64_t most =
        std::max(served_rows, time_rows_ + options_.rider_lead_rows);
    return std::min(served_rows + rows, most);
  }

 private:
  const FairShareOptions options_;
  // The greatest of the least services at any decision; only grows.
  int64_t time_rows_ = 0;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_SCHEDULING_FAIR_SHARE_H_
